"""Tables for the terminal."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kgprobe.report.render.grid import MEDALS, PLACES, Cell, Column, Grid

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


_ENDLESS = 10_000


def terminal(grid: Grid, *, width: int | None = None, colour: bool = False) -> str:
    """A table for the terminal, and its notes below.

    Args:
        grid: The table.
        width: The number of letters on a line: a wider table is shown in parts; without it, all is on one line.
        colour: Whether places are shown in colour too.

    Example:
        >>> from kgprobe.report.render.grid import grid_of
        >>> print(terminal(grid_of([{"metric": "MRR", "value": 0.25}])), end="")
        metric    value
        ───────────────
        MRR      0.2500
    """
    from rich.console import Console

    text = io.StringIO()
    console = Console(
        file=text,
        width=width or _ENDLESS,
        force_terminal=colour,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    for number, part in enumerate(_parts(grid, width)):
        if number:
            console.print()
        console.print(_table(part))
    if grid.notes:
        console.print()
    for note in grid.notes:
        console.print(note, soft_wrap=width is None)
    return "\n".join(line.rstrip() for line in text.getvalue().split("\n"))


def _parts(grid: Grid, width: int | None) -> Iterator[Grid]:
    """The table in parts that fit on a line, each with the columns that name its rows."""
    names = next((i for i, column in enumerate(grid.columns) if column.numeric), len(grid.columns))
    if width is None or names == len(grid.columns) or _width(grid) <= width:
        yield grid
        return
    start = names
    while start < len(grid.columns):
        end = start + 1
        while end < len(grid.columns) and _width(_cut(grid, names, start, end + 1)) <= width:
            end += 1
        yield _cut(grid, names, start, end)
        start = end


def _cut(grid: Grid, names: int, start: int, end: int) -> Grid:
    lines = (replace(line, cells=line.cells[:names] + line.cells[start:end]) for line in grid.lines)
    return Grid(grid.columns[:names] + grid.columns[start:end], tuple(lines))


def _width(grid: Grid) -> int:
    from rich.console import Console

    return Console(width=_ENDLESS).measure(_table(grid)).maximum


def _table(grid: Grid) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    shown = [_column([line.cells[i] for line in grid.lines], column) for i, column in enumerate(grid.columns)]
    for column in grid.columns:
        head = Text("\n".join(column.headings), justify="right" if column.numeric else "left")
        table.add_column(head, overflow="fold", no_wrap=column.numeric)
    for line, *cells in zip(grid.lines, *shown, strict=True):
        if line.opens:
            table.add_section()
        table.add_row(*cells)
    return table


def _column(cells: Sequence[Cell], column: Column) -> list[Text]:
    """The cells of a column; numbers end below each other, whatever stands behind them."""
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
