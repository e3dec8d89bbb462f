"""Training of embedding models: mini-batches, steps, regularisers."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from numpy.typing import NDArray
from torch import Tensor

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.models.embedding_model import EmbeddingModel, RankedRun, Sizes, ranked_run
from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.registry import build
from kgprobe.train.learners import StepProgress
from kgprobe.train.losses import (
    BinaryCrossEntropy,
    CrossEntropy,
    KVsAll,
    LabelBinaryCrossEntropy,
    LabelCrossEntropy,
    LabelLoss,
    NegativeSampling,
    Objective,
    OneVsAll,
    SelfAdversarial,
    TargetLoss,
)
from kgprobe.train.optimiser import Optimiser, learning_rate, mixed
from kgprobe.train.settings import Settings
from kgprobe.train.soft_probe import SoftProbe, query_weights
from kgprobe.train.training_queries import Columns, TrainingQueries, Weigh, alike, joined, rarity, training_queries


class Batches:
    """All queries in an order that every epoch shuffles anew; at its end it starts again, to fill up a step.

    The place is kept on the device, so that a step captured on a GPU finds it there.

    Attributes:
        steps: Number of steps in an epoch.

    Example:
        >>> batches = Batches(5, 2, RandomStreams([0], "cpu"))
        >>> batches.shuffle()
        >>> sorted(torch.cat([batches.next() for _ in range(batches.steps)], 1)[0, :5].tolist())
        [0, 1, 2, 3, 4]
    """

    def __init__(self, size: int, batch: int, noise: RandomStreams) -> None:
        self.size, self.noise = size, noise
        self.batch = min(batch, size)
        self.steps = -(-size // self.batch)
        self._order = torch.zeros(len(noise.seeds), self.steps * self.batch, dtype=torch.int64, device=noise.device)
        self._places = torch.arange(self.batch, device=noise.device)

    def shuffle(self) -> None:
        """Begin an epoch."""
        order = self.noise.order(self.size)
        self._order[:, : self.size] = order
        self._order[:, self.size :] = order[:, : self._order.shape[1] - self.size]
        torch.arange(self.batch, out=self._places)

    def next(self) -> Tensor:
        """The queries of the next step: [S, B]."""
        chosen = self._order.index_select(1, self._places)
        self._places.add_(self.batch).remainder_(self._order.shape[1])
        return chosen


_WARM_UP = 3

"""Steps that are taken one by one on a GPU before one is captured, so that every library has made its plans."""


class Steps:
    """Takes steps that need nothing from the host.

    Attributes:
        take: One step; it reads and changes tensors in place.
        noise: Where the step draws from.
    """

    def __init__(self, take: Callable[[], None], noise: RandomStreams) -> None:
        self.take, self.noise = take, noise
        self._graph: torch.cuda.CUDAGraph | None = None
        self._warm = 0

    def forget(self) -> None:
        """Capture the step anew, since something that was captured has changed."""
        self._graph = None

    def run(self, steps: int) -> None:
        """Take some steps."""
        if self.noise.device.type != "cuda":
            for _ in range(steps):
                self.take()
            return
        while self._warm < _WARM_UP and steps:
            self._aside(self.take)
            self._warm, steps = self._warm + 1, steps - 1
        if steps and self._graph is None:
            self._graph = self._captured()
        for _ in range(steps):
            self._graph.replay()  # type: ignore[union-attr]

    def _aside(self, take: Callable[[], None]) -> None:
        """Take a step on a stream of its own, as it will be captured."""
        stream = torch.cuda.Stream(self.noise.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self.noise.device))
        with torch.cuda.stream(stream):
            take()
        torch.cuda.current_stream(self.noise.device).wait_stream(stream)

    def _captured(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        for generator in self.noise.generators:
            graph.register_generator_state(generator)
        with uncollected(), torch.cuda.graph(graph):
            self.take()
        return graph


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection inside: to free the captured step of an earlier training would break a capture.

    Example:
        >>> with uncollected():
        ...     gc.isenabled()
        False
        >>> gc.isenabled()
        True
    """
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


