"""The ranking engine: scores in tiles, counted, never sorted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from kgprobe.arrays import Floats, Ints
from kgprobe.errors import DataError, spans
from kgprobe.predict.backends.backend import Backend, Bounds, backend_for
from kgprobe.predict.candidates import QueryCandidates
from kgprobe.predict.scorers import (
    AnyScorer,
    EmbeddingScorer,
    RelationEmbeddingScorer,
    Scorer,
    Similarity,
    Singles,
    as_matrix,
    as_vectors,
)
from kgprobe.predict.tasks import Columns, Counts, QueryBlock, Task
from kgprobe.resources import Progress, Resources, single_blas_thread


@dataclass(frozen=True, eq=False)
class CandidateTable:
    """Queries that have their candidates in common.

    Attributes:
        queries: The queries.
        vectors: The vectors of all entities, as these queries see them.
        extent: Their extents.
        columns: The entities that are candidates.
    """

    queries: range
    vectors: Singles
    extent: Floats
    columns: Columns


def tables(scorer: EmbeddingScorer | RelationEmbeddingScorer, task: Task) -> Iterator[CandidateTable]:
    """All queries at once, or one relation after the other where relations differ in their candidates."""
    vectors_of = _vectors_of(scorer, task)
    for queries, columns in task.runs(apart=isinstance(scorer, RelationEmbeddingScorer)):
        yield CandidateTable(queries, *vectors_of(int(task.queries.relation[queries.start])), columns)


def _vectors_of(
    scorer: EmbeddingScorer | RelationEmbeddingScorer, task: Task
) -> Callable[[int], tuple[Singles, Floats]]:
    """The vectors of all entities, as queries of a relation see them, with their extents."""
    side, entities = task.queries.side, task.graph.num_entities

    def checked(values: object) -> tuple[Singles, Floats]:
        vectors = as_vectors(values, entities, f"candidates for the {side} (the graph has {entities:,} entities)")
        return vectors, _checked_extent(vectors, scorer.similarity, task)

    if isinstance(scorer, RelationEmbeddingScorer):
        return lambda relation: checked(scorer.candidates_for(side, relation))
    shared = checked(scorer.candidates(side))
    return lambda relation: shared


def _checked_extent(vectors: Singles, similarity: Similarity, task: Task) -> Floats:
    problem = similarity.problem(vectors.shape[1])
    if problem:
        raise DataError("the model's candidates cannot be compared", [problem])
    extent = similarity.extent(vectors)
    # The extent of a vector is NaN where one of its coordinates is.
    broken = np.flatnonzero(np.isnan(extent))
    if len(broken):
        names = ", ".join(task.graph.entity_label(broken[:8]))
        raise DataError(
            "scores are NaN, so nothing can be ranked",
            [f"vectors of {len(broken):,} entities hold NaN: ids {spans(broken.tolist(), 8)} ({names})"],
            "look for the cause in the model: a training that diverged, a table that was not filled",
        )
    return extent


_UNCLEAR_AT_ONCE = 1 << 21


@dataclass(frozen=True, eq=False)
class CandidateRows:
    """The candidates that some queries have in common.

    Attributes:
        vectors: The vectors of all entities.
        placed: The vectors of the candidates, where the arithmetic computes.
        extent: Their extents, from which the error of a score follows.
    """

    vectors: Singles
    placed: Any
    extent: Floats


@dataclass(frozen=True, eq=False)
class Sweep:
    """Counts for blocks of queries.

    Attributes:
        task: What is counted.
        similarity: How vectors are compared.
        arithmetic: Where that is computed.
        candidates: The candidates of the queries.
        queries: The vectors of the queries.
        first: The first of them among all queries of the task.
        tile: How many candidates at a time.
    """

    task: Task
    similarity: Similarity
    arithmetic: Backend
    candidates: CandidateRows
    queries: Singles
    first: int
    tile: int

    def count(self, block: QueryBlock) -> tuple[Ints, Ints, Ints]:
        """For each target of the block: how many candidates are greater, how many equal, how many there are."""
        queries = self.queries[block.start - self.first : block.stop - self.first]
        tally = _Tally.of(self, block, queries)
        if isinstance(self.task.sets, QueryCandidates):
            which, column = block.listed(self.task.sets)
            tally.settle(which, column)
            return tally.greater, tally.equal, np.bincount(which, minlength=len(block.row))
        extent = self.similarity.extent(queries)
        for start in range(0, len(block.columns), self.tile):
            self._count_tile(block, tally, extent, start, min(start + self.tile, len(block.columns)))
        return tally.greater, tally.equal, block.others

    def _count_tile(self, block: QueryBlock, tally: _Tally, queries: Floats, start: int, stop: int) -> None:
        scores = self.arithmetic.scores(self.similarity, tally.queries, self.candidates.placed[start:stop])
        bounds = self._bounds(tally, queries, scores, float(self.candidates.extent[start:stop].max()))
        self.arithmetic.mask(scores, *block.filtered(start, stop))
        above, within = self.arithmetic.count(scores, bounds)
        tally.add(above)
        itself = block.counts_itself - start
        unclear = np.flatnonzero(within > ((itself >= 0) & (itself < stop - start)))
        for some in _portions(unclear, within[unclear]):
            position, column = self.arithmetic.within(scores, bounds.part(some), int(within[some].sum()))
            which = some[position]
            others = column != itself[which]
            tally.settle(which[others], column[others] + start)

    def _bounds(self, tally: _Tally, queries: Floats, scores: Any, candidate: float) -> Bounds:
        """Between which scores candidates are unclear: all of them, where the scores of a row say nothing."""
        dimension, row = self.queries.shape[1], tally.block.row
        low, high = self.similarity.thresholds(tally.own, queries[row], candidate, dimension)
        silent = self.similarity.silent(queries, candidate, dimension)
        if silent.any():
            self.arithmetic.silence(scores, np.flatnonzero(silent))
            low[silent[row]], high[silent[row]] = -np.inf, np.inf
        return Bounds(row, low, high)


@dataclass(frozen=True, eq=False)
class _Tally:
    """What has been counted for the targets of a block.

    Attributes:
        sweep: The pass that counts.
        block: The targets.
        queries: The vectors of their queries, where the arithmetic computes.
        own: Their scores of record.
        greater: How many candidates are better.
        equal: How many candidates tie.
    """

    sweep: Sweep
    block: QueryBlock
    queries: Any
    own: Singles
    greater: Ints
    equal: Ints

    @classmethod
    def of(cls, sweep: Sweep, block: QueryBlock, queries: Singles) -> _Tally:
        placed = sweep.arithmetic.place(queries)
        targets = sweep.arithmetic.place(sweep.candidates.vectors[block.target])
        own = sweep.arithmetic.record(sweep.similarity, placed, block.row, targets, np.arange(len(block.target)))
        _require_numbers(block, block.row, own)
        return cls(sweep, block, placed, own, np.zeros(len(own), np.int64), np.zeros(len(own), np.int64))

    def add(self, greater: Ints) -> None:
        """Count candidates that are clearly better."""
        np.add(self.greater, greater, out=self.greater)

    def settle(self, which: Ints, column: Ints) -> None:
        """Decide pairs of a target and a candidate by their scores of record."""
        row = self.block.row[which]
        sweep = self.sweep
        record = sweep.arithmetic.record(sweep.similarity, self.queries, row, sweep.candidates.placed, column)
        _require_numbers(self.block, row, record)
        self.add(np.bincount(which[record > self.own[which]], minlength=len(self.own)))
        np.add(self.equal, np.bincount(which[record == self.own[which]], minlength=len(self.own)), out=self.equal)


def _require_numbers(block: QueryBlock, row: Ints, scores: Singles) -> None:
    if np.isnan(scores).any():
        raise block.task.not_a_number(row[np.isnan(scores)] + block.start)


def _portions(targets: Ints, pairs: Ints) -> list[Ints]:
    """The targets in portions that have not too many pairs together, so that memory is bounded."""
    if not len(targets):
        return []
    portion = np.cumsum(pairs) // _UNCLEAR_AT_ONCE
    return np.split(targets, np.flatnonzero(np.diff(portion)) + 1)


Counted: TypeAlias = tuple[Ints, Ints, Ints]

_ENCODED_AT_ONCE = 1 << 18

"""Coordinates of queries that are encoded in one call. It is the same whatever the resources are, so that an encoder
whose last bit depends on what else it encodes gives the same vectors in every run."""

_AHEAD = 2

"""Blocks that wait for each thread, so that none is idle while queries are encoded."""

_BATCH, _CELLS = 1024, 1 << 20

_DEVICE_BATCH, _DEVICE_CELLS = 1 << 14, 1 << 27

_BYTES_A_CELL = 32


def count_embedding(
    scorer: EmbeddingScorer | RelationEmbeddingScorer,
    task: Task,
    arithmetic: Backend,
    resources: Resources,
    progress: Progress,
) -> Counts:
    """The counts of all targets, some queries at a time in every thread."""
    counts = Counts.zeros(len(task.queries.query))
    workers = resources.workers if resources.device == "cpu" else 1
    pending: deque[tuple[QueryBlock, Future[Counted]]] = deque()

    def collect(most: int) -> None:
        """Wait until not more than so many blocks are under way."""
        while len(pending) > most:
            block, counted = pending.popleft()
            counts.put(block.targets, *counted.result())
            progress(len(block.row))

    with ThreadPoolExecutor(workers) as pool:
        try:
            for table in tables(scorer, task):
                for sweep, block in _blocks(scorer, task, table, arithmetic, _shape(resources, workers, table)):
                    pending.append((block, pool.submit(sweep.count, block)))
                    collect(most=_AHEAD * workers)
                if isinstance(scorer, RelationEmbeddingScorer):
                    collect(most=0)  # the next table may take the place of this one in memory
            collect(most=0)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return counts


def _blocks(
    scorer: EmbeddingScorer | RelationEmbeddingScorer,
    task: Task,
    table: CandidateTable,
    arithmetic: Backend,
    shape: tuple[int, int],
) -> Iterator[tuple[Sweep, QueryBlock]]:
    """What is to be counted, in pieces that are independent of each other."""
    batch, tile = shape
    candidates = _candidates(table, arithmetic)
    for first, queries in _encoded(scorer, task, table):
        sweep = Sweep(task, scorer.similarity, arithmetic, candidates, queries, first, tile)
        for start in range(first, first + len(queries), batch):
            yield sweep, QueryBlock(task, table.columns, start, min(start + batch, first + len(queries)))


def _candidates(table: CandidateTable, arithmetic: Backend) -> CandidateRows:
    chosen = table.columns.index
    return CandidateRows(table.vectors, arithmetic.place(table.vectors[chosen]), table.extent[chosen])


def _encoded(
    scorer: EmbeddingScorer | RelationEmbeddingScorer, task: Task, table: CandidateTable
) -> Iterator[tuple[int, Singles]]:
    """The vectors of the queries, some at a time, each time with the first of them."""
    dimension = table.vectors.shape[1]
    step = max(1, _ENCODED_AT_ONCE // dimension)
    for start in range(table.queries.start, table.queries.stop, step):
        some = slice(start, min(start + step, table.queries.stop))
        given, relation = task.queries.given[some], task.queries.relation[some]
        encoded = scorer.encode_queries(task.queries.side, given, relation)
        # A copy: the encoder may use its memory again while these are still being compared.
        vectors = as_vectors(encoded, len(given), "queries", dimension).copy()
        if np.isnan(vectors).any():
            raise task.not_a_number(np.flatnonzero(np.isnan(vectors).any(axis=1)) + start)
        yield start, vectors


def _shape(resources: Resources, workers: int, table: CandidateTable) -> tuple[int, int]:
    """How many queries and how many candidates at a time: a tile that stays in cache, work for every thread."""
    most, cells = (_BATCH, _CELLS) if resources.device == "cpu" else (_DEVICE_BATCH, _DEVICE_CELLS)
    cells = max(1, min(cells, resources.memory // (workers * _BYTES_A_CELL)))
    batch = resources.batch or max(1, min(most, cells // (resources.tile or 1), -(-len(table.queries) // workers)))
    return batch, resources.tile or max(1, cells // batch)


_MATRIX_BATCH = 512

_BYTES_A_SCORE = 24

"""The scorer's own matrix, a copy to write into, and comparisons."""


