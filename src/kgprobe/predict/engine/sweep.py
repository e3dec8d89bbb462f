"""One pass of some encoded queries over their candidates, tile by tile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kgprobe.predict.arithmetic import Arithmetic, Bounds
from kgprobe.predict.candidate_sets import QueryCandidates
from kgprobe.predict.engine.block import Block
from kgprobe.predict.engine.task import Ints, Task
from kgprobe.predict.similarity import Doubles, Floats, Similarity

_UNCLEAR_AT_ONCE = 1 << 21


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidates that some queries have in common.

    Attributes:
        vectors: The vectors of all entities.
        placed: The vectors of the candidates, where the arithmetic computes.
        extent: Their extents, from which the error of a score follows.
    """

    vectors: Floats
    placed: Any
    extent: Doubles


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
    arithmetic: Arithmetic
    candidates: Candidates
    queries: Floats
    first: int
    tile: int

    def count(self, block: Block) -> tuple[Ints, Ints, Ints]:
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

    def _count_tile(self, block: Block, tally: _Tally, queries: Doubles, start: int, stop: int) -> None:
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

    def _bounds(self, tally: _Tally, queries: Doubles, scores: Any, candidate: float) -> Bounds:
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
    block: Block
    queries: Any
    own: Floats
    greater: Ints
    equal: Ints

    @classmethod
    def of(cls, sweep: Sweep, block: Block, queries: Floats) -> _Tally:
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


def _require_numbers(block: Block, row: Ints, scores: Floats) -> None:
    if np.isnan(scores).any():
        raise block.task.not_a_number(row[np.isnan(scores)] + block.start)


def _portions(targets: Ints, pairs: Ints) -> list[Ints]:
    """The targets in portions that have not too many pairs together, so that memory is bounded."""
    if not len(targets):
        return []
    portion = np.cumsum(pairs) // _UNCLEAR_AT_ONCE
    return np.split(targets, np.flatnonzero(np.diff(portion)) + 1)
