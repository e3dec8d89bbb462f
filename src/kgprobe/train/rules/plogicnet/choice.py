"""What the validation facts choose of pLogicNet: how much its rules count, and which rules and hidden facts it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from kgprobe.graph import KnowledgeGraph
from kgprobe.models.plogicnet import PLogicNet
from kgprobe.train.rules.choice import Judge, Remembering
from kgprobe.train.settings import Settings


class Choice:
    """Scores by the first target of the settings; larger is better.

    Args:
        settings: The settings of the training.
        graph: The graph; without validation facts what comes first is chosen.
        device: Where the embeddings are.
    """

    def __init__(self, settings: Settings, graph: KnowledgeGraph, device: torch.device) -> None:
        self.weights: Sequence[float] = settings.options.logic_weights
        self._judge = Judge(settings, graph, device)

    def weighed(self, model: PLogicNet) -> PLogicNet:
        """The model with the weight of rules that the validation facts like best, the first of those as good."""
        return replace(model, logic_weight=self.weights[self._judge.best(self._each(model))])

    def score(self, model: PLogicNet) -> float:
        """How good a model is with the best weight of its rules; 0 where there are no validation facts."""
        return max(self._judge.scores(self._each(model)))

    def _each(self, model: PLogicNet) -> list[PLogicNet]:
        """The model with each weight of its rules."""
        known = replace(model, embedding=Remembering(model.embedding))
        return [replace(known, logic_weight=weight) for weight in self.weights]
