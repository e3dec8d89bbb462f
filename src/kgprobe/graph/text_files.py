"""Text files with one record per line: read in bulk by pyarrow, and line by line only to name the bad lines."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from pathlib import Path
from typing import IO, Protocol

import numpy as np
import pyarrow as pa

from kgprobe.arrays import AnyInts
from kgprobe.bounded_files import BLOCK, LONGEST_LINE, UNREADABLE, Blocks, bounded_lines, disguise, open_bytes
from kgprobe.errors import spans
from kgprobe.graph.names import Labels, Names, as_labels

SHOWN = 20
"""Bad lines of one file that are shown in full; the others are listed by number."""

Columns = Mapping[str, pa.Array]
"""Columns of one file: int64 for ids, dictionary-encoded strings for labels."""

Judge = Callable[[int, list[str]], str | None]
"""Returns the problem of the line with this number and these fields, or None."""

_LISTED = 100_000
# "-0" and "0x1", which pyarrow reads as ids.
_SIGNED = re.compile(rb"\s(?:[+-]\d|0[xX])")
_WHITE_LINE = re.compile(rb"([\r\n])[ \t]+(?=[\r\n])")


def _open_emptied(path: Path) -> IO[bytes]:
    """Open a file as `open_bytes` does; lines of white space are empty."""
    file = open_bytes(path)
    return io.BufferedReader(Blocks(file, _emptied(file)), BLOCK)


def _emptied(file: IO[bytes]) -> Iterator[bytes]:
    before = b"\n"
    while block := file.read(BLOCK) + file.readline(LONGEST_LINE):  # whole lines, unless they end in \r
        at_end = not block.endswith(b"\n") and len(block) < LONGEST_LINE
        after = b"\n" if at_end else b""  # which ends the last line
        text = _WHITE_LINE.sub(rb"\1", before + block + after)
        yield text[1 : len(text) - len(after)]
        before = block[-1:]


def whole_number(text: str) -> int | None:
    """A non-negative integer in plain digits that fits an int64, or None."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


