"""Files of rank tables that others have written: CSV, TSV and Parquet, as columns under their own names."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from kgprobe.errors import DataError, UsageError, nearest
from kgprobe.graph.readers.columns import read_parquet
from kgprobe.graph.readers.lines import UNREADABLE, disguise, open_bytes, read_lines
from kgprobe.ranks.importers.draft import Draft

if TYPE_CHECKING:
    from pyarrow.csv import InvalidRow

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
