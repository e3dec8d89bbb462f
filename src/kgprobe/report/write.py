"""A report as a file of the kind that its ending names."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from kgprobe.errors import UsageError
from kgprobe.files import replacing, require_writable

if TYPE_CHECKING:
    from kgprobe.report.report import Report


def write_report(report: Report, path: str | os.PathLike[str]) -> None:
    """Write a report; the file appears under its name only when it is whole."""
    _WRITERS[ending_of(path)](report, Path(path))


def require_writing(path: str | os.PathLike[str]) -> None:
    """Complain now if a report cannot be written there later, after long work."""
    if ending_of(path) == ".html":
        from kgprobe.report.page.build import require_extras

        require_extras()
    require_writable(path)


def ending_of(path: str | os.PathLike[str]) -> str:
    """The ending of a file's name, if it is one that says how to write a report.

    Example:
        >>> ending_of("table.TEX")
        '.tex'
    """
    ending = Path(path).suffix.lower()
    if ending not in _WRITERS:
        known = ", ".join(_WRITERS)
        raise UsageError(f"{path}: a report cannot be written to this kind of file", remedy=f"end its name in {known}")
    return ending


def _text(make: Callable[[Report], str]) -> Callable[[Report, Path], None]:
    def write(report: Report, path: Path) -> None:
        with replacing(path) as temporary:
            temporary.write_text(make(report), encoding="utf-8", newline="\n")

    return write


def _page(report: Report, path: Path) -> None:
    from kgprobe.report.page.build import write_page
    from kgprobe.report.page.payload import About

    about = About(
        written=date.today().isoformat(),
        level=report.comparison.settings.level,
        graph=report.graph,
        files=report.files,
        findings=report.findings,
        comparison=report.comparison,
    )
    write_page(path, report.lineup, about)


_WRITERS: dict[str, Callable[[Report, Path], None]] = {
    ".html": _page,
    ".md": _text(lambda report: report.to_markdown()),
    ".tex": _text(lambda report: report.to_latex()),
    ".csv": _text(lambda report: report.to_csv()),
    ".json": _text(lambda report: report.to_json()),
    ".txt": _text(str),
}
