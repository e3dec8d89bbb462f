"""What every writer of tables is given: columns with headings, rows of cells, and notes below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from kgprobe.report.render.text import as_text, one_line

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
