"""Read and write .safetensors files; own files carry a SHA-256 of their whole content.

They are parsed here, because the library supports neither bfloat16 nor memory mapping with NumPy.

The hash is an entry of the JSON header that kgprobe keeps in the metadata: 64 hexadecimal digits, which count as zeros
when the file is hashed. So it covers the table of contents and the header as well as the numbers.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.bounded_files import parse_json
from kgprobe.predict.stored_arrays import ArrayFile, StoredArray, open_at, pieces, require_shape

SAFETENSORS_HEADER = "kgprobe"
"""The metadata entry of a .safetensors file that holds the header, a JSON text."""

_HASH = "sha256"
_DIGITS = 64

UNSEALED = {_HASH: "0" * _DIGITS}
"""The entry that a header needs before the file can be sealed."""

_SEAL = re.compile(rb'\\"%b\\": ?\\"([0-9a-f]{%d})\\"' % (_HASH.encode(), _DIGITS))
"""The hash in the table of contents. There the header is a JSON text within JSON, so that its quotes are escaped."""

_METADATA = "__metadata__"
_LENGTH_BYTES = 8

_MOST_CONTENTS = 100_000_000
"""The longest table of contents, in bytes, that the safetensors library reads."""

_KINDS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "BOOL": "bool"} | {
    f"{code}{bits}": f"{kind}{bits}" for code, kind in (("I", "int"), ("U", "uint")) for bits in (64, 32, 16, 8)
}

_CODES = {kind: code for code, kind in _KINDS.items()}


def list_safetensors(path: Path) -> ArrayFile:
    """The arrays of a file and its header without the hash, which is not verified.

    Raises:
        ValueError: The table of contents is invalid, or does not fit the size of the file.
    """
    contents, base = _contents(path)
    size = path.stat().st_size
    text = _header_text(contents.pop(_METADATA, None))
    arrays = {name: _tensor(path, name, entry, base, size) for name, entry in contents.items()}
    _require_no_gaps([tuple(entry["data_offsets"]) for entry in contents.values()], size - base)
    header = _header(text)
    if _HASH in header:
        text = json.dumps({name: value for name, value in header.items() if name != _HASH})
    return ArrayFile(path, arrays, text)


def _contents(path: Path) -> tuple[dict[str, Any], int]:
    """The table of contents, and the position of the first number."""
    raw = _raw_contents(path)
    contents = parse_json(raw)
    if not isinstance(contents, dict):
        raise ValueError("the table of contents is not a JSON object")
    return contents, _LENGTH_BYTES + len(raw)


def _raw_contents(path: Path) -> bytes:
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if _LENGTH_BYTES + length > size:
            raise ValueError(f"truncated: the table of contents alone has {length:,} bytes, the file {size:,}")
        if length > _MOST_CONTENTS:
            raise ValueError(f"the table of contents has {length:,} bytes, the most allowed is {_MOST_CONTENTS:,}")
        return file.read(length)


def _header_text(metadata: Any) -> str | None:
    text = metadata.get(SAFETENSORS_HEADER) if isinstance(metadata, dict) else None
    return text if isinstance(text, str) else None


def _header(text: str | None) -> Mapping[str, Any]:
    """The JSON object of a header text; empty if it is something else, which is for the reader of the header to say."""
    try:
        header = parse_json(text or "null")
    except ValueError:
        return {}
    return header if isinstance(header, dict) else {}


def _tensor(path: Path, name: str, entry: Any, base: int, size: int) -> StoredArray:
    if not _is_entry(entry):
        raise ValueError(f"invalid entry {name[:60]!r} in the table of contents")
    shape, (start, end) = tuple(entry["shape"]), entry["data_offsets"]
    if base + end > size:
        raise ValueError(f"truncated: {name} ends at byte {base + end:,}, the file at {size:,}")
    kind = _KINDS.get(entry["dtype"], entry["dtype"])
    # Numbers that NumPy does not have are read as integers of their size.
    dtype = np.dtype("uint16" if kind == "bfloat16" else kind if kind in _CODES else "uint8").newbyteorder("<")
    require_shape(name, shape, dtype)
    if kind in _CODES and end - start != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{name} has {end - start:,} bytes, which is not the size of {kind} of shape {shape}")
    return StoredArray(path, name, kind, dtype, shape, partial(open_at, path, base + start), base + start)


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        return False
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not (isinstance(entry["dtype"], str) and isinstance(shape, list) and isinstance(offsets, list)):
        return False
    return len(offsets) == 2 and all(type(number) is int and 0 <= number < 1 << 63 for number in (*shape, *offsets))


def _require_no_gaps(ranges: list[tuple[int, int]], size: int) -> None:
    """Every byte of the data must belong to one array, so that wrong offsets are noticed."""
    position = 0
    for start, end in sorted(ranges):
        if start != position or end < start:
            raise ValueError(f"an array has bytes {start:,} to {end:,} of the data, expected one from {position:,}")
        position = end
    if position != size:
        raise ValueError(f"the arrays end at byte {position:,} of the data, which has {size:,} bytes")


def write_safetensors(path: Path, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays and a header, and seal the file."""
    contents: dict[str, Any] = {_METADATA: {SAFETENSORS_HEADER: json.dumps({**header, **UNSEALED})}}
    end = 0
    # The widest numbers first, so that all arrays are aligned to the size of their numbers.
    ordered = sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize)
    for name, array in ordered:
        start, end = end, end + array.nbytes
        contents[name] = {"dtype": _CODES[array.dtype.name], "shape": array.shape, "data_offsets": [start, end]}
    text = json.dumps(contents).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(_LENGTH_BYTES, "little") + text)
        for _, array in ordered:
            file.write(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)
    seal(path)


def seal(path: Path) -> None:
    """Write the hash of a file into its header, which has the entry `UNSEALED`.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "mine.safetensors"
        >>> write_safetensors(path, {"model": "DistMult"}, {"entity": np.ones((2, 2))})
        >>> check_seal(path)
        True
        >>> with path.open("r+b") as file:
        ...     _ = file.seek(-1, 2), file.write(b"!")
        >>> check_seal(path)
        Traceback (most recent call last):
        ...
        ValueError: the checksum does not match: the file has changed since it was written
    """
    place, _ = _sealed(path)
    digest = _content_hash(path, place)
    with path.open("r+b") as file:
        file.seek(place)
        file.write(digest)


def check_seal(path: Path) -> bool:
    """Whether a file has a hash, which is then verified; files of other programs and of older versions have none.

    Raises:
        ValueError: The file is not the one that was sealed.
    """
    contents, _ = _contents(path)
    if _HASH not in _header(_header_text(contents.get(_METADATA))):
        return False
    place, found = _sealed(path)
    if _content_hash(path, place) != found:
        raise ValueError("the checksum does not match: the file has changed since it was written")
    return True


def _sealed(path: Path) -> tuple[int, bytes]:
    """The position of the digits of the hash in a file, and the digits."""
    matches = list(_SEAL.finditer(_raw_contents(path)))
    if len(matches) != 1:
        raise ValueError("the checksum in its header is not readable")
    return _LENGTH_BYTES + matches[0].start(1), matches[0][1]


def _content_hash(path: Path, place: int) -> bytes:
    """The SHA-256 of a file in which the digits at a position count as zeros."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        digest.update(file.read(place))
        digest.update(UNSEALED[_HASH].encode())
        file.seek(place + _DIGITS)
        for piece in pieces(file, path.stat().st_size - file.tell()):
            digest.update(piece)
    return digest.hexdigest().encode()
