"""One process at a time trains into a run."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import IO

from kgprobe.errors import DataError, UsageError

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows has no such lock: there nobody is kept from training twice into one run
    fcntl = None


class Lock:
    """Held from when it is made until `release`, or until the process ends in whatever way.

    The file stays: whether it is held is known to the system alone, so that a process that was killed leaves none.

    Raises:
        UsageError: Another process holds it.
        DataError: The file cannot be written.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / ".lock"
        >>> lock = Lock(path)
        >>> Lock(path)
        Traceback (most recent call last):
        ...
        kgprobe.errors.UsageError: ...: another process trains into this run
          - ...
        Remedy: wait until it ends, or choose another folder
        >>> lock.release()
        >>> Lock(path).release()
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file: IO[str] = path.open("a+", encoding="utf-8")
        except OSError as error:
            raise DataError(f"{path}: cannot be written", [str(error)], "choose a folder that is yours") from None
        try:
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._held(path) from None
        except OSError:  # a disk of the network that knows no locks: there, too, nobody is kept
            pass
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def release(self) -> None:
        """Let others in."""
        self._file.close()

    def _held(self, path: Path) -> UsageError:
        self._file.seek(0)
        holder = self._file.read().strip() or "unknown"
        self._file.close()
        return UsageError(
            f"{path.parent}: another process trains into this run",
            [f"its process number is {holder}"],
            "wait until it ends, or choose another folder",
        )
