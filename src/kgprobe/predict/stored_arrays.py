"""Arrays in a file: read by rows or in blocks, memory-mapped if they are not compressed, never unpickled.

A `StoredTable` holds the embeddings of entities that are larger than memory: its rows are read when they are ranked.
"""

from __future__ import annotations

import lzma
import math
import mmap
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts
from kgprobe.errors import DataError, spans
from kgprobe.npy_files import require_shape as require_shape  # for readers of other formats
from kgprobe.resources import TooLarge

Shapes: TypeAlias = Mapping[str, tuple[tuple[int, ...], str]]
"""The shape and the number type of arrays by name."""

BLOCK_BYTES = 1 << 23

LARGE_BYTES = 1 << 31
"""Larger tables stay in their files."""


_DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    OverflowError,
    MemoryError,
    RuntimeError,  # also RecursionError, NotImplementedError, and what zipfile raises for an encrypted member
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)
"""Exceptions that reading a damaged file can raise."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn the exceptions of reading a damaged file into a `DataError`."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: cannot be read", ["no such file"], "check the name and the folder") from None
    except TooLarge as error:
        raise DataError(f"{path}: cannot be read", [str(error)], "save the arrays without compression") from None
    except _DAMAGE as error:
        remedy = "it may be truncated or damaged: copy it again, or write it again"
        raise DataError(f"{path}: cannot be read", [str(error) or type(error).__name__], remedy) from None


@dataclass(frozen=True, eq=False)
class StoredArray:
    """An array in a file, which is read when its rows are needed.

    Attributes:
        path: The file.
        name: The name of the array in the file.
        kind: The type of its numbers, such as "float32".
        dtype: How they are stored.
        shape: Its shape.
        stream: Opens the file at the first number.
        offset: Position of the first number in the file; None if the numbers are compressed.
        by_column: Whether the array is stored in column-major order.

    Example:
        >>> import tempfile
        >>> from kgprobe.predict.array_files import open_arrays
        >>> path = Path(tempfile.mkdtemp()) / "embeddings.npz"
        >>> np.savez(path, entity=np.eye(3, dtype=np.float32))
        >>> entity = open_arrays(path).arrays["entity"]
        >>> entity.shape, entity.kind, entity.rows(np.array([2])).tolist()
        ((3, 3), 'float32', [[0.0, 0.0, 1.0]])
    """

    path: Path
    name: str
    kind: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    stream: Callable[[], IO[bytes]]
    offset: int | None
    by_column: bool = False

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def is_large(self) -> bool:
        """Whether its rows are read when they are needed, not kept in memory: it is not compressed, and is large."""
        return self.offset is not None and not self.by_column and self.nbytes > LARGE_BYTES

    def blocks(self, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[slice, NDArray[Any]]]:
        """All rows in order, in blocks."""
        row_bytes = self.nbytes // max(self.shape[0], 1)
        step = max(1, block_bytes // max(row_bytes, 1))
        parts = [slice(start, min(start + step, self.shape[0])) for start in range(0, self.shape[0], step)]
        if self.by_column:
            yield from ((part, self.rows(np.arange(part.start, part.stop))) for part in parts)
            return
        with reading(self.path), self.stream() as stream:
            for part in parts:
                shape = (part.stop - part.start, *self.shape[1:])
                raw = _read_exactly(stream, shape[0] * row_bytes)
                yield part, self._numbers(np.frombuffer(raw, self.dtype).reshape(shape))
            self._require_end(stream)

    def rows(self, index: slice | AnyInts) -> NDArray[Any]:
        """A copy of the rows at a slice or at these indices."""
        stored = self._shaped(self._memory, self.offset or 0)[index]
        rows = self._numbers(stored.copy() if isinstance(index, slice) else stored)
        if isinstance(self._memory, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            # The pages stay in the system's cache; the memory of this process must not grow to the whole file.
            self._memory.madvise(mmap.MADV_DONTNEED)
        return rows

    def whole(self) -> NDArray[Any]:
        """The whole array, for small arrays."""
        return self._numbers(self._shaped(self._read()))

    @cached_property
    def _memory(self) -> mmap.mmap | bytearray:
        """The mapped file, or all numbers if they are compressed."""
        if self.offset is None:
            return self._read()
        with reading(self.path), self.path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def _read(self) -> bytearray:
        with reading(self.path), self.stream() as stream:
            raw = _read_exactly(stream, self.nbytes)
            self._require_end(stream)
            return raw

    def _require_end(self, stream: IO[bytes]) -> None:
        """Read a compressed array to its end, because its checksum is compared there."""
        if self.offset is None and stream.read(1):
            raise ValueError(f"{self.name}: more bytes than its shape {self.shape} has")

    def _shaped(self, memory: mmap.mmap | bytearray, offset: int = 0) -> NDArray[Any]:
        flat = np.frombuffer(memory, self.dtype, math.prod(self.shape), offset)
        return flat.reshape(self.shape, order="F" if self.by_column else "C")

    def _numbers(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Numbers in native byte order; 16-bit floats become float32, which is exact."""
        if self.kind == "bfloat16":
            return (stored.astype(np.uint32) << 16).view(np.float32)
        if self.kind == "float16":
            return stored.astype(np.float32)
        return stored.astype(stored.dtype.newbyteorder("="), copy=False)


