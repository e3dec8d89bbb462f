"""Read and write files of named arrays (.npz, .npy, .safetensors): memory-mapped, never unpickled.

safetensors files are parsed here, because the library supports neither bfloat16 nor memory mapping with NumPy.
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
from os import PathLike
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts
from kgprobe.errors import DataError, UsageError
from kgprobe.files import replacing

SAFETENSORS_HEADER = "kgprobe"
"""The metadata entry of a .safetensors file that holds the header text."""

Shapes: TypeAlias = Mapping[str, tuple[tuple[int, ...], str]]
"""The shape and the number type of arrays by name."""

_METADATA = "__metadata__"

_NPZ_HEADER = "header"
"""The array of a .npz file that holds the header text."""

_BLOCK_BYTES = 1 << 23
_NPY_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_LOCAL_HEADER_BYTES = 30

_KINDS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "BOOL": "bool"} | {
    f"{code}{bits}": f"{kind}{bits}" for code, kind in (("I", "int"), ("U", "uint")) for bits in (64, 32, 16, 8)
}

_CODES = {kind: code for code, kind in _KINDS.items()}


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

    def blocks(self, block_bytes: int = _BLOCK_BYTES) -> Iterator[tuple[slice, NDArray[Any]]]:
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

    def rows(self, index: AnyInts) -> NDArray[Any]:
        """The rows at these indices."""
        rows = self._numbers(self._shaped(self._memory, self.offset or 0)[index])
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
            return _read_exactly(stream, self.nbytes)

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


def open_arrays(path: str | PathLike[str]) -> ArrayFile:
    """Open a file of arrays. The format is recognised by the content.

    The header is the metadata entry "kgprobe" (.safetensors) or the array "header" (.npz).

    Raises:
        DataError: The file is missing, truncated, or not a file of arrays.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "embeddings.npz"
        >>> write_arrays(path, "two arrays", {"entity": np.zeros((2, 5)), "relation": np.ones((1, 5))})
        >>> file = open_arrays(path)
        >>> file.header, {name: array.shape for name, array in file.arrays.items()}
        ('two arrays', {'entity': (2, 5), 'relation': (1, 5)})
    """
    file = Path(path)
    with reading(file):
        with file.open("rb") as opened:
            start = opened.read(9)
        if start.startswith(b"PK"):
            return _open_npz(file)
        if start.startswith(b"\x93NUMPY"):
            return _open_npy(file)
        if start[8:] == b"{":
            return _open_safetensors(file)
    raise _not_arrays(file, ["it is a pickle" if start[:1] == b"\x80" else f"it begins with {start!r}"])


def array_names(path: str | PathLike[str]) -> set[str]:
    """The names of the arrays in a file; empty if it is not a readable file of arrays."""
    try:
        return set(open_arrays(path).arrays)
    except DataError:
        return set()


def write_arrays(path: str | PathLike[str], header: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays and a header text in the format of the file name's extension."""
    write = WRITERS.get(Path(path).suffix)
    if write is None:
        raise UsageError(f"{path}: unknown format", remedy=f"let the name end in {' or '.join(WRITERS)}")
    with replacing(path) as temporary:
        write(temporary, header, arrays)


