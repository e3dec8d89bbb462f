"""Numbers on their way into a page: a JSON header and typed arrays in one compressed piece."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ALIGNMENT = 8
"""Bytes; a typed array of JavaScript begins at a multiple of the size of its numbers."""
_LEVEL = 6


def pack(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], steps: frozenset[str] = frozenset()) -> bytes:
    """A header and arrays as bytes that are the same whenever they are written.

    Args:
        header: Anything that JSON can say; the place of every array is added under ``arrays``.
        arrays: Whole numbers of at least 0, which take as few bytes as they need, or doubles.
        steps: Arrays that are stored as the steps from each value to the next: where these repeat, they cost nothing.

    Example:
        >>> packed = pack({"title": "mine"}, {"rank": np.array([1, 2]), "triple": np.array([4, 4, 5])}, {"triple"})
        >>> header, arrays = unpack(packed)
        >>> header, {name: (str(array.dtype), array.tolist()) for name, array in arrays.items()}
        ({'title': 'mine'}, {'rank': ('uint8', [1, 2]), 'triple': ('int32', [4, 4, 5])})
    """
    stored = {name: _steps(array) if name in steps else _narrow(array) for name, array in arrays.items()}
    places, body = {}, bytearray()
    for name, array in stored.items():
        places[name] = [array.dtype.str[1:], len(body), len(array), name in steps]
        body += array.astype(array.dtype.newbyteorder("<")).tobytes()
        body += bytes(-len(body) % _ALIGNMENT)
    # The path of a file may hold bytes that are no text.
    text = json.dumps({**header, "arrays": places}, ensure_ascii=False, allow_nan=False).encode(errors="replace")
    text += b" " * (-(len(text) + _ALIGNMENT) % _ALIGNMENT)
    return gzip.compress(len(text).to_bytes(_ALIGNMENT, "little") + text + bytes(body), _LEVEL, mtime=0)


def unpack(packed: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The header and the arrays of what `pack` made, as the page sees them."""
    content = gzip.decompress(packed)
    start = _ALIGNMENT + int.from_bytes(content[:_ALIGNMENT], "little")
    header: dict[str, Any] = json.loads(content[_ALIGNMENT:start])
    arrays = {}
    for name, (kind, offset, length, stepped) in header.pop("arrays").items():
        array = np.frombuffer(content, f"<{kind}", length, start + offset)
        arrays[name] = np.cumsum(array, dtype=array.dtype) if stepped else array
    return header, arrays


def _narrow(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    return array.astype(np.min_scalar_type(int(array.max(initial=0))))


def _steps(array: NDArray[Any]) -> NDArray[Any]:
    return np.diff(array, prepend=0).astype(np.int32)
