"""The learner of RNNLogic: epochs that train an embedding, that search rules, and that train the predictor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.models.complex import ComplExOptions
from kgprobe.models.embedding_model import Sizes
from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.rnnlogic import RNNLogic
from kgprobe.models.rnnlogic_scorer import GroundingCache, RNNLogicScorer, RNNLogicWithEmbedding, WeightedSum
from kgprobe.models.rules.groundings import Grounder
from kgprobe.models.rules.paths import Adjacency
from kgprobe.models.rules.rule_table import Rules
from kgprobe.predict.scorers import Scorer
from kgprobe.train.embedding_learner import EmbeddingLearner
from kgprobe.train.embedding_learner import open_run as open_embedding
from kgprobe.train.learners import StepProgress
from kgprobe.train.optimiser import Optimiser, learning_rate, load_weights, prefixed, under
from kgprobe.train.rnnlogic.grounded_queries import Amount, GroundedQueries, ground_queries
from kgprobe.train.rnnlogic.predictor_training import RulePrior, fit_epoch, initial_weights
from kgprobe.train.rnnlogic.rule_search import RuleSearch
from kgprobe.train.rule_learning import CachedScorer, Judge
from kgprobe.train.settings import Settings

EMBEDDING, EMBEDDING_WEIGHT = "embedding.", "embedding_weight"

_VALIDATION_TRIPLES = 2000
"""Maximum number of validation triples for the choice of the embedding's weight."""


def embedding_settings(settings: Settings, seed: int) -> Settings:
    """The settings of the ComplEx of a run: cross entropy over all entities with the N3 regulariser."""
    options = settings.options
    return Settings(
        "ComplEx",
        ComplExOptions(dimension=options.embedding_dimension, dropout=options.embedding_dropout),
        objective="one_vs_all",
        loss="cross_entropy",
        reciprocal=True,
        regulariser="n3",
        regularisation=options.embedding_regularisation,
        optimiser="adagrad",
        learning_rate=options.embedding_rate,
        batch_size=options.embedding_batch,
        epochs=options.embedding_epochs,
        seeds=(seed,),
    )


class EmbeddingChoice:
    """Chooses the weight of the embedding's scores by the first selection metric on validation triples."""

    def __init__(self, settings: Settings, graph: KnowledgeGraph, device: torch.device) -> None:
        self.weights: tuple[float, ...] = settings.options.embedding_weights
        self._judge = Judge(settings, graph, device, _VALIDATION_TRIPLES)

    def weighed(self, reasoning: RNNLogicScorer, embedding: Scorer) -> RNNLogicWithEmbedding:
        """Rules and embedding with the best weight; without validation triples, with the first weight."""
        rules, vectors = CachedScorer(reasoning), CachedScorer(embedding)
        best = self._judge.best([WeightedSum(rules, vectors, weight) for weight in self.weights])
        return RNNLogicWithEmbedding(reasoning, embedding, self.weights[best])


@dataclass(frozen=True, eq=False)
class Embedding:
    """The embedding of a run, and the choice of its weight."""

    learner: EmbeddingLearner
    choice: EmbeddingChoice

    def beside(self, reasoning: RNNLogicScorer) -> RNNLogicWithEmbedding:
        """The rules' scores plus those of the embedding with the weight that is best now."""
        return self.choice.weighed(reasoning, self.learner.run(0))

    def weights(self, chosen: float) -> dict[str, Tensor]:
        """The tensors of a checkpoint: the embedding and its weight."""
        weight = torch.tensor(chosen, dtype=torch.float64)
        return prefixed(EMBEDDING, self.learner.weights(0)) | {EMBEDDING_WEIGHT: weight}


MODEL, RULES, _OPTIMISER = "model.", "rules.", "optimiser."

_CACHE_BYTES = 1 << 30
"""Size of the cache of groundings of validation queries, for all runs together."""


def new_predictor(settings: Settings, entities: int, rules: Rules, streams: RandomStreams) -> RNNLogic:
    """A predictor before its first step, with initial rule weights."""
    model = RNNLogic(Sizes(entities, 2 * rules.relations), len(rules), settings.options, streams)
    if model.linear:
        model.rule.data[:, 0] = initial_weights(rules, settings.options.initial_weight).to(streams.device)
    return model


