"""Tables as values (`Grid`), and their rendering in a terminal; rows as JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
import math
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from os import PathLike
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from kgprobe.errors import UNPRINTABLE, UsageError, one_line

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


UNDEFINED = "\N{EN DASH}"
"""The cell of a number that is undefined."""


def as_text(value: Any) -> str:
    """A value as text for tables.

    Example:
        >>> as_text(0.123456), as_text(1234567), as_text(None), as_text(1e-9), as_text(math.nan)
        ('0.1235', '1,234,567', '', '1e-09', '–')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if math.isnan(value):
            return UNDEFINED
        if value == 0 or (1e-3 <= abs(value) < 1e6 and math.isfinite(value)):
            return f"{value + 0.0:,.4f}"  # -0.0 has no sign
        return f"{value:.4g}"
    return str(value)


def counted(number: int, one: str, several: str | None = None) -> str:
    """A number with its noun in singular or plural.

    Example:
        >>> counted(1, "test"), counted(2000, "query", "queries")
        ('1 test', '2,000 queries')
    """
    return f"{number:,} {one if number == 1 else several or one + 's'}"


Record = Mapping[str, Any]


def ending_of(path: str | PathLike[str], known: Collection[str], what: str = "report") -> str:
    """The lower-case ending of a file name, such as ``.tex``; a UsageError if it is not among the known ones.

    Example:
        >>> ending_of("table.TEX", [".md", ".tex"])
        '.tex'
    """
    ending = Path(path).suffix.lower()
    if ending not in known:
        raise UsageError(f"{path}: unknown file type for a {what}", remedy=f"choose one of {', '.join(known)}")
    return ending


PLACES = {1: "1st", 2: "2nd", 3: "3rd"}
MEDALS = {1: "F8A602", 2: "A5A5B1", 3: "D36A49"}  # the paper's gold, silver and bronze


@dataclass(frozen=True)
class Cell:
    """A name or a number with its annotations.

    Attributes:
        text: The name or number.
        deviation: Its standard deviation over seeds.
        interval: Its confidence interval.
        place: Its place in the column; 1, 2 and 3 are highlighted.
        marks: Superscript signs that the notes explain.
    """

    text: str
    deviation: str = ""
    interval: str = ""
    place: int | None = None
    marks: str = ""

    @property
    def beside(self) -> str:
        deviation = f"±{self.deviation}" if self.deviation else ""
        return " ".join(filter(None, (deviation, self.interval)))


@dataclass(frozen=True)
class Column:
    """A column: one heading per heading line (equal neighbours are merged), and whether it is right-aligned."""

    headings: tuple[str, ...]
    numeric: bool = False


@dataclass(frozen=True)
class GridRow:
    """A row of cells; `opens` marks the start of a block of rows."""

    cells: tuple[Cell, ...]
    opens: bool = False


@dataclass(frozen=True)
class Grid:
    """A table; its texts have no line breaks and no control characters.

    Attributes:
        columns: The columns.
        lines: The rows.
        notes: Sentences below the table that explain marks and methods.
        keys: The number of leading columns that identify a row, which every part of a wide table repeats. By default
            the columns before the first number.

    Example:
        >>> grid = grid_of([{"metric": "MRR", "value": 0.25}])
        >>> [column.headings for column in grid.columns], grid.lines[0].cells[1].text
        ([('metric',), ('value',)], '0.2500')
    """

    columns: tuple[Column, ...]
    lines: tuple[GridRow, ...]
    notes: tuple[str, ...] = ()
    keys: int | None = None

    @property
    def levels(self) -> int:
        """The number of heading lines."""
        return max((len(column.headings) for column in self.columns), default=0)

    @property
    def places(self) -> list[int]:
        """The highlighted places that occur."""
        return sorted({cell.place for line in self.lines for cell in line.cells if cell.place in PLACES})

    def spans(self, level: int) -> Iterator[tuple[str, int]]:
        """The headings of a line with the number of columns of each; a span never exceeds the one above."""
        for headings, span in groupby(self.columns, lambda column: column.headings[: level + 1]):
            width = len(list(span))
            # Equal headings of the last line, and empty ones, are not merged.
            shared = headings[level] and level + 1 < self.levels
            yield from [(headings[level], width)] if shared else [(headings[level], 1)] * width


