"""Ranks: the rank table, one row per query, and how tables are concatenated."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from kgprobe.arrays import Floats, Ints
from kgprobe.errors import DataError, UsageError, shown
from kgprobe.parquet_files import write_parquet
from kgprobe.ranks.metadata import RanksInfo, merged
from kgprobe.ranks.schema import COLUMNS, SAMPLE, Checker, conform, table_of
from kgprobe.tables import SHOWN_ROWS, Table

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph, Popularity


BATCH_ROWS = 1 << 17
_ROW_GROUP = 1 << 20
_MOST_KEPT = 1 << 22

Value = TypeVar("Value")


class _Kept(cached_property[Value]):
    """A column that is computed once; anew for each use in a large table, whose arrays would fill the memory."""

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> Value: ...

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        if instance is None or len(instance) <= _MOST_KEPT:
            return super().__get__(instance, owner)
        return self.func(instance)


def _ordered(names: Collection[str]) -> list[str]:
    """The names of columns in the order of the schema, then labels."""
    return [*(name for name in COLUMNS if name in names), *(name for name in names if name not in COLUMNS)]


class Ranks(Table):
    """A table of ranks: the rank of the target of every query, and the number of candidates.

    Create one with `from_columns`, `read_ranks`, `import_ranks` or `rank`; the user guide describes the columns.
    A table is immutable: every method returns a new one. ``ranks[:100]``, ``ranks[ranks.rank > 10]`` and
    ``ranks[[3, 7]]`` are tables of some rows, ``ranks["rank"]`` is a column.

    Example:
        >>> ranks = Ranks.from_columns(
        ...     head=[0, 0], relation=[0, 0], tail=[1, 1], side=["head", "tail"], rank=[1, 2.5], candidates=[9, 8]
        ... )
        >>> len(ranks), ranks.rank.tolist(), ranks.target.tolist()
        (2, [1.0, 2.5], [0, 1])
    """

    _validated: tuple[KnowledgeGraph | None, ...] = ()

    def __init__(self, table: pa.Table, info: RanksInfo | None = None, *, validate: bool = True) -> None:
        self._table = conform(table)
        self.info = info or RanksInfo()
        if validate:
            checker = Checker(len(self._table))
            checker.add(self._table)
            checker.raise_problems(self.info.model or "ranks", lambda: [self._table])
            self._validated = (None,)

    @classmethod
    def from_columns(
        cls,
        *,
        head: ArrayLike,
        relation: ArrayLike,
        tail: ArrayLike,
        side: Sequence[str] | NDArray[Any],
        rank: ArrayLike,
        candidates: ArrayLike,
        ties: ArrayLike | None = None,
        worst_rank: ArrayLike | None = None,
        entity_popularity: ArrayLike | None = None,
        relation_popularity: ArrayLike | None = None,
        seed: ArrayLike | int | None = None,
        sample: Mapping[str, ArrayLike] | None = None,
        labels: Mapping[str, ArrayLike] | None = None,
        info: RanksInfo | None = None,
    ) -> Ranks:
        """Create a table from arrays of equal length.

        ``sample`` are the counts of a sample of candidates, if the ranks are estimates; ``labels`` are further columns
        to group by.
        """
        columns: dict[str, Any] = {
            "head": head,
            "relation": relation,
            "tail": tail,
            "side": side,
            "rank": rank,
            "candidates": candidates,
            "ties": ties,
            "worst_rank": worst_rank,
            "entity_popularity": entity_popularity,
            "relation_popularity": relation_popularity,
            "seed": np.full(len(side), seed) if isinstance(seed, int) else seed,
            **(sample or {}),
        }
        return cls(table_of(columns, labels or {}), info)

    def _with(self, table: pa.Table, info: RanksInfo | None = None) -> Ranks:
        """A table made from this one, without validation."""
        other = object.__new__(Ranks)
        other._table, other.info = table, info or self.info
        return other

    @classmethod
    def built(cls, table: pa.Table, info: RanksInfo) -> Ranks:
        """A valid table of narrow types; see `TableBuilder`."""
        other = object.__new__(cls)
        other._table, other.info = table, info
        return other

    def sharing(self, other: Ranks) -> Ranks:
        """The same table; columns that equal those of the other table are stored once for both."""
        columns = dict(zip(self.column_names, self._table.columns, strict=True))
        for name, column in columns.items():
            if name in other._table.column_names and column.equals(other._table.column(name)):
                columns[name] = other._table.column(name)
        shared = self._with(pa.table(columns))
        shared._validated = self._validated
        return shared

    def same_queries(self, other: Ranks) -> bool:
        """Whether both tables have the same queries in the same order."""
        return self.same_columns(other, ("head", "relation", "tail")) and (
            self.same_columns(other, ("side",)) or np.array_equal(self.predicts_tail, other.predicts_tail)
        )

    def same_columns(self, other: Ranks, names: Sequence[str]) -> bool:
        """Whether some columns of both tables have the same values; nulls equal each other."""

        def same(name: str) -> bool:
            if name not in self.column_names or name not in other.column_names:
                return name not in self.column_names and name not in other.column_names
            one, two = self._table.column(name), other._table.column(name)
            return bool(one.equals(two) or (one.type != two.type and self.column(name).equals(other.column(name))))

        return all(map(same, names))

    def is_validated(self, graph: KnowledgeGraph | None = None) -> bool:
        """Whether this table is known to be valid, and valid for this graph if one is given."""
        return any(graph is None or graph is known for known in self._validated)

    def mark_validated(self, graph: KnowledgeGraph | None = None) -> None:
        """Remember that this table is valid, so that it is not validated again."""
        self._validated = (*self._validated, graph)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __repr__(self) -> str:
        model = f", model={self.info.model!r}" if self.info.model else ""
        return f"Ranks({len(self):,} {'query' if len(self) == 1 else 'queries'}{model})"

    @property
    def column_names(self) -> list[str]:
        """Canonical columns that the table has, then label columns."""
        return list(self._table.column_names)

    def column(self, name: str) -> pa.ChunkedArray:
        """A column in its canonical type."""
        if name not in self._table.column_names:
            raise UsageError(f"there is no column '{name}'", [f"the columns are: {', '.join(self.column_names)}"])
        stored = self._table.column(name)
        return stored.cast(COLUMNS.get(name, stored.type))

    def to_arrow(self) -> pa.Table:
        """The table with its metadata, in canonical types."""
        return conform(self._table).replace_schema_metadata(self.info.to_metadata())

    def numbers(self, name: str) -> Floats:
        """A numeric column as float64, NaN where it is null or absent."""
        if name not in self._table.column_names:
            return np.full(len(self), np.nan)
        return np.asarray(self._array(name, np.float64), dtype=np.float64)

    def _ints(self, name: str) -> Ints:
        return np.asarray(self._array(name, np.int64), dtype=np.int64)

    def _array(self, name: str, kind: type[np.generic]) -> NDArray[Any]:
        column = self._table.column(name)
        codes = pa.types.is_dictionary(column.type)
        if column.num_chunks == 1 and not codes:
            return np.asarray(column.to_numpy())  # without a copy, if it has the right type
        values = np.empty(len(column), dtype=kind)
        for start in range(0, len(column), BATCH_ROWS):
            rows = column.slice(start, BATCH_ROWS)
            values[start : start + len(rows)] = (rows.cast(column.type.value_type) if codes else rows).to_numpy()
        return values

    @_Kept
    def head(self) -> Ints:
        return self._ints("head")

    @_Kept
    def relation(self) -> Ints:
        return self._ints("relation")

    @_Kept
    def tail(self) -> Ints:
        return self._ints("tail")

    @_Kept
    def predicts_tail(self) -> NDArray[np.bool_]:
        """Whether the predicted side is the tail."""
        import pyarrow.compute as pc

        sides = self._table.column("side").chunks
        flags = [pc.equal(side.cast(pa.string()), "tail").to_numpy(zero_copy_only=False) for side in sides]
        return np.concatenate([np.empty(0, dtype=bool), *flags]).astype(bool)

    @_Kept
    def target(self) -> Ints:
        """The target entity of each query."""
        return np.where(self.predicts_tail, self.tail, self.head)

    @_Kept
    def rank(self) -> Floats:
        """Mean rank of the target over its tie group; the best possible rank if it is an interval."""
        return self.numbers("rank")

    @_Kept
    def worst_rank(self) -> Floats:
        """The worst possible rank if it is an interval, else the rank."""
        return np.fmax(self.rank, self.numbers("worst_rank"))

    @property
    def intervals(self) -> NDArray[np.bool_]:
        """Whether each rank is an interval from `rank` to `worst_rank`."""
        return np.asarray(self.worst_rank > self.rank)

    @property
    def has_intervals(self) -> bool:
        return "worst_rank" in self.column_names and bool(self.intervals.any())

    @_Kept
    def ties(self) -> Floats:
        """Number of other candidates with the target's score, NaN if not recorded."""
        return self.numbers("ties")

    @_Kept
    def candidates(self) -> Floats:
        """Number of candidates after filtering, including the target."""
        return self.numbers("candidates")

    @_Kept
    def seed(self) -> Ints | None:
        """Training seed of each row, or None if the table has no seeds."""
        return self._ints("seed") if "seed" in self._table.column_names else None

    @property
    def optimistic(self) -> Floats:
        """Rank of the target before all candidates that tie with it."""
        return self.rank - self.ties / 2

    @property
    def pessimistic(self) -> Floats:
        """Rank of the target after all candidates that tie with it."""
        return self.rank + self.ties / 2

    @property
    def is_estimated(self) -> bool:
        """Whether ranks are estimates from a sample of candidates."""
        return "sample_size" in self.column_names

    def at_best(self) -> Ranks:
        """The table with intervals replaced by the best possible rank.

        Example:
            >>> ranks = Ranks.from_columns(
            ...     head=[0], relation=[0], tail=[1], side=["tail"], rank=[11], worst_rank=[40], candidates=[40]
            ... )
            >>> ranks.at_best().rank.tolist(), ranks.at_worst().rank.tolist()
            ([11.0], [40.0])
        """
        return self._exact(self.rank)

    def at_worst(self) -> Ranks:
        """The table with intervals replaced by the worst possible rank."""
        return self._exact(self.worst_rank)

    def _exact(self, rank: Floats) -> Ranks:
        if "worst_rank" not in self.column_names:
            return self
        table = self._table.drop_columns(["worst_rank"])
        return self._with(table.set_column(table.column_names.index("rank"), "rank", pa.array(rank)))

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[Ranks]:
        """The table in batches, without copying."""
        for start in range(0, len(self), rows):
            yield self._with(self._table.slice(start, rows))

    def filter(self, kept: NDArray[np.bool_]) -> Ranks:
        return self._with(self._table.filter(pa.array(kept)))

    def take(self, rows: Ints) -> Ranks:
        return self._with(self._table.take(pa.array(rows)))

    @overload
    def __getitem__(self, key: str) -> NDArray[Any]: ...

    @overload
    def __getitem__(self, key: int | slice | Sequence[int] | NDArray[Any]) -> Ranks: ...

    def __getitem__(self, key: Any) -> Any:
        """A column by name as a NumPy array, or a table of some rows: a slice, a mask, indices or one index."""
        if isinstance(key, str):
            return self._values(key)
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return self._with(self._table.slice(start, max(0, stop - start)))  # without a copy
            key = np.arange(start, stop, step)
        rows: NDArray[Any] = np.atleast_1d(np.asarray(key)) if np.size(key) else np.empty(0, dtype=np.int64)
        if rows.dtype == bool and rows.shape == (len(self),):
            return self.filter(rows)
        if rows.dtype.kind not in "iu" or rows.ndim > 1 or not ((-len(self) <= rows) & (rows < len(self))).all():
            remedy = f"give a column, a slice, indices below {len(self):,}, or a mask of {len(self):,} values"
            raise UsageError(f"these are no rows of the table: {shown(key)}", remedy=remedy)
        return self.take(np.where(rows < 0, rows + len(self), rows))

    __iter__ = None  # a loop over rows would be slow; without this, Python would loop by index

    def _values(self, name: str) -> NDArray[Any]:
        column = self.column(name)
        coded = pa.types.is_dictionary(column.type)
        return np.asarray((column.cast(column.type.value_type) if coded else column).to_numpy())

    def _ipython_key_completions_(self) -> list[str]:
        return self.column_names

    def with_popularity(self, popularity: Popularity) -> Ranks:
        """Add or replace delta(e) and delta(r|e) of every target."""
        columns = dict(zip(self.column_names, self._table.columns, strict=True)) | {
            "entity_popularity": pa.array(popularity.entity(self.target)),
            "relation_popularity": pa.array(popularity.relation(self.relation, self.target)),
        }
        return self._with(pa.table({name: columns[name] for name in _ordered(columns)}))

    def with_ranks(
        self,
        rank: ArrayLike,
        ties: ArrayLike,
        candidates: ArrayLike,
        info: RanksInfo | None = None,
        sample: Mapping[str, ArrayLike] | None = None,
    ) -> Ranks:
        """The same queries with other ranks; ``sample`` as for `from_columns`.

        Example:
            >>> ranks = Ranks.from_columns(head=[0], relation=[0], tail=[1], side=["tail"], rank=[1], candidates=[9])
            >>> ranks.with_ranks([3.5], [1], [8]).to_rows()[0]["rank"]
            3.5
        """
        values = {"rank": rank, "candidates": candidates, "ties": ties, **(sample or {})}
        columns = dict(zip(self.column_names, self._table.columns, strict=True))
        columns = {name: column for name, column in columns.items() if name not in SAMPLE}
        columns |= {name: pa.chunked_array([pa.array(column, COLUMNS[name])]) for name, column in values.items()}
        return self._with(pa.table({name: columns[name] for name in _ordered(columns)}), info)

    def with_info(self, **changes: Any) -> Ranks:
        """The same rows with changed metadata.

        Example:
            >>> empty = Ranks.from_columns(head=[], relation=[], tail=[], side=[], rank=[], candidates=[])
            >>> empty.with_info(model="mine")
            Ranks(0 queries, model='mine')
        """
        return self._with(self._table, replace(self.info, **changes))

    def write(self, path: str | PathLike[str]) -> None:
        """Write a Parquet file, atomically and with a checksum."""
        write_parquet(self.to_arrow(), path, row_group_size=_ROW_GROUP)

    def _preview(self) -> tuple[list[dict[str, Any]], list[str]]:
        """The first rows, and what the metadata records."""
        rows = [
            {name: _SHOWN[name](value) if name in _SHOWN else value for name, value in row.items()}
            for row in self[:SHOWN_ROWS].to_rows()
        ]
        notes = [f"The first {SHOWN_ROWS} of {len(self):,} rows."] if len(self) > SHOWN_ROWS else []
        recorded = {
            "graph": self.info.graph,
            "split": self.info.split,
            "filter": None if self.info.filtered is None else "+".join(self.info.filtered) or "none",
        }
        about = [f"{name} {value}" for name, value in recorded.items() if value]
        return rows, [*notes, *([f"{', '.join(about)}."] if about else [])]