Regulariser: TypeAlias = Callable[[EmbeddingModel, TrainingQueries], Tensor]


def n3(model: EmbeddingModel, asked: TrainingQueries) -> Tensor:
    """The cubes of the moduli of the facts of a step, per fact: [S] (Lacroix et al. 2018)."""
    cubes = [factor.abs().pow(3).sum((1, 2)) / factor.shape[1] for factor in model.factors(*asked.facts)]
    return torch.stack(cubes).sum(0)


def l3(model: EmbeddingModel, asked: TrainingQueries) -> Tensor:
    """The cubes of all coordinates of all tables: [S]."""
    cubes = [own.abs().pow(3).flatten(1).sum(1) for own in model.parameters()]
    return torch.stack(cubes).sum(0)


def norm(model: EmbeddingModel, asked: TrainingQueries) -> Tensor:
    """The mean length of the entities' vectors: [S]."""
    lengths: Tensor = torch.linalg.vector_norm(model.entity, dim=-1)
    return lengths.mean(-1)


REGULARISERS: Mapping[str, Regulariser] = {"n3": n3, "l3": l3, "norm": norm}

_TARGET_LOSSES: Mapping[str, Callable[[Settings], TargetLoss]] = {
    "self_adversarial": lambda settings: SelfAdversarial(settings.adversarial_temperature),
    "cross_entropy": lambda settings: CrossEntropy(settings.label_smoothing),
    "binary_cross_entropy": lambda settings: BinaryCrossEntropy(settings.label_smoothing),
    "soft_probe": lambda settings: SoftProbe(settings.loss_alpha, settings.loss_temperature),
}

_LABEL_LOSSES: Mapping[str, Callable[[Settings], LabelLoss]] = {
    "cross_entropy": lambda settings: LabelCrossEntropy(settings.label_smoothing),
    "binary_cross_entropy": lambda settings: LabelBinaryCrossEntropy(settings.label_smoothing),
}

_OBJECTIVES: Mapping[str, Callable[[Settings, KnowledgeGraph], Objective]] = {
    "negative_sampling": lambda settings, graph: NegativeSampling(
        _TARGET_LOSSES[settings.loss](settings), settings.negatives, graph.num_entities
    ),
    "one_vs_all": lambda settings, graph: OneVsAll(_TARGET_LOSSES[settings.loss](settings)),
    "k_vs_all": lambda settings, graph: KVsAll(_LABEL_LOSSES[settings.loss](settings)),
}


def objective_of(settings: Settings, graph: KnowledgeGraph) -> Objective:
    """What a step makes of its queries."""
    return _OBJECTIVES[settings.objective](settings, graph)


def weigh_of(settings: Settings, graph: KnowledgeGraph) -> Weigh:
    """How much queries count: less where they are frequent, more where their answers are unpopular, as is asked."""
    plain = rarity if settings.subsampling else alike
    if settings.loss != "soft_probe" or settings.loss_beta == 0:
        return plain

    def weigh(columns: Columns) -> NDArray[Any]:
        _, relation, target = columns
        unpopular = query_weights(graph.popularity, relation, target, settings.loss_beta)
        weights: NDArray[Any] = plain(columns) * unpopular
        return weights

    return weigh


_AT_ONCE = 32

"""Steps between two looks at the clock."""


def build_model(settings: Settings, graph: KnowledgeGraph, device: torch.device) -> EmbeddingModel:
    """The model of the settings before its first step, the same on every device."""
    relations = graph.num_relations * (2 if settings.reciprocal else 1)
    noise = RandomStreams(settings.seeds, "cpu")
    noise.reseed(-1)
    model = build(settings.model, Sizes(graph.num_entities, relations), settings.options, noise)
    model.streams = RandomStreams(settings.seeds, device)
    return model.to(device)


