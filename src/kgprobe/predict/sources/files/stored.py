"""One array in a file: what it looks like is known, its numbers are read when they are asked for."""

from __future__ import annotations

import math
import mmap
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from kgprobe.errors import DataError
from kgprobe.graph.sorted_keys import Ints

BLOCK_BYTES = 1 << 23


@dataclass(frozen=True, eq=False)
class StoredArray:
    """An array in a file.

    Attributes:
        path: The file.
        name: What the array is called there.
        kind: What its numbers are, "float32" for one.
        dtype: How they are stored.
        shape: Its shape.
        stream: Opens the file at the first number.
        offset: Position of the first number in the file; None where the numbers are compressed.
        by_column: Whether columns, not rows, lie in one piece.

    Example:
        >>> import tempfile
        >>> from kgprobe.predict.sources.arrays import open_arrays
        >>> path = Path(tempfile.mkdtemp()) / "vectors.npz"
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
        """How many bytes its numbers take."""
        return math.prod(self.shape) * self.dtype.itemsize

    def blocks(self, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[slice, NDArray[Any]]]:
        """All rows in order, a few at a time."""
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

    def rows(self, wanted: Ints) -> NDArray[Any]:
        """The rows of these numbers, in this order."""
        found = self._numbers(self._shaped(self._memory, self.offset or 0)[wanted])
        if isinstance(self._memory, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            # What was read stays in the system's cache; in this process it must not add up to the whole file.
            self._memory.madvise(mmap.MADV_DONTNEED)
        return found

    def whole(self) -> NDArray[Any]:
        """All of it at once, for arrays that are small."""
        return self._numbers(self._shaped(self._read()))

    @cached_property
    def _memory(self) -> mmap.mmap | bytearray:
        """The file as memory; where the numbers are compressed, all of them."""
        if self.offset is None:
            return self._read()
        with reading(self.path), self.path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def _read(self) -> bytearray:
        with reading(self.path), self.stream() as stream:
            return _read_exactly(stream, self.nbytes)

    def _shaped(self, memory: mmap.mmap | bytearray, offset: int = 0) -> NDArray[Any]:
        flat = np.frombuffer(memory, self.dtype, math.prod(self.shape), offset)
        return flat.reshape(self.shape, order="F" if self.by_column else "C")

    def _numbers(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Numbers that NumPy computes with; those of 16 bits become float32, which is exact."""
        if self.kind == "bfloat16":
            return (stored.astype(np.uint32) << 16).view(np.float32)
        if self.kind == "float16":
            return stored.astype(np.float32)
        return stored.astype(stored.dtype.newbyteorder("="), copy=False)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever reading a damaged file raises into an error for its user."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: cannot be read", ["no such file"], "check the name and the folder") from None
    except (OSError, EOFError, ValueError, BadZipFile, NotImplementedError, RecursionError, zlib.error) as error:
        remedy = "it may be truncated or damaged: copy it again, or write it again"
        raise DataError(f"{path}: cannot be read", [str(error) or type(error).__name__], remedy) from None


def not_arrays(path: Path, problems: list[str]) -> DataError:
    """The refusal of a file that holds something else, with the safe way to store arrays."""
    return DataError(
        f"{path}: not a file of arrays",
        problems,
        "save plain arrays as .npz (numpy.savez) or .safetensors; pickles, PyTorch's .pt files among them, are "
        "never loaded here, because loading one can run any program",
    )


def open_at(path: Path, offset: int) -> IO[bytes]:
    """A file, opened at a position."""
    file = path.open("rb")
    file.seek(offset)
    return file


def _read_exactly(stream: IO[bytes], size: int) -> bytearray:
    """So many bytes, in pieces, because a compressed stream would hold them twice."""
    raw = bytearray(size)
    for start in range(0, size, BLOCK_BYTES):
        piece = stream.read(min(BLOCK_BYTES, size - start))
        raw[start : start + len(piece)] = piece
        if len(piece) < min(BLOCK_BYTES, size - start):
            raise EOFError("the file ends before its last number")
    return raw
