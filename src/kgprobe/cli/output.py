"""Rows of results as a table for people or as data for programs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum

from kgprobe.report.render.data import csv_text, json_text
from kgprobe.report.render.grid import Grid, grid_of
from kgprobe.report.render.grid import Record as Row
from kgprobe.report.render.latex import latex
from kgprobe.report.render.markdown import markdown
from kgprobe.report.render.terminal import terminal

__all__ = ["Format", "Row", "note", "print_rows", "print_terminal"]


class Format(StrEnum):
    """How results are written to standard output."""

    table = "table"
    json = "json"
    csv = "csv"
    latex = "latex"
    markdown = "markdown"


_WRITERS: dict[Format, Callable[[Sequence[Row]], str]] = {
    Format.json: json_text,
    Format.csv: csv_text,
    Format.latex: lambda rows: latex(grid_of(rows)),
    Format.markdown: lambda rows: markdown(grid_of(rows)),
}


def print_rows(rows: Sequence[Row], format: Format) -> None:  # noqa: A002
    """Write rows to standard output.

    Example:
        >>> print_rows([{"metric": "MRR", "value": 0.25}], Format.markdown)
        | metric | value |
        | --- | ---: |
        | MRR | 0.2500 |
    """
    if format is Format.table:
        print_terminal(grid_of(rows))
    else:
        sys.stdout.write(_WRITERS[format](rows))


def print_terminal(grid: Grid) -> None:
    """Write a table to standard output: in colour and as wide as the terminal, if it is one."""
    seen = sys.stdout.isatty()
    sys.stdout.write(terminal(grid, width=shutil.get_terminal_size().columns if seen else None, colour=seen))


def note(text: str) -> None:
    """Write a remark to standard error, where it cannot spoil a result."""
    print(text, file=sys.stderr)
