"""An embedding model that learns: everything that changes from epoch to epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.models.base import EmbeddingModel, Sizes
from kgprobe.models.noise import Noise
from kgprobe.models.reciprocal import RankedRun, ranked_run
from kgprobe.models.registry import build
from kgprobe.train.batches import Batches
from kgprobe.train.learner import Watch
from kgprobe.train.optimiser import Optimiser, learning_rate
from kgprobe.train.parts import objective_of, weigh_of
from kgprobe.train.precision import mixed
from kgprobe.train.queries import Queries, joined, training_queries
from kgprobe.train.regularisers import REGULARISERS
from kgprobe.train.settings import Settings
from kgprobe.train.step import Steps

_AT_ONCE = 32
"""Steps between two looks at the clock."""


def build_model(settings: Settings, graph: KnowledgeGraph, device: torch.device) -> EmbeddingModel:
    """The model of the settings before its first step, the same on every device."""
    relations = graph.num_relations * (2 if settings.reciprocal else 1)
    noise = Noise(settings.seeds, "cpu")
    noise.reseed(-1)
    model = build(settings.model, Sizes(graph.num_entities, relations), settings.options, noise)
    model.noise = Noise(settings.seeds, device)
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
        self.noise = self.model.noise
        self.optimiser = Optimiser(settings, self.model)
        self.objective = objective_of(settings, graph)
        self.queries = self._queries(device)
        # As many for either side, even where fewer are all that there are.
        each = min(max(1, settings.batch_size // len(self.queries)), *map(len, self.queries))
        self.batches = [Batches(len(queries), each, self.noise) for queries in self.queries]
        self.steps = max(batches.steps for batches in self.batches)
        self._losses = torch.zeros(len(settings.seeds), device=device)
        self._steps = Steps(self._step, self.noise)

    def epoch(self, epoch: int, watch: Watch) -> Tensor:
        """Ask every training query once; gives the mean losses of the runs.

        Args:
            epoch: Which epoch it is; epochs can be taken up at any of them.
            watch: Called with the number of steps that were taken since the last call, and what they are of.
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
            watch(some, "training")
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

    def _queries(self, device: torch.device) -> list[Queries]:
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