def count_matrix(scorer: Scorer, task: Task, arithmetic: Backend, resources: Resources, progress: Progress) -> Counts:
    """The counts of all targets, some queries at a time."""
    counts = Counts.zeros(len(task.queries.query))
    each = getattr(scorer, "bytes_per_query", 0) + _BYTES_A_SCORE * task.graph.num_entities
    batch = resources.queries(each, _MATRIX_BATCH)
    for queries, columns in task.runs():
        for start in range(queries.start, queries.stop, batch):
            block = QueryBlock(task, columns, start, min(start + batch, queries.stop))
            counts.put(block.targets, *_count_block(block, _scores(scorer, block, arithmetic), arithmetic))
            progress(len(block.row))
    return counts


def _scores(scorer: Scorer, block: QueryBlock, arithmetic: Backend) -> Any:
    """The scores of all entities for the queries of the block, to write into."""
    queries, some = block.task.queries, slice(block.start, block.stop)
    given = scorer.score(queries.side, queries.given[some], queries.relation[some])
    wanted = block.stop - block.start, block.task.graph.num_entities
    remedy = "a scorer gives a row for each query and a column for each entity of the graph"
    scores = arithmetic.adopt(as_matrix(given, *wanted, "scores", remedy))
    broken = arithmetic.not_numbers(scores)
    if len(broken):
        raise block.task.not_a_number(broken + block.start)
    return scores


