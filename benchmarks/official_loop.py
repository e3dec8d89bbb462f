"""A training loop in the style of the official RotatE code: negatives drawn one fact at a time on the CPU, eager steps.

Written anew from a description of that code: every worker of a `DataLoader` draws the negatives of a fact with NumPy
and draws again what is true, batches of heads and of tails alternate, and the loss of every step is read.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, get_worker_info

import kgprobe as kp
from kgprobe.predict.scorers import Side
from training_task import Clock, Task

FIRST_COUNT = 4

"""What the first fact of a query counts in the weights of subsampling."""


def run(task: Task, graph: kp.KnowledgeGraph, clock: Clock) -> None:
    """Train until the clock has seen enough."""
    model = MODELS[task.model](task, graph).to(clock.device)
    optimiser = torch.optim.Adam(model.parameters(), lr=task.learning_rate)
    for side, batch in alternating(task, graph):
        facts, negatives, weights = (part.to(clock.device) for part in batch)
        loss = self_adversarial(task, model, side, facts, negatives, weights) + model.penalty()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        clock.tick(loss.item())


def workers() -> int:
    """Half of the processors for each of the two sides."""
    return max(1, (os.cpu_count() or 1) // 2)


class Corrupted(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """Facts, each with entities that are no answer on one side of it, and its weight."""

    def __init__(self, task: Task, graph: kp.KnowledgeGraph, side: Side) -> None:
        self.side, self.negatives, self.entities = side, task.negatives, graph.num_entities
        self.facts: list[tuple[int, int, int]] = [tuple(fact) for fact in graph.triples("train").tolist()]
        self.rng = np.random.default_rng(0)
        true: dict[tuple[int, int], set[int]] = defaultdict(set)
        self.counts: Counter[tuple[str, int, int]] = Counter()
        for head, relation, tail in self.facts:
            self.counts.update([("tail", head, relation), ("head", tail, relation)])
            given, answer = (head, tail) if side == "tail" else (tail, head)
            true[given, relation].add(answer)
        self.true: dict[tuple[int, int], NDArray[np.int64]] = {
            query: np.array(sorted(answers)) for query, answers in true.items()
        }

    def __len__(self) -> int:
        return len(self.facts)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        """The fact, its negatives and its weight."""
        head, relation, tail = self.facts[index]
        true = self.true[head if self.side == "tail" else tail, relation]
        parts, found = [], 0
        while found < self.negatives:
            drawn = self.rng.integers(self.entities, size=2 * self.negatives)
            drawn = drawn[np.isin(drawn, true, assume_unique=True, invert=True)]
            parts.append(drawn)
            found += len(drawn)
        seen = self.counts["tail", head, relation] + self.counts["head", tail, relation]
        weight = (seen + 2 * (FIRST_COUNT - 1)) ** -0.5
        negatives = np.concatenate(parts)[: self.negatives]
        return torch.tensor([head, relation, tail]), torch.from_numpy(negatives), torch.tensor(weight)


def alternating(task: Task, graph: kp.KnowledgeGraph) -> Iterator[tuple[Side, list[Tensor]]]:
    """Batches without end, of tails and of heads in turns."""
    sides: tuple[Side, Side] = ("tail", "head")
    batches = [_endless(loader(task, graph, side)) for side in sides]
    while True:
        for side, some in zip(sides, batches, strict=True):
            yield side, next(some)


def loader(task: Task, graph: kp.KnowledgeGraph, side: Side) -> DataLoader[tuple[Tensor, Tensor, Tensor]]:
    """Shuffled batches that several processes make ahead of time."""
    return DataLoader(
        Corrupted(task, graph, side),
        batch_size=task.batch_size,
        shuffle=True,
        num_workers=workers(),
        worker_init_fn=_own_stream,
    )


def _own_stream(worker: int) -> None:
    info = get_worker_info()
    info.dataset.rng = np.random.default_rng(info.seed)  # type: ignore[union-attr]


def _endless(batches: DataLoader[tuple[Tensor, Tensor, Tensor]]) -> Iterator[list[Tensor]]:
    while True:
        yield from batches


def self_adversarial(
    task: Task, model: Tables, side: Side, facts: Tensor, negatives: Tensor, weights: Tensor
) -> Tensor:
    """Half the loss of the facts and half that of their negatives, of which likely ones weigh more."""
    head, relation, tail = facts.unbind(1)
    false = model(head[:, None], relation, negatives) if side == "tail" else model(negatives, relation, tail[:, None])
    share = functional.softmax(task.temperature * false, dim=1).detach()
    of_negatives = (share * functional.logsigmoid(-false)).sum(1)
    of_facts = functional.logsigmoid(model(head[:, None], relation, tail[:, None])).squeeze(1)
    return -((weights * of_facts).sum() + (weights * of_negatives).sum()) / (2 * weights.sum())


class Tables(nn.Module, ABC):
    """Vectors of entities and relations."""

    def __init__(self, task: Task, graph: kp.KnowledgeGraph, width: int, relation_width: int) -> None:
        super().__init__()
        self.task = task
        self.entity = nn.Parameter(torch.empty(graph.num_entities, width).uniform_(-task.bound, task.bound))
        self.relation = nn.Parameter(torch.empty(graph.num_relations, relation_width).uniform_(-task.bound, task.bound))

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """The scores [B, K] of heads [B, K or 1] and tails [B, 1 or K]."""
        return self.score(self.entity[head], self.relation[relation][:, None], self.entity[tail])

    @abstractmethod
    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """The scores of vectors."""

    def penalty(self) -> Tensor | float:
        """The cubed coordinates of both tables, weighted."""
        if not self.task.regularisation:
            return 0.0
        return self.task.regularisation * (self.entity.norm(p=3) ** 3 + self.relation.norm(p=3) ** 3)


class RotatE(Tables):
    """The margin, less the moduli of what a rotated head is away from the tail."""

    def __init__(self, task: Task, graph: kp.KnowledgeGraph) -> None:
        super().__init__(task, graph, 2 * task.dimension, task.dimension)

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """The rotation is taken back from the tail where the heads are many."""
        angle = relation * (torch.pi / self.task.bound)
        cosine, sine = torch.cos(angle), torch.sin(angle)
        turned, fixed = (head, tail) if head.shape[1] == 1 else (tail, head)
        if turned is tail:
            sine = -sine
        real, imaginary = turned.chunk(2, -1)
        fixed_real, fixed_imaginary = fixed.chunk(2, -1)
        apart_real = real * cosine - imaginary * sine - fixed_real
        apart_imaginary = real * sine + imaginary * cosine - fixed_imaginary
        return self.task.gamma - torch.stack([apart_real, apart_imaginary]).norm(dim=0).sum(-1)


class ComplEx(Tables):
    """The real part of the product of head, relation and conjugate tail."""

    def __init__(self, task: Task, graph: kp.KnowledgeGraph) -> None:
        super().__init__(task, graph, 2 * task.dimension, 2 * task.dimension)

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """The two that are single are multiplied first."""
        relation_real, relation_imaginary = relation.chunk(2, -1)
        single, many = (head, tail) if head.shape[1] == 1 else (tail, head)
        if single is tail:
            relation_imaginary = -relation_imaginary
        real, imaginary = single.chunk(2, -1)
        many_real, many_imaginary = many.chunk(2, -1)
        query_real = real * relation_real - imaginary * relation_imaginary
        query_imaginary = real * relation_imaginary + imaginary * relation_real
        return (query_real * many_real + query_imaginary * many_imaginary).sum(-1)


MODELS = {"RotatE": RotatE, "ComplEx": ComplEx}
