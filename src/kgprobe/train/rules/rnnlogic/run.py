"""One run of RNNLogic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from kgprobe.models.noise import Noise
from kgprobe.models.rnnlogic.embedded import RNNLogicWithEmbedding
from kgprobe.models.rnnlogic.scorer import RNNLogicScorer
from kgprobe.models.rules.ground import Grounder
from kgprobe.models.rules.rule import Rules
from kgprobe.train.learner import Watch
from kgprobe.train.rules.rnnlogic.embedding import EMBEDDING, Embedding
from kgprobe.train.rules.rnnlogic.reasoner import RULES, Reasoner
from kgprobe.train.rules.rnnlogic.search import RuleSearch
from kgprobe.train.rules.tensors import prefixed, under
from kgprobe.train.settings import Settings

_SEARCH, _REASONER, _READY = "search.", "reasoner.", "ready"


class Run:
    """The run of one seed: an embedding, if any; a search for rules until they are chosen; a predictor from then on.

    The search and the predictor are the same as without the embedding.

    Args:
        settings: The settings of the training.
        grounder: Follows rules through the training facts.
        seed: The seed.
        embedding: What is trained first, to be added to what the predictor says.
        device: Where everything is trained.

    Attributes:
        ready: Whether the predictor has learned anything.
    """

    def __init__(
        self, settings: Settings, grounder: Grounder, seed: int, embedding: Embedding | None, device: torch.device
    ) -> None:
        self._first: int = settings.options.first_epoch
        self.settings = replace(settings, epochs=settings.epochs - self._first)
        self.grounder, self.seed, self.embedding, self.device = grounder, seed, embedding, device
        self.iterations = min(settings.options.em_iterations, self.settings.epochs - 1)
        self.noise = Noise([seed], device)
        self.ready = False
        self._search: RuleSearch | None = None
        self._reasoner: Reasoner | None = None
        self._scorer: RNNLogicScorer | RNNLogicWithEmbedding | None = None

    def epoch(self, epoch: int, watch: Watch) -> float:
        """An epoch of the embedding, of the search, or of the predictor."""
        self._scorer = None
        if self.embedding is not None and epoch < self._first:
            return float(self.embedding.learner.epoch(epoch, lambda steps, phase: watch(steps, "embedding")))
        return self._reason(epoch - self._first, watch)

    def scorer(self) -> RNNLogicScorer | RNNLogicWithEmbedding:
        """The run as the engine ranks it."""
        if self._scorer is None:
            reasoning = self._learned.scorer()
            self._scorer = reasoning if self.embedding is None else self.embedding.beside(reasoning)
        return self._scorer

    def weights(self) -> dict[str, Tensor]:
        """What a checkpoint holds."""
        tensors, scorer = self._learned.weights(), self.scorer()
        if self.embedding is not None and isinstance(scorer, RNNLogicWithEmbedding):
            tensors |= self.embedding.weights(scorer.weight)
        return tensors

    def state(self) -> dict[str, Tensor]:
        """All that the next epochs depend on."""
        tensors = {_READY: torch.tensor(self.ready)}
        if self.embedding is not None:
            tensors |= prefixed(EMBEDDING, self.embedding.learner.state())
        if self._search is not None:
            tensors |= prefixed(_SEARCH, self._search.state())
        if self._reasoner is not None:
            tensors |= prefixed(_REASONER, self._reasoner.state())
        return tensors

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self.ready = bool(state[_READY])
        self._search = self._reasoner = self._scorer = None
        if self.embedding is not None:
            self.embedding.learner.load(under(EMBEDDING, state))
        if search := under(_SEARCH, state):
            self._search = self._new_search()
            self._search.load(search)
        if reasoner := under(_REASONER, state):
            self._reasoner = self._new_reasoner(Rules.from_tensors(under(RULES, reasoner)))
            self._reasoner.load(reasoner)

    def _reason(self, epoch: int, watch: Watch) -> float:
        """An epoch of the search, or of the predictor; the last of the search makes the predictor."""
        self.noise.reseed(epoch)
        loss = 0.0
        if epoch == 0:
            self._search = self._new_search()
            self._search.begin(np.random.default_rng([self.seed, epoch, 1]), partial(watch, 0))
        if self._search is not None and epoch < self.iterations:
            loss = self._search.iterate(np.random.default_rng([self.seed, epoch]), partial(watch, 0))
        if self._search is not None and epoch + 1 >= self.iterations:
            self._reasoner = self._new_reasoner(self._search.chosen())
            self._search = None
        if self._reasoner is not None and epoch >= self.iterations:
            loss = self._reasoner.epoch(epoch, self.noise, watch)
            self.ready = True
        return loss

    def _new_search(self) -> RuleSearch:
        return RuleSearch(self.settings.options, self.grounder, self.noise, self.seed, self.device)

    def _new_reasoner(self, rules: Rules) -> Reasoner:
        return Reasoner(self.settings, self.grounder, rules, self.seed, self.device)

    @property
    def _learned(self) -> Reasoner:
        if self._reasoner is None:
            raise RuntimeError("the rules have not been chosen yet")
        return self._reasoner