def open_run(
    settings: Settings, graph: KnowledgeGraph, tensors: Mapping[str, Tensor], device: torch.device
) -> RankedRun:
    """The run that has these weights, as the engine ranks it.

    Raises:
        DataError: The weights are not those of such a model.
    """
    model = build_model(replace(settings, seeds=settings.seeds[:1]), graph, device)
    try:
        model.load_state_dict(dict(tensors))
    except RuntimeError as error:
        title, *problems = (line.strip() for line in str(error).splitlines())
        raise DataError(f"these are not the weights of {settings.model}", problems or [title]) from None
    return ranked_run(model.one_run(0), graph.num_relations if settings.reciprocal else None)


class EmbeddingLearner:
    """A model, its optimiser, and the queries that it is asked.

    Attributes:
        model: The stacked runs.
        steps: Number of steps in an epoch.
        ready: It can be ranked from the start.
    """

    ready = True

    def __init__(self, settings: Settings, graph: KnowledgeGraph, device: torch.device) -> None:
        self.settings, self.graph = settings, graph
        self.model = build_model(settings, graph, device)
        self.noise = self.model.streams
        self.optimiser = Optimiser(settings, self.model)
        self.objective = objective_of(settings, graph)
        self.queries = self._queries(device)
        # As many for either side, even where fewer are all that there are.
        each = min(max(1, settings.batch_size // len(self.queries)), *map(len, self.queries))
        self.batches = [Batches(len(queries), each, self.noise) for queries in self.queries]
        self.steps = max(batches.steps for batches in self.batches)
        self._losses = torch.zeros(len(settings.seeds), device=device)
        self._steps = Steps(self._step, self.noise)

    def epoch(self, epoch: int, progress: StepProgress) -> Tensor:
        """Ask every training query once; gives the mean losses of the runs.

        Args:
            epoch: Which epoch it is; epochs can be taken up at any of them.
            progress: Called with the number of steps that were taken since the last call, and what they are of.
        """
        if self.optimiser.set_rate(learning_rate(self.settings, epoch)):
            self._steps.forget()
        self.noise.reseed(epoch)
        for batches in self.batches:
            batches.shuffle()
        self._losses.zero_()
        self.model.train()
        for start in range(0, self.steps, _AT_ONCE):
            some = min(_AT_ONCE, self.steps - start)
            self._steps.run(some)
            progress(some, "training")
        return self._losses.cpu() / self.steps

    def run(self, run: int) -> RankedRun:
        """One of the runs, as the engine ranks it."""
        return ranked_run(self.model.one_run(run), self.graph.num_relations if self.settings.reciprocal else None)

    def weights(self, run: int) -> dict[str, Tensor]:
        """The tensors of one of the runs."""
        return {name: own[run : run + 1].detach().clone() for name, own in self.model.state_dict().items()}

    def state(self) -> dict[str, Tensor]:
        """All that the next epochs depend on."""
        model = {f"model.{name}": own.detach() for name, own in self.model.state_dict().items()}
        return model | {f"optimiser.{name}": own for name, own in self.optimiser.state().items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self.model.load_state_dict(_under("model.", state))
        self.optimiser.load(_under("optimiser.", state))

    def _queries(self, device: torch.device) -> list[TrainingQueries]:
        reciprocals = self.graph.num_relations if self.settings.reciprocal else None
        weigh = weigh_of(self.settings, self.graph)
        every = training_queries(self.graph.triples("train"), self.graph.num_entities, reciprocals, weigh, device)
        return [queries.once() for queries in every] if self.objective.once else every

    def _step(self) -> None:
        asked = joined([queries.at(own.next()) for queries, own in zip(self.queries, self.batches, strict=True)])
        with mixed(self.settings.precision, self.noise.device):
            losses = self.objective(self.model, asked)
        total = (losses * asked.weight).sum(-1) / asked.weight.sum(-1)
        if self.settings.regularisation and self.settings.regulariser in REGULARISERS:
            total = total + self.settings.regularisation * REGULARISERS[self.settings.regulariser](self.model, asked)
        total.sum().backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self._losses += total.detach()


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): own for name, own in tensors.items() if name.startswith(prefix)}
