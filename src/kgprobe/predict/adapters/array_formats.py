"""NumPy and safetensors files: memory-mapped arrays, never unpickled.

Read and written here rather than by its library, which gives NumPy neither bfloat16 nor mapped memory.
"""

from __future__ import annotations

import json
import math
import mmap
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts
from kgprobe.errors import DataError

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
        >>> from kgprobe.predict.adapters.array_files import open_arrays
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

    def rows(self, wanted: AnyInts) -> NDArray[Any]:
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


_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}

_LOCAL_HEADER_BYTES = 30

NPZ_HEADER = "header"

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
        np.savez(file, allow_pickle=False, **{NPZ_HEADER: np.array(header)}, **arrays)


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


METADATA = "__metadata__"

SAFETENSORS_HEADER = "kgprobe"

"""The entry of the metadata that holds our text."""

_KINDS = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}

_CODES = {kind: code for code, kind in _KINDS.items()}


def open_safetensors(path: Path) -> tuple[list[StoredArray], str | None]:
    """The arrays in a .safetensors file and the text about them, if any.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "vectors.safetensors"
        >>> write_safetensors(path, "two", {"entity": np.zeros((2, 5), dtype=np.float32)})
        >>> arrays, text = open_safetensors(path)
        >>> arrays[0].shape, text
        ((2, 5), 'two')
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if 8 + length > size:
            raise ValueError(f"truncated: the table of contents alone has {length:,} bytes, the file {size:,}")
        contents = json.loads(file.read(length))
    if not isinstance(contents, dict):
        raise ValueError("the table of contents is not a JSON object")
    metadata = contents.pop(METADATA, {})
    arrays = [_array(path, name, entry, 8 + length, size) for name, entry in contents.items()]
    text = metadata.get(SAFETENSORS_HEADER) if isinstance(metadata, dict) else None
    return arrays, text if isinstance(text, str) else None


def write_safetensors(path: Path, header: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays, and text about them in the metadata."""
    contents: dict[str, Any] = {METADATA: {SAFETENSORS_HEADER: header}}
    end = 0
    # The widest numbers first, so that all of them lie at a multiple of their size.
    ordered = sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize)
    for name, array in ordered:
        start, end = end, end + array.nbytes
        contents[name] = {"dtype": _CODES[array.dtype.name], "shape": array.shape, "data_offsets": [start, end]}
    text = json.dumps(contents).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, array in ordered:
            file.write(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)


def _array(path: Path, name: str, entry: Any, base: int, size: int) -> StoredArray:
    if not _is_entry(entry):
        raise ValueError(f"the table of contents makes no sense at {name!r}")
    shape, (start, end) = tuple(entry["shape"]), entry["data_offsets"]
    if base + end > size:
        raise ValueError(f"truncated: {name} ends at byte {base + end:,}, the file at {size:,}")
    kind = _KINDS.get(entry["dtype"], entry["dtype"])
    if kind in _CODES and end - start != math.prod(shape) * _stored(kind).itemsize:
        raise ValueError(f"{name} has {end - start:,} bytes, which is not the size of {kind} of shape {shape}")
    stream = partial(open_at, path, base + start)
    return StoredArray(path, name, kind, _stored(kind), shape, stream, base + start)


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        return False
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not (isinstance(entry["dtype"], str) and isinstance(shape, list) and isinstance(offsets, list)):
        return False
    return len(offsets) == 2 and all(type(number) is int and number >= 0 for number in (*shape, *offsets))


def _stored(kind: str) -> np.dtype[Any]:
    """How numbers of a kind lie in the file; those that NumPy does not have, as whole numbers of their size."""
    if kind in _CODES:
        return np.dtype("uint16" if kind == "bfloat16" else kind).newbyteorder("<")
    return np.dtype(np.uint8)
