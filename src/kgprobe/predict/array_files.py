"""Open and write files of named arrays (.npz, .npy, .safetensors), and verify the checksums that they carry."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.errors import DataError, UsageError
from kgprobe.files import replacing
from kgprobe.npy_files import NpyHeader
from kgprobe.predict.safetensors_files import check_seal, list_safetensors, write_safetensors
from kgprobe.predict.stored_arrays import ArrayFile, StoredArray, open_at, pieces, reading
from kgprobe.resources import require_unpackable

_NPZ_HEADER = "header"
_LAST_CHARACTER = 0x10FFFF
"""The array of a .npz file that holds the header text."""

_SHOWN = 10
_LOCAL_HEADER_BYTES = 30

_LONGEST_END = 22 + 0xFFFF
"""Bytes of the record at the end of a zip archive, with the longest comment."""

_MANY_MEMBERS = 0xFFFF
"""What this record says if there are too many members for its field."""


def open_arrays(path: str | PathLike[str]) -> ArrayFile:
    """Open a file of arrays, and verify its checksums. The format is recognised by the content.

    The header is the metadata entry "kgprobe" (.safetensors) or the array "header" (.npz). A .npz file has a checksum
    for each array; one that is compressed is verified when the array is read. A .safetensors file has one if kgprobe
    wrote it. A .npy file has none.

    Raises:
        DataError: The file is missing, damaged, or not a file of arrays.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "embeddings.npz"
        >>> write_arrays(path, {"model": "DistMult"}, {"entity": np.zeros((2, 5)), "relation": np.ones((1, 5))})
        >>> file = open_arrays(path)
        >>> file.header, {name: array.shape for name, array in file.arrays.items()}
        ('{"model": "DistMult"}', {'entity': (2, 5), 'relation': (1, 5)})
    """
    file = Path(path)
    with reading(file):
        form = _format_of(file)
        listed = form.listed(file)
        form.verify(file)
    return listed


def list_arrays(path: str | PathLike[str]) -> ArrayFile:
    """The arrays in a file, without verifying their numbers, which takes as long as reading the file.

    Raises:
        DataError: The file is missing, truncated, or not a file of arrays.
    """
    file = Path(path)
    with reading(file):
        return _format_of(file).listed(file)


def array_names(path: str | PathLike[str]) -> set[str]:
    """The names of the arrays in a file; empty if it is not a readable file of arrays."""
    try:
        return set(list_arrays(path).arrays)
    except DataError:
        return set()


def write_arrays(path: str | PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays and a header in the format of the file name's extension."""
    write = WRITERS.get(Path(path).suffix)
    if write is None:
        raise UsageError(f"{path}: unknown format", remedy=f"let the name end in {' or '.join(WRITERS)}")
    with replacing(path) as temporary:
        write(temporary, header, arrays)


