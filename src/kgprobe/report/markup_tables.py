"""Tables in Markdown, and in HTML for notebooks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html import escape

from kgprobe.errors import one_line
from kgprobe.report.grid import MEDALS, PLACES, Cell, Column, Grid, Record, grid_of

_SPECIAL = re.compile(r"[\\`*\[\]<>|~$]|(?<![^\W_])_|&(?=#?\w+;)")
"""Characters that Markdown tables would interpret; an underscore only where it could start emphasis."""


def markdown(grid: Grid) -> str:
    r"""A table in Markdown, with its notes below.

    Example:
        >>> from kgprobe.report.grid import grid_of
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
    """A text with the special characters of Markdown escaped."""
    return _SPECIAL.sub(lambda found: "\\" + found[0], text)


def _heading(column: Column) -> str:
    return escaped(" ".join(filter(None, column.headings)))


def _cell(cell: Cell) -> str:
    place = f"({PLACES[cell.place]})" if cell.place in PLACES else ""
    number = f"**{escaped(cell.text)}**" if cell.place == 1 else escaped(cell.text)
    raised = f"<sup>{escaped(cell.marks)}</sup>" if cell.marks else ""
    return " ".join(filter(None, (number, escaped(cell.beside), place, raised)))


_CELL = "padding:.25em .6em;white-space:nowrap;"
_LINE = "1px solid #8888"
_WRAPPED = 60  # a column of longer texts is wrapped


def html(grid: Grid) -> str:
    """A table in HTML, with its notes below.

    Example:
        >>> from kgprobe.report.grid import grid_of
        >>> "<td" in html(grid_of([{"metric": "<b>", "value": 0.25}])), "<b>" in html(grid_of([{"metric": "<b>"}]))
        (True, False)
    """
    head = "".join(_headings(grid, level) for level in range(grid.levels))
    cells = zip(*(line.cells for line in grid.lines), strict=True)
    columns = [_column(own, column) for own, column in zip(cells, grid.columns, strict=False)]
    body = "".join(
        f'<tr style="border-top:{_LINE if line.opens else "none"}">{"".join(own)}</tr>\n'
        for line, *own in zip(grid.lines, *columns, strict=True)
    )
    notes = "".join(f"<li>{escape(note)}</li>\n" for note in grid.notes)
    listed = f'<ul style="font-size:.85em;opacity:.85;padding-left:1.2em">\n{notes}</ul>\n' if notes else ""
    return (
        '<div style="overflow-x:auto">\n'
        '<table style="border-collapse:collapse;font-variant-numeric:tabular-nums">\n'
        f"<thead>\n{head}</thead>\n<tbody>\n{body}</tbody>\n</table>\n{listed}</div>\n"
    )


def notebook_table(title: str, rows: Sequence[Record], notes: Sequence[str] = ()) -> str:
    """Rows in HTML below a title, as a notebook shows a result.

    Example:
        >>> "<b>" in notebook_table("<b>", [{"metric": "MRR"}])
        False
    """
    table = html(replace(grid_of(rows), notes=tuple(map(one_line, notes))))
    return f'<div style="font-family:monospace">{escape(one_line(title))}</div>\n{table}'


def _headings(grid: Grid, level: int) -> str:
    cells, start = [], 0
    line = f"border-bottom:{_LINE};" if level + 1 == grid.levels else ""
    for heading, width in grid.spans(level):
        side = "center" if width > 1 else _side(grid.columns[start])
        cells.append(
            f'<th scope="{"colgroup" if width > 1 else "col"}" colspan="{width}" '
            f'style="{_CELL}{line}text-align:{side}"><bdi>{escape(heading)}</bdi></th>'
        )
        start += width
    return f"<tr>{''.join(cells)}</tr>\n"


def _side(column: Column) -> str:
    return "right" if column.numeric else "left"


def _column(cells: Sequence[Cell], column: Column) -> list[str]:
    """The cells of a column; annotations have the same width in each, so that numbers align."""
    raised = [" ".join(filter(None, (PLACES.get(cell.place or 0, ""), cell.marks))) for cell in cells]
    rooms = [max(map(len, texts)) for texts in ([cell.beside for cell in cells], raised)]
    wide = "white-space:normal;min-width:25em;" * (max(len(cell.text) for cell in cells) > _WRAPPED)
    return [
        f'<td style="{_CELL}{wide}text-align:{_side(column)};{_medal(cell)}"><bdi>{escape(cell.text)}</bdi>'
        + _beside("small", cell.beside, rooms[0], "")
        + _beside("sup", marks, rooms[1], "font-size:.75em;line-height:0;")
        + "</td>"
        for cell, marks in zip(cells, raised, strict=True)
    ]


def _medal(cell: Cell) -> str:
    if cell.place not in MEDALS:
        return ""
    return f"background:#{MEDALS[cell.place]};color:#111;" + ("font-weight:bold;" if cell.place == 1 else "")


def _beside(tag: str, text: str, room: int, style: str) -> str:
    if not room:
        return ""
    return (
        f' <{tag} style="{style}font-weight:normal;display:inline-block;text-align:left;min-width:{room}ch">'
        f"{escape(text)}</{tag}>"
    )
