"""Text files with one record a line: read in bulk, and line by line where something is wrong."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Protocol, cast

import numpy as np

from kgprobe.errors import spans
from kgprobe.graph.knowledge_graph import as_labels

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from kgprobe.graph.knowledge_graph import Labels


SHOWN = 20

"""Bad lines of one file that are shown in full; the others are named by their numbers."""

_MAGIC = {b"\x1f\x8b": "a gzip file", b"PAR1": "a Parquet file", b"PK\x03\x04": "a zip file"}

Judge = Callable[[int, list[str]], str | None]

"""What is wrong with the fields of a line of that number, or None."""

UNREADABLE = (OSError, EOFError, zlib.error)

"""What reading a file can raise, compressed or not."""


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file, unpacking it if its name ends in .gz."""
    return cast("IO[bytes]", gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def disguise(path: Path) -> str | None:
    """The kind of a file that is not text, by its first bytes; None for text and for a gzip file named .gz.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.txt"
        >>> _ = path.write_bytes(b"PAR1...")
        >>> disguise(path)
        'a Parquet file'
    """
    with path.open("rb") as file:
        start = file.read(4)
    kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)
    return None if kind == "a gzip file" and path.suffix == ".gz" else kind


@dataclass
class Complaints:
    """The bad lines of one file, the first ones with their text and the others by number.

    Example:
        >>> complaints = Complaints("train.txt")
        >>> complaints.add(7, "2 fields, expected 3", "a b")
        >>> complaints.lines()
        ["train.txt, line 7: 2 fields, expected 3: 'a b'"]
    """

    file: str
    shown: list[str] = field(default_factory=list)
    more: list[int] = field(default_factory=list)

    def add(self, number: int, problem: str, text: str) -> None:
        """Note that a line is bad."""
        if len(self.shown) < SHOWN:
            short = text if len(text) <= 60 else text[:57] + "..."
            self.shown.append(f"{self.file}, line {number}: {problem}: {short!r}")
        else:
            self.more.append(number)

    def lines(self) -> list[str]:
        """All complaints, one line each."""
        more = f"{self.file}: {len(self.more):,} more bad lines: {spans(self.more)}"
        return [*self.shown, more] if self.more else self.shown


def read_lines(
    path: Path, split: Callable[[str], list[str]], judge: Judge, *, header: bool
) -> tuple[list[list[str]], list[str]]:
    """The fields of every good line and the complaints about all others.

    Blank lines are passed over, and lines may end as on Unix or Windows.

    Args:
        path: The file.
        split: Takes a line apart into its fields.
        judge: Says what is wrong with the fields of a line.
        header: Whether the first line holds the number of the lines that follow.
    """
    complaints = Complaints(path.name)
    rows: list[list[str]] = []
    promised: int | None = None
    count = 0
    try:
        for number, text, problem in _texts(path):
            if header and number == 1:
                promised = whole_number(text.strip())
                if promised is None:
                    complaints.add(1, "expected the number of lines that follow", text)
                continue
            if not text.strip():
                continue
            count += 1
            fields = split(text)
            wrong = problem or judge(number, fields)
            if wrong:
                complaints.add(number, wrong, text)
            else:
                rows.append(fields)
    except UNREADABLE as error:
        return rows, [*complaints.lines(), f"{path.name}: cannot be read ({error})"]
    problems = complaints.lines()
    if promised is not None and promised != count:
        problems.append(f"{path.name}: the first line says that {promised:,} lines follow, but {count:,} do")
    elif promised is None and not count and not problems:
        problems.append(f"{path.name}: empty")
    return rows, problems


