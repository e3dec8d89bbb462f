"""Figures become files: PDF, SVG or PNG by their ending, the same bytes for the same figure."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from kgprobe.errors import UsageError
from kgprobe.files import replacing
from kgprobe.report.figures.style import house_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Neither dates nor versions, so that the bytes depend on the figure alone.
_METADATA: dict[str, dict[str, str | None]] = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": "kgprobe"},
    "svg": {"Date": None, "Creator": "kgprobe"},
    "png": {"Software": None},
}
ENDINGS = tuple(_METADATA)


def ending_of(path: str | PathLike[str]) -> str:
    """The kind of file that a name asks for.

    Example:
        >>> ending_of("ranks.PDF")
        'pdf'
    """
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in _METADATA:
        known = ", ".join(f".{known}" for known in ENDINGS)
        raise UsageError(f"{path}: a figure cannot be written to this kind of file", remedy=f"end its name in {known}")
    return ending


def save(figure: Figure, path: str | PathLike[str]) -> None:
    """Write a figure; the file appears under its name only when it is whole.

    Example:
        >>> import tempfile
        >>> from kgprobe.report.figures.transformers import draw_transformers
        >>> path = Path(tempfile.mkdtemp()) / "curves.pdf"
        >>> save(draw_transformers(), path)
        >>> path.read_bytes()[:5]
        b'%PDF-'
    """
    ending = ending_of(path)
    with house_style(), replacing(path) as temporary:
        figure.savefig(temporary, format=ending, metadata=_METADATA[ending])
