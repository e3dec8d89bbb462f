"""Text files line by line: slow, but every bad line is named with what was expected."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, cast

from kgprobe.errors import spans

if TYPE_CHECKING:
    from pathlib import Path

SHOWN = 20
"""Bad lines of one file that are shown in full; the others are named by their numbers."""

_MAGIC = {b"\x1f\x8b": "a gzip file", b"PAR1": "a Parquet file", b"PK\x03\x04": "a zip file"}

Judge = Callable[[int, list[str]], str | None]
"""What is wrong with the fields of a line of that number, or None."""

UNREADABLE = (OSError, EOFError, zlib.error)
"""What reading a file can raise, compressed or not."""


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file, unpacking it if its name ends in .gz."""
    return cast("IO[bytes]", gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def disguise(path: Path) -> str | None:
    """What a file is by its first bytes, where that is none of the text formats.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.txt"
        >>> _ = path.write_bytes(b"PAR1...")
        >>> disguise(path)
        'a Parquet file'
    """
    with path.open("rb") as file:
        start = file.read(4)
    return next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)


@dataclass
class Complaints:
    """The bad lines of one file, the first ones with their text and the others by number.

    Example:
        >>> complaints = Complaints("train.txt")
        >>> complaints.add(7, "2 fields, expected 3", "a b")
        >>> complaints.lines()
        ["train.txt, line 7: 2 fields, expected 3: 'a b'"]
    """

    file: str
    shown: list[str] = field(default_factory=list)
    more: list[int] = field(default_factory=list)

    def add(self, number: int, problem: str, text: str) -> None:
        """Note that a line is bad."""
        if len(self.shown) < SHOWN:
            short = text if len(text) <= 60 else text[:57] + "..."
            self.shown.append(f"{self.file}, line {number}: {problem}: {short!r}")
        else:
            self.more.append(number)

    def lines(self) -> list[str]:
        """All complaints, one line each."""
        more = f"{self.file}: {len(self.more):,} more bad lines: {spans(self.more)}"
        return [*self.shown, more] if self.more else self.shown


def read_lines(
    path: Path, split: Callable[[str], list[str]], judge: Judge, *, header: bool
) -> tuple[list[list[str]], list[str]]:
    """The fields of every good line and the complaints about all others.

    Blank lines are passed over, and lines may end as on Unix or Windows.

    Args:
        path: The file.
        split: Takes a line apart into its fields.
        judge: Says what is wrong with the fields of a line.
        header: Whether the first line holds the number of the lines that follow.
    """
    complaints = Complaints(path.name)
    rows: list[list[str]] = []
    promised: int | None = None
    count = 0
    try:
        for number, text, problem in _texts(path):
            if header and number == 1:
                promised = whole_number(text.strip())
                if promised is None:
                    complaints.add(1, "expected the number of lines that follow", text)
                continue
            if not text.strip():
                continue
            count += 1
            fields = split(text)
            wrong = problem or judge(number, fields)
            if wrong:
                complaints.add(number, wrong, text)
            else:
                rows.append(fields)
    except UNREADABLE as error:
        return rows, [*complaints.lines(), f"{path.name}: cannot be read ({error})"]
    problems = complaints.lines()
    if promised is not None and promised != count:
        problems.append(f"{path.name}: the first line says that {promised:,} lines follow, but {count:,} do")
    elif promised is None and not count and not problems:
        problems.append(f"{path.name}: empty")
    return rows, problems


def whole_number(text: str) -> int | None:
    """A non-negative whole number in plain digits that fits an int64, or None."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def _texts(path: Path) -> Iterator[tuple[int, str, str | None]]:
    """Each line with its number, and what keeps it from being text."""
    with open_bytes(path) as file:
        # Iteration ends lines at \n alone: a file that has only \r comes as one piece, and is split here.
        number = 0
        for chunk in file:
            for raw in chunk.splitlines():
                number += 1
                try:
                    text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    what = f"not UTF-8 (byte {error.start + 1} is 0x{raw[error.start]:02x})"
                    yield number, raw.decode("utf-8", "backslashreplace"), what
                else:
                    yield number, text, None
