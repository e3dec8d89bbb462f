"""Some queries at a time: their targets, and what the filter takes out of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kgprobe.graph.sorted_keys import find, pair_keys
from kgprobe.predict.candidate_sets import QueryCandidates
from kgprobe.predict.engine.task import Columns, Ints, Task


@dataclass(frozen=True, eq=False)
class Block:
    """The queries from ``start`` up to ``stop`` (not included), against the entities in the columns."""

    task: Task
    columns: Columns
    start: int
    stop: int

    @cached_property
    def targets(self) -> slice:
        """The targets of these queries."""
        first, last = np.searchsorted(self.task.queries.query, [self.start, self.stop])
        return slice(int(first), int(last))

    @cached_property
    def row(self) -> Ints:
        """For each target, the row of its query in the block."""
        return self.task.queries.query[self.targets] - self.start

    @cached_property
    def target(self) -> Ints:
        """The targets as entities."""
        return self.task.queries.target[self.targets]

    @cached_property
    def column(self) -> Ints:
        """The column of each target, -1 where it has none."""
        return self.columns.position(self.target)

    @cached_property
    def _known(self) -> tuple[Ints, Ints]:
        offsets, entities = self.task.queries.known_rows(self.task.known, self.start, self.stop)
        column = self.columns.position(entities)
        row = np.repeat(np.arange(self.stop - self.start), np.diff(offsets))
        return row[column >= 0], column[column >= 0]

    def _is_known(self, row: Ints, column: Ints) -> NDArray[np.bool_]:
        width = max(len(self.columns), 1)
        return find(pair_keys(*self._known, width), pair_keys(row, column, width)) >= 0

    @cached_property
    def counts_itself(self) -> Ints:
        """The columns of targets that the filter leaves in, where they would be counted; -1 for all others."""
        return np.where(self._is_known(self.row, self.column), -1, self.column)

    @cached_property
    def others(self) -> Ints:
        """How many candidates each target has beside itself."""
        left = len(self.columns) - np.bincount(self._known[0], minlength=self.stop - self.start)
        return left[self.row] - (self.counts_itself >= 0)

    @cached_property
    def _known_by_column(self) -> tuple[Ints, Ints]:
        row, column = self._known
        order = np.argsort(column, kind="stable")
        return row[order], column[order]

    def filtered(self, first: int, last: int) -> tuple[Ints, Ints]:
        """What the filter takes out of the columns ``first`` up to ``last``: rows, and columns counted from first."""
        row, column = self._known_by_column
        some = slice(*np.searchsorted(column, [first, last]))
        return row[some], column[some] - first

    def listed(self, sets: QueryCandidates) -> tuple[Ints, Ints]:
        """The candidates that are listed for each target, without it and what the filter takes out.

        Returns:
            Positions among the targets, and columns.
        """
        queries = self.task.queries
        offsets, entities = sets.ids(queries.side, queries.fact[self.targets])
        which, column = np.repeat(np.arange(len(self.row)), np.diff(offsets)), self.columns.position(entities)
        left = (column >= 0) & (column != self.column[which]) & ~self._is_known(self.row[which], column)
        return which[left], column[left]
