"""The numba backend: BLAS for products, compiled loops for everything else. Importing this module needs numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import Ints
from kgprobe.predict.backends.backend import Bounds, NumpyBackend
from kgprobe.predict.scorers import Dot, GroupNorm, Similarity, Singles

# mypy: disable-error-code="no-untyped-def"

_STRETCH = 256

_CACHED_COORDINATES = 1 << 17
"""Coordinates of candidates that stay in the cache of a core while it goes through the queries."""

_COLUMNS = (64, 2048)


def compiled(**options: Any) -> Callable[[Any], Any]:
    """A decorator that compiles a function on its first call, cached on disk where the user may write."""

    def decorate(function: Any) -> Any:
        try:
            return numba.njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # no writable cache directory: every process compiles again
            return numba.njit(nogil=True, **options)(function)

    return decorate


_exact = compiled()

# Sums may be reordered and square roots approximated: the error bounds of the similarities allow for it.
_fast = compiled(fastmath={"nsz", "contract", "afn", "arcp", "reassoc"})


@_exact
def count(scores, row, low, high, above, within):
    """For each target, the number of scores in its row that are above the high bound, and the number within."""
    for target in range(len(row)):
        beaten, reached = np.int32(0), np.int32(0)
        for column in range(scores.shape[1]):
            score = scores[row[target], column]
            beaten += np.int32(score > high[target])
            reached += np.int32(score >= low[target])
        above[target] = beaten
        within[target] = reached - beaten


@_exact
def find_within(scores, row, low, high, which, columns):
    """The targets and columns of the scores within the bounds. Few are, so most stretches are skipped at once."""
    found = 0
    for target in range(len(row)):
        line, least, most = scores[row[target]], low[target], high[target]
        for start in range(0, len(line), _STRETCH):
            stretch = line[start : start + _STRETCH]
            there = np.int32(0)
            for column in range(len(stretch)):
                there += np.int32((stretch[column] >= least) & ~(stretch[column] > most))
            if there:
                for column in range(len(stretch)):
                    if stretch[column] >= least and not stretch[column] > most:
                        which[found], columns[found] = target, start + column
                        found += 1


@_exact
def canonical_dot(queries, row, candidates, column, out):
    """Canonical dot products: float64 sums in the order of the coordinates, rounded to float32.

    Each sum waits for its last addition, so four are computed at a time.
    """
    last = len(row) - 1
    for pair in range(0, len(row), 4):
        a, b, c, d = pair, min(pair + 1, last), min(pair + 2, last), min(pair + 3, last)
        p, q, r, s = queries[row[a]], queries[row[b]], queries[row[c]], queries[row[d]]
        e, f, g, h = candidates[column[a]], candidates[column[b]], candidates[column[c]], candidates[column[d]]
        w, x, y, z = 0.0, 0.0, 0.0, 0.0
        for i in range(queries.shape[1]):
            w += np.float64(p[i]) * np.float64(e[i])
            x += np.float64(q[i]) * np.float64(f[i])
            y += np.float64(r[i]) * np.float64(g[i])
            z += np.float64(s[i]) * np.float64(h[i])
        out[a], out[b], out[c], out[d] = np.float32(w), np.float32(x), np.float32(y), np.float32(z)


@_exact
def canonical_group_norm(queries, row, candidates, column, width, gamma, out):
    """Canonical group norms: float64 norms and their sum in the order of the coordinates, rounded to float32."""
    for pair in range(len(row)):
        total = 0.0
        for start in range(0, queries.shape[1], width):
            squared = 0.0
            for i in range(start, start + width):
                difference = np.float64(queries[row[pair], i]) - np.float64(candidates[column[pair], i])
                squared += difference * difference
            total += np.sqrt(squared)
        out[pair] = np.float32(gamma - total)


# ``columns`` has a candidate in every column; its scores go to the columns of ``out`` from ``first`` on. Rows are
# sliced out first, because the compiler does not vectorise an index that is a sum: it could be negative. Several
# coordinates at a time are added up in registers, which is faster than sums in memory.


@_fast
def absolute(queries, columns, out, first):
    """Minus the sum of absolute differences."""
    for row in range(len(queries)):
        line = out[row, first : first + columns.shape[1]]
        line[:] = np.float32(0)
        fours = len(columns) // 4 * 4
        for i in range(0, fours, 4):
            x, y, z, w = queries[row, i], queries[row, i + 1], queries[row, i + 2], queries[row, i + 3]
            a, b, c, d = columns[i], columns[i + 1], columns[i + 2], columns[i + 3]
            for j in range(len(line)):
                line[j] -= (abs(x - a[j]) + abs(y - b[j])) + (abs(z - c[j]) + abs(w - d[j]))
        for i in range(fours, len(columns)):
            x, a = queries[row, i], columns[i]
            for j in range(len(line)):
                line[j] -= abs(x - a[j])


@_fast
def moduli(queries, columns, out, first):
    """Minus the sum of the norms of pairs of coordinates."""
    for row in range(len(queries)):
        line = out[row, first : first + columns.shape[1]]
        line[:] = np.float32(0)
        for i in range(0, len(columns), 2):
            x, y = queries[row, i], queries[row, i + 1]
            real, imaginary = columns[i], columns[i + 1]
            for j in range(len(line)):
                a, b = x - real[j], y - imaginary[j]
                line[j] -= np.sqrt(a * a + b * b)


@_fast
def norms(queries, columns, width, out, first):
    """Minus the sum of the norms of groups of coordinates, for two queries at a time."""
    size = columns.shape[1]
    sums, squares = np.empty((2, size), dtype=np.float32), np.empty((2, size), dtype=np.float32)
    sum_one, sum_two, square_one, square_two = sums[0], sums[1], squares[0], squares[1]
    for row in range(0, len(queries), 2):
        one, two = queries[row], queries[min(row + 1, len(queries) - 1)]
        sums[:] = np.float32(0)
        for start in range(0, len(columns), width):
            squares[:] = np.float32(0)
            twos = start + width // 2 * 2
            for i in range(start, twos, 2):
                a, b = columns[i], columns[i + 1]
                x, y, z, w = one[i], one[i + 1], two[i], two[i + 1]
                for j in range(size):
                    p, q, r, s = x - a[j], y - b[j], z - a[j], w - b[j]
                    square_one[j] += p * p + q * q
                    square_two[j] += r * r + s * s
            for i in range(twos, start + width):
                a, x, z = columns[i], one[i], two[i]
                for j in range(size):
                    p, r = x - a[j], z - a[j]
                    square_one[j] += p * p
                    square_two[j] += r * r
            for j in range(size):
                sum_one[j] -= np.sqrt(square_one[j])
                sum_two[j] -= np.sqrt(square_two[j])
        last = min(row + 2, len(queries))
        out[row:last, first : first + size] = sums[: last - row]


class NumbaBackend(NumpyBackend):
    """The backend with compiled loops, which release the global interpreter lock.

    Example:
        >>> backend = NumbaBackend()
        >>> scores = backend.scores(GroupNorm(1), np.float32([[1, 2]]), np.float32([[3, 4], [1, 1]]))
        >>> scores.tolist()
        [[-4.0, -1.0]]
    """

    def group_norm(self, similarity: GroupNorm, queries: Singles, candidates: Singles, out: Singles) -> None:
        """Minus the sum of the norms, with the candidates in columns so that loops over them are vectorised."""
        dimension = queries.shape[1]
        width = similarity.width(dimension)
        step = int(np.clip(_CACHED_COORDINATES // dimension, *_COLUMNS))
        for start in range(0, len(candidates), step):
            columns = np.ascontiguousarray(candidates[start : start + step].T)
            if width == 1:
                absolute(queries, columns, out, start)
            elif width == 2:
                moduli(queries, columns, out, start)
            else:
                norms(queries, columns, width, out, start)

    def count(self, scores: NDArray[Any], bounds: Bounds) -> tuple[Ints, Ints]:
        above, within = (np.empty(len(bounds.row), dtype=np.int64) for _ in range(2))
        count(scores, bounds.row, bounds.low, bounds.high, above, within)
        return above, within

    def within(self, scores: NDArray[Any], bounds: Bounds, found: int) -> tuple[Ints, Ints]:
        which, column = (np.empty(found, dtype=np.int64) for _ in range(2))
        find_within(scores, bounds.row, bounds.low, bounds.high, which, column)
        return which, column

    def canonical(
        self, similarity: Similarity, queries: Singles, row: Ints, candidates: Singles, column: Ints
    ) -> Singles:
        out = np.empty(len(row), dtype=np.float32)
        if isinstance(similarity, Dot):
            canonical_dot(queries, row, candidates, column, out)
        else:
            width = similarity.width(queries.shape[1])
            canonical_group_norm(queries, row, candidates, column, width, float(similarity.gamma), out)
        return out