def _whole(rank: float | None) -> float | None:
    return int(rank) if rank is not None and rank == int(rank) else rank


_SHOWN: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("head", "relation", "tail", "seed"), str),
    **dict.fromkeys(("rank", "worst_rank"), _whole),
}
"""How a notebook shows some columns: ids without separators of thousands, ranks without zeros behind the point."""


def concatenate(tables: Sequence[Ranks]) -> Ranks:
    """One table of the rows of several; queries must be disjoint, metadata that differs is dropped.

    Example:
        >>> part = dict(relation=[0], tail=[1], side=["tail"], rank=[1], candidates=[9])
        >>> len(concatenate([Ranks.from_columns(head=[0], **part), Ranks.from_columns(head=[1], **part)]))
        2
    """
    if not tables:
        raise UsageError("nothing to concatenate")
    try:
        rows = pa.concat_tables([table.to_arrow() for table in tables], promote_options="permissive")
    except pa.ArrowException as error:  # canonical columns have canonical types, so it is a label column
        raise DataError("label columns of these tables have different types", [str(error).split("\n")[0]]) from None
    return Ranks(rows.unify_dictionaries(), merged([table.info for table in tables]))


def merge_seeds(runs: Mapping[int, Ranks]) -> Ranks:
    """One table of several training runs of a model, by seed.

    Example:
        >>> run = Ranks.from_columns(head=[0], relation=[0], tail=[1], side=["tail"], rank=[1], candidates=[9])
        >>> merge_seeds({1: run, 2: run}).seed.tolist()
        [1, 2]
    """
    marked = []
    for seed, run in runs.items():
        table = run.to_arrow().drop_columns(["seed"]) if "seed" in run.column_names else run.to_arrow()
        seeds = pa.array(np.full(len(run), seed, dtype=np.int64))
        marked.append(Ranks(table.append_column("seed", seeds), run.info, validate=False))
    return concatenate(marked)
