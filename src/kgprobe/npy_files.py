"""NumPy's .npy files: their headers, which are never unpickled, and arrays that are memory-mapped."""

from __future__ import annotations

import math
import mmap
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from kgprobe.files import replacing

_LARGEST = (1 << 63) - 1
_MOST_DIMENSIONS = 32
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def require_shape(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise a ValueError for a shape that no array in memory can have.

    Example:
        >>> require_shape("entity", (0, 1 << 62), np.dtype("float32"))
        Traceback (most recent call last):
        ...
        ValueError: entity: impossible shape (0, 4611686018427387904)
    """
    sizes = [size for size in shape if size] + [dtype.itemsize]
    if len(shape) > _MOST_DIMENSIONS or min(sizes) < 0 or max(sizes) > _LARGEST or math.prod(sizes) > _LARGEST:
        raise ValueError(f"{name}: impossible shape {str(shape)[:60]}")


@dataclass(frozen=True)
class NpyHeader:
    """The header of a .npy file.

    Attributes:
        shape: The shape of the array.
        by_column: Whether it is stored in column-major order.
        dtype: The type of its numbers.
        length: Bytes of the header, after which the numbers begin.
    """

    shape: tuple[int, ...]
    by_column: bool
    dtype: np.dtype[Any]
    length: int

    @classmethod
    def read(cls, name: str, file: IO[bytes], size: int) -> NpyHeader:
        """Read the header of an array in a file or an archive member of ``size`` bytes."""
        version = npy.read_magic(file)
        if version not in _HEADERS:
            raise ValueError(f"unknown version {version} of the .npy format")
        try:
            with warnings.catch_warnings(action="ignore"):  # about headers that Python 2 wrote
                shape, by_column, dtype = _HEADERS[version](file)
        except Exception as error:  # NumPy parses the header as Python code, which fails in many ways
            raise ValueError(f"{name}: invalid .npy header ({error})") from None
        require_shape(name, shape, dtype)
        header = cls(shape, by_column, dtype, file.tell())
        expected = header.length + math.prod(shape) * dtype.itemsize
        if size < expected and not dtype.hasobject:
            raise ValueError(f"truncated: an array of {expected:,} bytes has only {size:,}")
        if size > expected and not dtype.hasobject:
            raise ValueError(f"{name}: {size - expected:,} bytes follow an array of {expected:,} bytes")
        return header


def map_npy(path: Path) -> NDArray[Any]:
    """The array in a .npy file, read-only and memory-mapped: its pages are read when they are used.

    Raises:
        ValueError: It is not a sound .npy file, or it holds Python objects.
        OSError: It cannot be read.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "train.npy"
        >>> write_npy(path, np.array([[0, 0, 1]], dtype=np.int32))
        >>> map_npy(path).tolist(), map_npy(path).flags.writeable
        ([[0, 0, 1]], False)
    """
    with path.open("rb") as file:
        header = NpyHeader.read(path.name, file, path.stat().st_size)
        if header.dtype.hasobject:
            raise ValueError(f"{path.name}: it holds Python objects, which are not unpickled")
        if not math.prod(header.shape):
            empty = np.empty(header.shape, header.dtype)
            empty.flags.writeable = False
            return empty
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    flat = np.frombuffer(memory, header.dtype, math.prod(header.shape), header.length)
    return flat.reshape(header.shape, order="F" if header.by_column else "C")


def write_npy(path: Path, array: NDArray[Any]) -> None:
    """Write an array atomically; one that is memory-mapped is not read into memory."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.save(file, array, allow_pickle=False)