def _count_block(block: QueryBlock, scores: Any, arithmetic: Backend) -> tuple[Ints, Ints, Ints]:
    own = arithmetic.take(scores, block.row, block.target)
    scores = scores[:, block.columns.index]
    if isinstance(block.task.sets, QueryCandidates):
        which, column = block.listed(block.task.sets)
        score = arithmetic.take(scores, block.row[which], column)
        tally = (score > own[which], score == own[which], np.ones(len(which), dtype=bool))
        greater, equal, others = (np.bincount(which[flags], minlength=len(own)) for flags in tally)
        return greater, equal, others
    arithmetic.mask(scores, *block.filtered(0, len(block.columns)))
    above, within = arithmetic.count(scores, Bounds(block.row, own, own))
    return above, within - (block.counts_itself >= 0), block.others


def count(scorer: AnyScorer, task: Task, resources: Resources, progress: Progress = lambda targets: None) -> Counts:
    """Count, for every target of the task, the candidates that are better, equal, or there at all.

    The result does not depend on the resources. Counts over disjoint ranges of entities add up to those over their
    union.
    """
    arithmetic = backend_for(resources.device)
    if not isinstance(scorer, EmbeddingScorer | RelationEmbeddingScorer):
        return count_matrix(scorer, task, arithmetic, resources, progress)
    with single_blas_thread():
        return count_embedding(scorer, task, arithmetic, resources, progress)
