"""The ranking engine: computes scores in tiles and counts better and equal candidates, without sorting.

Candidates of an embedding model are compared by fast scores first, in float32 or shorter. Where their error bounds
leave a comparison with the target open, the canonical scores decide.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kgprobe.arrays import Flags, Floats, Ints
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.backends.backend import Backend, Bounds, backend_for, is_fused
from kgprobe.predict.encoding import (
    AnyEmbeddingScorer,
    SharedCandidates,
    encoded,
    magnitudes,
    on_host,
    read,
    require_numbers,
    shared_candidates,
)
from kgprobe.predict.scorers import (
    AnyScorer,
    ClampedDot,
    Dot,
    EmbeddingScorer,
    FarthestNorm,
    RelationEmbeddingScorer,
    Scorer,
    Similarity,
    Singles,
    as_embeddings,
    as_matrix,
)
from kgprobe.predict.stored_arrays import StoredTable
from kgprobe.predict.tasks import Counts, QueryBlock, QueryCandidates, Task
from kgprobe.resources import Progress, Resources, single_blas_thread

Counted: TypeAlias = tuple[Ints, Ints, Ints]
"""For each target of a block: the numbers of greater, equal and all other candidates."""

_UNDECIDED_AT_ONCE, _BYTES_PER_PAIR = 1 << 21, 160
"""Pairs of a target and a candidate that are decided by canonical scores at a time, at most, and bytes of memory for
each. A pair takes about half of that, because a portion may have twice as many; see `_portions`."""

_ENCODED_BATCHES = 16

_AHEAD = 2
"""Blocks queued per thread, so that no thread waits for the next one."""

_STEP = 512
"""A tile has a multiple of so many candidates, so that compiled loops over some of them end with few remainders."""

_MATRIX_BATCH = 512
_BYTES_PER_SCORE = 24
"""For the scorer's own matrix, a writable copy, and comparisons."""


def count(scorer: AnyScorer, task: Task, resources: Resources, progress: Progress = lambda targets: None) -> Counts:
    """For each target of the task, the numbers of better, equal and all other candidates.

    The result does not depend on the resources. Counts over disjoint ranges of entities add up to those over their
    union.
    """
    if not isinstance(scorer, EmbeddingScorer | RelationEmbeddingScorer):
        return count_matrix(scorer, task, backend_for(resources.device), resources, progress)
    products = len(task.queries) * len(task.entities) if isinstance(scorer.similarity, Dot) else 0
    backend = backend_for(resources.device, products, resources.memory)
    return count_embedding(scorer, task, backend, resources, progress)


def count_embedding(
    scorer: AnyEmbeddingScorer, task: Task, backend: Backend, resources: Resources, progress: Progress
) -> Counts:
    """The counts of all targets by an embedding model."""
    by_tiles = isinstance(task.sets, QueryCandidates) or isinstance(scorer.similarity, ClampedDot)
    if is_fused(backend) and not by_tiles:
        from kgprobe.predict.fused_engine import count_fused

        counts = count_fused(scorer, task, backend, resources, progress)
    else:
        counts = _count_tiles(scorer, task, backend, resources, progress)
    return counts.reversed if isinstance(scorer.similarity, FarthestNorm) else counts


def _count_tiles(
    scorer: AnyEmbeddingScorer, task: Task, backend: Backend, resources: Resources, progress: Progress
) -> Counts:
    """The counts of all targets, in blocks of queries on all threads."""
    counts = Counts.zeros(len(task.queries.query))
    workers = resources.workers if resources.device == "cpu" else 1
    pending: deque[tuple[QueryBlock, Future[Counted]]] = deque()

    def collect(most: int) -> None:
        """Wait until at most this many blocks are pending."""
        while len(pending) > most:
            block, counted = pending.popleft()
            counts.put(block.targets, *counted.result())
            progress(len(block.row))

    with single_blas_thread(), ThreadPoolExecutor(workers) as pool:
        try:
            for table in tables(scorer, task, backend, pool):
                for sweep, block in _blocks(
                    scorer, task, table, backend, _Shape.of(resources, workers, backend, table)
                ):
                    pending.append((block, pool.submit(sweep.count, block)))
                    collect(most=_AHEAD * workers)
                if isinstance(scorer, RelationEmbeddingScorer):
                    collect(most=0)  # the next table may reuse the memory of this one
            collect(most=0)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return counts