@dataclass(frozen=True, eq=False)
class ArrayFile:
    """The arrays in a file by name, and its header text, if any."""

    path: Path
    arrays: Mapping[str, StoredArray]
    header: str | None = None

    @property
    def shapes(self) -> Shapes:
        return {name: (array.shape, array.kind) for name, array in self.arrays.items()}


@dataclass(frozen=True, eq=False)
class StoredTable:
    """Embeddings in files, read in float32 when they are needed: ``table[5:9]`` or ``table[ids]``.

    Attributes:
        path: The file or folder, for messages.
        name: What the rows are, for messages.
        shape: (rows, coordinates).
        read: Returns the rows at a slice, or at an array of indices, as they are compared.

    Example:
        >>> table = StoredTable(Path("model"), "entity", (3, 2), lambda index: np.eye(3, 2)[index])
        >>> table[np.array([1])].tolist(), len(table)
        ([[0.0, 1.0]], 3)
    """

    path: Path
    name: str
    shape: tuple[int, int]
    read: Callable[[slice | AnyInts], NDArray[Any]]

    dtype = np.dtype(np.float32)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: slice | AnyInts) -> NDArray[np.float32]:
        """These rows.

        Raises:
            DataError: Some are not finite.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # rows that are not finite are reported below
            rows = np.ascontiguousarray(self.read(index), dtype=np.float32)
        finite = np.isfinite(rows).all(axis=1)
        if not finite.all():
            ids = np.arange(*index.indices(len(self))) if isinstance(index, slice) else index
            bad = np.unique(ids[~finite])
            problem = f"{len(bad):,} rows hold NaN, infinity or numbers beyond float32: {spans(bad.tolist(), most=10)}"
            raise DataError(f"{self.path}: cannot be ranked", [f"{self.name}: {problem} (counted from 0)"])
        return rows


def stored_bytes(*tables: Any) -> int:
    """Bytes of the largest of these tables that stays in files, in float32; 0 if all are in memory."""
    return max((4 * math.prod(table.shape) for table in tables if isinstance(table, StoredTable)), default=0)


def open_at(path: Path, offset: int) -> IO[bytes]:
    """Open a file at a position."""
    file = path.open("rb")
    file.seek(offset)
    return file


def pieces(stream: IO[bytes], size: int) -> Iterator[bytes]:
    """Read ``size`` bytes in pieces, because a compressed stream would hold them twice."""
    for start in range(0, size, BLOCK_BYTES):
        expected = min(BLOCK_BYTES, size - start)
        piece = stream.read(expected)
        yield piece
        if len(piece) < expected:
            raise EOFError("the file ends before its last number")


def _read_exactly(stream: IO[bytes], size: int) -> bytearray:
    raw = bytearray(size)
    start = 0
    for piece in pieces(stream, size):
        raw[start : start + len(piece)] = piece
        start += len(piece)
    return raw
