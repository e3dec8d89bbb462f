"""Validation of rank tables: every violation is found, counted and named."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgprobe.errors import DataError, spans
from kgprobe.ranks.schema import POPULARITY, REQUIRED

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph


Flags = NDArray[np.bool_]

ROWS_NAMED = 8

_REMEDY = "rows count from 1; correct or remove them"


@dataclass(frozen=True)
class Rows:
    """A batch of rows as arrays, missing numbers as NaN."""

    table: pa.Table

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        if name not in self.table.column_names:
            return np.full(self.table.num_rows, np.nan)
        return np.asarray(self.table.column(name).to_numpy(), dtype=np.float64)

    def missing(self, name: str) -> Flags:
        """Where a value is absent; nowhere in a column that the table does not have."""
        if name not in self.table.column_names:
            return np.zeros(self.table.num_rows, dtype=bool)
        return np.asarray(self.table.column(name).is_null().to_numpy(), dtype=bool)

    def unknown_side(self) -> Flags:
        """Where the side is neither of the two."""
        import pyarrow.compute as pc

        known = pc.is_in(self.table.column("side").cast(pa.string()), pa.array(["head", "tail"]))
        return ~np.asarray(known.to_numpy(), dtype=bool) & ~self.missing("side")

    @property
    def ids(self) -> tuple[NDArray[np.float64], ...]:
        """The columns that hold ids."""
        return self["head"], self["relation"], self["tail"]


Rule = tuple[str, Callable[[Rows], Flags]]

# Comparisons with NaN are false, so a value that is not recorded breaks no rule but its own.
RULES: tuple[Rule, ...] = (
    *((f"{name} is missing", lambda rows, name=name: rows.missing(name)) for name in REQUIRED),
    ("seed is missing, though the table has seeds", lambda rows: rows.missing("seed")),
    ("rank is not a number", lambda rows: np.isnan(rows["rank"]) & ~rows.missing("rank")),
    ("rank is below 1", lambda rows: rows["rank"] < 1),
    ("rank is larger than the number of candidates", lambda rows: rows["rank"] > rows["candidates"]),
    ("fewer than 1 candidate", lambda rows: rows["candidates"] < 1),
    ("side is neither 'head' nor 'tail'", Rows.unknown_side),
    ("an id is negative", lambda rows: np.any([column < 0 for column in rows.ids], axis=0)),
    ("ties is negative", lambda rows: rows["ties"] < 0),
    (
        "rank and ties place the tie group outside 1..candidates",
        lambda rows: (
            (rows["rank"] >= 1)
            & (rows["rank"] <= rows["candidates"])
            & ((rows["rank"] - rows["ties"] / 2 < 1) | (rows["rank"] + rows["ties"] / 2 > rows["candidates"]))
        ),
    ),
    ("worst_rank is below the rank", lambda rows: rows["worst_rank"] < rows["rank"]),
    ("worst_rank is larger than the number of candidates", lambda rows: rows["worst_rank"] > rows["candidates"]),
    (
        "ties is not 0, though the rank is an interval up to worst_rank",
        lambda rows: (rows["worst_rank"] > rows["rank"]) & (rows["ties"] > 0),
    ),
    (
        "a popularity is outside 0..1",
        lambda rows: np.any([(rows[c] < 0) | (rows[c] > 1) for c in POPULARITY], axis=0),
    ),
)


def entity_rules(entities: int) -> tuple[Rule, ...]:
    """What must hold besides when the number of entities is known."""
    return (
        (
            f"an entity id is outside the graph (0..{entities - 1})",
            lambda rows: (rows["head"] >= entities) | (rows["tail"] >= entities),
        ),
        (f"more candidates than the graph has entities ({entities})", lambda rows: rows["candidates"] > entities),
    )


def graph_rules(graph: KnowledgeGraph) -> tuple[Rule, ...]:
    """What must hold besides when the graph is known."""
    relation_rule: Rule = (
        f"a relation id is outside the graph (0..{graph.num_relations - 1})",
        lambda rows: rows["relation"] >= graph.num_relations,
    )
    return (*entity_rules(graph.num_entities), relation_rule)


@dataclass
class _Violation:
    count: int = 0
    rows: list[int] = field(default_factory=list)

    def add(self, flags: Flags, offset: int) -> None:
        found = np.flatnonzero(flags)
        self.count += found.size
        self.rows += (found[: ROWS_NAMED - len(self.rows)] + offset).tolist()


class Checker:
    """Checks a table batch by batch in bounded memory (8 bytes a row, for the duplicates).

    Example:
        >>> from kgprobe.ranks.table import Ranks
        >>> Ranks.from_columns(
        ...     head=[0, 0], relation=[0, 0], tail=[1, 1], side=["tail", "left"], rank=[0, 20], candidates=[9, 9]
        ... )
        Traceback (most recent call last):
        ...
        kgprobe.errors.DataError: ranks: not usable
          - rank is below 1: 1 row (row 1)
          - rank is larger than the number of candidates: 1 row (row 2)
          - side is neither 'head' nor 'tail': 1 row (row 2)
        Remedy: rows count from 1; correct or remove them
    """

    def __init__(self, rows: int, graph: KnowledgeGraph | None = None, *, further: tuple[Rule, ...] = ()) -> None:
        self._rules = RULES + (graph_rules(graph) if graph else ()) + further
        self._remedy = _REMEDY + (f", or give the graph that was ranked, if {graph.name} is not" if graph else "")
        self._violations = [_Violation() for _ in self._rules]
        self._hashes = np.empty(rows, dtype=np.uint64)
        self._seen = 0

    def add(self, table: pa.Table) -> None:
        """Check a batch of rows."""
        rows = Rows(table)
        if rows.table.num_rows == 0:
            return
        with np.errstate(invalid="ignore"):
            for (_, broken), violation in zip(self._rules, self._violations, strict=True):
                violation.add(broken(rows), self._seen + 1)
        self._hashes[self._seen : self._seen + table.num_rows] = query_hashes(table, self._seen)
        self._seen += table.num_rows

    def problems(self, again: Callable[[], Iterable[pa.Table]]) -> list[str]:
        """Every kind of violation with its count and first rows; ``again`` yields the same batches once more."""
        named = zip(self._rules, self._violations, strict=True)
        found = [describe(name, v.count, v.rows) for (name, _), v in named if v.count]
        hashes = self._hashes[: self._seen]
        hashes.sort()  # in place: at 8 bytes a row, a copy is what would break the memory bound
        repeated = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
        return found + (_duplicates(again(), repeated) if repeated.size else [])

    def raise_problems(self, source: str, again: Callable[[], Iterable[pa.Table]]) -> None:
        """Refuse the table if anything is wrong with it."""
        if problems := self.problems(again):
            raise DataError(f"{source}: not usable", problems, self._remedy)


def _duplicates(tables: Iterable[pa.Table], repeated: NDArray[np.uint64]) -> list[str]:
    rows: list[NDArray[np.int64]] = []
    hashes: list[NDArray[np.uint64]] = []
    offset = 0
    for table in tables:
        fingerprints = query_hashes(table, offset)
        found = np.flatnonzero(np.isin(fingerprints, repeated))
        rows.append(found + offset + 1)
        hashes.append(fingerprints[found])
        offset += table.num_rows
    row = np.concatenate(rows)
    _, first = np.unique(np.concatenate(hashes), return_index=True)
    extra = np.delete(row, first)
    return [describe("the same query (and seed) occurs again", extra.size, extra[:ROWS_NAMED].tolist())]


def describe(name: str, count: int, rows: list[int]) -> str:
    """A violation in one line, with how often it occurs and the first of its rows.

    Example:
        >>> describe("rank is below 1", 3, [4, 5])
        'rank is below 1: 3 rows (rows 4-5, ...)'
    """
    more = ", ..." if count > len(rows) else ""
    word = "row" if count == 1 else "rows"
    return f"{name}: {count:,} {word} ({word} {spans(rows)}{more})"


def query_hashes(table: pa.Table, offset: int = 0) -> NDArray[np.uint64]:
    """A 64-bit fingerprint of each query: two different ones among n agree with probability about n^2 / 2^65.

    A row that does not say which query it is (a null id, an unknown side) equals no other: it is hashed by its
    position, which ``offset`` makes unique in a table that comes in batches.
    """
    import pyarrow.compute as pc

    side = pc.index_in(table.column("side").cast(pa.string()), pa.array(["head", "tail"]))
    columns = [*(table.column(name) for name in ("head", "relation", "tail")), side]
    columns += [table.column("seed")] if "seed" in table.column_names else []
    state = np.zeros(table.num_rows, dtype=np.uint64)
    for column in columns:
        values = column.fill_null(0).to_numpy().astype(np.int64).view(np.uint64)
        state = _mix(state ^ (values + np.uint64(0x9E3779B97F4A7C15)))
    if any(column.null_count for column in columns):
        unclear = np.any([column.is_null().to_numpy() for column in columns], axis=0)
        state[unclear] = _mix(np.flatnonzero(unclear).astype(np.uint64) + np.uint64(offset))
    return state


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))
