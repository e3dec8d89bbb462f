"""The NumPy backend, which runs everywhere."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import Ints
from kgprobe.predict.backends.backend import Bounds
from kgprobe.predict.scorers import Dot, GroupNorm, Similarity, Singles, as_array

_CELLS_AT_ONCE = 1 << 20


class NumpyBackend:
    """Counts with NumPy and its BLAS.

    Example:
        >>> arithmetic = NumpyBackend()
        >>> scores = arithmetic.scores(Dot(), np.float32([[1, 2]]), np.float32([[3, 4], [1, 1], [0, 1]]))
        >>> bounds = Bounds(np.array([0]), np.float32([2.5]), np.float32([3.5]))
        >>> [counts.tolist() for counts in arithmetic.count(scores, bounds)]
        [[1], [1]]
    """

    def __init__(self) -> None:
        self._own = threading.local()

    def place(self, vectors: Singles) -> Singles:
        """The vectors as they are."""
        return vectors

    def scores(self, similarity: Similarity, queries: Singles, candidates: Singles) -> Singles:
        """Float32 scores in a buffer that each thread uses again."""
        out = self._buffer(len(queries), len(candidates))
        if isinstance(similarity, Dot):
            # A silent row may overflow; nobody looks at what comes of it.
            with np.errstate(over="ignore", invalid="ignore"):
                np.matmul(queries, candidates.T, out=out)
        else:
            self.group_norm(similarity, queries, candidates, out)
        return out

    def group_norm(self, similarity: GroupNorm, queries: Singles, candidates: Singles, out: Singles) -> None:
        """Minus the sum of the norms, group by group."""
        width = similarity.width(queries.shape[1])
        out[:] = 0
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, queries.shape[1], width):
                squared = np.zeros_like(out)
                for i in range(start, start + width):
                    squared += np.square(queries[:, i, None] - candidates[:, i])
                out -= np.sqrt(squared)

    def adopt(self, scores: Any) -> NDArray[Any]:
        """A copy, in float64 where it is not float32 or shorter."""
        scores = as_array(scores)
        kept = np.float32 if scores.dtype in (np.float16, np.float32) else np.float64
        return np.array(scores, dtype=kept, order="C")

    def not_numbers(self, scores: NDArray[Any]) -> Ints:
        """The rows that hold NaN."""
        return np.flatnonzero(np.isnan(scores).any(axis=1))

    def take(self, scores: NDArray[Any], row: Ints, column: Ints) -> NDArray[Any]:
        """Some of the scores."""
        taken: NDArray[Any] = scores[row, column]
        return taken

    def silence(self, scores: NDArray[Any], rows: Ints) -> None:
        """Set rows to 0."""
        scores[rows] = 0

    def mask(self, scores: NDArray[Any], row: Ints, column: Ints) -> None:
        """Take candidates out."""
        scores[row, column] = np.nan

    def count(self, scores: NDArray[Any], bounds: Bounds) -> tuple[Ints, Ints]:
        """Compare and count, a few targets at a time so that the comparisons stay in cache."""
        above, within = (np.empty(len(bounds.row), dtype=np.int64) for _ in range(2))
        step = max(1, _CELLS_AT_ONCE // max(scores.shape[1], 1))
        for start in range(0, len(bounds.row), step):
            some = slice(start, start + step)
            rows = scores[bounds.row[some]]
            above[some] = np.count_nonzero(rows > bounds.high[some, None], axis=1)
            within[some] = np.count_nonzero(rows >= bounds.low[some, None], axis=1) - above[some]
        return above, within

    def within(self, scores: NDArray[Any], bounds: Bounds, found: int) -> tuple[Ints, Ints]:
        """The candidates within the bounds."""
        rows = scores[bounds.row]
        which, column = np.nonzero((rows >= bounds.low[:, None]) & ~(rows > bounds.high[:, None]))
        return which, column

    def record(self, similarity: Similarity, queries: Singles, row: Ints, candidates: Singles, column: Ints) -> Singles:
        """The scores of record, as the similarity itself defines them."""
        scores = np.empty(len(row), dtype=np.float32)
        step = max(1, _CELLS_AT_ONCE // queries.shape[1])
        for start in range(0, len(row), step):
            some = slice(start, start + step)
            scores[some] = similarity.record(queries[row[some]], candidates[column[some]])
        return scores

    def _buffer(self, rows: int, columns: int) -> Singles:
        cells = rows * columns
        if not hasattr(self._own, "buffer") or self._own.buffer.size < cells:
            self._own.buffer = np.empty(cells, dtype=np.float32)
        buffer: Singles = self._own.buffer[:cells].reshape(rows, columns)
        return buffer
