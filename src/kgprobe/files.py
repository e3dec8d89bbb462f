"""Atomic file writing, and an early check that a file can be written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kgprobe.errors import DataError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path to write to; it is renamed to ``path`` if the block ends without an error.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "note.txt"
        >>> with replacing(target) as temporary:
        ...     _ = temporary.write_text("whole")
        >>> target.read_text()
        'whole'
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        os.replace(temporary, target)
    except OSError as error:
        raise _not_written(target, error) from None
    finally:
        with suppress(OSError):  # already renamed, or never created
            temporary.unlink()


def require_writable(path: str | os.PathLike[str]) -> None:
    """Raise a DataError if a file cannot be written, before a long computation starts.

    Example:
        >>> require_writable("/dev/null/ranks.parquet")
        Traceback (most recent call last):
        ...
        kgprobe.errors.DataError: /dev/null/ranks.parquet: cannot be written
          - ...
        Remedy: choose a folder that you may write to, with space left
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=target.parent):
            pass
        if target.is_dir():
            raise IsADirectoryError(f"it is a folder: {target}")
    except OSError as error:
        raise _not_written(target, error) from None


def _not_written(target: Path, error: OSError) -> DataError:
    return DataError(
        f"{target}: cannot be written", [str(error)], "choose a folder that you may write to, with space left"
    )
