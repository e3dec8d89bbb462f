"""Columns of a rank table, and validation that lists every problem."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgprobe.arrays import Flags, mixed
from kgprobe.errors import DataError, spans

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph

SIDES = pa.dictionary(pa.int8(), pa.string())
_MOST_SIDES = 127

SIDE_NAMES = {
    **dict.fromkeys(("head", "h", "s", "subject", "lhs", "head-batch", "head_batch"), "head"),
    **dict.fromkeys(("tail", "t", "o", "object", "rhs", "tail-batch", "tail_batch"), "tail"),
}
"""Names of the predicted side in other programs, in lower case."""


def side_name(text: str) -> str:
    """The name of a side: "head" for "subject", "tail" for "object"; any other text stays as it is.

    Example:
        >>> side_name("Subject"), side_name("tail"), side_name("both")
        ('head', 'tail', 'both')
    """
    return SIDE_NAMES.get(text.lower(), text)


REQUIRED: dict[str, pa.DataType] = {
    "head": pa.int64(),
    "relation": pa.int64(),
    "tail": pa.int64(),
    "side": SIDES,
    "rank": pa.float64(),
    "candidates": pa.int64(),
}

OPTIONAL: dict[str, pa.DataType] = {
    "ties": pa.int64(),
    "worst_rank": pa.float64(),
    "entity_popularity": pa.float64(),
    "relation_popularity": pa.float64(),
    "seed": pa.int64(),
    "exact_greater": pa.int64(),
    "exact_equal": pa.int64(),
    "sample_size": pa.int64(),
    "sampled_from": pa.int64(),
    "sampled_greater": pa.int64(),
    "sampled_equal": pa.int64(),
}

COLUMNS = REQUIRED | OPTIONAL
SAMPLE = ("exact_greater", "exact_equal", "sample_size", "sampled_from", "sampled_greater", "sampled_equal")
"""What was counted where ranks are estimates from a sample: greater and equal scores among the candidates that were all
counted, the size of the sample, the number of candidates that it was drawn from, and greater and equal scores in it."""
POPULARITY = ("entity_popularity", "relation_popularity")


def table_of(values: Mapping[str, Any], labels: Mapping[str, Any]) -> pa.Table:
    """A table of arrays and lists; those that are None are left out, invalid ones are all named.

    Example:
        >>> table_of({"rank": [1, 2], "ties": [0, float("nan")]}, labels={"kind": None})["ties"].to_pylist()
        [0, None]
    """
    problems = [f"label '{name}' has the name of a column that is not a label" for name in labels if name in COLUMNS]
    columns: dict[str, pa.Array] = {}
    for name, column in (dict(labels) | dict(values)).items():
        if column is None:
            continue
        try:
            # NaN means null in an optional column; in a required one it is an error.
            values = pa.array(column, from_pandas=name in OPTIONAL)
            columns[name] = _named_sides(values) if name == "side" else values
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            problems.append(f"column '{name}' is not a list of values of one type: {str(error).splitlines()[0]}")
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        problems.append("different lengths: " + ", ".join(f"{name} {n:,}" for name, n in lengths.items()))
    if problems:
        raise DataError("these columns are not a rank table", problems)
    return pa.table(columns)


def _named_sides(values: pa.Array) -> pa.Array:
    """Sides by the names that a rank table has; what is not text stays, and is refused later."""
    texts = values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values
    if str(texts.type) not in ("string", "large_string"):
        return values
    encoded = texts.dictionary_encode()
    return pa.array([side_name(text) for text in encoded.dictionary.to_pylist()], pa.string()).take(encoded.indices)


def conform(table: pa.Table) -> pa.Table:
    """Cast a table's columns to their canonical types; raises a DataError that lists every problem.

    Other columns are kept as labels to group by.

    Example:
        >>> conform(pa.table({"rank": [1]}))
        Traceback (most recent call last):
        ...
        kgprobe.errors.DataError: this is not a rank table
          - column 'head' is missing
          - column 'relation' is missing
          - column 'tail' is missing
          - column 'side' is missing
          - column 'candidates' is missing
        Remedy: the columns found are: rank; rename them, or use import_ranks ('kgprobe import')
    """
    names = Counter(table.column_names)
    problems = [f"column '{name}' is missing" for name in REQUIRED if name not in names]
    twice = [name for name, often in names.items() if often > 1]
    problems += [f"column '{name}' occurs twice" for name in twice]
    columns: dict[str, pa.ChunkedArray] = {}
    for name in [*COLUMNS, *(n for n in names if n not in COLUMNS)]:
        if names[name] != 1:
            continue
        column, kind = table.column(name), COLUMNS.get(name)
        try:
            columns[name] = column if kind is None else _cast(column, kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            expected = "'head' or 'tail'" if kind == SIDES else kind
            reason = str(error).split("\n")[0]
            problems.append(f"column '{name}' holds {column.type}, expected {expected}: {reason}")
    if problems:
        raise DataError(
            "this is not a rank table",
            problems,
            f"the columns found are: {', '.join(names) or 'none'}; rename them, or use import_ranks ('kgprobe import')",
        )
    return pa.table(columns)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind and column.num_chunks <= 1:  # several chunks may have different dictionaries
        return column
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if kind != SIDES:
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_null(column.type)):
            raise pa.ArrowInvalid("these are no numbers")
        return column.cast(kind)
    if str(column.type) not in ("string", "large_string", "string_view", "null"):
        raise pa.ArrowInvalid("this is no text")
    encoded = column.cast(pa.string()).dictionary_encode()
    distinct = len(encoded.chunk(0).dictionary) if encoded.num_chunks else 0
    if distinct > _MOST_SIDES:  # more than the index type can hold
        raise pa.ArrowInvalid(f"it has {distinct:,} different values")
    return encoded if encoded.type == kind else encoded.cast(kind)


ROWS_NAMED = 8
_REMEDY = "rows count from 1; correct or remove them"


@dataclass(frozen=True)
class Rows:
    """A batch of rows as arrays; null numbers are NaN."""

    table: pa.Table

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        if name not in self.table.column_names:
            return np.full(self.table.num_rows, np.nan)
        return np.asarray(self.table.column(name).to_numpy(), dtype=np.float64)

    def missing(self, name: str) -> Flags:
        """Which values of a column are null; none if the table does not have the column."""
        if name not in self.table.column_names:
            return np.zeros(self.table.num_rows, dtype=bool)
        return np.asarray(self.table.column(name).is_null().to_numpy(), dtype=bool)

    def unknown_side(self) -> Flags:
        import pyarrow.compute as pc

        known = pc.is_in(self.table.column("side").cast(pa.string()), pa.array(["head", "tail"]))
        return ~np.asarray(known.to_numpy(), dtype=bool) & ~self.missing("side")

    @property
    def ids(self) -> tuple[NDArray[np.float64], ...]:
        return self["head"], self["relation"], self["tail"]


def estimated_rank(
    greater: NDArray[Any], equal: NDArray[Any], size: NDArray[Any], drawn_from: NDArray[Any], hits: NDArray[Any]
) -> NDArray[np.float64]:
    """The unbiased estimate of the mean rank from exact counts and a sample; see `SAMPLE`.

    Args:
        greater: Greater scores among the candidates that were all counted.
        equal: Equal scores among them.
        size: Size of the sample.
        drawn_from: Number of candidates that it was drawn from.
        hits: Greater scores in the sample, an equal one counted as one half.

    Example:
        >>> estimated_rank(*map(np.array, ([2], [0], [10], [50], [3]))).tolist()
        [18.0]
    """
    # Whole numbers where all candidates are in the sample; without any sample, half of the others are greater.
    unseen = np.where(size > 0, hits * drawn_from / np.maximum(size, 1), drawn_from / 2)
    return np.asarray(1 + greater + equal / 2 + unseen)


def _no_estimate(rows: Rows) -> Flags:
    greater, equal, size, drawn_from, more, same = (rows[name] for name in SAMPLE)
    rank = estimated_rank(greater, equal, size, drawn_from, more + same / 2)
    return np.asarray(np.abs(rows["rank"] - rank) > 1e-6 * rank)


def _incomplete_sample(rows: Rows) -> Flags:
    known = np.array([~np.isnan(rows[name]) for name in SAMPLE])
    return np.asarray(known.any(axis=0) & ~known.all(axis=0))


Rule = tuple[str, Callable[[Rows], Flags]]

SAMPLE_RULES: tuple[Rule, ...] = (
    ("some counts of a sample of candidates are missing", _incomplete_sample),
    ("a count of a sample is negative", lambda rows: np.any([rows[name] < 0 for name in SAMPLE], axis=0)),
    ("the sample is larger than what it was drawn from", lambda rows: rows["sample_size"] > rows["sampled_from"]),
    (
        "more greater and equal scores than the sample has candidates",
        lambda rows: rows["sampled_greater"] + rows["sampled_equal"] > rows["sample_size"],
    ),
    (
        "more greater and equal scores than candidates that were all counted",
        lambda rows: rows["exact_greater"] + rows["exact_equal"] > rows["candidates"] - 1 - rows["sampled_from"],
    ),
    ("the rank is not the estimate from the counts of its sample", _no_estimate),
)
"""Rules for the counts of a sample of candidates."""

# Comparisons with NaN are false, so a null value only breaks the rule that it must not be null.
RULES: tuple[Rule, ...] = (
    *((f"{name} is missing", lambda rows, name=name: rows.missing(name)) for name in REQUIRED),
    ("seed is missing, though the table has seeds", lambda rows: rows.missing("seed")),
    ("rank is not a number", lambda rows: np.isnan(rows["rank"]) & ~rows.missing("rank")),
    ("rank is below 1", lambda rows: rows["rank"] < 1),
    ("rank is larger than the number of candidates", lambda rows: rows["rank"] > rows["candidates"]),
    ("fewer than 1 candidate", lambda rows: rows["candidates"] < 1),
    ("side is neither 'head' nor 'tail'", Rows.unknown_side),
    ("an id is negative", lambda rows: np.any([column < 0 for column in rows.ids], axis=0)),
    # Larger numbers are not exact in double precision, so that two ids could be taken for one.
    ("an id is 2^53 or larger", lambda rows: np.any([column >= 2.0**53 for column in rows.ids], axis=0)),
    ("a seed is 2^53 or larger", lambda rows: np.abs(rows["seed"]) >= 2.0**53),
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
    *SAMPLE_RULES,
)


def entity_rules(entities: int) -> tuple[Rule, ...]:
    """Further rules for a known number of entities."""
    return (
        (
            f"an entity id is outside the graph (0..{entities - 1})",
            lambda rows: (rows["head"] >= entities) | (rows["tail"] >= entities),
        ),
        (f"more candidates than the graph has entities ({entities})", lambda rows: rows["candidates"] > entities),
    )


def graph_rules(graph: KnowledgeGraph) -> tuple[Rule, ...]:
    """Further rules for a known graph."""
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
        marked = np.flatnonzero(flags)
        self.count += marked.size
        self.rows += (marked[: ROWS_NAMED - len(self.rows)] + offset).tolist()


class Checker:
    """Validates a table batch by batch in bounded memory (8 bytes per row, to find duplicates).

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
        self._remedy = _REMEDY + (f", or give the graph that was ranked, if it is not {graph.name}" if graph else "")
        self._violations = [_Violation() for _ in self._rules]
        self._hashes = np.empty(rows, dtype=np.uint64)
        self._seen = 0

    def add(self, table: pa.Table) -> None:
        if table.num_rows == 0:
            return
        rows = Rows(table)
        with np.errstate(invalid="ignore"):
            for (_, broken), violation in zip(self._rules, self._violations, strict=True):
                violation.add(broken(rows), self._seen + 1)
        self._hashes[self._seen : self._seen + table.num_rows] = query_hashes(table, self._seen)
        self._seen += table.num_rows

    def problems(self, again: Callable[[], Iterable[pa.Table]]) -> list[str]:
        """Every violated rule with its count and first rows; ``again`` yields the same batches once more."""
        named = zip(self._rules, self._violations, strict=True)
        problems = [describe(name, v.count, v.rows) for (name, _), v in named if v.count]
        hashes = self._hashes[: self._seen]
        hashes.sort()  # in place, to save memory
        repeated = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
        return problems + (_duplicates(again(), repeated) if repeated.size else [])

    def raise_problems(self, source: str, again: Callable[[], Iterable[pa.Table]]) -> None:
        """Raise a DataError if there are problems."""
        if problems := self.problems(again):
            raise DataError(f"{source}: not usable", problems, self._remedy)


