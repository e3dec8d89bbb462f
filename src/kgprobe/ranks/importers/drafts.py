"""An imported file on its way to a rank table: its columns and problems, and numbers read from text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgprobe.arrays import Flags
from kgprobe.ranks.metadata import Assumption, Basis, CandidatesInfo
from kgprobe.ranks.schema import (
    COLUMNS,
    REQUIRED,
    ROWS_NAMED,
    Checker,
    Rule,
    conform,
    describe,
    entity_rules,
    graph_rules,
)

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph


@dataclass(frozen=True)
class ImportOptions:
    """The arguments of `import_ranks`, with the graph loaded.

    Example:
        >>> ImportOptions(num_entities=135).size
        135
    """

    graph: KnowledgeGraph | None = None
    num_entities: int | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    raw: bool = False
    labels: bool = False
    zero_based: bool = False
    tie: str = "mean"
    inverse_relations: bool = False
    model: str | None = None
    split: str | None = None
    seed: int | None = None

    @property
    def size(self) -> int | None:
        """The number of entities, if it is known."""
        return self.num_entities if self.graph is None else self.graph.num_entities

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of a rank table that follow from the graph or the number of entities."""
        if self.graph is not None:
            return graph_rules(self.graph)
        return () if self.num_entities is None else entity_rules(self.num_entities)


@dataclass
class Draft:
    """The columns of one file, with null where a value could not be read.

    Attributes:
        path: The file.
        format: Its format.
        rows: Number of rows; a row with the ranks of both sides counts as two.
        wide: Whether its rows have the ranks of both sides.
        columns: Columns of a rank table under their canonical names, then label columns.
        candidates: Where the candidate counts come from.
        filtered: Splits that are assumed to be filtered.
        assumed: What was taken for granted to read the file.
        triples: The columns of the triples as they are in the file.
        names: The names of these columns in the file.
        popularity: Origin of the popularity if no graph gives it; None if there is none.
        problems: Errors in the file.
        needs: Arguments that the user must add or drop.
        notes: What the user should know about how the file was read.
        malformed: Columns with unreadable values, each already named in ``problems`` or ``needs``.

    Example:
        >>> draft = Draft(Path("ranks.csv"), rows=3)
        >>> draft.refuse("rank is not a number", np.array([False, True, True]), "rank")
        >>> draft.problems
        ['rank is not a number: 2 rows (rows 2-3)']
    """

    path: Path
    format: str = ""
    rows: int = 0
    wide: bool = False
    columns: dict[str, pa.Array] = field(default_factory=dict)
    candidates: CandidatesInfo = field(default_factory=lambda: CandidatesInfo(Basis.recorded))
    filtered: tuple[str, ...] | None = None
    assumed: list[Assumption] = field(default_factory=list)
    triples: Mapping[str, pa.Array] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    popularity: str | None = None
    problems: list[str] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    malformed: set[str] = field(default_factory=set)

    def refuse(self, problem: str, rows: Flags | pa.Array, *columns: str) -> None:
        """Add a problem with the marked rows, if there are any; ``columns`` cannot be read there."""
        marked = np.flatnonzero(flags(rows) if isinstance(rows, pa.Array) else rows)
        if marked.size:
            self.problems.append(describe(problem, marked.size, (marked[:ROWS_NAMED] + 1).tolist()))
            self.malformed |= set(columns)

    def require(self, need: str, *columns: str) -> None:
        """Add a need without which these columns cannot be filled."""
        self.needs.append(need)
        self.malformed |= set(columns)

    def table(self) -> pa.Table:
        """The columns as a rank table; a required column that is absent is null."""
        absent = {name: pa.nulls(self.rows, kind) for name, kind in REQUIRED.items() if name not in self.columns}
        return conform(pa.table(self.columns | absent))

    def all_problems(self, rules: tuple[Rule, ...]) -> list[str]:
        """Unreadable values, then rows that break the rules of a rank table."""
        table = self.table()
        checker = Checker(len(table), further=rules)
        checker.add(table)
        # An unreadable value is null here. It has been named and is not missing as well.
        named = tuple(f"{column} is missing" for column in self.malformed)
        return self.problems + [p for p in checker.problems(lambda: [table]) if not p.startswith(named)]

    @property
    def label_columns(self) -> list[str]:
        """Names of the columns beyond the canonical ones."""
        return [name for name in self.columns if name not in COLUMNS]


_BLANK = ("", "NA", "N/A", "null", "NULL", "None")
_NAN = ("nan", "NaN", "NAN")
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?$|^[+-]?(inf|infinity|nan)$"
_INTEGER = r"^-?(0|[1-9][0-9]*)(\.0+)?$"
_LEADING_ZERO = r"^0[0-9]"


def plain(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column as one array without dictionary; text is stripped."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    return pc.utf8_trim_whitespace(array.cast(pa.string())) if is_text(array) else array


def is_text(column: pa.Array) -> bool:
    """Whether a column holds strings."""
    return str(column.type) in ("string", "large_string", "string_view")


def is_number(column: pa.Array) -> bool:
    """Whether a column holds numbers, or nothing."""
    kind = column.type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind))


