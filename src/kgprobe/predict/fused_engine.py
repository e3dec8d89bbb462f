"""Counts by fused kernels: embeddings stay on the device from the encoding of queries to the counts.

The work is divided into blocks of queries and ranges of candidates. Filtered candidates are counted like all others,
and then taken back by their canonical scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kgprobe.arrays import Ints
from kgprobe.predict.backends.fused_counts import Footprint, FusedCount
from kgprobe.predict.backends.triton_backend import TritonBackend
from kgprobe.predict.encoding import AnyEmbeddingScorer, SharedCandidates, encoded, require_numbers, shared_candidates
from kgprobe.predict.stored_arrays import StoredTable
from kgprobe.predict.tasks import Counts, QueryBlock, Task
from kgprobe.resources import Progress, Resources

_MOST_CANDIDATES = 1 << 22
"""Candidates that are counted at a time at most: their tiles are numbered along an axis of a grid."""


def count_fused(
    scorer: AnyEmbeddingScorer, task: Task, backend: TritonBackend, resources: Resources, progress: Progress
) -> Counts:
    """The counts of all targets by an embedding model."""
    counts = Counts.zeros(len(task.queries.query))
    with backend.active():
        for shared in shared_candidates(scorer, task):
            if task.sets is not None and _has_nan(shared.values):  # perhaps of entities that are no candidates
                require_numbers(shared.values, scorer.similarity, task)
            work = _Work(scorer, task, backend, resources, shared)
            for start, queries in work.blocks():
                block = task.block(shared.columns, start, start + len(queries))
                counts.put(block.targets, *work.counted(block, queries))
                progress(len(block.row))
    return counts


@dataclass(frozen=True, eq=False)
class _Work:
    """Queries that share their candidates, and what counts them."""

    scorer: AnyEmbeddingScorer
    task: Task
    backend: TritonBackend
    resources: Resources
    shared: SharedCandidates

    @property
    def part(self) -> int:
        """A quarter of the memory: for queries, for candidates, for lists of unclear pairs, and one to spare."""
        return self.resources.memory // 4

    @cached_property
    def footprint(self) -> Footprint:
        """What the embeddings take on the device."""
        return Footprint.of(self.scorer.similarity, self.shared.dimension)

    def blocks(self) -> Iterator[tuple[int, Tensor]]:
        """Blocks of encoded queries, each with the index of its first query."""
        stops = self._stops()
        waiting: list[Tensor] = []
        start = self.shared.queries.start
        for first, values in encoded(self.scorer, self.task, self.shared):
            stop = first + len(values)
            within = stops[(stops > first) & (stops <= stop)]
            *complete, rest = self.backend.placed(values).tensor_split((within - first).tolist())
            for part, end in zip(complete, within.tolist(), strict=True):
                queries = torch.cat([*waiting, part])
                waiting.clear()
                yield start, queries
                start = end
            waiting += [rest] if len(rest) else []

    def _stops(self) -> Ints:
        """The queries that blocks end before: blocks of the given number of queries, or even ones that fit."""
        queries, batch = self.shared.queries, self.resources.batch
        edges = np.arange(queries.start, queries.stop + 1)
        if batch:
            return np.append(edges[batch:-1:batch], queries.stop)
        targets = np.searchsorted(self.task.queries.query, edges)
        size = self.footprint.query * (edges - edges[0]) + self.footprint.target * (targets - targets[0])
        block = (size[1:] - 1) * -(-size[-1] // self.part) // size[-1]
        stops: Ints = edges[1:][np.append(np.diff(block) > 0, True)]
        return stops

    def counted(self, block: QueryBlock, queries: Tensor) -> tuple[Ints, Ints, Ints]:
        """The counts of the targets of a block."""
        backend, similarity = self.backend, self.scorer.similarity
        known = _Targets.of(backend, block)
        targets = backend.placed(_taken(self.shared.values, block.target, known.target))
        counter = FusedCount(backend, similarity, queries, known.query, targets, self.part)
        del targets  # the counter has their scores
        step = min(_MOST_CANDIDATES, self.resources.tile or max(1, self.part // self.footprint.candidate))
        known = known.by_ranges(range(0, len(block.columns), step))
        scores = torch.empty(len(known.row), dtype=torch.float32, device=backend.device)
        for number, (first, candidates) in enumerate(backend.ranges(self.shared.values, block.columns.index, step)):
            counter.add(candidates)
            known.score(counter, candidates, first, slice(*known.cuts[number : number + 2]), scores)
        counter.subtract(scores, known.offsets)
        counter.totals[:, 2] += torch.isnan(counter.own) | counter.broken
        greater, equal, wrong = counter.totals.cpu().numpy().T
        if wrong.any():
            if not isinstance(self.shared.values, StoredTable):
                require_numbers(self.shared.values, similarity, self.task)  # names entities, if it is their fault
            raise self.task.nan_error(block.row[wrong > 0] + block.start)
        return greater, equal - (block.counts_itself >= 0), block.others


def _has_nan(values: Any) -> bool:
    if isinstance(values, StoredTable):  # its rows are checked when they are read
        return False
    return bool((torch.isnan(values) if isinstance(values, Tensor) else np.isnan(values)).any())


def _taken(values: Any, entities: Ints, placed: Tensor) -> Any:
    """The embeddings of some entities, whose ids are given in both places."""
    return values[placed.to(values.device)] if isinstance(values, Tensor) else values[entities]


@dataclass(frozen=True, eq=False)
class _Targets:
    """The targets of a block and the filtered pairs of its queries on a device.

    Attributes:
        query: The query of each target.
        target: The target entities.
        row: The query of each filtered pair.
        column: The candidate of each pair.
        place: Where the score of each pair is stored: by queries.
        offsets: Where the scores of each query begin; one more for the end.
        cuts: Where the pairs of each range of columns begin; one more for the end.
    """

    query: Tensor
    target: Tensor
    row: Tensor
    column: Tensor
    place: Tensor
    offsets: Tensor
    cuts: list[int]

    @classmethod
    def of(cls, backend: TritonBackend, block: QueryBlock) -> _Targets:
        """Those of a block, in the order of the queries, as a single range of columns."""
        name = str(backend.device)
        if name not in block.placed:
            integers = (block.row, block.target, *block.known, block.known_offsets)
            query, target, row, column, offsets = (backend.integers(values) for values in integers)
            place = torch.arange(len(row), dtype=torch.int32, device=backend.device)
            block.placed[name] = cls(query, target, row, column, place, offsets, [0, len(row)])
        targets: _Targets = block.placed[name]
        return targets

    def by_ranges(self, starts: range) -> _Targets:
        """The same, with the pairs in the order of their columns, if there are several ranges of columns."""
        if len(starts) <= 1:
            return self
        order = self.column.argsort(stable=True)
        row, column, place = (values[order] for values in (self.row, self.column, self.place))
        edges = torch.tensor(starts, dtype=torch.int32, device=column.device)
        cuts = [*torch.searchsorted(column, edges).tolist(), len(row)]
        return replace(self, row=row, column=column, place=place, cuts=cuts)

    def score(self, counter: FusedCount, candidates: Tensor, first: int, some: slice, scores: Tensor) -> None:
        """Compute the scores of the pairs of a range, whose first column is ``first``."""
        counter.backend.put_scores(
            counter.similarity, counter.distinct, self.row[some], candidates, self.column[some], self.place[some],
            scores, first,
        )  # fmt: skip