def columns_of(rows: Sequence[Record]) -> list[str]:
    """The keys of all rows, in order of first appearance."""
    return list(dict.fromkeys(key for row in rows for key in row))


def grid_of(rows: Sequence[Record]) -> Grid:
    """Rows as a table with one column per key; numeric columns are right-aligned."""
    names = columns_of(rows)
    numeric = [all(isinstance(row.get(name), int | float | None) for row in rows) for name in names]
    columns = [Column((one_line(name),), right) for name, right in zip(names, numeric, strict=True)]
    lines = [GridRow(tuple(Cell(one_line(as_text(row.get(name)))) for name in names)) for row in rows]
    return Grid(tuple(columns), tuple(lines))


def text_table(rows: Sequence[Record], notes: Sequence[str] = ()) -> str:
    """Rows as a table that fits on the terminal, with notes below; without a line break at the end.

    Example:
        >>> print(text_table([{"metric": "MRR", "value": 0.25}], ["1 query."]))
        metric    value
        ───────────────
        MRR      0.2500
        <BLANKLINE>
        1 query.
    """
    grid = replace(grid_of(rows), notes=tuple(map(one_line, notes)))
    return terminal(grid, width=get_terminal_size((120, 24)).columns).rstrip("\n")


def json_text(rows: Sequence[Record]) -> str:
    """Rows as a JSON list of flat objects, one per line; numbers that are not finite are null, with a ``reason``.

    Example:
        >>> print(json_text([{"metric": "MRR", "value": 0.1 + 0.2}, {"metric": "MR", "value": math.nan}]), end="")
        [
          {"metric": "MRR", "value": 0.30000000000000004},
          {"metric": "MR", "value": null, "reason": "value is undefined"}
        ]
    """
    if not rows:
        return "[]\n"
    lines = (json.dumps(_finite(row), ensure_ascii=False) for row in rows)
    # All of these characters are inside strings, where JSON has an escape for each: nothing is lost.
    shown = ",\n".join("  " + UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", line) for line in lines)
    return f"[\n{shown}\n]\n"


def csv_text(rows: Sequence[Record]) -> str:
    r"""Rows as CSV with a header; numbers that are not finite are empty, with a ``reason``; texts as in tables.

    Example:
        >>> print(csv_text([{"metric": "MRR", "value": 0.1 + 0.2, "std": None, "model": "a\nb"}]), end="")
        metric,value,std,model
        MRR,0.30000000000000004,,a b
    """
    text = io.StringIO()
    rows = list(map(_finite, rows))
    columns = columns_of(rows)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(one_line, columns))
    writer.writerows([_csv_cell(cells.get(column)) for column in columns] for cells in rows)
    return text.getvalue()


def _csv_cell(value: Any) -> Any:
    return value if value is None or isinstance(value, int | float) else one_line(str(value))


def _finite(row: Record) -> dict[str, Any]:
    """A row with null in place of numbers that are not finite, and the reason beside them."""
    wrong = {key: v for key, v in row.items() if isinstance(v, float) and not math.isfinite(v)}
    if not wrong:
        return dict(row)
    named = "; ".join(f"{key} is {'undefined' if math.isnan(v) else 'infinite'}" for key, v in wrong.items())
    return {**row, **dict.fromkeys(wrong), "reason": row.get("reason") or named}


_UNLIMITED_WIDTH = 10_000
_NOTE_WIDTH = 100
_NARROWEST_TEXT = 30  # a column of texts is not made narrower than this, if its texts are longer


