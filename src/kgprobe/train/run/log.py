"""The log of a run: one row of JSON for each validation."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kgprobe.errors import DataError
from kgprobe.train.keep import Facts


class Log:
    """A file of JSON Lines that grows, and is cut back where a run continues from an earlier state.

    Example:
        >>> import tempfile
        >>> log = Log(Path(tempfile.mkdtemp()) / "log.jsonl")
        >>> log.add({"epoch": 5})
        >>> length = log.length
        >>> log.add({"epoch": 10})
        >>> log.cut(length)
        >>> log.rows()
        [{'epoch': 5}]
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def length(self) -> int:
        """Its length in bytes."""
        return self.path.stat().st_size if self.path.exists() else 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Write a row, and wait until it is on the disk."""
        with _writing(self.path), self.path.open("ab") as file:
            file.write(json.dumps(row).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def cut(self, length: int) -> None:
        """Forget all rows after the first ``length`` bytes."""
        if self.length < length:
            problem = f"it has {self.length:,} bytes, and had {length:,} when the state of the run was kept"
            raise DataError(f"{self.path}: rows are missing", [problem], "train anew with --force")
        if self.length > length:
            with _writing(self.path):
                os.truncate(self.path, length)

    def rows(self) -> list[Facts]:
        """All rows."""
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        problems: list[str] = []
        rows = [row for number, line in enumerate(lines, 1) if (row := _row(number, line, problems)) is not None]
        if problems:
            raise DataError(f"{self.path}: not the log of a run", problems, "train anew with --force")
        return rows


def _row(number: int, line: str, problems: list[str]) -> Facts | None:
    try:
        row = json.loads(line)
        if isinstance(row, dict):
            return row
    except ValueError:
        pass
    problems.append(f"row {number} is no JSON object: {line[:60]!r}")
    return None


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(f"{path}: cannot be written", [str(error)], "see to it that there is space left") from None