@dataclass(frozen=True)
class Layout:
    r"""The fields of a line.

    Attributes:
        columns: For each field, whether it is an id (an integer) or else a label.
        described: The layout in words, for error messages.
        delimiters: Characters that may separate fields, each tried in turn on the whole file.
        split: Splits one line, also if the file mixes delimiters.
        counted: Whether the first line holds the number of the lines that follow.
        limits: For each column of ids, their number: ids are 0..limit-1.
        skip: Number of lines at the beginning that are no records.
        careful: Bytes that only ``split`` understands, such as quotes: a file with them is read line by line.
        ignored: Columns of labels that may hold anything, also nothing.

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
    limits: Mapping[str, int] = field(default_factory=dict)
    skip: int = 0
    careful: re.Pattern[bytes] | None = None
    ignored: frozenset[str] = frozenset()

    def judge(self, fields: list[str]) -> str | None:
        """The problem of the fields of a line, or None."""
        if len(fields) != len(self.columns):
            return f"{len(fields)} field{'s' * (len(fields) != 1)}, expected {self.described}"
        for text, (name, is_id) in zip(fields, self.columns.items(), strict=True):
            if not text and name not in self.ignored:
                return f"empty {name}, expected {self.described}"
            number = whole_number(text) if is_id else None
            if is_id and number is None:
                return f"{text[:20]!r} is not an id"
            if number is not None and number >= self.limits.get(name, number + 1):
                return f"{name} {text} is outside 0..{self.limits[name] - 1}"
        return None

    def holds(self, columns: Columns) -> bool:
        """Whether there are rows, every id is in its range, and no label is blank."""
        import pyarrow.compute as pc

        for name, column in columns.items():
            limit = self.limits.get(name)
            if not len(column):
                return False
            if name in self.ignored:
                continue
            if not self.columns[name]:
                wrong = pc.or_(pc.equal(column.dictionary, ""), pc.utf8_is_space(column.dictionary))
            else:
                wrong = pc.or_(pc.less(column, 0), False if limit is None else pc.greater_equal(column, limit))
            if pc.any(wrong).as_py():
                return False
        return True


class LineCheck(Protocol):
    """A condition beyond the layout, for whole columns and for the fields of one line."""

    def holds(self, columns: Columns) -> bool:
        """Whether all lines are good."""

    def judge(self, number: int, fields: list[str]) -> str | None:
        """The problem of one line, or None."""


@dataclass(frozen=True)
class KnownNames:
    """The check that every text of a column is the name of exactly one id (a `LineCheck`).

    Attributes:
        names: The names that each column may hold; a column that is not listed may hold anything.
        order: The columns in the order of the fields of a line.

    Example:
        >>> rule = KnownNames({"entity": Names.build("entity", 3, None)}, ["weight", "entity"])
        >>> rule.judge(1, ["0.5", "3"])
        "'3' is no known entity"
    """

    names: Mapping[str, Names]
    order: Sequence[str]

    def holds(self, columns: Columns) -> bool:
        return all(names.ids(columns[name].dictionary).min(initial=0) >= 0 for name, names in self.names.items())

    def judge(self, _number: int, fields: list[str]) -> str | None:
        texts = dict(zip(self.order, fields, strict=True))
        problems = [names.problem(texts[name]) for name, names in self.names.items()]
        return ", ".join(problem for problem in problems if problem) or None

    def ids(self, columns: Columns, name: str) -> AnyInts:
        """The ids of a column."""
        column = columns[name]
        ids: AnyInts = self.names[name].ids(column.dictionary)[column.indices.to_numpy()].astype(np.int64)
        return ids


def is_text_file(path: Path, described: str, problems: list[str]) -> bool:
    """Whether a file can be read and is not of another format; if not, the problem is added to ``problems``."""
    try:
        kind = disguise(path)
    except OSError as error:
        problems.append(f"{path.name}: cannot be read ({error})")
        return False
    if kind:
        problems.append(f"{path.name}: is {kind}, expected lines of {described}")
    return not kind


def read_text(path: Path, layout: Layout, rule: LineCheck | None, problems: list[str]) -> Columns | None:
    """The columns of a file; or None, with every problem added to ``problems``."""
    columns = _read_fast(path, layout)
    if columns is not None and (rule is None or rule.holds(columns)):
        return columns
    if not is_text_file(path, layout.described, problems):
        return None

    def judge(number: int, fields: list[str]) -> str | None:
        return layout.judge(fields) or (rule.judge(number, fields) if rule else None)

    rows, bad = read_lines(path, layout.split, judge, header=layout.counted, skip=layout.skip)
    problems += bad
    if bad:
        return None
    fields = list(zip(*rows, strict=True)) or [()] * len(layout.columns)
    return {
        name: pa.array(map(int, values), pa.int64()) if is_id else pa.array(values).dictionary_encode()
        for (name, is_id), values in zip(layout.columns.items(), fields, strict=True)
    }


def _read_fast(path: Path, layout: Layout) -> Columns | None:
    """The columns of a file without errors; None for any other file."""
    from pyarrow import csv

    if any(layout.columns.values()) and _holds(path, _SIGNED):
        return None
    if layout.careful is not None and _holds(path, layout.careful):
        return None
    labels = pa.dictionary(pa.int32(), pa.string())
    types = {name: pa.int64() if is_id else labels for name, is_id in layout.columns.items()}
    read = csv.ReadOptions(column_names=list(types), skip_rows=layout.skip or int(layout.counted), block_size=1 << 24)
    # There are no nulls and no quotes in these files: an entity may be called "NA", and '"' is a character.
    convert = csv.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False)
    # pyarrow skips empty lines, but not lines of white space.
    for opened, delimiter in product((open_bytes, _open_emptied), layout.delimiters):
        parse = csv.ParseOptions(delimiter=delimiter, quote_char=False, escape_char=False)
        try:
            with opened(path) as file:
                table = csv.read_csv(file, read, parse, convert)
            count = _first_number(path) if layout.counted else table.num_rows
        except (pa.ArrowException, *UNREADABLE):
            continue  # reading line by line finds out why
        columns = {name: table.column(name).combine_chunks() for name in types}
        if count == table.num_rows and layout.holds(columns):
            return columns
    return None


def _holds(path: Path, pattern: re.Pattern[bytes]) -> bool:
    """Whether a pattern of at most 5 bytes occurs in a file; True if the file is unreadable."""
    before = b"\n"
    try:
        with open_bytes(path) as file:
            while block := file.read(BLOCK):
                if pattern.search(before + block):
                    return True
                before = block[-4:]
    except UNREADABLE:
        return True
    return False


def _first_number(path: Path) -> int | None:
    with open_bytes(path) as file:
        return whole_number(next(bounded_lines(file), b"").decode("utf-8-sig", "replace").strip(" \t"))


@dataclass
class Complaints:
    """The bad lines of one file: the first ones with their text, the others by number.

    Example:
        >>> complaints = Complaints("train.txt")
        >>> complaints.add(7, "2 fields, expected 3", "a b")
        >>> complaints.lines()
        ["train.txt, line 7: 2 fields, expected 3: 'a b'"]
    """

    file: str
    shown: list[str] = field(default_factory=list)
    more: list[int] = field(default_factory=list)
    unlisted: int = 0

    def add(self, number: int, problem: str, text: str) -> None:
        if len(self.shown) < SHOWN:
            short = text if len(text) <= 60 else text[:57] + "..."
            self.shown.append(f"{self.file}, line {number}: {problem}: {short!r}")
        elif len(self.more) < _LISTED:
            self.more.append(number)
        else:
            self.unlisted += 1

    def lines(self) -> list[str]:
        """All complaints, one line each."""
        rest = f", and {self.unlisted:,} after them" if self.unlisted else ""
        more = f"{self.file}: {len(self.more) + self.unlisted:,} more bad lines: {spans(self.more)}{rest}"
        return [*self.shown, more] if self.more else self.shown


def read_lines(
    path: Path, split: Callable[[str], list[str]], judge: Judge, *, header: bool, skip: int = 0
) -> tuple[list[list[str]], list[str]]:
    """The fields of every good line, and the problems of all others. Blank lines are skipped.

    Args:
        path: The file; lines may end as on Unix or Windows.
        split: Splits a line into its fields.
        judge: Returns the problem of a line.
        header: Whether the first line holds the number of the lines that follow.
        skip: Number of lines at the beginning that are no records.
    """
    complaints = Complaints(path.name)
    rows: list[list[str]] = []
    announced: int | None = None
    count = 0
    try:
        for number, text, undecodable in _texts(path):
            if header and number == 1:
                announced = whole_number(text.strip(" \t"))
                if announced is None:
                    complaints.add(1, "expected the number of lines that follow", text)
                continue
            if not text.strip() or number <= skip:
                continue
            count += 1
            fields = split(text)
            problem = undecodable or judge(number, fields)
            if problem:
                complaints.add(number, problem, text)
            else:
                rows.append(fields)
    except UNREADABLE as error:
        return rows, [*complaints.lines(), f"{path.name}: cannot be read ({error})"]
    problems = complaints.lines()
    if announced is not None and announced != count:
        problems.append(f"{path.name}: the first line says that {announced:,} lines follow, but {count:,} do")
    elif announced is None and not count and not problems:
        problems.append(f"{path.name}: empty")
    return rows, problems


def first_lines(path: Path, most: int) -> list[tuple[int, str]]:
    """The first lines that are not blank, with their numbers; none if the file is unreadable."""
    try:
        lines = ((number, text) for number, text, _ in _texts(path) if text.strip())
        return list(islice(lines, most))
    except UNREADABLE:
        return []


def _texts(path: Path) -> Iterator[tuple[int, str, str | None]]:
    """Each line with its number, and the problem if it is not UTF-8."""
    with open_bytes(path) as file:
        for number, raw in enumerate(bounded_lines(file), 1):
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                problem = f"not UTF-8 (byte {error.start + 1} is 0x{raw[error.start]:02x})"
                yield number, raw.decode("utf-8", "backslashreplace"), problem
            else:
                yield number, text, None


def read_dictionary(path: Path, layout: Layout, problems: list[str]) -> Labels | None:
    """The labels of a dictionary in id order; or None, with every problem added to ``problems``.

    Args:
        path: The file.
        layout: Layout with columns "id" and "label".
        problems: Collects the problems.
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
    """No id and no label occurs twice."""

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
