"""Rows of results as a table for people or as data for programs."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

Row = Mapping[str, Any]


class Format(StrEnum):
    """How results are written to standard output."""

    table = "table"
    json = "json"
    csv = "csv"
    latex = "latex"
    markdown = "markdown"


def columns_of(rows: Sequence[Row]) -> list[str]:
    """The columns of all rows, in the order in which they first appear."""
    return list(dict.fromkeys(key for row in rows for key in row))


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


def _finite(row: Row) -> dict[str, Any]:
    return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in row.items()}


def _json(rows: Sequence[Row]) -> str:
    if not rows:
        return "[]\n"
    return "[\n" + ",\n".join("  " + json.dumps(_finite(row), ensure_ascii=False) for row in rows) + "\n]\n"


def _csv(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns_of(rows), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _markdown(rows: Sequence[Row]) -> str:
    columns = columns_of(rows)
    lines = ["| " + " | ".join(columns) + " |", "|" + "|".join(" --- " for _ in columns) + "|"]
    cells = ([as_text(row.get(c)).replace("|", "\\|") for c in columns] for row in rows)
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in cells)]) + "\n"


_LATEX_SPECIAL = str.maketrans(
    {c: "\\" + c for c in "&%$#_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
)


def _latex(rows: Sequence[Row]) -> str:
    columns = columns_of(rows)
    numeric = {c for c in columns if all(isinstance(r.get(c), int | float | None) for r in rows)}
    lines = [
        r"\begin{tabular}{" + "".join("r" if c in numeric else "l" for c in columns) + "}",
        r"\hline",
        " & ".join(c.translate(_LATEX_SPECIAL) for c in columns) + r" \\",
        r"\hline",
        *(" & ".join(as_text(r.get(c)).translate(_LATEX_SPECIAL) for c in columns) + r" \\" for r in rows),
        r"\hline",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _table(rows: Sequence[Row]) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    columns = columns_of(rows)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        numeric = all(isinstance(row.get(column), int | float | None) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(as_text(row.get(c)) for c in columns))
    terminal = sys.stdout.isatty()
    text = io.StringIO()
    Console(file=text, width=None if terminal else 10_000, highlight=False, markup=False).print(table)
    return "\n".join(line.rstrip() for line in text.getvalue().split("\n"))


_WRITERS: dict[Format, Callable[[Sequence[Row]], str]] = {
    Format.table: _table,
    Format.json: _json,
    Format.csv: _csv,
    Format.latex: _latex,
    Format.markdown: _markdown,
}


def print_rows(rows: Sequence[Row], format: Format) -> None:  # noqa: A002
    """Write rows to standard output.

    Example:
        >>> print_rows([{"metric": "MRR", "value": 0.25}], Format.markdown)
        | metric | value |
        | --- | --- |
        | MRR | 0.2500 |
    """
    sys.stdout.write(_WRITERS[format](rows))


def note(text: str) -> None:
    """Write a remark to standard error, where it cannot spoil a result."""
    print(text, file=sys.stderr)
