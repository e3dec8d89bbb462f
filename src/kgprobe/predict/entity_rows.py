"""Entities in compressed rows, one row for each query, and some of the rows at a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kgprobe.graph.sorted_keys import Ints


class EntityRows(NamedTuple):
    """``entities[offsets[i]:offsets[i + 1]]`` are the entities of row i: distinct, in ascending order.

    Example:
        >>> rows = EntityRows(np.array([0, 2, 2, 3]), np.array([4, 9, 7]))
        >>> rows.take(np.array([2, -1, 0])).entities.tolist()
        [7, 4, 9]
    """

    offsets: NDArray[np.int64]
    entities: Ints

    def take(self, wanted: Ints) -> EntityRows:
        """The wanted rows in that order; -1 is a row of no entities."""
        there = wanted >= 0
        first, size = (np.zeros(len(wanted), dtype=np.int64) for _ in range(2))
        first[there] = self.offsets[wanted[there]]
        size[there] = self.offsets[wanted[there] + 1] - first[there]
        offsets = np.zeros(len(wanted) + 1, dtype=np.int64)
        np.cumsum(size, out=offsets[1:])
        position = np.arange(offsets[-1])
        position += np.repeat(first - offsets[:-1], size)
        return EntityRows(offsets, self.entities[position])
