"""The safetensors format: a JSON table of contents, then the numbers as they lie in memory.

Read and written here rather than by its library, which gives NumPy neither bfloat16 nor mapped memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.predict.sources.files.stored import StoredArray, open_at

METADATA = "__metadata__"
HEADER = "kgprobe"
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
    text = metadata.get(HEADER) if isinstance(metadata, dict) else None
    return arrays, text if isinstance(text, str) else None


def write_safetensors(path: Path, header: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays, and text about them in the metadata."""
    contents: dict[str, Any] = {METADATA: {HEADER: header}}
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
