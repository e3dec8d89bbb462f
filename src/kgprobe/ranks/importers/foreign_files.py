"""CSV, TSV and Parquet files of other programs, as columns of numbers."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgprobe.errors import DataError, UsageError, nearest
from kgprobe.graph.parquet_graph import read_parquet
from kgprobe.graph.text_files import UNREADABLE, disguise, open_bytes, read_lines
from kgprobe.ranks.importers.drafts import Draft

if TYPE_CHECKING:
    from pyarrow.csv import InvalidRow


BLANK = ("", "NA", "N/A", "null", "NULL", "None")

_NAN = ("nan", "NaN", "NAN")

_PLAIN_WHOLE = r"^-?(0|[1-9][0-9]*)(\.0+)?$"

_LARGEST = 2**63


def plain(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column in one piece, without dictionary and, if it is text, without space around its values."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if not is_text(array):
        return array
    return pc.utf8_trim_whitespace(array.cast(pa.string()))


def is_text(column: pa.Array) -> bool:
    """Whether a column holds text."""
    return str(column.type) in ("string", "large_string", "string_view")


def all_whole(*columns: pa.Array) -> bool:
    """Whether text is nothing but whole numbers as programs write them: "007" is a name.

    Example:
        >>> all_whole(pa.array(["12", "3.0"])), all_whole(pa.array(["007"]))
        (True, False)
    """
    distinct = pc.unique(pa.concat_arrays(columns))
    return pc.all(pc.match_substring_regex(distinct, _PLAIN_WHOLE)).as_py() is not False


def flags(column: pa.Array) -> NDArray[np.bool_]:
    """A column of truth values for NumPy."""
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=bool)


def blanked(column: pa.Array, *, nan: bool = False) -> pa.Array:
    """Text with null for what means that there is no value."""
    if not is_text(column):
        return column
    blank = pc.is_in(column, pa.array([*BLANK, *(_NAN if nan else ())]))
    return pc.if_else(blank, pa.scalar(None, column.type), column)


def read_numbers(draft: Draft, name: str, column: pa.Array, *, whole: bool, nullable: bool) -> pa.Array:
    """A column as float64, or as int64 if its numbers are to be whole; what is not, is null and refused.

    Example:
        >>> from pathlib import Path
        >>> draft = Draft(Path("ranks.csv"))
        >>> read_numbers(draft, "rank", pa.array(["1.5", "first"]), whole=False, nullable=False).to_pylist()
        [1.5, None]
        >>> draft.problems
        ["rank is not a number, for example 'first': 1 row (row 2)"]
    """
    kind = pa.int64() if whole else pa.float64()
    if not (is_text(column) or pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        if not pa.types.is_null(column.type):
            draft.problems.append(f"{name} holds {column.type}, expected numbers")
            draft.malformed.add(name)
        return pa.nulls(len(column), kind)
    filled = blanked(column, nan=nullable)
    if nullable and pa.types.is_floating(filled.type):
        filled = pc.if_else(pc.is_nan(filled), pa.scalar(None, filled.type), filled)
    try:
        return _cast(filled, whole)
    except pa.ArrowInvalid:
        return _one_by_one(draft, name, filled, whole, nullable)


def _cast(column: pa.Array, whole: bool) -> pa.Array:
    if not whole:
        return column.cast(pa.float64())
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:  # pandas writes whole numbers as "3.0" where any is missing
        return column.cast(pa.float64()).cast(pa.int64())


def _one_by_one(draft: Draft, name: str, column: pa.Array, whole: bool, nullable: bool) -> pa.Array:
    """Each distinct value by itself: slow, but only where some of them are wrong."""
    coded = column.dictionary_encode()
    distinct = coded.dictionary.to_pylist()
    numbers = [_parse(value, whole) for value in distinct]
    values = pa.array(numbers, pa.int64() if whole else pa.float64()).take(coded.indices)
    wrong = pc.is_null(values)
    if nullable:  # else the empty ones count too: a column that is refused is not also said to be missing
        wrong = pc.and_(wrong, pc.is_valid(column))
    example = next((value for value, number in zip(distinct, numbers, strict=True) if number is None), None)
    what = f"{name} is not a {'whole ' * whole}number, for example {example!r}"
    draft.refuse(name, what, flags(wrong))
    return values


def _parse(value: Any, whole: bool) -> float | int | None:
    if "_" in str(value):  # a number to Python, but to nobody else
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    if not whole:
        return number
    if not number.is_integer() or not -_LARGEST <= number < _LARGEST:
        return None
    try:
        return int(value)  # exact, which a float of this size may not be
    except ValueError:
        return int(number)


_LINES_SHOWN = 20

Source = Callable[[Path, Draft], pa.Table | None]

"""The columns of a file; or None, with everything that is wrong added to the draft."""


def each_path(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """One or several files as a list, each of which is there."""
    files = [Path(paths)] if isinstance(paths, str | os.PathLike) else [Path(path) for path in paths]
    if not files:
        raise UsageError("no file to import")
    if repeated := sorted({str(path) for path in files if files.count(path) > 1}):
        raise UsageError("the same file is given twice", repeated)
    problems = [f"{path}: {wrong}" for path in files if (wrong := _unreadable(path))]
    if problems:
        raise DataError("nothing to import", problems, "check the names and the folders")
    return files


def _unreadable(path: Path) -> str | None:
    try:
        if path.is_dir():
            return "this is a folder, not a file"
        if path.exists() and not path.is_file():
            return "this is a pipe or a device: write it to a file first, because it is read more than once"
        with path.open("rb") as file:
            return None if file.read(1) else "the file is empty"
    except OSError as error:
        return "no such file" if isinstance(error, FileNotFoundError) else str(error)


def kind_of(path: Path) -> str | None:
    """What a file that should be text is instead, by its first bytes."""
    kind = disguise(path)
    return None if kind == "a gzip file" and path.suffix == ".gz" else kind


def format_of(path: Path) -> str:
    """The format that a file's name says.

    Example:
        >>> format_of(Path("ranks.tsv.gz"))
        'tsv'
    """
    suffixes = [suffix for suffix in path.suffixes if suffix != ".gz"]
    suffix = suffixes[-1].lower() if suffixes else ""
    if suffix not in _SUFFIXES:
        problem = f"its name ends in none of {', '.join(_SUFFIXES)}"
        raise UsageError(f"{path}: the format is not known", [problem], f"say it: {', '.join(SOURCES)}")
    return _SUFFIXES[suffix]


def source_of(format: str) -> Source:  # noqa: A002
    """The reader of a format."""
    if format not in SOURCES:
        raise UsageError(f"no format is called {format!r}{nearest(format, SOURCES)}")
    return SOURCES[format]


def _read_text(path: Path, draft: Draft, delimiter: str, quote: str | None) -> pa.Table | None:
    """All columns as text: whether "007" is a number is not for a parser to guess."""
    from pyarrow import csv as arrow_csv

    bad: list[InvalidRow] = []

    def collect(row: InvalidRow) -> str:
        bad.append(row)
        return "skip"

    def read(*, threads: bool) -> pa.Table:
        types = {f"{i}": pa.string() for i in range(len(names))}
        with open_bytes(path) as file:
            return arrow_csv.read_csv(
                file,
                arrow_csv.ReadOptions(
                    column_names=list(types), skip_rows=skipped, use_threads=threads, block_size=1 << 24
                ),
                arrow_csv.ParseOptions(
                    delimiter=delimiter,
                    quote_char=quote or False,
                    newlines_in_values=bool(quote),
                    invalid_row_handler=collect,
                ),
                # An entity may well be called "NA": what is null is decided column by column.
                arrow_csv.ConvertOptions(column_types=types, strings_can_be_null=False),
            )

    try:
        if kind := kind_of(path):
            draft.problems.append(f"it is {kind}, expected text")
            return None
        names, skipped = _header(path, delimiter, quote)
        table = read(threads=True)
        if bad:  # lines have numbers only where they are read one after the other
            bad.clear()
            read(threads=False)
    except (pa.ArrowException, *UNREADABLE, UnicodeDecodeError) as error:
        _, problems = read_lines(path, lambda line: [line], lambda _number, _fields: None, header=False)
        draft.problems += problems or [str(error).splitlines()[0]]
        return None
    draft.problems += [
        f"line {row.number}: {row.actual_columns} fields, expected {row.expected_columns}: {row.text[:60]!r}"
        for row in bad[:_LINES_SHOWN]
    ]
    if len(bad) > _LINES_SHOWN:
        draft.problems.append(f"{len(bad) - _LINES_SHOWN:,} more lines have a wrong number of fields")
    return table.rename_columns(names)


def _header(path: Path, delimiter: str, quote: str | None) -> tuple[list[str], int]:
    """The names of the columns, and how many lines to skip to come behind them."""
    with open_bytes(path) as file:
        for number, raw in enumerate(file, 1):
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            if line.strip():
                (names,) = csv.reader([line], delimiter=delimiter, quotechar=quote or "\0")
                return [name.strip() for name in names], number
    raise pa.ArrowInvalid("there is nothing but blank lines")


def _read_csv(path: Path, draft: Draft) -> pa.Table | None:
    return _read_text(path, draft, ",", '"')


def _read_tsv(path: Path, draft: Draft) -> pa.Table | None:
    # As in the TSV files of graphs, a quotation mark is a character like any other.
    return _read_text(path, draft, "\t", None)


def _read_parquet(path: Path, draft: Draft) -> pa.Table | None:
    return read_parquet(path, draft.problems)


SOURCES: dict[str, Source] = {"csv": _read_csv, "tsv": _read_tsv, "parquet": _read_parquet}

_SUFFIXES = {".csv": "csv", ".tsv": "tsv", ".txt": "tsv", ".parquet": "parquet", ".pq": "parquet"}

_CODE = r"^0[0-9]"


def infer_types(drafts: Sequence[Draft]) -> None:
    """Turn label columns of text into numbers where every value of every file is one; empty ones are null.

    Example:
        >>> from pathlib import Path
        >>> columns = {"weight": pa.array(["0.5", ""]), "code": pa.array(["007", "12"])}
        >>> draft = Draft(Path("ranks.csv"), rows=2, columns=columns)
        >>> infer_types([draft])
        >>> draft.columns["weight"].to_pylist(), draft.columns["code"].to_pylist()
        ([0.5, None], ['007', '12'])
    """
    for name in dict.fromkeys(name for draft in drafts for name in draft.label_columns):
        having = [draft for draft in drafts if name in draft.columns]
        kind = _kind([blanked(draft.columns[name], nan=True) for draft in having])
        for draft in having:
            column = draft.columns[name]
            numeric = not pa.types.is_string(kind)
            text = blanked(column, nan=True) if numeric else pc.if_else(pc.equal(column, ""), None, column)
            draft.columns[name] = text.cast(pa.float64()).cast(kind) if numeric else text


def _kind(columns: list[pa.Array]) -> pa.DataType:
    distinct = pc.unique(pa.concat_arrays(columns)).drop_null()
    if not len(distinct) or pc.any(pc.match_substring_regex(distinct, _CODE)).as_py():
        return pa.string()
    try:
        numbers = distinct.cast(pa.float64())
    except pa.ArrowInvalid:
        return pa.string()
    exact = all_whole(distinct) and pc.max(pc.abs(numbers)).as_py() < 2**53
    return pa.int64() if exact else pa.float64()
