"""Grids: columns with headings, rows of cells and notes, the input of every renderer."""

from __future__ import annotations

import csv
import json
import math
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any


def as_text(value: Any) -> str:
    """A value as a person wants to read it.

    Example:
        >>> as_text(0.123456), as_text(1234567), as_text(None), as_text(1e-9)
        ('0.1235', '1,234,567', '', '1e-09')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if value == 0 or (1e-3 <= abs(value) < 1e6 and math.isfinite(value)):
            return f"{value:,.4f}"
        return f"{value:.4g}"
    return str(value)


def counted(number: int, one: str, several: str | None = None) -> str:
    """A number with the word for what is counted.

    Example:
        >>> counted(1, "test"), counted(2000, "query", "queries")
        ('1 test', '2,000 queries')
    """
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def one_line(text: str) -> str:
    r"""A text that can stand in a cell: nothing in it moves the cursor, ends the line or turns what follows around.

    Example:
        >>> one_line("two\nlines"), one_line("\x1b[31mred"), one_line("\u202eturned")
        ('two lines', ' [31mred', 'turned')
    """
    return "".join("" if c in _TURNS else _REPLACED.get(unicodedata.category(c), c) for c in text)


_TURNS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"

"""Marks of the direction of writing, which would reach beyond the name that they are in."""

_REPLACED = {"Cc": " ", "Zl": " ", "Zp": " ", "Cs": "\ufffd"}

Record = Mapping[str, Any]

PLACES = {1: "1st", 2: "2nd", 3: "3rd"}

MEDALS = {1: "F8A602", 2: "A5A5B1", 3: "D36A49"}

"""The paper's gold, silver and bronze."""


@dataclass(frozen=True)
class Cell:
    """A name or a number with what stands beside it.

    Attributes:
        text: The name or number.
        deviation: Its deviation over seeds, as a number.
        interval: Its confidence interval.
        place: 1, 2 or 3, if it is among the best of its column.
        marks: Signs that the notes explain, to be raised.
    """

    text: str
    deviation: str = ""
    interval: str = ""
    place: int | None = None
    marks: str = ""

    @property
    def beside(self) -> str:
        """Deviation and interval."""
        deviation = f"±{self.deviation}" if self.deviation else ""
        return " ".join(filter(None, (deviation, self.interval)))


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
        headings: One for each line of headings; equal ones side by side are one that spans several columns.
        numeric: Whether it holds numbers, which stand below each other by their last digit.
    """

    headings: tuple[str, ...]
    numeric: bool = False


@dataclass(frozen=True)
class Line:
    """A row of cells.

    Attributes:
        cells: One for each column.
        opens: Whether a block of rows begins here.
    """

    cells: tuple[Cell, ...]
    opens: bool = False


@dataclass(frozen=True)
class Grid:
    """A table for people; all its texts are free of line breaks and control characters.

    Attributes:
        columns: The columns.
        lines: The rows.
        notes: Sentences that explain the marks and say how the numbers came to be.

    Example:
        >>> grid = grid_of([{"metric": "MRR", "value": 0.25}])
        >>> [column.headings for column in grid.columns], grid.lines[0].cells[1].text
        ([('metric',), ('value',)], '0.2500')
    """

    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()

    @property
    def levels(self) -> int:
        """How many lines of headings there are."""
        return max((len(column.headings) for column in self.columns), default=0)

    @property
    def places(self) -> list[int]:
        """The places that any cell has."""
        return sorted({cell.place for line in self.lines for cell in line.cells if cell.place in PLACES})

    def spans(self, level: int) -> Iterator[tuple[str, int]]:
        """The headings of a line, each with the number of its columns; one never reaches beyond that above it."""
        for headings, span in groupby(self.columns, lambda column: column.headings[: level + 1]):
            width = len(list(span))
            # Columns of equal names are different columns, and so are those without a heading.
            shared = headings[level] and level + 1 < self.levels
            yield from [(headings[level], width)] if shared else [(headings[level], 1)] * width


def columns_of(rows: Sequence[Record]) -> list[str]:
    """The columns of all rows, in the order in which they first appear."""
    return list(dict.fromkeys(key for row in rows for key in row))


def grid_of(rows: Sequence[Record]) -> Grid:
    """Rows of results as a table: a column for each key, numbers to the right."""
    names = columns_of(rows)
    numeric = [all(isinstance(row.get(name), int | float | None) for row in rows) for name in names]
    columns = [Column((one_line(name),), right) for name, right in zip(names, numeric, strict=True)]
    lines = [Line(tuple(Cell(one_line(as_text(row.get(name)))) for name in names)) for row in rows]
    return Grid(tuple(columns), tuple(lines))


def json_text(rows: Sequence[Record]) -> str:
    """A list of flat objects, one on each line; null where a number is not finite.

    Example:
        >>> print(json_text([{"metric": "MRR", "value": 0.1 + 0.2, "std": float("nan")}]), end="")
        [
          {"metric": "MRR", "value": 0.30000000000000004, "std": null}
        ]
    """
    if not rows:
        return "[]\n"
    lines = ",\n".join("  " + json.dumps(_finite(row), ensure_ascii=False) for row in rows)
    # Half of a surrogate pair cannot be written as UTF-8; what Python writes for it is JSON too.
    return f"[\n{lines}\n]\n".encode("utf-8", "backslashreplace").decode()


def csv_text(rows: Sequence[Record]) -> str:
    """Comma-separated values with a heading; empty where a number is not finite.

    Example:
        >>> print(csv_text([{"metric": "MRR", "value": 0.1 + 0.2, "std": None}]), end="")
        metric,value,std
        MRR,0.30000000000000004,
    """
    lines = _Lines()
    # A lone carriage return is quoted only where it is part of the line's end.
    writer = csv.DictWriter(lines, columns_of(rows), restval="", lineterminator=_Lines.end)
    writer.writeheader()
    writer.writerows(_finite(row) for row in rows)
    return "".join(lines.written).encode("utf-8", "replace").decode()


class _Lines:
    """Takes lines that end in CR LF, and keeps them ending in LF."""

    end = "\r\n"

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, line: str) -> None:
        self.written.append(line.removesuffix(self.end) + "\n")


def _finite(row: Record) -> dict[str, Any]:
    return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in row.items()}
