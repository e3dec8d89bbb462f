"""Output of commands: tables and data on stdout, notes and progress bars on stderr."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from kgprobe.report.grid import Grid, csv_text, grid_of, json_text, terminal
from kgprobe.report.grid import Record as Row
from kgprobe.report.latex_tables import latex
from kgprobe.report.markup_tables import markdown
from kgprobe.resources import Progress


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


_LONG = 16 << 20

"""A file of this many bytes takes longer than a moment."""


@contextmanager
def watching(path: Path) -> Iterator[Progress | None]:
    """Gives what a `RankFile` should call for every batch; None where there is nothing to show or nobody to see it.

    A file is read several times over (checks, then what weights need to know, then sums), so the bar counts rows and
    time instead of pretending to know the end.

    Example:
        >>> with watching(Path("small.parquet")) as progress:
        ...     print(progress)
        None
    """
    if not sys.stderr.isatty() or not path.is_file() or path.stat().st_size < _LONG:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn(path.name), BarColumn(), TextColumn("{task.completed:,.0f} rows read"), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda rows: bar.advance(task, rows)


@contextmanager
def counting(what: str, total: int, unit: str) -> Iterator[Progress | None]:
    """Gives what long work should call with how much has been done; None where nobody sees it.

    Example:
        >>> with counting("ranking", 10, "queries") as progress:
        ...     print(progress)
        None
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total, rate="")

        def progress(done: float) -> None:
            speed = bar.tasks[0].speed
            bar.update(task, advance=done, rate=f"{speed:,.0f} a second," if speed else "")

        yield progress