def terminal(grid: Grid, *, width: int | None = None, colour: bool = False) -> str:
    """A table for the terminal, with its notes below.

    Args:
        grid: The table.
        width: Characters per line; a wider table is split into parts. By default it is not split. Numbers and words
            are never broken, so that a line may be longer.
        colour: Whether places are coloured.

    Example:
        >>> print(terminal(grid_of([{"metric": "MRR", "value": 0.25}])), end="")
        metric    value
        ───────────────
        MRR      0.2500
    """
    from rich.console import Console

    parts = list(_parts(grid, width))
    text = io.StringIO()
    console = Console(
        file=text,
        width=max(width, *map(_narrowest, parts)) if width else _UNLIMITED_WIDTH,
        force_terminal=colour,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    for number, part in enumerate(parts):
        if number:
            console.print()
        console.print(_table(part))
    if grid.notes:
        console.print()
    for note in grid.notes:
        console.print(wrapped(note, width or _NOTE_WIDTH), soft_wrap=True)
    return "\n".join(line.rstrip() for line in text.getvalue().split("\n"))


def wrapped(text: str, width: int) -> str:
    r"""A text in lines of at most this width, if its words allow; later lines are indented.

    Example:
        >>> wrapped("a note of several words", 12).split("\n")
        ['a note of', '  several', '  words']
    """
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    return textwrap.fill(text, max(width, 1), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _parts(grid: Grid, width: int | None) -> Iterator[Grid]:
    """The table split into parts that fit on a line; each part repeats the key columns."""
    first = next((i for i, column in enumerate(grid.columns) if column.numeric), len(grid.columns))
    keys = first if grid.keys is None else grid.keys
    if width is None or keys == len(grid.columns) or _narrowest(grid) <= width:
        yield grid
        return
    start = keys
    while start < len(grid.columns):
        end = start + 1
        while end < len(grid.columns) and _narrowest(_cut(grid, keys, start, end + 1)) <= width:
            end += 1
        yield _cut(grid, keys, start, end)
        start = end


def _cut(grid: Grid, keys: int, start: int, end: int) -> Grid:
    lines = (replace(line, cells=line.cells[:keys] + line.cells[start:end]) for line in grid.lines)
    return Grid(grid.columns[:keys] + grid.columns[start:end], tuple(lines))


def _narrowest(grid: Grid) -> int:
    """The width of a table whose texts are wrapped as far as they may be."""
    from rich.console import Console

    return Console(width=_UNLIMITED_WIDTH).measure(_table(grid)).minimum


def _table(grid: Grid) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    shown = [_column([line.cells[i] for line in grid.lines], column) for i, column in enumerate(grid.columns)]
    for column, texts in zip(grid.columns, shown, strict=True):
        head = Text("\n".join(column.headings), justify="right" if column.numeric else "left")
        table.add_column(head, overflow="fold", no_wrap=column.numeric, min_width=_least_width(texts))
    for line, *cells in zip(grid.lines, *shown, strict=True):
        if line.opens:
            table.add_section()
        table.add_row(*cells)
    return table


def _least_width(texts: Sequence[Text]) -> int:
    """The width of the longest word, or more for longer texts."""
    from rich.cells import cell_len

    words = (cell_len(word) for text in texts for word in text.plain.split())
    return max(max(words, default=0), min(_NARROWEST_TEXT, max((text.cell_len for text in texts), default=0)))


def _column(cells: Sequence[Cell], column: Column) -> list[Text]:
    """The cells of a column; numbers are aligned, whatever their annotations."""
    from rich.cells import cell_len
    from rich.text import Text

    if not column.numeric:
        return [Text(cell.text) for cell in cells]
    beside = [_beside(cell) for cell in cells]
    rooms = [max(map(cell_len, parts)) for parts in zip(*beside, strict=True)]
    widest = max((cell_len(cell.text) for cell in cells), default=0)
    before = max(widest, *map(cell_len, column.headings), 0) - sum(room + 1 for room in rooms if room)
    texts = []
    for cell, parts in zip(cells, beside, strict=True):
        text = Text(" " * (max(before, widest) - cell_len(cell.text)))
        text.append(cell.text, style=f"bold #{MEDALS[cell.place]}" if cell.place in MEDALS else "")
        for part, room in zip(parts, rooms, strict=True):
            text.append(f" {part}" + " " * (room - cell_len(part)) if room else "")
        texts.append(text)
    return texts


def _beside(cell: Cell) -> tuple[str, str, str]:
    behind = " ".join(filter(None, (PLACES.get(cell.place or 0, ""), cell.marks)))
    return f"±{cell.deviation}" if cell.deviation else "", cell.interval, behind
