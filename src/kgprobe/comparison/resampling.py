"""Clustered bootstrap and sign flips: random weights of clusters, and reductions over the draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kgprobe.resources import Resources, one_thread_of_blas

Floats = NDArray[np.float64]

Draw = Callable[[int, int, np.random.Generator], Floats]

Watch = Callable[[float], None]

_CHUNK_CELLS = 1 << 20

"""How many numbers a chunk of draws has: enough for a fast product."""

_CACHED_CELLS = 1 << 17

"""How many of them are made at once: so few that they stay in the cache."""


def resampled(rows: int, clusters: int, rng: np.random.Generator) -> Floats:
    """How often each cluster is drawn, when as many are drawn as there are: an array [rows, clusters].

    Example:
        >>> resampled(2, 3, np.random.default_rng(0)).sum(axis=1).tolist()
        [3.0, 3.0]
    """
    counts = np.empty((rows, clusters))
    for some in np.array_split(counts, -(-rows * clusters // _CACHED_CELLS)):
        drawn = rng.integers(clusters, size=some.shape)
        drawn += clusters * np.arange(len(some))[:, None]
        some[:] = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(some.shape)
    return counts


def flipped(rows: int, clusters: int, rng: np.random.Generator) -> Floats:
    """A random sign for each cluster: an array [rows, clusters] of 1 and -1.

    Example:
        >>> np.abs(flipped(1, 2, np.random.default_rng(0))).tolist()
        [[1.0, 1.0]]
    """
    drawn = np.frombuffer(rng.bytes(-(-rows * clusters // 8)), dtype=np.uint8)
    signs = np.multiply(np.unpackbits(drawn, count=rows * clusters), -2.0)
    signs += 1.0
    return signs.reshape(rows, clusters)


def every_flip(clusters: int) -> Floats:
    """All 2^clusters ways to choose the signs, no change first.

    Example:
        >>> every_flip(2).tolist()
        [[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]]
    """
    ways = np.arange(1 << clusters)[:, None] >> np.arange(clusters)
    return 1.0 - 2.0 * (ways & 1).astype(np.float64)


def chunks(total: int, width: int) -> Iterator[int]:
    """How many of ``total`` rows of that width to take at a time.

    Example:
        >>> list(chunks(5, width=1 << 19))
        [2, 2, 1]
    """
    rows = max(1, min(total, _CHUNK_CELLS // max(width, 1)))
    for start in range(0, total, rows):
        yield min(rows, total - start)


def gathered(
    draw: Draw,
    reduce: Callable[[Floats], Floats],
    *,
    clusters: int,
    total: int,
    seed: int,
    watch: Watch | None = None,
) -> Floats:
    """What is kept of many draws, [total, ...], without ever holding more than a few of them.

    Every chunk has a random generator of its own, so the outcome does not hang on the number of threads.

    Args:
        draw: Makes some rows of draws.
        reduce: What to keep of them, row by row.
        clusters: The length of a row.
        total: How many rows.
        seed: Makes them repeatable.
        watch: Is told how many rows have been done since it was last told.

    Example:
        >>> kept = gathered(resampled, lambda counts: counts[:, :1], clusters=5, total=1000, seed=0)
        >>> kept.shape, bool(abs(kept.mean() - 1) < 0.1)
        ((1000, 1), True)
    """

    def work(chunk: tuple[int, int]) -> Floats:
        place, rows = chunk
        return reduce(draw(rows, clusters, np.random.default_rng([seed, place])))

    kept = []
    with one_thread_of_blas(), ThreadPoolExecutor(Resources().workers) as threads:
        for piece in threads.map(work, enumerate(chunks(total, clusters))):
            kept.append(piece)
            if watch:
                watch(len(piece))
    return np.concatenate(kept)


_BLOCK_CELLS = 1 << 24


@dataclass(frozen=True)
class Table:
    """Sums of columns over re-weighted clusters.

    Attributes:
        width: The number of columns.
        rows: Gives some rows of the table [clusters, width].
    """

    width: int
    rows: Callable[[slice], Floats]


@dataclass(frozen=True)
class Rule:
    """Numbers that are no sums.

    Attributes:
        width: How many of them.
        of: Gives those of some draws, [draws, width].
    """

    width: int
    of: Callable[[Floats], Floats]


Kept = Table | Rule


def side_by_side(kinds: Sequence[Kept], clusters: int) -> Callable[[Floats], Floats]:
    """A function from draws [draws, clusters] to all that is kept of them, in the given order.

    Example:
        >>> both = side_by_side([Rule(1, lambda draws: draws[:, :1]), Table(2, lambda rows: 2 * np.eye(2)[rows])], 2)
        >>> both(np.array([[5.0, 7.0]])).tolist()
        [[5.0, 10.0, 14.0]]
    """
    tables = [kind for kind in kinds if isinstance(kind, Table)]
    width = sum(table.width for table in tables)
    block = max(1, _BLOCK_CELLS // max(width, 1))

    # One block is kept. Where there are several, each is made anew for every chunk of draws, which bounds the memory.
    @lru_cache(maxsize=1)
    def columns(start: int) -> Floats:
        return np.concatenate([table.rows(slice(start, start + block)) for table in tables], axis=1)

    def keep(draws: Floats) -> Floats:
        sums = np.zeros((len(draws), width))
        for start in range(0, clusters if tables else 0, block):
            sums += draws[:, start : start + block] @ columns(start)
        of_tables = parted(sums, tables)
        return np.concatenate(
            [next(of_tables) if isinstance(kind, Table) else kind.of(draws) for kind in kinds], axis=1
        )

    return keep


def parted(kept: Floats, kinds: Sequence[Kept]) -> Iterator[Floats]:
    """What belongs to each, of all that was kept.

    Example:
        >>> one, two = Rule(1, lambda draws: draws), Rule(2, lambda draws: draws)
        >>> [part.tolist() for part in parted(np.array([[5.0, 6.0, 7.0]]), [one, two])]
        [[[5.0]], [[6.0, 7.0]]]
    """
    ends = np.cumsum([kind.width for kind in kinds])
    return (kept[:, end - kind.width : end] for kind, end in zip(kinds, ends, strict=True))
