"""Files of arrays by name (.npz, .safetensors, .npy): never unpickled, and read only as far as they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from kgprobe.errors import DataError, UsageError
from kgprobe.files import replacing
from kgprobe.predict.sources.files import numpy_files, safetensors_files
from kgprobe.predict.sources.files.places import Shapes
from kgprobe.predict.sources.files.stored import StoredArray, not_arrays, reading

WRITERS = {".npz": numpy_files.write_npz, ".safetensors": safetensors_files.write_safetensors}
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
            array = numpy_files.open_npy(file)
            return ArrayFile(file, {array.name: array})
        if start[8:] == b"{":
            found, text = safetensors_files.open_safetensors(file)
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
    arrays = {array.name: array for array in numpy_files.open_npz(path)}
    text = arrays.get(numpy_files.HEADER)
    if text is None or text.shape or text.dtype.kind != "U":
        return ArrayFile(path, arrays)
    del arrays[numpy_files.HEADER]
    return ArrayFile(path, arrays, str(text.whole()))
