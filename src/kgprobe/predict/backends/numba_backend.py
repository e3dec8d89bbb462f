"""The numba backend: BLAS for products, compiled loops for the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.predict.backends.backend import Bounds, Ints
from kgprobe.predict.backends.numpy_backend import PlainArithmetic
from kgprobe.predict.scorers import Dot, Floats, GroupNorm, Similarity

_CACHED_COORDINATES = 1 << 17

"""Coordinates of candidates that a core keeps at hand while it goes through the queries."""

_COLUMNS = (64, 2048)


class CompiledArithmetic(PlainArithmetic):
    """Counts with compiled loops, which release the lock of the interpreter.

    Example:
        >>> arithmetic = CompiledArithmetic()
        >>> scores = arithmetic.scores(GroupNorm(1), np.float32([[1, 2]]), np.float32([[3, 4], [1, 1]]))
        >>> scores.tolist()
        [[-4.0, -1.0]]
    """

    def __init__(self) -> None:
        super().__init__()
        from kgprobe.predict.backends import numba_kernels

        self._kernels: Any = numba_kernels

    def group_norm(self, similarity: GroupNorm, queries: Floats, candidates: Floats, out: Floats) -> None:
        """Minus the sum of the norms, with the candidates in columns so that they fill vector registers."""
        dimension = queries.shape[1]
        width = similarity.width(dimension)
        step = int(np.clip(_CACHED_COORDINATES // dimension, *_COLUMNS))
        for start in range(0, len(candidates), step):
            columns = np.ascontiguousarray(candidates[start : start + step].T)
            if width == 1:
                self._kernels.absolute(queries, columns, out, start)
            elif width == 2:
                self._kernels.moduli(queries, columns, out, start)
            else:
                self._kernels.norms(queries, columns, width, out, start)

    def count(self, scores: NDArray[Any], bounds: Bounds) -> tuple[Ints, Ints]:
        """Compare and count in one pass."""
        above, within = (np.empty(len(bounds.row), dtype=np.int64) for _ in range(2))
        self._kernels.count(scores, bounds.row, bounds.low, bounds.high, above, within)
        return above, within

    def within(self, scores: NDArray[Any], bounds: Bounds, found: int) -> tuple[Ints, Ints]:
        """The candidates within the bounds."""
        which, column = (np.empty(found, dtype=np.int64) for _ in range(2))
        self._kernels.find_within(scores, bounds.row, bounds.low, bounds.high, which, column)
        return which, column

    def record(self, similarity: Similarity, queries: Floats, row: Ints, candidates: Floats, column: Ints) -> Floats:
        """The scores of record, without a copy of the vectors."""
        out = np.empty(len(row), dtype=np.float32)
        if isinstance(similarity, Dot):
            self._kernels.record_dot(queries, row, candidates, column, out)
        else:
            width = similarity.width(queries.shape[1])
            self._kernels.record_group_norm(queries, row, candidates, column, width, float(similarity.gamma), out)
        return out