def flags(column: pa.Array) -> Flags:
    """A boolean column as a NumPy array."""
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=bool)


def all_integers(*columns: pa.Array) -> bool:
    """Whether all text is integers as programs write them: "007" is a name.

    Example:
        >>> all_integers(pa.array(["12", "3.0"])), all_integers(pa.array(["007"]))
        (True, False)
    """
    return pc.all(pc.match_substring_regex(pc.unique(pa.concat_arrays(columns)), _INTEGER)).as_py() is not False


def blank_to_null(column: pa.Array, *values: str) -> pa.Array:
    """Text with null in place of the values, which are empty strings by default."""
    return pc.if_else(pc.is_in(column, pa.array(values or ("",))), pa.scalar(None, column.type), column)


def read_numbers(draft: Draft, name: str, column: pa.Array, *, whole: bool, nullable: bool) -> pa.Array:
    """A column as float64, or as int64 for whole numbers; unreadable values become null and are refused.

    Example:
        >>> draft = Draft(Path("ranks.csv"))
        >>> read_numbers(draft, "rank", pa.array(["1.5", "first"]), whole=False, nullable=False).to_pylist()
        [1.5, None]
        >>> draft.problems
        ["rank is not a number, for example 'first': 1 row (row 2)"]
    """
    kind = pa.int64() if whole else pa.float64()
    if is_text(column):
        column = blank_to_null(column, *_BLANK, *(_NAN if nullable else ()))
    elif not is_number(column):
        draft.problems.append(f"{name} holds {column.type}, expected numbers")
        draft.malformed.add(name)
        return pa.nulls(len(column), kind)
    if nullable and pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    try:
        if not _has_hexadecimal(column):
            return _cast(column, whole)
    except pa.ArrowInvalid:
        pass  # the values that are no numbers are named
    numbers = _readable(column, whole)
    wrong = numbers.is_null()
    example = next(iter(column.filter(wrong).drop_null()[:1].to_pylist()), None)
    if nullable:  # else empty values count too: they are not reported as missing a second time
        wrong = pc.and_(wrong, column.is_valid())
    draft.refuse(f"{name} is not a {'whole ' * whole}number, for example {example!r}", wrong, name)
    return numbers


def _has_hexadecimal(column: pa.Array) -> bool:
    """Whether any text has an x: Arrow reads "0x10" as 16."""
    return is_text(column) and bool(pc.any(pc.match_substring(column, "x", ignore_case=True)).as_py())


def _cast(column: pa.Array, whole: bool) -> pa.Array:
    if not whole:
        return column.cast(pa.float64())
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:  # pandas writes whole numbers as "3.0" where any is missing
        return column.cast(pa.float64()).cast(pa.int64())


def _readable(column: pa.Array, whole: bool) -> pa.Array:
    """The numbers of a column, null for values that are none."""
    if is_text(column):
        written = pc.match_substring_regex(column, _NUMBER, ignore_case=True)
        column = pc.if_else(written, column, pa.scalar(None, column.type))
    numbers = column.cast(pa.float64(), safe=False)
    if not whole:
        return numbers
    fits = pc.and_(pc.equal(pc.floor(numbers), numbers), pc.less(pc.abs(numbers), 2.0**63))
    return pc.if_else(fits, numbers, pa.scalar(None, pa.float64())).cast(pa.int64())


def infer_types(drafts: Sequence[Draft]) -> None:
    """Turn label columns of text into numbers if every value in every file is one; empty text becomes null.

    Example:
        >>> columns = {"weight": pa.array(["0.5", ""]), "code": pa.array(["007", "12"])}
        >>> draft = Draft(Path("ranks.csv"), rows=2, columns=columns)
        >>> infer_types([draft])
        >>> draft.columns["weight"].to_pylist(), draft.columns["code"].to_pylist()
        ([0.5, None], ['007', '12'])
    """
    for name in dict.fromkeys(name for draft in drafts for name in draft.label_columns):
        having = [draft for draft in drafts if name in draft.columns]
        without_blanks = [blank_to_null(draft.columns[name], *_BLANK, *_NAN) for draft in having]
        kind = _number_type(without_blanks)
        for draft, column in zip(having, without_blanks, strict=True):
            text = blank_to_null(draft.columns[name])
            draft.columns[name] = text if kind is None else column.cast(pa.float64()).cast(kind)


def _number_type(columns: list[pa.Array]) -> pa.DataType | None:
    distinct = pc.unique(pa.concat_arrays(columns)).drop_null()
    if not len(distinct) or pc.any(pc.match_substring_regex(distinct, _LEADING_ZERO)).as_py():
        return None
    try:
        largest = pc.max(pc.abs(distinct.cast(pa.float64()))).as_py()
    except pa.ArrowInvalid:
        return None
    return pa.int64() if all_integers(distinct) and largest < 2**53 else pa.float64()
