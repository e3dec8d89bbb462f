"""Files appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kgprobe.errors import DataError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write to the temporary path given; it becomes ``path`` when the block ends without an error.

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
        with suppress(OSError):  # gone when all went well, and never made where nothing can be written
            temporary.unlink()


def require_writable(path: str | os.PathLike[str]) -> None:
    """Complain now if a file cannot be written later, after long work.

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