@dataclass(frozen=True, eq=False)
class CandidateTable:
    """Queries that share their candidates.

    Attributes:
        shared: The queries and the entities that are their candidates.
        entities: The embeddings of all entities for these queries, in memory or in files.
        candidates: The embeddings of the candidates on the device of the backend.
        magnitude: The magnitudes of the candidates, which bound the error of a score.
    """

    shared: SharedCandidates
    entities: Singles | StoredTable
    candidates: Any
    magnitude: Floats


def tables(
    scorer: AnyEmbeddingScorer, task: Task, backend: Backend, pool: ThreadPoolExecutor
) -> Iterator[CandidateTable]:
    """One table for all queries, or one per relation where candidates depend on the relation."""
    similarity, last, entities, magnitude = scorer.similarity, None, np.empty((0, 0), dtype=np.float32), np.empty(0)
    for shared in shared_candidates(scorer, task):
        if isinstance(shared.values, StoredTable):
            candidates, own = read(shared, similarity, pool)
            yield CandidateTable(shared, shared.values, backend.to_device(candidates), own)
            continue
        # A scorer may reuse the memory of the candidates of one relation for those of the next.
        if isinstance(scorer, RelationEmbeddingScorer) or shared.values is not last:
            last, entities = shared.values, on_host(shared.values, task)
            magnitude = magnitudes(entities, similarity, task, pool)
        ids = shared.columns.entities
        own = magnitude if isinstance(ids, range) else magnitude[ids - task.entities.start]
        yield CandidateTable(shared, entities, backend.to_device(entities[shared.columns.index]), own)


