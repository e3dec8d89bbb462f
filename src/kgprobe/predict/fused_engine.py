"""Counts by fused kernels: embeddings stay on the device from the encoding of queries to the counts.

The work is divided into blocks of queries and ranges of candidates. Filtered candidates are counted like all others,
and then taken back by their canonical scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kgprobe.arrays import Ints
from kgprobe.predict.backends.fused_counts import FusedCount
from kgprobe.predict.backends.triton_backend import TritonBackend
from kgprobe.predict.encoding import AnyEmbeddingScorer, SharedCandidates, encoded, on_host, shared_candidates
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
                on_host(shared.values, scorer.similarity, task)
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
        """A quarter of the memory: for queries, for candidates, and for lists of unclear pairs."""
        return self.resources.memory // 4

    def blocks(self) -> Iterator[tuple[int, Tensor]]:
        """Blocks of encoded queries, each with the index of its first query."""
        queries = self.shared.queries
        first, last = np.searchsorted(self.task.queries.query, [queries.start, queries.stop])
        rows = self.part // (16 * self.shared.dimension + 64)
        most = self.resources.batch or max(1, int(rows * len(queries) // max(last - first, 1)))
        waiting: list[Tensor] = []
        start = queries.start
        for _, values in encoded(self.scorer, self.task, self.shared):
            for part in self.backend.placed(values).split(most):  # type: ignore[no-untyped-call]
                if waiting and sum(map(len, waiting)) + len(part) > most:
                    yield start, torch.cat(waiting)
                    start += sum(map(len, waiting))
                    waiting = []
                waiting.append(part)
        if waiting:
            yield start, torch.cat(waiting)

    def counted(self, block: QueryBlock, queries: Tensor) -> tuple[Ints, Ints, Ints]:
        """The counts of the targets of a block."""
        backend, similarity = self.backend, self.scorer.similarity
        query = backend.integers(block.row)
        targets = backend.placed(_taken(self.shared.values, block.target))
        counter = FusedCount(backend, similarity, queries, query, targets, self.part)
        self._refuse_nan(block, torch.isnan(queries).any(1)[query.long()] | torch.isnan(counter.own))
        known = _KnownPairs.of(backend, block)
        fits = max(1, self.part // (16 * self.shared.dimension))
        step = min(_MOST_CANDIDATES, self.resources.tile or fits)
        starts = range(0, len(block.columns), step)
        cuts = known.cuts(starts)
        for number, (first, candidates) in enumerate(backend.ranges(self.shared.values, block.columns.index, step)):
            counter.add(candidates)
            known.score(counter, candidates, first, slice(cuts[number], cuts[number + 1]))
        counter.subtract(known.scores, known.offsets)
        self._refuse_nan(block, counter.broken | (counter.totals[:, 2] > 0))
        greater, equal, _ = counter.totals.cpu().numpy().T
        return greater, equal - (block.counts_itself >= 0), block.others

    def _refuse_nan(self, block: QueryBlock, broken: Tensor) -> None:
        if bool(broken.any()):
            on_host(self.shared.values, self.scorer.similarity, self.task)  # names entities, if it is their fault
            raise self.task.nan_error(block.row[broken.cpu().numpy()] + block.start)


def _has_nan(values: Any) -> bool:
    return bool((torch.isnan(values) if isinstance(values, Tensor) else np.isnan(values)).any())


def _taken(values: Any, entities: Ints) -> Any:
    """The embeddings of some entities."""
    return values[torch.from_numpy(entities).to(values.device)] if isinstance(values, Tensor) else values[entities]


@dataclass(frozen=True, eq=False)
class _KnownPairs:
    """The filtered pairs of a query and a candidate, by columns; their scores by queries.

    Attributes:
        row: The query of each pair.
        column: The candidate of each pair, in ascending order if there are several ranges.
        place: Where the score of each pair is stored.
        offsets: Where the scores of each query begin; one more for the end.
        scores: The canonical scores.
    """

    row: Tensor
    column: Tensor
    place: Tensor
    offsets: Tensor
    scores: Tensor

    @classmethod
    def of(cls, backend: TritonBackend, block: QueryBlock) -> _KnownPairs:
        """The pairs of a block."""
        row, column = (backend.integers(values) for values in block.known)
        offsets = np.zeros(block.stop - block.start + 1, dtype=np.int64)
        np.cumsum(np.bincount(block.known[0], minlength=len(offsets) - 1), out=offsets[1:])
        place = torch.arange(len(row), dtype=torch.int32, device=backend.device)
        scores = torch.empty(len(row), dtype=torch.float32, device=backend.device)
        return cls(row, column, place, backend.integers(offsets), scores)

    def cuts(self, starts: range) -> list[int]:
        """Where the pairs of each range of columns begin; they are sorted by column if there are several ranges."""
        if len(starts) <= 1:
            return [0, len(self.row)]
        order = self.column.argsort(stable=True)
        for values in (self.row, self.column, self.place):
            values.copy_(values[order])
        edges = torch.tensor(starts, dtype=torch.int32, device=self.column.device)
        return [*torch.searchsorted(self.column, edges).tolist(), len(self.row)]

    def score(self, counter: FusedCount, candidates: Tensor, first: int, some: slice) -> None:
        """Compute the scores of the pairs of a range, whose first column is ``first``."""
        counter.backend.put_scores(
            counter.similarity, counter.distinct, self.row[some], candidates, self.column[some], self.place[some],
            self.scores, first,
        )  # fmt: skip
