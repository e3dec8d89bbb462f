"""A progress bar for long work, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_LONG = 16 << 20
"""A file of this many bytes takes longer than a moment."""


@contextmanager
def watching(path: Path) -> Iterator[Callable[[int], None] | None]:
    """Gives what a `RankFile` should call for every batch; None where there is nothing to show or nobody to see it.

    A file is read several times over (checks, then what weights need to know, then sums), so the bar counts rows and
    time instead of pretending to know the end.

    Example:
        >>> with watching(Path("small.parquet")) as watch:
        ...     print(watch)
        None
    """
    if not sys.stderr.isatty() or not path.is_file() or path.stat().st_size < _LONG:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(path.name), BarColumn(), TextColumn("{task.completed:,.0f} rows read"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading", total=None)
        yield lambda rows: progress.advance(task, rows)


@contextmanager
def counting(what: str, total: int, unit: str) -> Iterator[Callable[[float], None] | None]:
    """Gives what long work should call with how much has been done; None where nobody sees it.

    Example:
        >>> with counting("ranking", 10, "queries") as watch:
        ...     print(watch)
        None
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total, rate="")

        def watch(done: float) -> None:
            speed = progress.tasks[0].speed
            progress.update(task, advance=done, rate=f"{speed:,.0f} a second," if speed else "")

        yield watch
