"""Small tools for sparse matrices of paths."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kgprobe.graph.sorted_keys import Ints, find, pair_keys

Matrix: TypeAlias = "csr_array[Any, tuple[int, int]]"


def single(value: NDArray[np.float32], column: Ints, columns: int) -> Matrix:
    """One element in each row.

    Example:
        >>> single(np.float32([5, 7]), np.array([1, 0]), columns=3).toarray().tolist()
        [[0.0, 5.0, 0.0], [7.0, 0.0, 0.0]]
    """
    return csr_array((value, column, np.arange(len(column) + 1)), shape=(len(column), columns))


def one_hot(column: Ints, columns: int) -> Matrix:
    """A 1 in each row.

    Example:
        >>> one_hot(np.array([1, 0]), columns=3).toarray().tolist()
        [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """
    return single(np.ones(len(column), dtype=np.float32), column, columns)


def elements(matrix: Matrix, row: Ints, column: Ints) -> NDArray[np.float32]:
    """Elements of a matrix, 0 where nothing is stored. The matrix is put in order.

    Example:
        >>> elements(one_hot(np.array([1, 0]), columns=3), np.array([1, 1]), np.array([2, 0])).tolist()
        [0.0, 1.0]
    """
    matrix.sort_indices()
    rows, columns = matrix.shape
    stored = pair_keys(np.repeat(np.arange(rows), np.diff(matrix.indptr)), matrix.indices, columns)
    place = find(stored, pair_keys(row, column, columns))
    return np.where(place >= 0, np.append(matrix.data, np.float32(0))[place], np.float32(0))