def _duplicates(tables: Iterable[pa.Table], repeated: NDArray[np.uint64]) -> list[str]:
    rows: list[NDArray[np.int64]] = []
    hashes: list[NDArray[np.uint64]] = []
    offset = 0
    for table in tables:
        fingerprints = query_hashes(table, offset)
        positions = np.flatnonzero(np.isin(fingerprints, repeated))
        rows.append(positions + offset + 1)
        hashes.append(fingerprints[positions])
        offset += table.num_rows
    row = np.concatenate(rows)
    _, first = np.unique(np.concatenate(hashes), return_index=True)
    extra = np.delete(row, first)
    return [describe("the same query (and seed) occurs again", extra.size, extra[:ROWS_NAMED].tolist())]


def describe(name: str, count: int, rows: list[int]) -> str:
    """A violation in one line, with the number of its rows and the first of them.

    Example:
        >>> describe("rank is below 1", 3, [4, 5])
        'rank is below 1: 3 rows (rows 4-5, ...)'
    """
    more = ", ..." if count > len(rows) else ""
    word = "row" if count == 1 else "rows"
    return f"{name}: {count:,} {word} ({word} {spans(rows)}{more})"


def query_hashes(table: pa.Table, offset: int = 0) -> NDArray[np.uint64]:
    """A 64-bit hash of each query (and seed); a collision among n queries has probability about n^2 / 2^65.

    A row with a null id or an unknown side is hashed by its position, so that it equals no other row; ``offset`` is
    the position of the first row of a batch.
    """
    import pyarrow.compute as pc

    side = pc.index_in(table.column("side").cast(pa.string()), pa.array(["head", "tail"]))
    columns = [*(table.column(name) for name in ("head", "relation", "tail")), side]
    columns += [table.column("seed")] if "seed" in table.column_names else []
    state = np.zeros(table.num_rows, dtype=np.uint64)
    for column in columns:
        values = column.fill_null(0).to_numpy().astype(np.int64).view(np.uint64)
        state = mixed(state ^ (values + np.uint64(0x9E3779B97F4A7C15)))
    if any(column.null_count for column in columns):
        unclear = np.any([column.is_null().to_numpy() for column in columns], axis=0)
        state[unclear] = mixed(np.flatnonzero(unclear).astype(np.uint64) + np.uint64(offset))
    return state
