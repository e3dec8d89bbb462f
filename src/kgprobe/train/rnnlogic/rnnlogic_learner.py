"""RNNLogic as the trainer sees it: epochs that search rules, then epochs that train the predictor."""

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
from kgprobe.train.optimiser import Optimiser, learning_rate
from kgprobe.train.rnnlogic.grounded_queries import Amount, GroundedQueries, ground_queries
from kgprobe.train.rnnlogic.predictor_training import RulePrior, fit_epoch, initial_weights
from kgprobe.train.rnnlogic.rule_search import RuleSearch
from kgprobe.train.rule_learning import Judge, Remembering, prefixed, under
from kgprobe.train.settings import Settings

EMBEDDING, EMBEDDING_WEIGHT = "embedding.", "embedding_weight"

_FACTS = 2000

"""So many validation facts choose a weight."""


def embedding_settings(settings: Settings, seed: int) -> Settings:
    """How the ComplEx of a run is trained: against all entities, kept small by the nuclear norm."""
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
    """How much an embedding counts beside rules.

    Args:
        settings: The settings of the training.
        graph: The graph; without validation facts the first weight is chosen.
        device: Where the runs are.
    """

    def __init__(self, settings: Settings, graph: KnowledgeGraph, device: torch.device) -> None:
        self.weights: tuple[float, ...] = settings.options.embedding_weights
        self._judge = Judge(settings, graph, device, _FACTS)

    def weighed(self, reasoning: RNNLogicScorer, embedding: Scorer) -> RNNLogicWithEmbedding:
        """Both together with the weight that the validation facts like best, the first of those as good."""
        rules, vectors = Remembering(reasoning), Remembering(embedding)
        best = self._judge.best([WeightedSum(rules, vectors, weight) for weight in self.weights])
        return RNNLogicWithEmbedding(reasoning, embedding, self.weights[best])


@dataclass(frozen=True, eq=False)
class Embedding:
    """The embedding of a run.

    Attributes:
        learner: Trains it.
        choice: How much it counts.
    """

    learner: EmbeddingLearner
    choice: EmbeddingChoice

    def beside(self, reasoning: RNNLogicScorer) -> RNNLogicWithEmbedding:
        """What the rules say, and the embedding with the weight that is chosen for it now."""
        return self.choice.weighed(reasoning, self.learner.run(0))

    def weights(self, chosen: float) -> dict[str, Tensor]:
        """What a checkpoint holds of it, and of the weight that was chosen."""
        weight = torch.tensor(chosen, dtype=torch.float64)
        return prefixed(EMBEDDING, self.learner.weights(0)) | {EMBEDDING_WEIGHT: weight}


MODEL, RULES, _OPTIMISER = "model.", "rules.", "optimiser."

_REMEMBERED = 1 << 30

"""Bytes of what rules find for validation queries that all runs keep together."""


