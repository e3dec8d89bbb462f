"""Tables in Markdown (GitHub's, which most readers know)."""

from __future__ import annotations

import re

from kgprobe.report.render.grid import PLACES, Cell, Column, Grid

_SPECIAL = re.compile(r"[\\`*\[\]<>|~$]|(?<![^\W_])_|&(?=#?\w+;)")
"""What Markdown or its tables would read as anything but itself; an underscore only where it could open emphasis."""


def markdown(grid: Grid) -> str:
    r"""A table in Markdown, and its notes below.

    Example:
        >>> from kgprobe.report.render.grid import grid_of
        >>> print(markdown(grid_of([{"metric": "a|b", "value": 0.25}])), end="")
        | metric | value |
        | --- | ---: |
        | a\|b | 0.2500 |
    """
    rows = [[_heading(column) for column in grid.columns]]
    rows += [[_cell(cell) for cell in line.cells] for line in grid.lines]
    rule = ["---:" if column.numeric else "---" for column in grid.columns]
    table = "".join(f"| {' | '.join(row)} |\n" for row in (rows[0], rule, *rows[1:]))
    notes = "".join(f"- {escaped(note)}\n" for note in grid.notes)
    return table + (f"\n{notes}" if notes else "")


def escaped(text: str) -> str:
    """A text that Markdown shows as it is."""
    return _SPECIAL.sub(lambda found: "\\" + found[0], text)


def _heading(column: Column) -> str:
    return escaped(" ".join(filter(None, column.headings)))


def _cell(cell: Cell) -> str:
    place = f"({PLACES[cell.place]})" if cell.place in PLACES else ""
    number = f"**{escaped(cell.text)}**" if cell.place == 1 else escaped(cell.text)
    raised = f"<sup>{escaped(cell.marks)}</sup>" if cell.marks else ""
    return " ".join(filter(None, (number, escaped(cell.beside), place, raised)))
