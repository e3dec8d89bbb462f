"""NumPy's own files: one array (.npy), or several in a zip archive (.npz), without unpickling."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from kgprobe.predict.sources.files.stored import StoredArray, not_arrays, open_at

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_LOCAL_HEADER_BYTES = 30

HEADER = "header"
"""The array that holds the text of a .npz file."""


def open_npy(path: Path) -> StoredArray:
    """The array in a .npy file, which is called as the file is.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "tail.npy"
        >>> np.save(path, np.zeros((2, 5)))
        >>> open_npy(path).shape
        (2, 5)
    """
    with path.open("rb") as file:
        header = _Header.read(file, path.stat().st_size)
    return header.array(path, path.name, partial(open_at, path, header.length), header.length)


def open_npz(path: Path) -> list[StoredArray]:
    """The arrays in a .npz file."""
    with zipfile.ZipFile(path) as archive:
        foreign = [name for name in archive.namelist() if not name.endswith(".npy")]
        if foreign:
            raise not_arrays(path, [f"it holds {name}, which is not an array" for name in foreign])
        return [_member(path, archive, member) for member in archive.infolist()]


def _member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> StoredArray:
    with archive.open(member) as file:
        header = _Header.read(file, member.file_size)
    offset = None
    if member.compress_type == zipfile.ZIP_STORED:
        with path.open("rb") as file:
            file.seek(member.header_offset)
            local = file.read(_LOCAL_HEADER_BYTES)
        names = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
        offset = member.header_offset + _LOCAL_HEADER_BYTES + names + header.length
    name = member.filename.removesuffix(".npy")
    return header.array(path, name, partial(_open_member, path, member.filename, header.length), offset)


def write_npz(path: Path, header: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays, and text about them as the array "header"."""
    with path.open("wb") as file:  # given a name, NumPy would add its own ending
        np.savez(file, allow_pickle=False, **{HEADER: np.array(header)}, **arrays)


@dataclass(frozen=True)
class _Header:
    """What the first bytes of a .npy file say."""

    shape: tuple[int, ...]
    by_column: bool
    dtype: np.dtype[Any]
    length: int

    @classmethod
    def read(cls, file: IO[bytes], size: int) -> _Header:
        version = npy.read_magic(file)
        if version not in _HEADERS:
            raise ValueError(f"version {version} of the .npy format is not known")
        shape, by_column, dtype = _HEADERS[version](file)
        header = cls(shape, by_column, dtype, file.tell())
        expected = header.length + math.prod(shape) * dtype.itemsize
        if size < expected and not dtype.hasobject:
            raise ValueError(f"truncated: an array of {expected:,} bytes has only {size:,}")
        return header

    def array(self, path: Path, name: str, stream: Callable[[], IO[bytes]], offset: int | None) -> StoredArray:
        return StoredArray(path, name, self.dtype.name, self.dtype, self.shape, stream, offset, self.by_column)


def _open_member(path: Path, member: str, skipped: int) -> IO[bytes]:
    # The archive itself may be closed: its file stays open as long as the member is.
    with zipfile.ZipFile(path) as archive:
        file = archive.open(member)
    file.read(skipped)
    return file