def whole_number(text: str) -> int | None:
    """A non-negative whole number in plain digits that fits an int64, or None."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def _texts(path: Path) -> Iterator[tuple[int, str, str | None]]:
    """Each line with its number, and what keeps it from being text."""
    with open_bytes(path) as file:
        # Iteration ends lines at \n alone: a file that has only \r comes as one piece, and is split here.
        number = 0
        for chunk in file:
            for raw in chunk.splitlines():
                number += 1
                try:
                    text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    what = f"not UTF-8 (byte {error.start + 1} is 0x{raw[error.start]:02x})"
                    yield number, raw.decode("utf-8", "backslashreplace"), what
                else:
                    yield number, text, None


Columns = Mapping[str, "pa.Array"]

"""Columns of one file: int64 for ids, dictionary-encoded strings for labels."""


@dataclass(frozen=True)
class Layout:
    r"""How the lines of a text file are made.

    Attributes:
        columns: For each field of a line, whether it is an id (a whole number) or else a label.
        described: How a line should look, for a person.
        delimiters: Characters that may stand between fields, each tried in turn on the whole file.
        split: Takes one line apart, also where the delimiters of a file are mixed.
        counted: Whether the first line holds the number of the lines that follow.

    Example:
        >>> layout = Layout({"id": True, "label": False}, "id<TAB>label", "\t", lambda line: line.split("\t"))
        >>> layout.judge(["x", "Ada"])
        "'x' is not an id"
        >>> layout.judge(["1"])
        '1 field, expected id<TAB>label'
    """

    columns: Mapping[str, bool]
    described: str
    delimiters: str
    split: Callable[[str], list[str]]
    counted: bool = False

    def judge(self, fields: list[str]) -> str | None:
        """What is wrong with the fields of a line, or None."""
        if len(fields) != len(self.columns):
            found = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
            return f"{found}, expected {self.described}"
        for text, (name, is_id) in zip(fields, self.columns.items(), strict=True):
            if not text:
                return f"empty {name}, expected {self.described}"
            if is_id and whole_number(text) is None:
                return f"{text[:20]!r} is not an id"
        return None


class LineCheck(Protocol):
    """What must hold beyond the layout, once for whole columns and once for the fields of a line."""

    def holds(self, columns: Columns) -> bool:
        """Whether all lines are good."""

    def judge(self, number: int, fields: list[str]) -> str | None:
        """What is wrong with one line, or None."""


def read_text(path: Path, layout: Layout, rule: LineCheck, problems: list[str]) -> Columns | None:
    """The columns of a file; or None, with everything that is wrong added to ``problems``."""
    columns = _read_fast(path, layout)
    if columns is not None and rule.holds(columns):
        return columns
    try:
        kind = disguise(path)
    except OSError as error:
        problems.append(f"{path.name}: cannot be read ({error})")
        return None
    if kind:
        problems.append(f"{path.name}: is {kind}, expected lines of {layout.described}")
        return None
    rows, found = read_lines(
        path,
        layout.split,
        lambda number, fields: layout.judge(fields) or rule.judge(number, fields),
        header=layout.counted,
    )
    problems += found
    return None if found else _columns(rows, layout)


def _read_fast(path: Path, layout: Layout) -> Columns | None:
    import pyarrow as pa
    from pyarrow import csv

    types = {name: pa.int64() if is_id else _coded() for name, is_id in layout.columns.items()}
    read = csv.ReadOptions(column_names=list(types), skip_rows=int(layout.counted), block_size=1 << 24)
    # Nothing in these files means null or quotes: an entity may well be called "NA", and '"' is a character.
    convert = csv.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False)
    for delimiter in layout.delimiters:
        parse = csv.ParseOptions(delimiter=delimiter, quote_char=False, escape_char=False)
        try:
            with open_bytes(path) as file:
                table = csv.read_csv(file, read, parse, convert)
            promised = _first_number(path) if layout.counted else table.num_rows
        except (pa.ArrowException, *UNREADABLE):
            continue  # the close look that follows says what it was
        columns = {name: table.column(name).combine_chunks() for name in types}
        if promised == table.num_rows > 0 and all(map(_filled, columns.values())):
            return columns
    return None


def _first_number(path: Path) -> int | None:
    with open_bytes(path) as file:
        return whole_number(file.readline().decode("utf-8-sig", "replace").strip())


def _coded() -> pa.DataType:
    import pyarrow as pa

    return pa.dictionary(pa.int32(), pa.string())


def _filled(column: pa.Array) -> bool:
    """Whether every id is non-negative and no label is empty."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wrong = pc.equal(column.dictionary, "") if pa.types.is_dictionary(column.type) else pc.less(column, 0)
    return not pc.any(wrong).as_py()


def _columns(rows: list[list[str]], layout: Layout) -> Columns:
    import pyarrow as pa

    fields = list(zip(*rows, strict=True)) or [()] * len(layout.columns)
    return {
        name: pa.array(map(int, values), pa.int64()) if is_id else pa.array(values).dictionary_encode()
        for (name, is_id), values in zip(layout.columns.items(), fields, strict=True)
    }


def read_dictionary(path: Path, layout: Layout, problems: list[str]) -> Labels | None:
    """The labels of a dictionary in id order; or None, with everything that is wrong added to ``problems``.

    Args:
        path: The file.
        layout: Layout of its lines, with columns "id" and "label".
        problems: Takes what is wrong.
    """
    columns = read_text(path, layout, _Distinct(list(layout.columns)), problems)
    if columns is None:
        return None
    ids = columns["id"].to_numpy()
    order = np.argsort(ids)
    if len(ids) and ids[order[-1]] != len(ids) - 1:
        missing = np.setdiff1d(np.arange(len(ids)), ids)
        listed = spans(missing.tolist(), most=10)
        problems.append(f"{path.name}: ids must run from 0 to {len(ids) - 1} without gaps; missing: {listed}")
        return None
    return as_labels(columns["label"].dictionary_decode().take(order))


@dataclass
class _Distinct:
    """No id and no label is given twice."""

    names: list[str]
    seen: dict[tuple[str, str], int] = field(default_factory=dict)

    def holds(self, columns: Columns) -> bool:
        ids = columns["id"].to_numpy()
        return len(np.unique(ids)) == len(ids) == len(columns["label"].dictionary)

    def judge(self, number: int, fields: list[str]) -> str | None:
        for entry in zip(self.names, fields, strict=True):
            first = self.seen.setdefault(entry, number)
            if first != number:
                return f"{entry[0]} {entry[1][:40]!r} is already on line {first}"
        return None
