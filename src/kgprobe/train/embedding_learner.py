"""The learner of embedding models: shuffled mini-batches, CUDA graphs of steps, regularisers, objectives."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from numpy.typing import NDArray
from torch import Tensor

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
from kgprobe.train.optimiser import Optimiser, learning_rate, load_weights, mixed, prefixed, under
from kgprobe.train.settings import Settings
from kgprobe.train.soft_probe import SoftProbe, query_weights
from kgprobe.train.training_queries import Columns, TrainingQueries, Weigh, alike, joined, rarity, training_queries


class Batches:
    """Shuffled mini-batches of query indices; the last batch is filled up from the start of the order.

    The position is stored on the device, so that a CUDA graph can replay a step.

    Attributes:
        steps: Number of steps in an epoch.

    Example:
        >>> batches = Batches(5, 2, RandomStreams([0], "cpu"))
        >>> batches.shuffle()
        >>> sorted(torch.cat([batches.next() for _ in range(batches.steps)], 1)[0, :5].tolist())
        [0, 1, 2, 3, 4]
    """

    def __init__(self, size: int, batch: int, streams: RandomStreams) -> None:
        self.size, self.streams = size, streams
        self.batch = min(batch, size)
        self.steps = -(-size // self.batch)
        self._order = torch.zeros(len(streams.seeds), self.steps * self.batch, dtype=torch.int64, device=streams.device)
        self._places = torch.arange(self.batch, device=streams.device)

    def shuffle(self) -> None:
        """Start an epoch."""
        order = self.streams.order(self.size)
        self._order[:, : self.size] = order
        self._order[:, self.size :] = order[:, : self._order.shape[1] - self.size]
        torch.arange(self.batch, out=self._places)

    def next(self) -> Tensor:
        """The query indices of the next step: [S, B]."""
        chosen = self._order.index_select(1, self._places)
        self._places.add_(self.batch).remainder_(self._order.shape[1])
        return chosen


_WARM_UP = 3
"""Steps on a GPU before one is captured, in which libraries allocate and choose their algorithms."""


class Steps:
    """Runs training steps, on a GPU as replays of a CUDA graph.

    Attributes:
        take: One step; it reads and changes tensors in place.
        streams: The random generators of the step.
    """

    def __init__(self, take: Callable[[], None], streams: RandomStreams) -> None:
        self.take, self.streams = take, streams
        self._graph: torch.cuda.CUDAGraph | None = None
        self._warm = 0

    def forget(self) -> None:
        """Capture the step again before the next replay, because a captured value has changed."""
        self._graph = None

    def run(self, steps: int) -> None:
        if self.streams.device.type != "cuda":
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
        """Take a step on a side stream, as capturing requires."""
        stream = torch.cuda.Stream(self.streams.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self.streams.device))
        with torch.cuda.stream(stream):
            take()
        torch.cuda.current_stream(self.streams.device).wait_stream(stream)

    def _captured(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        for generator in self.streams.generators:
            graph.register_generator_state(generator)
        with uncollected(), torch.cuda.graph(graph):
            self.take()
        return graph


@contextmanager
def uncollected() -> Iterator[None]:
    """Context without garbage collection: freeing an older CUDA graph would break the capture."""
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
    """The N3 regulariser: cubed moduli of the factors of a batch, mean per triple: [S] (Lacroix et al. 2018)."""
    cubes = [factor.abs().pow(3).sum((1, 2)) / factor.shape[1] for factor in model.factors(*asked.triples)]
    return torch.stack(cubes).sum(0)


def l3(model: EmbeddingModel, asked: TrainingQueries) -> Tensor:
    """The cubed absolute values of all parameters, summed: [S]."""
    cubes = [parameter.abs().pow(3).flatten(1).sum(1) for parameter in model.parameters()]
    return torch.stack(cubes).sum(0)


def norm(model: EmbeddingModel, asked: TrainingQueries) -> Tensor:
    """The mean L2 norm of the entity embeddings: [S]."""
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
    """The training objective of the settings."""
    return _OBJECTIVES[settings.objective](settings, graph)


def weigh_of(settings: Settings, graph: KnowledgeGraph) -> Weigh:
    """The query weights of the settings: subsampling, and popularity weights for the soft_probe loss."""
    plain = rarity if settings.subsampling else alike
    if settings.loss != "soft_probe" or settings.loss_beta == 0:
        return plain

    def weigh(columns: Columns) -> NDArray[Any]:
        _, relation, target = columns
        unpopular = query_weights(graph.popularity, relation, target, settings.loss_beta)
        weights: NDArray[Any] = plain(columns) * unpopular
        return weights

    return weigh


_REPORT_EVERY = 32
"""Steps between two progress reports."""


def build_model(settings: Settings, graph: KnowledgeGraph, device: torch.device) -> EmbeddingModel:
    """The model of the settings before its first step; its parameters do not depend on the device."""
    relations = graph.num_relations * (2 if settings.reciprocal else 1)
    streams = RandomStreams(settings.seeds, "cpu")
    streams.reseed(-1)
    model = build(settings.model, Sizes(graph.num_entities, relations), settings.options, streams)
    model.streams = RandomStreams(settings.seeds, device)
    return model.to(device)


def open_run(
    settings: Settings, graph: KnowledgeGraph, tensors: Mapping[str, Tensor], device: torch.device
) -> RankedRun:
    """A trained run as a scorer.

    Raises:
        DataError: The weights are not those of such a model.
    """
    model = build_model(replace(settings, seeds=settings.seeds[:1]), graph, device)
    load_weights(model, tensors)
    return ranked_run(model.one_run(0), graph.num_relations if settings.reciprocal else None)


class EmbeddingLearner:
    """The learner of an embedding model, whose runs are stacked in one model.

    Attributes:
        model: The stacked runs.
        steps: Number of steps in an epoch.
    """

    ready = True

    def __init__(self, settings: Settings, graph: KnowledgeGraph, device: torch.device) -> None:
        self.settings, self.graph = settings, graph
        self.model = build_model(settings, graph, device)
        self.streams = self.model.streams
        self.optimiser = Optimiser(settings, self.model)
        self.objective = objective_of(settings, graph)
        self.queries = self._queries(device)
        # The same number of queries for each side, also where one side has fewer.
        each = min(max(1, settings.batch_size // len(self.queries)), *map(len, self.queries))
        self.batches = [Batches(len(queries), each, self.streams) for queries in self.queries]
        self.steps = max(batches.steps for batches in self.batches)
        self._losses = torch.zeros(len(settings.seeds), device=device)
        self._steps = Steps(self._step, self.streams)

    def epoch(self, epoch: int, progress: StepProgress) -> Tensor:
        if self.optimiser.set_rate(learning_rate(self.settings, epoch)):
            self._steps.forget()
        self.streams.reseed(epoch)
        for batches in self.batches:
            batches.shuffle()
        self._losses.zero_()
        self.model.train()
        for start in range(0, self.steps, _REPORT_EVERY):
            steps = min(_REPORT_EVERY, self.steps - start)
            self._steps.run(steps)
            progress(steps, "training")
        return self._losses.cpu() / self.steps

    def run(self, run: int) -> RankedRun:
        return ranked_run(self.model.one_run(run), self.graph.num_relations if self.settings.reciprocal else None)

    def weights(self, run: int) -> dict[str, Tensor]:
        return {name: tensor[run : run + 1].detach().clone() for name, tensor in self.model.state_dict().items()}

    def state(self) -> dict[str, Tensor]:
        model = {name: tensor.detach() for name, tensor in self.model.state_dict().items()}
        return prefixed("model.", model) | prefixed("optimiser.", self.optimiser.state())

    def load(self, state: Mapping[str, Tensor]) -> None:
        load_weights(self.model, under("model.", state))
        self.optimiser.load(under("optimiser.", state))

    def _queries(self, device: torch.device) -> list[TrainingQueries]:
        reciprocals = self.graph.num_relations if self.settings.reciprocal else None
        weigh = weigh_of(self.settings, self.graph)
        every = training_queries(self.graph.triples("train"), self.graph.num_entities, reciprocals, weigh, device)
        return [queries.once() for queries in every] if self.objective.once else every

    def _step(self) -> None:
        asked = joined([queries.at(own.next()) for queries, own in zip(self.queries, self.batches, strict=True)])
        with mixed(self.settings.precision, self.streams.device):
            losses = self.objective(self.model, asked)
        total = (losses * asked.weight).sum(-1) / asked.weight.sum(-1)
        if self.settings.regularisation and self.settings.regulariser in REGULARISERS:
            total = total + self.settings.regularisation * REGULARISERS[self.settings.regulariser](self.model, asked)
        total.sum().backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self._losses += total.detach()