def new_predictor(settings: Settings, entities: int, rules: Rules, noise: RandomStreams) -> RNNLogic:
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
        self.grounded = GroundingCache(grounder, rules, _REMEMBERED // len(settings.seeds))
        drawn = RandomStreams([seed], "cpu")
        drawn.reseed(-1)
        self.model = new_predictor(settings, grounder.adjacency.entities, rules, drawn).to(device)
        self.optimiser = Optimiser(settings, self.model)
        self._queries: GroundedQueries | None = None

    def epoch(self, epoch: int, noise: RandomStreams, progress: StepProgress) -> float:
        """Ask every training query once; gives the mean loss."""
        self.optimiser.set_rate(learning_rate(self.settings, epoch))
        queries = self._grounded_queries(progress)
        prior = RulePrior.of(self.settings, self.rules, int(queries.asked.sum()), self.device)

        def step() -> None:
            prior.pull(self.model)
            self.optimiser.step()

        tell = partial(progress, 1, "training")
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

    def _grounded_queries(self, progress: StepProgress) -> GroundedQueries:
        """The training queries, grounded when they are first asked: the same ones in every session."""
        if self._queries is None:
            progress(0, "grounding")
            amount = Amount(groundings=self.settings.options.most_groundings)
            rng = np.random.default_rng(self.seed)
            found = ground_queries(self.grounded.grounder, self.rules, amount, rng, partial(progress, 0, "grounding"))
            self._queries = found.to(self.device)
        return self._queries


_SEARCH, _REASONER, _READY = "search.", "reasoner.", "ready"


class RNNLogicRun:
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
        self.noise = RandomStreams([seed], device)
        self.ready = False
        self._search: RuleSearch | None = None
        self._reasoner: Reasoner | None = None
        self._scorer: RNNLogicScorer | RNNLogicWithEmbedding | None = None

    def epoch(self, epoch: int, progress: StepProgress) -> float:
        """An epoch of the embedding, of the search, or of the predictor."""
        self._scorer = None
        if self.embedding is not None and epoch < self._first:
            return float(self.embedding.learner.epoch(epoch, lambda steps, phase: progress(steps, "embedding")))
        return self._reason(epoch - self._first, progress)

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

    def _reason(self, epoch: int, progress: StepProgress) -> float:
        """An epoch of the search, or of the predictor; the last of the search makes the predictor."""
        self.noise.reseed(epoch)
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
            loss = self._reasoner.epoch(epoch, self.noise, progress)
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


class RNNLogicLearner:
    """One run for each seed, each with rules of its own.

    The first epochs train embeddings, where there are any, the next ones are iterations of the search for rules. The
    others train the predictor with the rules found.
    """

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
        """Number of steps in an epoch of the predictors."""
        return self._steps

    @property
    def ready(self) -> bool:
        """Whether the predictors have learned anything."""
        return all(run.ready for run in self.runs)

    def epoch(self, epoch: int, progress: StepProgress) -> Tensor:
        """Learn for an epoch; gives the mean losses of the runs."""
        return torch.tensor([run.epoch(epoch, progress) for run in self.runs])

    def run(self, run: int) -> RNNLogicScorer | RNNLogicWithEmbedding:
        """One of the runs, as the engine ranks it."""
        return self.runs[run].scorer()

    def weights(self, run: int) -> dict[str, Tensor]:
        """The rules, the predictor and the embedding of one of the runs."""
        return self.runs[run].weights()

    def state(self) -> dict[str, Tensor]:
        """All that the next epochs depend on."""
        tensors: dict[str, Tensor] = {}
        for place, run in enumerate(self.runs):
            tensors |= prefixed(f"{place}.", run.state())
        return tensors

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        for place, run in enumerate(self.runs):
            run.load(under(f"{place}.", state))


def open_run(
    settings: Settings, graph: KnowledgeGraph, tensors: Mapping[str, Tensor], device: torch.device
) -> RNNLogicScorer | RNNLogicWithEmbedding:
    """The run that has these weights, as the engine ranks it.

    Raises:
        DataError: The weights are not those of such a model.
    """
    try:
        rules = Rules.from_tensors(under(RULES, tensors))
        predictor = new_predictor(settings, graph.num_entities, rules, RandomStreams([0], "cpu"))
        predictor.load_state_dict(under(MODEL, tensors))
        weight = float(tensors[EMBEDDING_WEIGHT]) if settings.options.embedding_dimension else 0.0
    except (RuntimeError, KeyError) as error:
        title, *problems = (line.strip() for line in str(error).splitlines())
        raise DataError(f"these are not the weights of {settings.model}", problems or [title]) from None
    reasoning = RNNLogicScorer(predictor.to(device), GroundingCache(_grounder(graph), rules))
    if not settings.options.embedding_dimension:
        return reasoning
    of_embedding = embedding_settings(settings, settings.seeds[0])
    embedding = open_embedding(of_embedding, graph, under(EMBEDDING, tensors), device)
    return RNNLogicWithEmbedding(reasoning, embedding, weight)


def _embeddings(settings: Settings, graph: KnowledgeGraph, device: torch.device) -> list[Embedding | None]:
    """The embedding of each run, if there are any."""
    if not settings.options.embedding_dimension:
        return [None] * len(settings.seeds)
    choice = EmbeddingChoice(settings, graph, device)
    each = (EmbeddingLearner(embedding_settings(settings, seed), graph, device) for seed in settings.seeds)
    return [Embedding(learner, choice) for learner in each]


def _grounder(graph: KnowledgeGraph) -> Grounder:
    return Grounder(Adjacency(graph.triples("train"), graph.num_entities, graph.num_relations))
