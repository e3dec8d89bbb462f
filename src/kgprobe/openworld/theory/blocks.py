"""Work on many windows of integers at once, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_CELLS = 1 << 19
"""Numbers in one block."""


def blocks(first: Floats, width: Floats) -> Iterator[tuple[Ints, Floats]]:
    """Rows whose windows are about as wide, and the integers of the windows: [rows, widest of them].

    A window that is narrower than the widest of its block runs on: what is beyond its end has no weight.

    Example:
        >>> for rows, k in blocks(np.array([0.0, 5.0]), np.array([1.0, 2.0])):
        ...     print(rows.tolist(), k.tolist())
        [0, 1] [[0.0, 1.0], [5.0, 6.0]]
    """
    order = np.argsort(width, kind="stable")
    wide = width[order].astype(np.int64)
    start = 0
    while start < len(order):
        # Widths ascend, so the block may take rows as long as the widest of them, the last, leaves room.
        room = np.arange(1, len(order) - start + 1) * wide[start:] <= _CELLS
        stop = start + max(int(np.count_nonzero(room)), 1)
        rows = order[start:stop]
        yield rows, first[rows, None] + np.arange(wide[stop - 1])
        start = stop
