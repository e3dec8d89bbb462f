"""What a predictor believes of rules before it has learned, and how strongly it holds on to that."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kgprobe.models.rnnlogic.model import RNNLogic
from kgprobe.models.rules.rule import Rules
from kgprobe.train.settings import Settings

_UNKNOWN_PAIRS = 5.0
"""So many more pairs a rule is held to join that are no facts: few pairs say little."""


def initial_weights(rules: Rules, weight: float) -> Tensor:
    """The weight of each rule before the first step: a rule that is always right has the given one, in the limit.

    Example:
        >>> from dataclasses import replace
        >>> import numpy as np
        >>> rules = replace(Rules.from_bodies(1, [0], [[1]]), support=np.array([10.0]), pairs=np.array([15.0]))
        >>> initial_weights(rules, 2.0).tolist()
        [1.0]
    """
    return torch.from_numpy(weight * rules.support / (rules.pairs + _UNKNOWN_PAIRS)).float()


@dataclass(frozen=True, eq=False)
class Prior:
    """Normal distributions around the initial weights of rules, and around 0 for what candidates have without rules.

    Attributes:
        weights: The initial weights.
        rules: How strongly weights are held there, for each fact that is asked.
        biases: How strongly the others are held at 0, for each fact that is asked.
    """

    weights: Tensor
    rules: float
    biases: float

    @classmethod
    def of(cls, settings: Settings, rules: Rules, asked: int, device: torch.device) -> Prior:
        """That of the settings, for so many facts that are asked in an epoch."""
        weights = initial_weights(rules, settings.options.initial_weight).to(device)
        facts = max(asked, 1)
        return cls(weights, settings.regularisation / facts, settings.options.bias_regularisation / facts)

    def pull(self, model: RNNLogic) -> None:
        """Add to the gradients what the prior asks for."""
        if self.rules and model.linear:
            (self.rules * (model.rule[:, 0] - self.weights).square().sum()).backward()  # type: ignore[no-untyped-call]
        if self.biases and model.bias is not None:
            (self.biases * model.bias.square().sum()).backward()  # type: ignore[no-untyped-call]