def _write_npz(path: Path, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    text = np.array(json.dumps(dict(header)))
    with path.open("wb") as file:  # given a name, NumPy would add its own extension
        np.savez(file, allow_pickle=False, **{_NPZ_HEADER: text}, **arrays)


WRITERS: Mapping[str, Callable[[Path, Mapping[str, Any], Mapping[str, NDArray[Any]]], None]] = {
    ".npz": _write_npz,
    ".safetensors": write_safetensors,
}
"""The writer of each file extension."""


@dataclass(frozen=True)
class _Format:
    """A file format: how its arrays are listed, and how their checksums are verified."""

    listed: Callable[[Path], ArrayFile]
    verify: Callable[[Path], object]


def _format_of(path: Path) -> _Format:
    with path.open("rb") as opened:
        start = opened.read(9)
    if start.startswith(b"PK"):
        return _Format(_list_npz, _verify_npz)
    if start.startswith(b"\x93NUMPY"):
        return _Format(_list_npy, lambda _: None)
    if start[8:] == b"{":
        return _Format(list_safetensors, check_seal)
    raise _not_arrays(path, ["it is a pickle" if start[:1] == b"\x80" else f"it begins with {start!r}"])


def _not_arrays(path: Path, problems: list[str]) -> DataError:
    return DataError(
        f"{path}: not a file of arrays",
        problems,
        "save plain arrays as .npz (numpy.savez) or .safetensors; pickles, including PyTorch's .pt files, are "
        "never loaded here, because loading one can run any code",
    )


def _list_npy(path: Path) -> ArrayFile:
    """The array in a .npy file, which is named after the file."""
    with path.open("rb") as file:
        header = NpyHeader.read(path.name, file, path.stat().st_size)
    array = _stored(header, path, path.name, partial(open_at, path, header.length), header.length)
    return ArrayFile(path, {array.name: array})


def _list_npz(path: Path) -> ArrayFile:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        foreign = [name for name in names if not name.endswith(".npy")]
        if foreign:
            raise _not_arrays(path, [f"it contains {name[:60]}, which is not an array" for name in foreign[:_SHOWN]])
        if repeated := sorted(name for name, count in Counter(names).items() if count > 1):
            raise ValueError(f"several arrays are called {', '.join(name[:60] for name in repeated[:_SHOWN])}")
        if (announced := _announced_members(path)) not in (len(names), _MANY_MEMBERS):
            raise ValueError(f"the directory of the archive has {len(names)} members, and announces {announced}")
        require_unpackable(sum(member.file_size for member in archive.infolist() if member.compress_type))
        arrays = {array.name: array for array in (_member(path, archive, member) for member in archive.infolist())}
    text = arrays.get(_NPZ_HEADER)
    if text is None or text.shape or text.dtype.kind != "U":
        return ArrayFile(path, arrays)
    del arrays[_NPZ_HEADER]
    return ArrayFile(path, arrays, _text(text.whole()))


def _text(array: NDArray[Any]) -> str:
    """The text in an array; Python has no character for some of the numbers that it may hold."""
    points = np.frombuffer(array.tobytes(), dtype=np.uint32)
    if points.max(initial=0) > _LAST_CHARACTER or ((points >= 0xD800) & (points <= 0xDFFF)).any():
        raise ValueError("the header has characters that do not exist")
    return str(array)


def _announced_members(path: Path) -> int:
    """The number of members in the record at the end of an archive, which the zipfile module does not compare."""
    with path.open("rb") as file:
        file.seek(-min(path.stat().st_size, _LONGEST_END), os.SEEK_END)
        end = file.read()
    start = end.rfind(b"PK\5\6")
    return int.from_bytes(end[start + 10 : start + 12], "little")


def _member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> StoredArray:
    name = member.filename.removesuffix(".npy")
    start = data_offset(path, member)
    with archive.open(member) as file:
        header = NpyHeader.read(name, file, member.file_size)
    if start is None:
        return _stored(header, path, name, partial(_open_member, path, member.filename, header.length), None)
    offset = start + header.length
    return _stored(header, path, name, partial(open_at, path, offset), offset)


def data_offset(path: Path, member: zipfile.ZipInfo) -> int | None:
    """The position of a member's bytes in an archive; None if they are compressed.

    Raises:
        ValueError: The header in front of the member and the directory of the archive disagree.
    """
    with open_at(path, member.header_offset) as file:
        local = file.read(_LOCAL_HEADER_BYTES)
    stored = member.compress_type == zipfile.ZIP_STORED
    if (
        not local.startswith(b"PK\3\4")
        or int.from_bytes(local[8:10], "little") != member.compress_type
        or (stored and member.file_size != member.compress_size)
    ):
        raise ValueError(f"{member.filename}: its header differs from the directory of the archive")
    lengths = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
    return member.header_offset + _LOCAL_HEADER_BYTES + lengths if stored else None


def _verify_npz(path: Path) -> None:
    """Compare the arrays that are not compressed with their checksums; reading the others does so."""
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if (start := data_offset(path, member)) is not None:
                verify_member(path, member, start)


def verify_member(path: Path, member: zipfile.ZipInfo, start: int) -> None:
    """Compare the bytes of a member that starts at this position with its checksum.

    Raises:
        ValueError: They differ.
    """
    checksum = 0
    with open_at(path, start) as file:
        for piece in pieces(file, member.file_size):
            checksum = zlib.crc32(piece, checksum)
    if checksum != member.CRC:
        raise ValueError(f"{member.filename}: the checksum does not match: its numbers have changed")


def _open_member(path: Path, member: str, skipped: int) -> IO[bytes]:
    # The archive may be closed: its file stays open as long as the member is.
    with zipfile.ZipFile(path) as archive:
        file = archive.open(member)
    file.read(skipped)
    return file


def _stored(
    header: NpyHeader, path: Path, name: str, stream: Callable[[], IO[bytes]], offset: int | None
) -> StoredArray:
    return StoredArray(path, name, header.dtype.name, header.dtype, header.shape, stream, offset, header.by_column)
