"""Files of named arrays (.npz, .npy, .safetensors), and the arrays that a file must have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from numpy.typing import NDArray

from kgprobe.errors import DataError, UsageError, nearest
from kgprobe.files import replacing
from kgprobe.predict.adapters import array_formats
from kgprobe.predict.adapters.array_formats import StoredArray, not_arrays, reading

FLOATS = ("float16", "bfloat16", "float32", "float64")

"""The kinds of numbers that vectors and scores may have."""

WHOLE_NUMBERS = ("int32", "int64")

"""The kinds of numbers that ids may have."""

Shapes: TypeAlias = Mapping[str, tuple[tuple[int, ...], str]]

"""Arrays by name: their shape and the kind of their numbers."""


@dataclass(frozen=True)
class Place:
    """An array that a file needs or may have.

    Attributes:
        name: What it is called.
        of: What its rows are for.
        rows: How many there must be; None where any number will do.
        shape: Shape of one row; None where it is not known.
        kinds: The kinds of numbers it may have.
        needed: Whether it must be there.
    """

    name: str
    of: str
    rows: int | None
    shape: tuple[int, ...] | None
    kinds: tuple[str, ...] = FLOATS
    needed: bool = True

    def problems(self, shape: tuple[int, ...], kind: str) -> list[str]:
        """What is wrong with an array in this place."""
        found = []
        if kind not in self.kinds:
            pickled = "pickled Python objects, which are never loaded; save it as plain numbers:"
            said = pickled if kind == "object" else f"{kind}, expected"
            found.append(f"{self.name}: holds {said} {', '.join(self.kinds[:-1])} or {self.kinds[-1]}")
        if not shape:
            found.append(f"{self.name}: a single value, expected one row for each of the {self.of}")
        elif self.rows is not None and shape[0] != self.rows:
            found.append(f"{self.name}: {shape[0]:,} rows, but there are {self.rows:,} {self.of}")
        if shape and self.shape is not None and shape[1:] != self.shape:
            found.append(f"{self.name}: one row has shape {shape[1:]}, expected {self.shape}")
        return found


def place_problems(places: Iterable[Place], shapes: Shapes) -> list[str]:
    """Arrays that are missing, have no place or do not fit, all of them.

    Example:
        >>> place_problems(
        ...     [Place("tail", "triples", 3, (9,)), Place("head", "triples", 3, (9,))],
        ...     {"tail": ((2, 9), "complex64"), "heads": ((3, 9), "float32")},
        ... )
        ["no array 'head'", "array 'heads' has no place here; nearest: head", 'tail: holds complex64, expected ...]
    """
    known = {place.name: place for place in places}
    return [
        *(f"no array {name!r}" for name, place in known.items() if place.needed and name not in shapes),
        *(f"array {name!r} has no place here{nearest(name, known)}" for name in shapes if name not in known),
        *(problem for name, place in known.items() if name in shapes for problem in place.problems(*shapes[name])),
    ]


WRITERS = {".npz": array_formats.write_npz, ".safetensors": array_formats.write_safetensors}

"""How a file of several arrays is written, by the ending of its name."""


@dataclass(frozen=True, eq=False)
class ArrayFile:
    """The arrays in a file by name, and the text that it carries about them, if any."""

    path: Path
    arrays: Mapping[str, StoredArray]
    header: str | None = None

    @property
    def shapes(self) -> Shapes:
        """What the arrays look like."""
        return {name: (array.shape, array.kind) for name, array in self.arrays.items()}


def open_arrays(path: str | PathLike[str]) -> ArrayFile:
    """Look into a file of arrays; its format is told by its content.

    The text about the arrays is the entry "kgprobe" of the metadata (.safetensors), or the array "header" (.npz).

    Raises:
        DataError: There is no such file, it is truncated, or it holds something else.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> path = Path(tempfile.mkdtemp()) / "vectors.npz"
        >>> write_arrays(path, "two of them", {"entity": np.zeros((2, 5)), "relation": np.ones((1, 5))})
        >>> file = open_arrays(path)
        >>> file.header, {name: array.shape for name, array in file.arrays.items()}
        ('two of them', {'entity': (2, 5), 'relation': (1, 5)})
    """
    file = Path(path)
    with reading(file):
        with file.open("rb") as opened:
            start = opened.read(9)
        if start.startswith(b"PK"):
            return _open_npz(file)
        if start.startswith(b"\x93NUMPY"):
            array = array_formats.open_npy(file)
            return ArrayFile(file, {array.name: array})
        if start[8:] == b"{":
            found, text = array_formats.open_safetensors(file)
            return ArrayFile(file, {array.name: array for array in found}, text)
    raise not_arrays(file, ["it is a pickle" if start[:1] == b"\x80" else f"it begins with {start!r}"])


def write_arrays(path: str | PathLike[str], header: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays and a text about them; the ending of the name says in which format."""
    write = WRITERS.get(Path(path).suffix)
    if write is None:
        raise UsageError(f"{path}: the format is not known", remedy=f"let the name end in {' or '.join(WRITERS)}")
    with replacing(path) as temporary:
        write(temporary, header, arrays)


def array_names(path: str | PathLike[str]) -> set[str]:
    """The names of the arrays in a file, none if it is not a readable file of arrays."""
    try:
        return set(open_arrays(path).arrays)
    except DataError:
        return set()


def _open_npz(path: Path) -> ArrayFile:
    arrays = {array.name: array for array in array_formats.open_npz(path)}
    text = arrays.get(array_formats.NPZ_HEADER)
    if text is None or text.shape or text.dtype.kind != "U":
        return ArrayFile(path, arrays)
    del arrays[array_formats.NPZ_HEADER]
    return ArrayFile(path, arrays, str(text.whole()))
