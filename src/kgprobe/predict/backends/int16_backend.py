"""The int16 backend, for CPUs that multiply integers of 16 bits several times as fast as float32. It needs numba.

Dot products are computed from embeddings that are rounded to integers, and compared with the targets as soon as they
are computed; they are not stored. The candidates within the error bounds are compared again by float32 products, and
what is then still undecided by canonical scores. Group norms are computed by the numba backend.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from kgprobe.arrays import Ints
from kgprobe.predict.backends.backend import Bounds
from kgprobe.predict.backends.int16_kernels import (
    ANY_CPU,
    PANEL,
    ROWS,
    Found,
    Packed,
    Targets,
    count,
    instructions,
)
from kgprobe.predict.backends.numba_backend import NumbaBackend
from kgprobe.predict.scorers import Dot, Similarity, Singles
from kgprobe.resources import single_blas_thread

_MOST_KEPT = 1 << 26
"""Bytes of rounded candidates that are kept for all queries. Those of larger tables are rounded for each tile."""

_BATCH, _LARGE_BATCH = 512, 2048
"""Queries of a tile, if candidates are kept and if not. Rounding takes as long as the products with 110 queries."""

_LARGE_TILE = 1 << 15

_UNCLEAR, _MEMORY_PER_UNCLEAR = 2.0**-8, 1 << 10
"""The share of the pairs for which there is room in the list of those that float32 cannot decide, and the memory that
there must be for each of them. If there are more, they are found by counting again, some at a time."""

_WORTH = 1.25
"""How many times as fast as float32 products counting by integers must be."""


@dataclass(frozen=True, eq=False)
class Int16Embeddings:
    """Embeddings, which are rounded to integers when they are first used as queries or as candidates.

    Attributes:
        exact: The embeddings in float32.
        kept: Whether they are kept when they are rounded as candidates.
    """

    exact: Singles
    kept: bool

    @cached_property
    def as_queries(self) -> Packed:
        """With a factor for each query."""
        return Packed.of(self.exact, ROWS, 1)

    @cached_property
    def as_candidates(self) -> Packed:
        """With a factor for each panel of candidates; room for one panel if they are not kept."""
        if self.kept:
            return Packed.of(self.exact, PANEL, PANEL)
        return Packed.empty(PANEL, self.exact.shape[1], PANEL, PANEL)

    def __getitem__(self, some: slice) -> Int16Embeddings:
        exact = self.exact[some]
        return self if self.kept and len(exact) == len(self.exact) else Int16Embeddings(exact, kept=False)


@dataclass(eq=False)
class _Tile:
    """Queries and candidates whose dot products are computed when they are counted.

    Attributes:
        queries: The queries.
        candidates: The candidates.
        known: The rows and columns that are filtered.
        unclear: The targets and columns that float32 could not decide when they were counted, if there was room.
    """

    queries: Int16Embeddings
    candidates: Int16Embeddings
    known: tuple[Ints, Ints]
    unclear: tuple[Ints, Ints] | None = None


class Int16Backend(NumbaBackend):
    """The backend that computes dot products of integers first.

    Args:
        memory: Bytes of working memory, of which a part may hold rounded candidates and lists of unclear pairs.

    Example:
        >>> backend = Int16Backend()
        >>> queries, table = (backend.to_device(np.float32(x)) for x in ([[1, 2]], [[3, 4], [1, 1], [0, 1]]))
        >>> bounds = Bounds(np.array([0]), np.float32([2.5]), np.float32([3.5]), np.float32([3]))
        >>> [counts.tolist() for counts in backend.count(backend.scores(Dot(), queries, table), bounds)]
        [[1], [1]]
    """

    def __init__(self, memory: int = 1 << 30) -> None:
        super().__init__()
        self._memory = memory

    def shape(self, columns: int, dimension: int, memory: int) -> tuple[int, int]:
        """A tile holds all candidates if these are kept. Scores need no memory."""
        if self._is_kept(columns * dimension):
            return _BATCH, _BATCH * columns
        return _LARGE_BATCH, _LARGE_BATCH * _LARGE_TILE

    def _is_kept(self, coordinates: int) -> bool:
        return coordinates * np.dtype(np.int16).itemsize <= min(_MOST_KEPT, self._memory // 4)

    def to_device(self, embeddings: Singles) -> Any:
        return Int16Embeddings(embeddings, self._is_kept(embeddings.size))

    def scores(self, similarity: Similarity, queries: Any, candidates: Any) -> Any:
        if isinstance(similarity, Dot):
            none = np.empty(0, dtype=np.int64)
            return _Tile(queries, candidates, (none, none))
        return super().scores(similarity, queries.exact, candidates.exact)

    def clear_rows(self, scores: Any, rows: Ints) -> None:
        if not isinstance(scores, _Tile):  # scores that may overflow are left undecided when they are counted
            super().clear_rows(scores, rows)

    def mask(self, scores: Any, row: Ints, column: Ints) -> None:
        if isinstance(scores, _Tile):
            scores.known = row, column
        else:
            super().mask(scores, row, column)

    def count(self, scores: Any, bounds: Bounds) -> tuple[Ints, Ints]:
        if not isinstance(scores, _Tile):
            return super().count(scores, bounds)
        each = 4 + int(_UNCLEAR * len(scores.candidates.exact))
        found = self._compare(scores, bounds, min(each * len(bounds.row), self._memory // _MEMORY_PER_UNCLEAR))
        total = int(found.within.sum())
        scores.unclear = (found.which[:total], found.column[:total]) if total <= len(found.which) else None
        return found.above, found.within

    def within(self, scores: Any, bounds: Bounds, found: int) -> tuple[Ints, Ints]:
        if not isinstance(scores, _Tile):
            return super().within(scores, bounds, found)
        if scores.unclear is None or bounds.chosen is None:
            again = self._compare(scores, bounds, found)
            return again.which, again.column
        which, column = scores.unclear
        position = np.searchsorted(bounds.chosen, which)
        there = bounds.chosen.take(position, mode="clip") == which
        return position[there], column[there]

    def _compare(self, tile: _Tile, bounds: Bounds, room: int) -> Found:
        queries, candidates = tile.queries.as_queries, tile.candidates.as_candidates
        targets = Targets.of(bounds.row, bounds.own, queries, tile.queries.exact.shape[1])
        found = Found.empty(len(bounds.row), room)
        exact = tile.queries.exact, tile.candidates.exact
        count(queries, candidates, tile.candidates.kept, *exact, targets, *tile.known, found)
        return found

    def canonical(self, similarity: Similarity, queries: Any, row: Ints, candidates: Any, column: Ints) -> Singles:
        return super().canonical(similarity, queries.exact, row, candidates.exact, column)


@cache
def is_worthwhile() -> bool:
    """Whether the CPU has the instructions, and counts by them much faster than float32 products by a measurement."""
    if instructions() == ANY_CPU:
        return False
    rng, backend = np.random.default_rng(0), Int16Backend()
    queries, candidates = (rng.standard_normal((rows, 256), dtype=np.float32) for rows in (512, 2048))
    short = [backend.to_device(values) for values in (queries, candidates)]
    far = np.full(len(queries), np.float32(1e6))
    bounds = Bounds(np.arange(len(queries)), far, far, far)
    with single_blas_thread():
        single = _seconds(lambda: queries @ candidates.T)
        return single > _WORTH * _seconds(lambda: backend.count(backend.scores(Dot(), *short), bounds))


def _seconds(work: Callable[[], Any]) -> float:
    times = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
