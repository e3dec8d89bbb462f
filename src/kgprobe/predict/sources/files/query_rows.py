"""Rows that were made for queries elsewhere, row by row with triples: found again by what a query asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.errors import DataError, spans
from kgprobe.graph.sorted_keys import Ints, find, pair_keys
from kgprobe.predict.scorer import Side

TRIPLES = "triples"
"""The array that may say for which triples the rows were made."""

_GIVEN: dict[Side, int] = {"tail": 0, "head": 2}
_SHOWN = 5
_BLOCK_NUMBERS = 1 << 21


@dataclass(frozen=True, eq=False)
class RowReader:
    """An array whose row i is made for triple i: its name, the length of a row, and how some rows are read."""

    name: str
    width: int
    read: Callable[[Ints], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class QueryRows:
    """The rows of the queries of a list of triples, for one side or both.

    Attributes:
        source: The file that holds them.
        num_relations: Number of relations of the graph.
        readers: The array of each side that the file has.
        queries: For each of these sides the sorted keys of the distinct queries, and the first row of each.

    Example:
        >>> triples, scores = np.array([[7, 0, 1], [4, 1, 1], [7, 0, 2]]), np.array([[0.5], [0.1], [0.5]])
        >>> reader = RowReader("tail", width=1, read=lambda rows: scores[rows])
        >>> rows = QueryRows.of_triples(Path("mine.npz"), triples, 2, {"tail": reader}, problems=[])
        >>> rows.find("tail", given=np.array([4, 7]), relation=np.array([1, 0])).tolist()
        [[0.1], [0.5]]
    """

    source: Path
    num_relations: int
    readers: Mapping[Side, RowReader]
    queries: Mapping[Side, tuple[NDArray[np.int64], NDArray[np.int64]]]

    @classmethod
    def of_triples(
        cls, source: Path, triples: Ints, num_relations: int, readers: Mapping[Side, RowReader], problems: list[str]
    ) -> QueryRows:
        """Index the rows; those of the same query that are not alike are added to ``problems``."""
        queries: dict[Side, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        for side, reader in readers.items():
            asked = pair_keys(triples[:, _GIVEN[side]], triples[:, 1], num_relations)
            keys, first, query = np.unique(asked, return_index=True, return_inverse=True)
            problems += _differing(reader, first[query])
            queries[side] = keys, first
        return cls(source, num_relations, readers, queries)

    def find(self, side: Side, given: Ints, relation: Ints) -> NDArray[Any]:
        """The row of each query that asks for the ``side`` of (given[i], relation[i])."""
        if side not in self.readers:
            raise DataError(
                f"{self.source}: no rows for queries of the {side} side",
                [f"there are rows for the {other} side" for other in self.readers],
                f"rank the {' and '.join(self.readers)} side alone, or add the rows",
            )
        keys, first = self.queries[side]
        position = find(keys, pair_keys(given, relation, self.num_relations))
        absent = np.flatnonzero(position < 0)
        if len(absent):
            asked = [f"entity {given[i]}, relation {relation[i]}" for i in absent[:_SHOWN]]
            more = [f"and {len(absent) - _SHOWN:,} more"] if len(absent) > _SHOWN else []
            raise DataError(
                f"{self.source}: no rows for some queries of the {side} side",
                [*asked, *more],
                "rank the triples that the rows were made for",
            )
        return self.readers[side].read(first[position])


def _differing(reader: RowReader, first: NDArray[np.int64]) -> list[str]:
    """Rows that are not like the first row of the same query, by their numbers."""
    again = np.flatnonzero(first != np.arange(len(first)))
    step = max(1, _BLOCK_NUMBERS // max(reader.width, 1))
    parts = [again[start : start + step] for start in range(0, len(again), step)]
    wrong = [i for part in parts for i in part[_differ(reader.read(part), reader.read(first[part]))].tolist()]
    shown = ", ".join(f"{first[i]} and {i}" for i in wrong[:_SHOWN])
    more = f" and {len(wrong) - _SHOWN:,} more pairs" if len(wrong) > _SHOWN else ""
    return [f"{reader.name}: rows of the same query differ (counted from 0): {shown}{more}"] if wrong else []


def _differ(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.bool_]:
    # A NaN is not for this place to complain about: it is like another one.
    alike = (left == right) | ((left != left) & (right != right))
    return np.asarray(~alike.all(axis=1))


def other_triples(stored: NDArray[Any], triples: Ints) -> list[str]:
    """Where the triples that rows were made for are not those that are ranked; shapes are known to agree."""
    rows = np.flatnonzero((stored != triples).any(axis=1))
    listed = spans(rows.tolist(), most=10)
    return [f"triples: not those that are ranked in rows {listed} (counted from 0)"] if len(rows) else []
