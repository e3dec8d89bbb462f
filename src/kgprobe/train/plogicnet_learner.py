"""Training of pLogicNet: rules are weighted, TransE is trained, and so on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kgprobe.arrays import AnyInts, Floats
from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.models.markov_learning import (
    Annotate,
    Learning,
    Logic,
    adjacency_with,
    hidden_triples,
    learn,
    probabilities,
    select_rules,
)
from kgprobe.models.markov_network import WeightPrior
from kgprobe.models.plogicnet import PLogicNet, PLogicNetOptions
from kgprobe.models.rules.groundings import Grounder
from kgprobe.models.rules.mining import mine
from kgprobe.predict.adapters.opening import FunctionScorer
from kgprobe.predict.scorers import Scorer
from kgprobe.train.embedding_learner import EmbeddingLearner
from kgprobe.train.embedding_learner import open_run as open_embedding
from kgprobe.train.learners import StepProgress
from kgprobe.train.rule_learning import Judge, Remembering, prefixed, under
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


_NONE = np.empty((0, 3), np.int32)


class Reasoner:
    """Draws conclusions for all runs; what does not depend on an embedding is concluded once for runs in succession.

    Args:
        options: The settings of the model.
        graph: The graph.
    """

    def __init__(self, options: PLogicNetOptions, graph: KnowledgeGraph) -> None:
        self.options, self.graph = options, graph
        self._known = adjacency_with(graph, _NONE)
        self._learning = Learning(options.combine, WeightPrior(options.prior, options.weight_steps))
        self._last: tuple[bytes, list[Logic]] = (b"", [])

    def first(self, progress: Callable[[str], None]) -> Iterator[Logic]:
        """What can be believed of the training facts alone, for each threshold of rules."""
        return self._concluded(_NONE, None, progress)

    def next(self, last: Logic, annotate: Annotate | None, progress: Callable[[str], None]) -> Iterator[Logic]:
        """What can be believed after that, for each threshold of facts and each of rules."""
        for least in self.options.fact_threshold:
            hidden = hidden_triples(last.network, last.conclusions, self._known, least)
            yield from self._concluded(hidden, annotate, progress)

    def _concluded(
        self, hidden: NDArray[np.int32], annotate: Annotate | None, progress: Callable[[str], None]
    ) -> Iterator[Logic]:
        if annotate is not None:
            yield from self._weighed(hidden, annotate, progress)
            return
        key, found = self._last
        if not found or key != hidden.tobytes():
            found = list(self._weighed(hidden, _as_stated, progress))
            self._last = hidden.tobytes(), found
        yield from found

    def _weighed(
        self, hidden: NDArray[np.int32], annotate: Annotate, progress: Callable[[str], None]
    ) -> Iterator[Logic]:
        progress("mining")
        options, grounder = self.options, Grounder(adjacency_with(self.graph, hidden))
        mined = mine(grounder.adjacency, length=options.rule_length, reverse=options.reverse, most=options.long_rules)
        for least in options.rule_threshold:
            rules = select_rules(mined, least, options.groundings)
            network, found = learn(rules, grounder, self._learning, annotate, lambda: progress("weighing rules"))
            yield Logic(hidden, grounder, network, found)


def _as_stated(relation: int, x: AnyInts, y: AnyInts) -> Floats:
    """What is no fact of the graph is not true."""
    return np.zeros(len(x))


EMBEDDING, LOGIC_WEIGHT = "embedding.", "logic_weight"

_ITERATION = "iteration"

_ANNOTATED = 1 << 16

"""Facts that an embedding annotates at a time."""


def embedding_settings(settings: Settings, seed: int, epochs: int) -> Settings:
    """How the TransE of a run is trained for so many epochs."""
    return replace(settings, model="TransE", options=settings.options.embedding, seeds=(seed,), epochs=epochs)


class PLogicNetRun:
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

    def epoch(self, epoch: int, progress: StepProgress) -> Tensor:
        """Train TransE for an epoch; where an iteration begins, weigh the rules first."""
        if self._iteration_of(epoch) > self._iteration:
            self._reason(lambda phase: progress(0, phase))
        self._model = None
        return self.learner.epoch(epoch - self._begin(self._iteration), progress)

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

    def _reason(self, progress: Callable[[str], None]) -> None:
        """Begin an iteration: what is believed changes, and a new TransE learns it."""
        annotate = self._annotate if self.options.annotation else None
        first = self._iteration < 0
        found = self._reasoner.first(progress) if first else self._reasoner.next(self._logic, annotate, progress)
        embedding: Scorer = _undecided(self.graph.num_entities) if first else self.learner.run(0)
        several = len(self.options.rule_threshold) * len(self.options.fact_threshold) > 1
        scored = ((self._choice.score(self._with(logic, embedding)) if several else 0, logic) for logic in found)
        self._logic = max(scored, key=lambda one: one[0])[1]
        self._iteration += 1
        self.learner = self._new_learner()

    def _with(self, logic: Logic, embedding: Scorer) -> PLogicNet:
        return PLogicNet(embedding, logic.network, logic.conclusions, logic.grounder, self.options, logic_weight=1.0)

    def _new_learner(self) -> EmbeddingLearner:
        """A TransE that knows nothing yet of the facts that are believed."""
        iteration = max(self._iteration, 0)
        epochs = self._begin(iteration + 1) - self._begin(iteration)
        facts = np.concatenate([self.graph.triples("train"), self._logic.hidden])
        sizes = {"num_entities": self.graph.num_entities, "num_relations": self.graph.num_relations}
        graph = KnowledgeGraph.from_triples(train=facts, name=self.graph.name, **sizes)
        return EmbeddingLearner(embedding_settings(self.settings, self.seed, epochs), graph, self.device)

    @torch.no_grad()
    def _annotate(self, relation: int, x: AnyInts, y: AnyInts) -> Floats:
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


def open_run(
    settings: Settings, graph: KnowledgeGraph, tensors: Mapping[str, Tensor], device: torch.device
) -> PLogicNet:
    """The run that has these weights, as the engine ranks it.

    Raises:
        DataError: The weights are not those of such a model.
    """
    of_embedding = embedding_settings(settings, settings.seeds[0], settings.epochs)
    embedding = open_embedding(of_embedding, graph, under(EMBEDDING, tensors), device)
    try:
        logic = Logic.from_tensors(tensors, graph, settings.options.combine)
        weight = float(tensors[LOGIC_WEIGHT])
    except KeyError as missing:
        raise DataError(f"these are not the weights of {settings.model}", [f"there is no {missing}"]) from None
    return PLogicNet(embedding, logic.network, logic.conclusions, logic.grounder, settings.options, weight)


class PLogicNetLearner:
    """One run for each seed, each with what it believes.

    Attributes:
        ready: It can be ranked from the start.

    Example:
        >>> from kgprobe.train.settings import resolve
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [1, 0, 2], [0, 1, 2]])
        >>> learner = PLogicNetLearner(resolve("plogicnet", []).settings, graph, torch.device("cpu"))
        >>> learner.epoch(0, lambda steps, phase: None).shape
        torch.Size([1])
        >>> len(learner.run(0).rules)
        6
    """

    ready = True

    def __init__(self, settings: Settings, graph: KnowledgeGraph, device: torch.device) -> None:
        reasoner, choice = Reasoner(settings.options, graph), Choice(settings, graph, device)
        self.runs = [PLogicNetRun(settings, graph, seed, reasoner, choice, device) for seed in settings.seeds]

    @property
    def steps(self) -> int:
        """Number of steps in an epoch of all runs."""
        return sum(run.learner.steps for run in self.runs)

    def epoch(self, epoch: int, progress: StepProgress) -> Tensor:
        """Learn for an epoch; gives the mean losses of the runs."""
        return torch.cat([run.epoch(epoch, progress) for run in self.runs])

    def run(self, run: int) -> PLogicNet:
        """One of the runs, as the engine ranks it."""
        return self.runs[run].model

    def weights(self, run: int) -> dict[str, Tensor]:
        """What a checkpoint of one of the runs holds."""
        return self.runs[run].weights()

    def state(self) -> dict[str, Tensor]:
        """All that the next epochs depend on."""
        return {f"{run.seed}.{name}": own for run in self.runs for name, own in run.state().items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        for run in self.runs:
            run.load(under(f"{run.seed}.", state))
