"""Lists of different lengths side by side, without a loop over them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.graph.sorted_keys import Ints


def spread(length: Ints) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The list of each element, and its place in the list.

    Example:
        >>> [part.tolist() for part in spread(np.array([2, 0, 3]))]
        [[0, 0, 2, 2, 2], [0, 1, 0, 1, 2]]
    """
    size = np.asarray(length, dtype=np.int64)
    owner = np.repeat(np.arange(len(size)), size)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(size) - size, size)


def slices(weight: NDArray[Any], most: float) -> list[slice]:
    """Consecutive rows whose weights together are about this at most; one empty slice if there are no rows.

    Beyond that a slice has the weight of its first row at most.

    Example:
        >>> slices(np.array([1, 1, 1, 9, 1]), most=3)
        [slice(0, 2, None), slice(2, 3, None), slice(3, 5, None)]
    """
    passed = np.cumsum(weight, dtype=np.float64) // most
    cuts = [0, *(np.flatnonzero(np.diff(passed)) + 1).tolist(), len(weight)]
    return [slice(first, last) for first, last in pairwise(cuts)]
