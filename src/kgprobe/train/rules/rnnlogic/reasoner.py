"""The predictor of RNNLogic as it learns with rules that have been found."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import torch
from torch import Tensor

from kgprobe.models.base import Sizes
from kgprobe.models.noise import Noise
from kgprobe.models.rnnlogic.grounded import Grounded
from kgprobe.models.rnnlogic.model import RNNLogic
from kgprobe.models.rnnlogic.scorer import RNNLogicScorer
from kgprobe.models.rules.ground import Grounder
from kgprobe.models.rules.rule import Rules
from kgprobe.train.learner import Watch
from kgprobe.train.optimiser import Optimiser, learning_rate
from kgprobe.train.rules.rnnlogic.fit import fit_epoch
from kgprobe.train.rules.rnnlogic.prior import Prior, initial_weights
from kgprobe.train.rules.rnnlogic.queries import Amount, TrainingQueries, training_queries
from kgprobe.train.rules.tensors import prefixed, under
from kgprobe.train.settings import Settings

MODEL, RULES, _OPTIMISER = "model.", "rules.", "optimiser."
_REMEMBERED = 1 << 30
"""Bytes of what rules find for validation queries that all runs keep together."""


def new_predictor(settings: Settings, entities: int, rules: Rules, noise: Noise) -> RNNLogic:
    """A predictor before its first step; its rules weigh what the settings say."""
    model = RNNLogic(Sizes(entities, 2 * rules.relations), len(rules), settings.options, noise)
    if model.linear:
        model.rule.data[:, 0] = initial_weights(rules, settings.options.initial_weight).to(noise.device)
    return model


class Reasoner:
    """A predictor that learns with rules that do not change any more.

    Args:
        settings: How it learns.
        grounder: Follows the rules.
        rules: The rules of all relations, ordered by what they conclude.
        seed: The seed of the run.
        device: Where it learns.
    """

    def __init__(self, settings: Settings, grounder: Grounder, rules: Rules, seed: int, device: torch.device) -> None:
        self.settings, self.rules, self.seed, self.device = settings, rules, seed, device
        self.grounded = Grounded(grounder, rules, _REMEMBERED // len(settings.seeds))
        drawn = Noise([seed], "cpu")
        drawn.reseed(-1)
        self.model = new_predictor(settings, grounder.adjacency.entities, rules, drawn).to(device)
        self.optimiser = Optimiser(settings, self.model)
        self._queries: TrainingQueries | None = None

    def epoch(self, epoch: int, noise: Noise, watch: Watch) -> float:
        """Ask every training query once; gives the mean loss."""
        self.optimiser.set_rate(learning_rate(self.settings, epoch))
        queries = self._grounded_queries(watch)
        prior = Prior.of(self.settings, self.rules, int(queries.asked.sum()), self.device)

        def step() -> None:
            prior.pull(self.model)
            self.optimiser.step()

        tell = partial(watch, 1, "training")
        return float(fit_epoch(self.model, queries, self.settings.batch_size, noise, step, tell))

    def scorer(self) -> RNNLogicScorer:
        """The predictor as the engine ranks it."""
        return RNNLogicScorer(self.model, self.grounded)

    def weights(self) -> dict[str, Tensor]:
        """The rules and the predictor."""
        model = {name: own.detach().clone() for name, own in self.model.state_dict().items()}
        return prefixed(MODEL, model) | prefixed(RULES, self.rules.tensors())

    def state(self) -> dict[str, Tensor]:
        """All that the next epochs depend on."""
        return self.weights() | prefixed(_OPTIMISER, self.optimiser.state())

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state with the same rules."""
        self.model.load_state_dict(under(MODEL, state))
        self.optimiser.load(under(_OPTIMISER, state))

    def _grounded_queries(self, watch: Watch) -> TrainingQueries:
        """The training queries, grounded when they are first asked: the same ones in every session."""
        if self._queries is None:
            watch(0, "grounding")
            amount = Amount(groundings=self.settings.options.most_groundings)
            rng = np.random.default_rng(self.seed)
            found = training_queries(self.grounded.grounder, self.rules, amount, rng, partial(watch, 0, "grounding"))
            self._queries = found.to(self.device)
        return self._queries
