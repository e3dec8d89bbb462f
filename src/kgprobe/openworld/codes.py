"""One number for each row of several tables, so that rows are matched without a loop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kgprobe.aggregate.keyed import distinct

Codes = NDArray[np.int64]


def codes_of(tables: Sequence[Sequence[NDArray[np.integer]]]) -> list[Codes]:
    """A number for every row of every table, equal where all columns are.

    Args:
        tables: The columns of each table, in the same order.

    Example:
        >>> one, two = codes_of([[np.array([5, 5]), np.array([1, 2])], [np.array([5]), np.array([2])]])
        >>> (one == two[0]).tolist()
        [False, True]
    """
    columns = [np.concatenate(parts).astype(np.float64) for parts in zip(*tables, strict=True)]
    _, codes = distinct(columns, len(columns[0]))
    return np.split(codes, np.cumsum([len(table[0]) for table in tables])[:-1])
