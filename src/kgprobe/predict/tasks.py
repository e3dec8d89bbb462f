"""What the engine counts: tasks, blocks of queries, and counts that add up over disjoint entities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import Ints, find, pair_keys, run_starts
from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.candidates import CandidateSets, QueryCandidates, RelationCandidates
from kgprobe.predict.filters import KnownFilter
from kgprobe.predict.queries import Queries


@dataclass(frozen=True, eq=False)
class Counts:
    """For every target: how many other candidates are better, how many tie with it, how many there are.

    Counted over a range of entities; the counts of disjoint ranges add up to those of their union.

    Example:
        >>> part = Counts(greater=np.array([3]), equal=np.array([1]), others=np.array([50]))
        >>> whole = part + part
        >>> whole.rank.tolist(), whole.candidates.tolist()
        ([8.0], [101])
    """

    greater: Ints
    equal: Ints
    others: Ints

    @classmethod
    def zeros(cls, targets: int) -> Counts:
        """Nothing counted yet."""
        return cls(*(np.zeros(targets, dtype=np.int64) for _ in range(3)))

    def put(self, targets: slice, greater: Ints, equal: Ints, others: Ints) -> None:
        """Fill in what was counted for some of the targets."""
        self.greater[targets], self.equal[targets], self.others[targets] = greater, equal, others

    def at(self, targets: Ints) -> Counts:
        """The counts of the targets in another order."""
        return Counts(self.greater[targets], self.equal[targets], self.others[targets])

    def __add__(self, more: Counts) -> Counts:
        return Counts(self.greater + more.greater, self.equal + more.equal, self.others + more.others)

    @property
    def rank(self) -> NDArray[np.float64]:
        """Mean rank of the target over its tie group."""
        return 1 + self.greater + self.equal / 2

    @property
    def candidates(self) -> Ints:
        """How many candidates there are, the target included."""
        return 1 + self.others


"""Called with how many targets have been counted since the last call."""

_NAMED = 8


@dataclass(frozen=True, eq=False)
class Task:
    """The queries of one side, what they may be answered with, and what is filtered.

    Attributes:
        graph: The graph, for its size and its names.
        queries: The queries and their targets.
        known: The filter.
        sets: The candidates, where they are not all entities.
        entities: The entities to count over; parts over disjoint ranges add up.
    """

    graph: KnowledgeGraph
    queries: Queries
    known: KnownFilter
    sets: CandidateSets | None
    entities: range

    def runs(self, *, apart: bool = False) -> Iterator[tuple[range, Columns]]:
        """Queries that have their candidates in common: all of them, or those of one relation after the other.

        Args:
            apart: Whether relations are kept apart even where their candidates are the same entities.
        """
        apart = apart or isinstance(self.sets, RelationCandidates)
        starts = run_starts(self.queries.relation)[: None if apart else 1]
        for start, stop in zip(starts, np.append(starts[1:], len(self.queries)), strict=False):
            yield range(start, stop), self._columns(int(self.queries.relation[start]))

    def _columns(self, relation: int) -> Columns:
        if isinstance(self.sets, RelationCandidates):
            return Columns(self.sets.ids(self.queries.side, relation)).within(self.entities)
        return Columns(self.entities)

    def not_a_number(self, queries: Ints) -> DataError:
        """What is said when scores of these queries are NaN."""
        first = np.unique(queries)[:_NAMED]
        given = self.graph.entity_label(self.queries.given[first])
        relation = self.graph.relation_label(self.queries.relation[first])
        form = "({given}, {relation}, ?)" if self.queries.side == "tail" else "(?, {relation}, {given})"
        named = [form.format(given=g, relation=r) for g, r in zip(given, relation, strict=True)]
        more = len(np.unique(queries)) - len(named)
        return DataError(
            "scores are NaN, so nothing can be ranked",
            [f"query {name}" for name in named] + ([f"and {more:,} more found so far"] if more else []),
            "look for the cause in the model: a division by zero, an overflow, a training that diverged",
        )


@dataclass(frozen=True, eq=False)
class Columns:
    """Which entity is in which column of a score tile.

    Attributes:
        entities: The entities in ascending order: a range, or an array of ids.

    Example:
        >>> Columns(range(10, 20)).position(np.array([12, 30])).tolist()
        [2, -1]
        >>> Columns(np.array([3, 7])).within(range(5, 9)).position(np.array([7])).tolist()
        [0]
    """

    entities: range | Ints

    def __len__(self) -> int:
        return len(self.entities)

    def within(self, entities: range) -> Columns:
        """Only the columns of entities in a range."""
        if isinstance(self.entities, range):
            return Columns(range(max(self.entities.start, entities.start), min(self.entities.stop, entities.stop)))
        first, last = np.searchsorted(self.entities, [entities.start, entities.stop])
        return Columns(self.entities[first:last])

    def position(self, entities: NDArray[np.integer]) -> Ints:
        """The column of each entity, -1 where it has none."""
        if isinstance(self.entities, range):
            inside = (entities >= self.entities.start) & (entities < self.entities.stop)
            return np.where(inside, entities - self.entities.start, -1).astype(np.int64)
        return find(self.entities, entities)

    @property
    def index(self) -> slice | Ints:
        """What takes these columns from an array with all entities."""
        if isinstance(self.entities, range):
            return slice(self.entities.start, max(self.entities.start, self.entities.stop))
        return self.entities


@dataclass(frozen=True, eq=False)
class QueryBlock:
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
