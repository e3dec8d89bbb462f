"""Tables of vectors, read from a file into the order and the layout in which they are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.errors import spans
from kgprobe.graph.sorted_keys import Ints
from kgprobe.predict.scorer import Floats
from kgprobe.predict.sources.files.stored import StoredArray

Arrange = Callable[[NDArray[Any]], NDArray[Any]]
"""Rows as they are in a file -> rows as they are compared."""


def unchanged(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows that are already as they are compared."""
    return rows


def read_table(
    array: StoredArray,
    problems: list[str],
    *,
    ids: Ints | None = None,
    arrange: Arrange = unchanged,
    spare: int = 0,
) -> Floats:
    """A table in float32, taking no more memory than itself and a small block.

    Args:
        array: Where it is stored.
        problems: Takes what is wrong with its numbers.
        ids: The row of the table that each stored row becomes, where they are not in order.
        arrange: Brings some rows to the layout in which they are compared.
        spare: Columns of zeros to add.

    Example:
        >>> import tempfile
        >>> from kgprobe.predict.sources.arrays import open_arrays
        >>> path = tempfile.mkdtemp() + "/entity.npy"
        >>> np.save(path, np.array([[1.0, 2.0], [3.0, 4.0]]))
        >>> read_table(open_arrays(path).arrays["entity.npy"], [], ids=np.array([1, 0]), spare=1).tolist()
        [[3.0, 4.0, 0.0], [1.0, 2.0, 0.0]]
    """
    *inner, last = arrange(np.empty((0, *array.shape[1:]))).shape[1:]
    table = np.zeros((array.shape[0], *inner, last + spare), dtype=np.float32)
    bad: list[int] = []
    for part, stored in array.blocks():
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is reported by its row
            rows = arrange(stored).astype(np.float32, copy=False)
        table[part if ids is None else ids[part], ..., :last] = rows
        finite = np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
        bad += (part.start + np.flatnonzero(~finite)).tolist()
    if bad:
        problems.append(
            f"{array.name}: {len(bad):,} rows hold NaN, infinity or what float32 cannot hold: "
            f"{spans(bad, most=10)} (counted from 0)"
        )
    return table