def _write_npz(path: Path, header: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    with path.open("wb") as file:  # given a name, NumPy would add its own extension
        np.savez(file, allow_pickle=False, **{_NPZ_HEADER: np.array(header)}, **arrays)


def _write_safetensors(path: Path, header: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    contents: dict[str, Any] = {_METADATA: {SAFETENSORS_HEADER: header}}
    end = 0
    # The widest numbers first, so that all arrays are aligned to the size of their numbers.
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


WRITERS = {".npz": _write_npz, ".safetensors": _write_safetensors}
"""The writer of each file extension."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn the exceptions of reading a damaged file into a `DataError`."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: cannot be read", ["no such file"], "check the name and the folder") from None
    except (
        OSError,
        EOFError,
        ValueError,
        zipfile.BadZipFile,
        NotImplementedError,
        RecursionError,
        zlib.error,
    ) as error:
        remedy = "it may be truncated or damaged: copy it again, or write it again"
        raise DataError(f"{path}: cannot be read", [str(error) or type(error).__name__], remedy) from None


def _not_arrays(path: Path, problems: list[str]) -> DataError:
    return DataError(
        f"{path}: not a file of arrays",
        problems,
        "save plain arrays as .npz (numpy.savez) or .safetensors; pickles, including PyTorch's .pt files, are "
        "never loaded here, because loading one can run any code",
    )


def _open_at(path: Path, offset: int) -> IO[bytes]:
    file = path.open("rb")
    file.seek(offset)
    return file


def _read_exactly(stream: IO[bytes], size: int) -> bytearray:
    """Read ``size`` bytes in pieces, because a compressed stream would hold them twice."""
    raw = bytearray(size)
    for start in range(0, size, _BLOCK_BYTES):
        piece = stream.read(min(_BLOCK_BYTES, size - start))
        raw[start : start + len(piece)] = piece
        if len(piece) < min(_BLOCK_BYTES, size - start):
            raise EOFError("the file ends before its last number")
    return raw


def _open_npy(path: Path) -> ArrayFile:
    """The array in a .npy file, which is named after the file."""
    with path.open("rb") as file:
        header = _NpyHeader.read(file, path.stat().st_size)
    array = header.array(path, path.name, partial(_open_at, path, header.length), header.length)
    return ArrayFile(path, {array.name: array})


def _open_npz(path: Path) -> ArrayFile:
    with zipfile.ZipFile(path) as archive:
        foreign = [name for name in archive.namelist() if not name.endswith(".npy")]
        if foreign:
            raise _not_arrays(path, [f"it contains {name}, which is not an array" for name in foreign])
        arrays = {array.name: array for array in (_member(path, archive, member) for member in archive.infolist())}
    text = arrays.get(_NPZ_HEADER)
    if text is None or text.shape or text.dtype.kind != "U":
        return ArrayFile(path, arrays)
    del arrays[_NPZ_HEADER]
    return ArrayFile(path, arrays, str(text.whole()))


def _member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> StoredArray:
    with archive.open(member) as file:
        header = _NpyHeader.read(file, member.file_size)
    offset = None
    if member.compress_type == zipfile.ZIP_STORED:
        with path.open("rb") as file:
            file.seek(member.header_offset)
            local = file.read(_LOCAL_HEADER_BYTES)
        names = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
        offset = member.header_offset + _LOCAL_HEADER_BYTES + names + header.length
    name = member.filename.removesuffix(".npy")
    return header.array(path, name, partial(_open_member, path, member.filename, header.length), offset)


def _open_member(path: Path, member: str, skipped: int) -> IO[bytes]:
    # The archive may be closed: its file stays open as long as the member is.
    with zipfile.ZipFile(path) as archive:
        file = archive.open(member)
    file.read(skipped)
    return file


@dataclass(frozen=True)
class _NpyHeader:
    """The header of a .npy file."""

    shape: tuple[int, ...]
    by_column: bool
    dtype: np.dtype[Any]
    length: int

    @classmethod
    def read(cls, file: IO[bytes], size: int) -> _NpyHeader:
        version = npy.read_magic(file)
        if version not in _NPY_HEADERS:
            raise ValueError(f"unknown version {version} of the .npy format")
        shape, by_column, dtype = _NPY_HEADERS[version](file)
        header = cls(shape, by_column, dtype, file.tell())
        expected = header.length + math.prod(shape) * dtype.itemsize
        if size < expected and not dtype.hasobject:
            raise ValueError(f"truncated: an array of {expected:,} bytes has only {size:,}")
        return header

    def array(self, path: Path, name: str, stream: Callable[[], IO[bytes]], offset: int | None) -> StoredArray:
        return StoredArray(path, name, self.dtype.name, self.dtype, self.shape, stream, offset, self.by_column)


def _open_safetensors(path: Path) -> ArrayFile:
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if 8 + length > size:
            raise ValueError(f"truncated: the table of contents alone has {length:,} bytes, the file {size:,}")
        contents = json.loads(file.read(length))
    metadata = contents.pop(_METADATA, {})
    arrays = {name: _tensor(path, name, entry, 8 + length, size) for name, entry in contents.items()}
    text = metadata.get(SAFETENSORS_HEADER) if isinstance(metadata, dict) else None
    return ArrayFile(path, arrays, text if isinstance(text, str) else None)


def _tensor(path: Path, name: str, entry: Any, base: int, size: int) -> StoredArray:
    if not _is_entry(entry):
        raise ValueError(f"invalid entry {name!r} in the table of contents")
    shape, (start, end) = tuple(entry["shape"]), entry["data_offsets"]
    if base + end > size:
        raise ValueError(f"truncated: {name} ends at byte {base + end:,}, the file at {size:,}")
    kind = _KINDS.get(entry["dtype"], entry["dtype"])
    # Numbers that NumPy does not have are read as integers of their size.
    dtype = np.dtype("uint16" if kind == "bfloat16" else kind if kind in _CODES else "uint8").newbyteorder("<")
    if kind in _CODES and end - start != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{name} has {end - start:,} bytes, which is not the size of {kind} of shape {shape}")
    return StoredArray(path, name, kind, dtype, shape, partial(_open_at, path, base + start), base + start)


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        return False
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not (isinstance(entry["dtype"], str) and isinstance(shape, list) and isinstance(offsets, list)):
        return False
    return len(offsets) == 2 and all(type(number) is int and number >= 0 for number in (*shape, *offsets))
