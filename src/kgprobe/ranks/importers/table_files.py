"""Files of other programs as tables of columns: CSV, TSV, Parquet, JSON and JSON Lines, told apart by content."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from kgprobe.bounded_files import UNREADABLE, bounded_lines, disguise, open_bytes, parse_json, read_bounded
from kgprobe.graph.parquet_graph import read_parquet
from kgprobe.graph.text_files import read_lines
from kgprobe.ranks.importers.drafts import Draft
from kgprobe.resources import unpacking_limit

if TYPE_CHECKING:
    from pyarrow.csv import InvalidRow

FORMATS = {
    "probe-json": "JSON of the authors of PROBE",
    "csv": "columns separated by commas or semicolons, named in the first line",
    "tsv": "tab-separated columns, named in the first line",
    "parquet": "columns of any names",
    "json": "a list of records, or an object of columns",
    "jsonl": "one record per line",
}

_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}

TEXT_FORMATS = ("csv", "tsv")
"""Formats whose values are all text."""

_LINES_SHOWN = 20
_MOST_COLUMNS = 10_000
_LONGEST_NAME = 1_000
_START = 4096  # bytes that tell formats apart


def format_of(path: Path) -> str:
    r"""The format of a file: by the ending of its name where that is clear, else by how its content begins.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "ranks.json"
        >>> _ = path.write_text('[{"head": 0}]')
        >>> format_of(path), format_of(Path("ranks.tsv.gz"))
        ('json', 'tsv')
    """
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix != ".gz"]
    if suffixes and suffixes[-1] in _SUFFIXES:
        return _SUFFIXES[suffixes[-1]]
    try:
        if disguise(path) == "a Parquet file":
            return "parquet"
        with open_bytes(path) as file:
            start = file.read(_START).decode("utf-8-sig", errors="replace").strip()
    except UNREADABLE:
        return "csv"  # it is refused when it is read
    if start.startswith(("[", "{")) or suffixes[-1:] == [".json"]:
        return "probe-json" if start[:1] == "[" and start[1:].lstrip()[:1] == "[" else "json"
    return "tsv" if "\t" in start.partition("\n")[0] else "csv"


def read_table(draft: Draft) -> pa.Table | None:
    """The columns of a file, those of text files as strings; or None, with the problems added to the draft."""
    if draft.format == "parquet":
        return read_parquet(draft.path, draft.problems)
    return _read_text(draft) if draft.format in TEXT_FORMATS else _read_json(draft)


@dataclass(frozen=True)
class _Dialect:
    """How the fields of a line are written."""

    delimiter: str
    quote: str | None

    @property
    def options(self) -> dict[str, Any]:
        return {"delimiter": self.delimiter, "quote_char": self.quote or False}


def _dialect(heading: str, format: str) -> _Dialect:  # noqa: A002
    """How a text table is written, by its heading.

    In TSV a quotation mark is a character like any other, as in the TSV files of graphs, unless the headings have them.
    """
    if format == "tsv":
        quoted = all(len(name) > 1 and name[0] == name[-1] == '"' for name in heading.split("\t"))
        return _Dialect("\t", '"' if quoted else None)
    return _Dialect(";" if heading.count(";") > heading.count(",") else ",", '"')


def _read_text(draft: Draft) -> pa.Table | None:
    try:
        if kind := disguise(draft.path):
            draft.problems.append(f"it is {kind}, expected text")
            return None
        heading, skipped = _heading(draft.path)
        dialect = _dialect(heading, draft.format)
        names = _names(heading, dialect)
        table = _read_rows(draft, dialect, len(names), skipped).rename_columns(names)
    except (pa.ArrowException, *UNREADABLE, UnicodeDecodeError) as error:
        _, problems = read_lines(draft.path, lambda line: [line], lambda _number, _fields: None, header=False)
        draft.problems += problems or [str(error).splitlines()[0]]
        return None
    return _with_decimal_points(draft, table) if dialect.delimiter == ";" else table


def _heading(path: Path) -> tuple[str, int]:
    """The line of the column names, and its number."""
    with open_bytes(path) as file:
        for number, raw in enumerate(bounded_lines(file), 1):
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            if line.strip():
                return line, number
    raise pa.ArrowInvalid("there is nothing but blank lines")


def _names(heading: str, dialect: _Dialect) -> list[str]:
    content = heading.encode() + b"\n"
    read = arrow_csv.ReadOptions(use_threads=False, block_size=len(content) + 1)
    names = arrow_csv.read_csv(io.BytesIO(content), read, arrow_csv.ParseOptions(**dialect.options)).column_names
    if len(names) > _MOST_COLUMNS:
        raise pa.ArrowInvalid(f"it has {len(names):,} columns; at most {_MOST_COLUMNS:,} are read")
    if (longest := max(map(len, names))) > _LONGEST_NAME:
        raise pa.ArrowInvalid(f"a column has a name of {longest:,} characters; is its heading missing?")
    return [name.strip() for name in names]


def _read_rows(draft: Draft, dialect: _Dialect, columns: int, skipped: int) -> pa.Table:
    """All columns as strings ("007" may be a name), without the rows that have a wrong number of fields.

    These are named one by one in the problems of the draft.
    """
    types = {f"{i}": pa.string() for i in range(columns)}
    wrong: list[InvalidRow] = []

    def skip(row: InvalidRow) -> str:
        wrong.append(row)
        return "skip"

    def read(handler: Callable[[InvalidRow], str] | None) -> pa.Table:
        # Rows have line numbers only if they are read by a single thread.
        reading = arrow_csv.ReadOptions(
            column_names=list(types), skip_rows=skipped, use_threads=handler is None, block_size=1 << 24
        )
        parsing = arrow_csv.ParseOptions(
            **dialect.options, newlines_in_values=bool(dialect.quote), invalid_row_handler=handler
        )
        # An entity may be called "NA": null values are decided column by column.
        converting = arrow_csv.ConvertOptions(column_types=types, strings_can_be_null=False)
        with open_bytes(draft.path) as file:
            return arrow_csv.read_csv(file, reading, parsing, converting)

    try:
        return read(None)
    except pa.ArrowInvalid:
        _, undecodable = read_lines(draft.path, lambda line: [line], lambda _number, _fields: None, header=False)
        if undecodable:
            raise
    table = read(skip)
    draft.problems += [
        f"line {row.number}: {row.actual_columns} fields, expected {row.expected_columns}: {row.text[:60]!r}"
        for row in wrong[:_LINES_SHOWN]
    ]
    if len(wrong) > _LINES_SHOWN:
        draft.problems.append(f"{len(wrong) - _LINES_SHOWN:,} more lines have a wrong number of fields")
    return table


_DECIMAL_COMMA = r"^\s*[+-]?[0-9]+(,[0-9]+)?\s*$"


def _with_decimal_points(draft: Draft, table: pa.Table) -> pa.Table:
    """The table with points in columns of numbers that are written with decimal commas."""
    commas = [
        i
        for i, column in enumerate(table.columns)
        if pc.any(pc.match_substring(column, ",")).as_py()
        and pc.all(pc.match_substring_regex(column, _DECIMAL_COMMA)).as_py()
    ]
    for i in commas:
        table = table.set_column(i, table.column_names[i], pc.replace_substring(table.column(i), ",", "."))
    if commas:
        draft.notes.append(f"decimal commas were read in: {', '.join(table.column_names[i] for i in commas)}")
    return table


def _read_json(draft: Draft) -> pa.Table | None:
    """The columns of JSON or JSON Lines; or None, with the problems added to the draft."""
    try:
        if kind := disguise(draft.path):
            draft.problems.append(f"it is {kind}, expected JSON")
            return None
        # The parsed values take some ten times the memory of the text.
        content = read_bounded(draft.path, unpacking_limit() // 10)
        columns = _lines(draft, content) if draft.format == "jsonl" else _document(draft, content)
    except json.JSONDecodeError as error:
        draft.problems.append(f"line {error.lineno}, column {error.colno}: this is not JSON ({error.msg})")
        return None
    except (*UNREADABLE, ValueError) as error:
        draft.problems.append(f"cannot be read ({error})")
        return None
    if columns is None or draft.problems:
        return None
    if len(columns) > _MOST_COLUMNS:
        draft.problems.append(f"it has {len(columns):,} columns; at most {_MOST_COLUMNS:,} are read")
        return None
    return pa.table([_column(values) for values in columns.values()], names=[name.strip() for name in columns])


_Columns = Mapping[str, Sequence[Any]]


def _document(draft: Draft, content: bytes) -> _Columns | None:
    """The columns of a JSON file, which may also be JSON Lines under another name."""
    try:
        value = parse_json(content)
    except json.JSONDecodeError as error:
        if error.msg.startswith("Extra data") and content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
            draft.format = "jsonl"
            return _lines(draft, content)
        raise
    columns = _of_list(value) if isinstance(value, list) else _of_object(value) if isinstance(value, dict) else None
    if columns is None:
        kind = "a list of other values" if isinstance(value, list) else f"JSON of type {type(value).__name__}"
        hint = "; is `format` probe-json?" if isinstance(value, list) and isinstance(value[0], list) else ""
        draft.problems.append(f"it holds {kind}, expected a list of records or an object of columns{hint}")
    elif len({len(values) for values in columns.values()}) > 1:
        counts = ", ".join(f"{name}: {len(values):,}" for name, values in columns.items())
        draft.problems.append(f"the columns have different numbers of values: {counts}")
    return columns


def _of_list(value: list[Any]) -> _Columns | None:
    """The columns of a list of records."""
    if not all(isinstance(record, dict) for record in value):
        return None
    names = dict.fromkeys(chain.from_iterable(value))
    return {name: [record.get(name) for record in value] for name in names}


def _of_object(value: dict[str, Any]) -> _Columns | None:
    """The columns of an object, in any of the forms that pandas writes.

    Example:
        >>> _of_object({"rank": {"0": 1, "1": 2}}) == _of_object({"0": {"rank": 1}, "1": {"rank": 2}})
        True
        >>> _of_object({"columns": ["head", "rank"], "data": [[3, 1]]})
        {'head': [3], 'rank': [1]}
    """
    data, names = value.get("data"), value.get("columns")
    if isinstance(data, list) and "schema" in value:
        return _of_list(data)
    if isinstance(data, list) and isinstance(names, list):
        fits = all(isinstance(row, list) and len(row) == len(names) for row in data)
        return {str(name): [row[i] for row in data] for i, name in enumerate(names)} if fits else None
    values = list(value.values())
    if values and all(isinstance(one, list) for one in values):
        return value
    if not values or not all(isinstance(one, dict) for one in values):
        return None
    if all(key.isdigit() for key in value) and not all(key.isdigit() for key in values[0]):
        return _of_list(values)
    index = dict.fromkeys(chain.from_iterable(values))
    return {name: [column.get(row) for row in index] for name, column in value.items()}


def _lines(draft: Draft, content: bytes) -> _Columns | None:
    """The columns of JSON Lines; lines that are no records are named."""
    records, wrong = [], []
    for number, line in enumerate(bounded_lines(io.BytesIO(content)), 1):
        text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if not text.strip():
            continue
        try:
            record = parse_json(text)
        except json.JSONDecodeError as error:
            wrong.append(f"line {number}, column {error.colno}: this is not JSON ({error.msg})")
        except ValueError as error:
            wrong.append(f"line {number}: cannot be read ({error})")
        else:
            if isinstance(record, dict):
                records.append(record)
            else:
                hint = "; is `format` json?" if number == 1 and isinstance(record, list) else ""
                wrong.append(f"line {number}: JSON of type {type(record).__name__}, expected an object{hint}")
    draft.problems += wrong[:_LINES_SHOWN]
    if len(wrong) > _LINES_SHOWN:
        draft.problems.append(f"{len(wrong) - _LINES_SHOWN:,} more lines are no records")
    return _of_list(records)


def _column(values: Sequence[Any]) -> pa.Array:
    """JSON values as a column: numbers or booleans if all are, else text.

    Example:
        >>> _column([1, None, 2.5]).to_pylist(), _column([1, "a", True]).to_pylist()
        ([1.0, None, 2.5], ['1', 'a', 'true'])
    """
    kinds = {type(value) for value in values} - {type(None)}
    if kinds <= {int, float} or kinds in ({str}, {bool}):
        try:
            return pa.array(values)
        except (pa.ArrowException, OverflowError):
            pass  # an integer beyond 64 bits
    return pa.array(
        [value if value is None or isinstance(value, str) else json.dumps(value) for value in values], pa.string()
    )
