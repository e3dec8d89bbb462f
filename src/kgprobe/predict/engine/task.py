"""What the engine is asked to count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.sorted_keys import find, run_starts
from kgprobe.predict.candidate_sets import CandidateSets, RelationCandidates
from kgprobe.predict.facts import Queries
from kgprobe.predict.filter import KnownFilter

Ints: TypeAlias = NDArray[np.int64]
Watch: TypeAlias = Callable[[int], None]
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