class Reasoner:
    """The training of a predictor with fixed rules, which are ordered by head."""

    def __init__(self, settings: Settings, grounder: Grounder, rules: Rules, seed: int, device: torch.device) -> None:
        self.settings, self.rules, self.seed, self.device = settings, rules, seed, device
        self.grounded = GroundingCache(grounder, rules, _CACHE_BYTES // len(settings.seeds))
        streams = RandomStreams([seed], "cpu")
        streams.reseed(-1)
        self.model = new_predictor(settings, grounder.adjacency.entities, rules, streams).to(device)
        self.optimiser = Optimiser(settings, self.model)
        self._queries: GroundedQueries | None = None

    def epoch(self, epoch: int, streams: RandomStreams, progress: StepProgress) -> float:
        """Train on every query once; returns the mean loss."""
        self.optimiser.set_rate(learning_rate(self.settings, epoch))
        queries = self._grounded_queries(progress)
        prior = RulePrior.of(self.settings, self.rules, int(queries.asked.sum()), self.device)

        def step() -> None:
            prior.pull(self.model)
            self.optimiser.step()

        tell = partial(progress, 1, "training")
        return float(fit_epoch(self.model, queries, self.settings.batch_size, streams, step, tell))

    def scorer(self) -> RNNLogicScorer:
        return RNNLogicScorer(self.model, self.grounded)

    def weights(self) -> dict[str, Tensor]:
        model = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        return prefixed(MODEL, model) | prefixed(RULES, self.rules.tensors())

    def state(self) -> dict[str, Tensor]:
        return self.weights() | prefixed(_OPTIMISER, self.optimiser.state())

    def load(self, state: Mapping[str, Tensor]) -> None:
        load_weights(self.model, under(MODEL, state))
        self.optimiser.load(under(_OPTIMISER, state))

    def _grounded_queries(self, progress: StepProgress) -> GroundedQueries:
        """The grounded training queries, the same in every session."""
        if self._queries is None:
            progress(0, "grounding")
            amount = Amount(groundings=self.settings.options.most_groundings)
            rng = np.random.default_rng(self.seed)
            report = partial(progress, 0, "grounding")
            self._queries = ground_queries(self.grounded.grounder, self.rules, amount, rng, report).to(self.device)
        return self._queries


_SEARCH, _REASONER, _READY = "search.", "reasoner.", "ready"


class RNNLogicRun:
    """The run of one seed: an embedding, if any, then a search for rules, then the training of a predictor.

    The search and the predictor do not depend on the embedding, whose scores are added to those of the predictor.

    Attributes:
        ready: Whether the predictor has been trained for an epoch.
    """

    def __init__(
        self, settings: Settings, grounder: Grounder, seed: int, embedding: Embedding | None, device: torch.device
    ) -> None:
        self._first: int = settings.options.first_epoch
        self.settings = replace(settings, epochs=settings.epochs - self._first)
        self.grounder, self.seed, self.embedding, self.device = grounder, seed, embedding, device
        self.iterations = min(settings.options.em_iterations, self.settings.epochs - 1)
        self.streams = RandomStreams([seed], device)
        self.ready = False
        self._search: RuleSearch | None = None
        self._reasoner: Reasoner | None = None
        self._scorer: RNNLogicScorer | RNNLogicWithEmbedding | None = None

    def epoch(self, epoch: int, progress: StepProgress) -> float:
        self._scorer = None
        if self.embedding is not None and epoch < self._first:
            return float(self.embedding.learner.epoch(epoch, lambda steps, phase: progress(steps, "embedding")))
        return self._reason(epoch - self._first, progress)

    def scorer(self) -> RNNLogicScorer | RNNLogicWithEmbedding:
        if self._scorer is None:
            reasoning = self._learned.scorer()
            self._scorer = reasoning if self.embedding is None else self.embedding.beside(reasoning)
        return self._scorer

    def weights(self) -> dict[str, Tensor]:
        tensors, scorer = self._learned.weights(), self.scorer()
        if self.embedding is not None and isinstance(scorer, RNNLogicWithEmbedding):
            tensors |= self.embedding.weights(scorer.weight)
        return tensors

    def state(self) -> dict[str, Tensor]:
        tensors = {_READY: torch.tensor(self.ready)}
        if self.embedding is not None:
            tensors |= prefixed(EMBEDDING, self.embedding.learner.state())
        if self._search is not None:
            tensors |= prefixed(_SEARCH, self._search.state())
        if self._reasoner is not None:
            tensors |= prefixed(_REASONER, self._reasoner.state())
        return tensors

    def load(self, state: Mapping[str, Tensor]) -> None:
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

    def _reason(self, epoch: int, progress: StepProgress) -> float:
        """An epoch of the search or of the predictor, which is created in the last epoch of the search."""
        self.streams.reseed(epoch)
        loss = 0.0
        if epoch == 0:
            self._search = self._new_search()
            self._search.begin(np.random.default_rng([self.seed, epoch, 1]), partial(progress, 0))
        if self._search is not None and epoch < self.iterations:
            loss = self._search.iterate(np.random.default_rng([self.seed, epoch]), partial(progress, 0))
        if self._search is not None and epoch + 1 >= self.iterations:
            self._reasoner = self._new_reasoner(self._search.chosen())
            self._search = None
        if self._reasoner is not None and epoch >= self.iterations:
            loss = self._reasoner.epoch(epoch, self.streams, progress)
            self.ready = True
        return loss

    def _new_search(self) -> RuleSearch:
        return RuleSearch(self.settings.options, self.grounder, self.streams, self.seed, self.device)

    def _new_reasoner(self, rules: Rules) -> Reasoner:
        return Reasoner(self.settings, self.grounder, rules, self.seed, self.device)

    @property
    def _learned(self) -> Reasoner:
        if self._reasoner is None:
            raise RuntimeError("the rules have not been chosen yet")
        return self._reasoner


class RNNLogicLearner:
    """The learner of RNNLogic: one `RNNLogicRun` for each seed."""

    def __init__(self, settings: Settings, graph: KnowledgeGraph, device: torch.device) -> None:
        grounder, embeddings = _grounder(graph), _embeddings(settings, graph, device)
        self.runs = [
            RNNLogicRun(settings, grounder, seed, embedding, device)
            for seed, embedding in zip(settings.seeds, embeddings, strict=True)
        ]
        x, r, y = grounder.adjacency.triples.T.astype(np.int64)
        queries = sum(len(np.unique(r * graph.num_entities + given)) for given in (x, y))
        self._steps = -(-queries // settings.batch_size) * len(self.runs)

    @property
    def steps(self) -> int:
        return self._steps

    @property
    def ready(self) -> bool:
        return all(run.ready for run in self.runs)

    def epoch(self, epoch: int, progress: StepProgress) -> Tensor:
        return torch.tensor([run.epoch(epoch, progress) for run in self.runs])

    def run(self, run: int) -> RNNLogicScorer | RNNLogicWithEmbedding:
        return self.runs[run].scorer()

    def weights(self, run: int) -> dict[str, Tensor]:
        return self.runs[run].weights()

    def state(self) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = {}
        for place, run in enumerate(self.runs):
            tensors |= prefixed(f"{place}.", run.state())
        return tensors

    def load(self, state: Mapping[str, Tensor]) -> None:
        for place, run in enumerate(self.runs):
            run.load(under(f"{place}.", state))


def open_run(
    settings: Settings, graph: KnowledgeGraph, tensors: Mapping[str, Tensor], device: torch.device
) -> RNNLogicScorer | RNNLogicWithEmbedding:
    """A trained run as a scorer.

    Raises:
        DataError: The weights are not those of such a model.
    """
    try:
        rules = Rules.from_tensors(under(RULES, tensors))
        predictor = new_predictor(settings, graph.num_entities, rules, RandomStreams([0], "cpu"))
        load_weights(predictor, under(MODEL, tensors))
        weight = float(tensors[EMBEDDING_WEIGHT]) if settings.options.embedding_dimension else 0.0
    except KeyError as missing:
        raise DataError(f"these are not the weights of {settings.model}", [f"there is no {missing}"]) from None
    reasoning = RNNLogicScorer(predictor.to(device), GroundingCache(_grounder(graph), rules))
    if not settings.options.embedding_dimension:
        return reasoning
    of_embedding = embedding_settings(settings, settings.seeds[0])
    embedding = open_embedding(of_embedding, graph, under(EMBEDDING, tensors), device)
    return RNNLogicWithEmbedding(reasoning, embedding, weight)


def _embeddings(settings: Settings, graph: KnowledgeGraph, device: torch.device) -> list[Embedding | None]:
    """The embedding of each run, or None without embeddings."""
    if not settings.options.embedding_dimension:
        return [None] * len(settings.seeds)
    choice = EmbeddingChoice(settings, graph, device)
    each = (EmbeddingLearner(embedding_settings(settings, seed), graph, device) for seed in settings.seeds)
    return [Embedding(learner, choice) for learner in each]


def _grounder(graph: KnowledgeGraph) -> Grounder:
    return Grounder(Adjacency(graph.triples("train"), graph.num_entities, graph.num_relations))
