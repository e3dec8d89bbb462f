"""Atomic file writing, lock files, an early check that a file can be written, the refusal to overwrite an input."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TypeAlias

from kgprobe.errors import DataError, UsageError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path to write to; it is renamed to ``path`` if the block ends without an error.

    The new file is on disk before the old one goes, and has its permissions. A symbolic link stays, and the file that
    it leads to is replaced. What is written goes into a device or a pipe; a directory or a socket is refused.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "note.txt"
        >>> with replacing(target) as temporary:
        ...     _ = temporary.write_text("whole")
        >>> target.read_text()
        'whole'
    """
    try:
        old = _state(path)
        if old is not None and not stat.S_ISREG(old.st_mode):
            with _temporary_file(Path(tempfile.gettempdir())) as temporary:
                yield temporary
                with temporary.open("rb") as written, open(path, "wb") as stream:
                    shutil.copyfileobj(written, stream)
            return
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        with _temporary_file(target.parent, private=old is not None) as temporary:
            yield temporary
            if old is not None:
                _copy_permissions(old, temporary)
            _flush(temporary)
            os.replace(temporary, target)
            with suppress(OSError):  # not every file system can flush a directory
                _flush(target.parent)
    except OSError as error:
        raise _not_written(path, error) from None


class Lock:
    """Lock file of a directory, held until `release` or the end of the process; it holds the process id.

    The operating system releases it when the process is killed. (The library filelock does the same, but does not
    record the process that holds the lock.)

    Args:
        path: The file.
        work: What the process that holds it is doing, for the error message.

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
        kgprobe.errors.UsageError: ...: another process is working in this directory
          - ...
        Remedy: wait until it ends, or choose another directory
        >>> lock.release()
        >>> Lock(path).release()
    """

    def __init__(self, path: Path, work: str = "working in this directory") -> None:
        try:
            self._file: IO[str] = path.open("a+", encoding="utf-8", errors="replace")
        except OSError as error:
            raise DataError(
                f"{path}: cannot be written", [str(error)], "choose a directory that you may write to"
            ) from None
        try:
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._held(path, work) from None
        except OSError:  # a network file system without locks
            pass
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def release(self) -> None:
        self._file.close()

    def _held(self, path: Path, work: str) -> UsageError:
        self._file.seek(0)
        holder = self._file.read().strip() or "unknown"
        self._file.close()
        return UsageError(
            f"{path.parent}: another process is {work}",
            [f"its process id is {holder}"],
            "wait until it ends, or choose another directory",
        )


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
    try:
        old = _state(path)
        if old is not None and not stat.S_ISREG(old.st_mode):
            if not os.access(path, os.W_OK):
                raise PermissionError("no permission to write to it")
            return
        folder = Path(os.path.realpath(path)).parent
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _not_written(path, error) from None


def _state(path: str | os.PathLike[str]) -> os.stat_result | None:
    """The state of the file that a path leads to, None if there is none; an OSError if it cannot be written to."""
    try:
        old = os.stat(path)
    except FileNotFoundError:
        return None
    for kind, is_kind in _UNWRITABLE.items():
        if is_kind(old.st_mode):
            raise OSError(f"it is {kind}")
    return old


_UNWRITABLE = {"a folder": stat.S_ISDIR, "a socket": stat.S_ISSOCK, "a disk": stat.S_ISBLK}


def _not_written(path: str | os.PathLike[str], error: OSError) -> DataError:
    return DataError(
        f"{os.fspath(path)}: cannot be written", [str(error)], "choose a folder that you may write to, with space left"
    )


def _copy_permissions(old: os.stat_result, new: Path) -> None:
    with suppress(OSError):  # only root may give a file to another user
        os.chown(new, old.st_uid, old.st_gid)
    os.chmod(new, stat.S_IMODE(old.st_mode))


def _flush(path: Path) -> None:
    """Wait until a file or directory is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


TEMPORARY = re.compile(r"\.kgprobe\.\d{20}\.tmp")
"""A file that is being written, or was when its process was killed."""


@contextmanager
def _temporary_file(folder: Path, *, private: bool = False) -> Iterator[Path]:
    """Give a new empty file, locked until the block ends, where it is removed unless it was renamed."""
    remove_abandoned(folder)
    path, descriptor = _create(folder, 0o600 if private else 0o666)
    try:
        yield path
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)


def _create(folder: Path, mode: int) -> tuple[Path, int]:
    while True:
        path = folder / f".kgprobe.{secrets.randbelow(10**20):020d}.tmp"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        with suppress(OSError):  # a network file system without locks
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        if path.exists():
            return path, descriptor
        os.close(descriptor)  # another process took it for abandoned before it was locked


def remove_abandoned(folder: Path) -> None:
    """Remove the temporary files of killed processes from a folder.

    A process holds a lock on its temporary file that ends with it. Where files cannot be locked, none is removed.
    """
    if fcntl is None:
        return
    for entry in os.scandir(folder):
        if TEMPORARY.fullmatch(entry.name):
            with suppress(OSError):  # locked, or of another user
                descriptor = os.open(entry.path, os.O_RDWR | os.O_NOFOLLOW)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(entry.path)
                finally:
                    os.close(descriptor)


Paths: TypeAlias = Iterable[str | os.PathLike[str]]


def refuse_overwriting(outputs: Paths, inputs: Paths) -> None:
    """Raise a UsageError if a file to write is an input; see `overwritten`.

    Example:
        >>> refuse_overwriting(["new.parquet"], ["a.parquet", "ranks.parquet"])
        >>> refuse_overwriting(["ranks.parquet"], ["a.parquet", "ranks.parquet"])
        Traceback (most recent call last):
        ...
        kgprobe.errors.UsageError: an input would be overwritten
          - ranks.parquet is both input and output
        Remedy: choose another `output`
    """
    if problems := overwritten(outputs, inputs):
        raise UsageError("an input would be overwritten", problems, "choose another `output`")


def overwritten(outputs: Paths, inputs: Paths) -> list[str]:
    """One line for each file to write that is an input, or lies in an input directory.

    Symbolic and hard links to an input are recognised. Devices and pipes overwrite nothing.

    Example:
        >>> overwritten(["/dev/null"], ["/dev/null"]), overwritten(["a.parquet"], ["./a.parquet"])
        ([], ['a.parquet is both input and output'])
    """
    given = list(dict.fromkeys(os.fspath(path) for path in inputs))
    problems = []
    for output in dict.fromkeys(os.fspath(path) for path in outputs):
        if os.path.exists(output) and not os.path.isfile(output):
            continue
        for source in given:
            if _same(output, source):
                problems.append(f"{output} is both input and output")
            elif os.path.isdir(source) and _lies_in(output, source):
                problems.append(f"{output} is a file of the input {source}")
    return problems


def _same(one: str, other: str) -> bool:
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)


def _lies_in(file: str, directory: str) -> bool:
    if any(_same(os.fspath(parent), directory) for parent in Path(os.path.realpath(file)).parents):
        return True
    if not os.path.exists(file) or os.stat(file).st_nlink == 1:
        return False
    inside = (os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names)
    return any(_same(file, name) for name in inside)