class _Shape(NamedTuple):
    """How the work is divided: queries of a block, candidates of a tile, and pairs that are decided at a time."""

    batch: int
    tile: int
    pairs: int

    @classmethod
    def of(cls, resources: Resources, workers: int, backend: Backend, table: CandidateTable) -> _Shape:
        """The shape with which all threads get the same number of blocks, of nearly equal size."""
        shared, memory = table.shared, resources.memory // workers
        most, scores = backend.shape(len(shared.columns), shared.dimension, memory)
        most = max(1, min(most, scores // (resources.tile or 1)))
        blocks = workers * -(-len(shared.queries) // (workers * most))
        batch = resources.batch or -(-len(shared.queries) // blocks)
        pairs = memory // _BYTES_PER_PAIR
        tile = max(1, min(scores // batch, pairs))  # all candidates of a tile may be undecided for a target
        if tile < len(shared.columns):
            tile -= tile % min(tile, _STEP)
        return cls(batch, resources.tile or tile, min(_UNDECIDED_AT_ONCE, pairs))


def _blocks(
    scorer: AnyEmbeddingScorer, task: Task, table: CandidateTable, backend: Backend, shape: _Shape
) -> Iterator[tuple[_Sweep, QueryBlock]]:
    """The blocks of queries of a table, which are independent of each other."""
    batches = encoded(scorer, task, table.shared)
    # Several batches are encoded before they are counted: the threads of an encoder would wait for those that count.
    while some := list(islice(batches, _ENCODED_BATCHES)):
        first = some[0][0]
        queries = np.concatenate([as_embeddings(values, len(values), "queries") for _, values in some])
        if np.isnan(queries).any():
            raise task.nan_error(np.flatnonzero(np.isnan(queries).any(axis=1)) + first)
        sweep, last = _Sweep(task, scorer.similarity, backend, table, queries, first, shape), first + len(queries)
        for start in range(first, last, shape.batch):
            yield sweep, QueryBlock(task, table.shared.columns, start, min(start + shape.batch, last))


@dataclass(frozen=True, eq=False)
class _Sweep:
    """Counts blocks of queries, ``first`` being the index of the first query."""

    task: Task
    similarity: Similarity
    backend: Backend
    table: CandidateTable
    queries: Singles
    first: int
    shape: _Shape

    def count(self, block: QueryBlock) -> Counted:
        queries = self.queries[block.start - self.first : block.stop - self.first]
        tally = _Tally.of(self, block, queries)
        if isinstance(self.task.sets, QueryCandidates):
            which, column = block.listed(self.task.sets)
            tally.decide(which, column)
            return tally.counted(np.bincount(which, minlength=len(block.row)), itself=0)
        magnitude = self.similarity.magnitude(queries)
        for start in range(0, len(block.columns), self.shape.tile):
            self._count_tile(block, tally, magnitude, start, min(start + self.shape.tile, len(block.columns)))
        return tally.counted(block.others, itself=block.counts_itself >= 0)

    def _count_tile(self, block: QueryBlock, tally: _Tally, magnitude: Floats, start: int, stop: int) -> None:
        scores = self.backend.scores(self.similarity, tally.queries, self.table.candidates[start:stop])
        bounds = self._bounds(tally, magnitude, scores, float(self.table.magnitude[start:stop].max()))
        self.backend.mask(scores, *block.filtered(start, stop))
        above, within = self.backend.count(scores, bounds)
        np.add(tally.greater, above, out=tally.greater)
        itself = tally.itself - start
        undecided = np.flatnonzero(within > ((itself >= 0) & (itself < stop - start)))
        for some in _portions(undecided, within[undecided], self.shape.pairs):
            position, column = self.backend.within(scores, bounds.part(some), int(within[some].sum()))
            which = some[position]
            others = column != itself[which]
            tally.decide(which[others], column[others] + start)

    def _bounds(self, tally: _Tally, magnitude: Floats, scores: Any, candidate: float) -> Bounds:
        """The bounds of each target; infinite where the scores of its row may have overflowed."""
        dimension, row = self.queries.shape[1], tally.block.row
        low, high = self.similarity.thresholds(tally.own, magnitude[row], candidate, dimension)
        overflow = self.similarity.may_overflow(magnitude, candidate, dimension)
        if overflow.any():
            self.backend.clear_rows(scores, np.flatnonzero(overflow))
            low[overflow[row]], high[overflow[row]] = -np.inf, np.inf
        return Bounds(row, low, high, tally.own)

    def refuse_nan(self, block: QueryBlock, row: Ints, scores: Singles) -> None:
        """Raise a DataError if scores of these rows of a block are NaN."""
        if np.isnan(scores).any():
            if not isinstance(self.table.entities, StoredTable):  # perhaps of targets in another range of entities
                require_numbers(self.table.entities, self.similarity, self.task)
            raise self.task.nan_error(row[np.isnan(scores)] + block.start)


@dataclass(frozen=True, eq=False)
class _Tally:
    """The counts of the targets of a block so far.

    Attributes:
        own: The canonical scores of the targets, clamped if the similarity is.
        beyond: 1 for targets whose score is at the upper limit of clamped scores or beyond it, -1 at the lower, else 0.
        itself: The columns of targets that tie with themselves; -1 for all others. A target beyond a limit is counted
            as any candidate.
    """

    sweep: _Sweep
    block: QueryBlock
    queries: Any
    own: Singles
    beyond: Ints
    itself: Ints
    greater: Ints
    equal: Ints

    @classmethod
    def of(cls, sweep: _Sweep, block: QueryBlock, embeddings: Singles) -> _Tally:
        queries = sweep.backend.to_device(embeddings)
        targets = sweep.backend.to_device(sweep.table.entities[block.target])
        own = sweep.backend.canonical(sweep.similarity, queries, block.row, targets, np.arange(len(block.target)))
        sweep.refuse_nan(block, block.row, own)
        beyond = np.zeros(len(own), np.int64)
        if isinstance(sweep.similarity, ClampedDot):
            limit = np.float32(sweep.similarity.limit)
            beyond += (own >= limit).astype(np.int64) - (own <= -limit)
            own = np.clip(own, -limit, limit)
        itself = np.where(beyond == 0, block.counts_itself, -1)
        return cls(sweep, block, queries, own, beyond, itself, *np.zeros((2, len(own)), np.int64))

    def counted(self, others: Ints, itself: Ints | Flags | int) -> Counted:
        """The counts of the targets, for these numbers of other candidates.

        Candidates beyond a limit tie with the targets there, whether their scores are greater or equal.

        Args:
            others: The number of candidates of each target besides itself.
            itself: Whether a target beyond a limit has been counted as a candidate.
        """
        high, low = self.beyond > 0, self.beyond < 0
        equal = np.where(high, self.greater + self.equal - itself, np.where(low, others - self.greater, self.equal))
        return np.where(high, 0, self.greater), equal, others

    def decide(self, which: Ints, column: Ints) -> None:
        """Count pairs of a target and a candidate by their canonical scores."""
        row, sweep = self.block.row[which], self.sweep
        scores = sweep.backend.canonical(sweep.similarity, self.queries, row, sweep.table.candidates, column)
        sweep.refuse_nan(self.block, row, scores)
        for counts, pairs in ((self.greater, scores > self.own[which]), (self.equal, scores == self.own[which])):
            np.add(counts, np.bincount(which[pairs], minlength=len(counts)), out=counts)


def _portions(targets: Ints, pairs: Ints, most: int) -> list[Ints]:
    """Split targets into portions with less than ``most`` pairs and those of one target, which bounds memory."""
    if not len(targets):
        return []
    portion = np.cumsum(pairs) // most
    return np.split(targets, np.flatnonzero(np.diff(portion)) + 1)


def count_matrix(scorer: Scorer, task: Task, backend: Backend, resources: Resources, progress: Progress) -> Counts:
    """The counts of all targets by a scorer that returns score matrices, in batches of queries."""
    counts = Counts.zeros(len(task.queries.query))
    batch = matrix_batch(scorer, task.graph, resources)
    for queries, columns in task.runs():
        for start in range(queries.start, queries.stop, batch):
            block = QueryBlock(task, columns, start, min(start + batch, queries.stop))
            counts.put(block.targets, *_count_block(block, _scores(scorer, block, backend), backend))
            progress(len(block.row))
    return counts


def matrix_batch(scorer: Scorer, graph: KnowledgeGraph, resources: Resources) -> int:
    """The number of queries whose scores are asked for in one call."""
    each = getattr(scorer, "bytes_per_query", 0) + _BYTES_PER_SCORE * graph.num_entities
    return resources.queries(each, _MATRIX_BATCH)


def _scores(scorer: Scorer, block: QueryBlock, backend: Backend) -> Any:
    """The scores of all entities for the queries of the block, writable."""
    queries, some = block.task.queries, slice(block.start, block.stop)
    matrix = scorer.score(queries.side, queries.given[some], queries.relation[some])
    shape = block.stop - block.start, block.task.graph.num_entities
    remedy = "a scorer returns a row for each query and a column for each entity of the graph"
    scores = backend.copy_of(as_matrix(matrix, *shape, "scores", remedy))
    broken = backend.nan_rows(scores)
    if len(broken):
        raise block.task.nan_error(broken + block.start)
    return scores


def _count_block(block: QueryBlock, scores: Any, backend: Backend) -> Counted:
    own = backend.take(scores, block.row, block.target)
    scores = scores[:, block.columns.index]
    if isinstance(block.task.sets, QueryCandidates):
        which, column = block.listed(block.task.sets)
        score = backend.take(scores, block.row[which], column)
        pairs = (score > own[which], score == own[which], np.ones(len(which), dtype=bool))
        greater, equal, others = (np.bincount(which[flags], minlength=len(own)) for flags in pairs)
        return greater, equal, others
    backend.mask(scores, *block.filtered(0, len(block.columns)))
    above, within = backend.count(scores, Bounds(block.row, own, own, own))
    return above, within - (block.counts_itself >= 0), block.others
