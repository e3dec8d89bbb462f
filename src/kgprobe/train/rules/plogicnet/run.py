"""One run of pLogicNet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.sorted_keys import Ints
from kgprobe.models.markov_logic.annotation import probabilities
from kgprobe.models.markov_logic.likelihood import Floats
from kgprobe.models.markov_logic.logic import Logic
from kgprobe.models.plogicnet import PLogicNet, PLogicNetOptions
from kgprobe.predict.model import FunctionScorer
from kgprobe.predict.scorer import Scorer
from kgprobe.train.embedding import EmbeddingLearner
from kgprobe.train.learner import Watch
from kgprobe.train.rules.plogicnet.choice import Choice
from kgprobe.train.rules.plogicnet.reason import Reasoner
from kgprobe.train.rules.tensors import prefixed, under
from kgprobe.train.settings import Settings

EMBEDDING, LOGIC_WEIGHT = "embedding.", "logic_weight"
_ITERATION = "iteration"
_ANNOTATED = 1 << 16
"""Facts that an embedding annotates at a time."""


def embedding_settings(settings: Settings, seed: int, epochs: int) -> Settings:
    """How the TransE of a run is trained for so many epochs."""
    return replace(settings, model="TransE", options=settings.options.embedding, seeds=(seed,), epochs=epochs)


class Run:
    """Everything of one seed that changes: what is believed, and the TransE that learns it.

    Args:
        settings: The settings of the training.
        graph: The graph.
        seed: The seed.
        reasoner: Draws conclusions.
        choice: What validation facts choose.
        device: Where TransE is trained.
    """

    def __init__(
        self,
        settings: Settings,
        graph: KnowledgeGraph,
        seed: int,
        reasoner: Reasoner,
        choice: Choice,
        device: torch.device,
    ) -> None:
        self.settings, self.graph, self.seed, self.device = settings, graph, seed, device
        self.options: PLogicNetOptions = settings.options
        self._reasoner, self._choice = reasoner, choice
        self._iteration, self._logic = -1, Logic.nothing(graph)
        self.learner = self._new_learner()
        self._model: PLogicNet | None = None

    def epoch(self, epoch: int, watch: Watch) -> Tensor:
        """Train TransE for an epoch; where an iteration begins, weigh the rules first."""
        if self._iteration_of(epoch) > self._iteration:
            self._reason(lambda phase: watch(0, phase))
        self._model = None
        return self.learner.epoch(epoch - self._begin(self._iteration), watch)

    @property
    def model(self) -> PLogicNet:
        """The model as it is now."""
        if self._model is None:
            self._model = self._choice.weighed(self._with(self._logic, self.learner.run(0)))
        return self._model

    def weights(self) -> dict[str, Tensor]:
        """What a checkpoint holds."""
        embedding = prefixed(EMBEDDING, self.learner.weights(0))
        return embedding | self._logic.tensors() | {LOGIC_WEIGHT: torch.tensor(self.model.logic_weight)}

    def state(self) -> dict[str, Tensor]:
        """All that the next epochs depend on."""
        embedding = prefixed(EMBEDDING, self.learner.state())
        return embedding | self._logic.tensors() | {_ITERATION: torch.tensor(self._iteration)}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self._iteration = int(state[_ITERATION])
        self._logic = Logic.from_tensors(state, self.graph, self.options.combine)
        self.learner, self._model = self._new_learner(), None
        self.learner.load(under(EMBEDDING, state))

    def _begin(self, iteration: int) -> int:
        """The epoch that an iteration begins with."""
        return max(iteration, 0) * self.settings.epochs // self.options.iterations

    def _iteration_of(self, epoch: int) -> int:
        return ((epoch + 1) * self.options.iterations - 1) // self.settings.epochs

    def _reason(self, watch: Callable[[str], None]) -> None:
        """Begin an iteration: what is believed changes, and a new TransE learns it."""
        annotate = self._annotate if self.options.annotation else None
        first = self._iteration < 0
        found = self._reasoner.first(watch) if first else self._reasoner.next(self._logic, annotate, watch)
        embedding: Scorer = _undecided(self.graph.num_entities) if first else self.learner.run(0)
        several = len(self.options.rule_threshold) * len(self.options.fact_threshold) > 1
        scored = ((self._choice.score(self._with(logic, embedding)) if several else 0, logic) for logic in found)
        self._logic = max(scored, key=lambda one: one[0])[1]
        self._iteration += 1
        self.learner = self._new_learner()

    def _with(self, logic: Logic, embedding: Scorer) -> PLogicNet:
        return PLogicNet(embedding, logic.network, logic.found, logic.grounder, self.options, logic_weight=1.0)

    def _new_learner(self) -> EmbeddingLearner:
        """A TransE that knows nothing yet of the facts that are believed."""
        iteration = max(self._iteration, 0)
        epochs = self._begin(iteration + 1) - self._begin(iteration)
        facts = np.concatenate([self.graph.triples("train"), self._logic.hidden])
        sizes = {"num_entities": self.graph.num_entities, "num_relations": self.graph.num_relations}
        graph = KnowledgeGraph.from_triples(train=facts, name=self.graph.name, **sizes)
        return EmbeddingLearner(embedding_settings(self.settings, self.seed, epochs), graph, self.device)

    @torch.no_grad()
    def _annotate(self, relation: int, x: Ints, y: Ints) -> Floats:
        """How likely TransE holds pairs to be facts, some more of which are expected than are believed already."""
        model = self.learner.model.one_run(0)
        head, tail = (torch.from_numpy(ids.astype(np.int64)).to(self.device)[None] for ids in (x, y))
        parts = [
            model.score_some("tail", given, torch.full_like(given, relation), answer[..., None])
            for given, answer in zip(torch.split(head, _ANNOTATED, 1), torch.split(tail, _ANNOTATED, 1), strict=True)
        ]
        scores: Floats = torch.cat(parts, 1)[0, :, 0].cpu().double().numpy()
        believed = np.count_nonzero(self.learner.graph.triples("train")[:, 1] == relation)
        return probabilities(scores, believed * (1 + self.options.annotation))


def _undecided(entities: int) -> FunctionScorer:
    """All entities score alike, as long as there is no embedding."""
    return FunctionScorer(lambda side, given, relation: torch.zeros(len(given), entities))
