"""Bootstrap draws and sign flips of clusters, reductions over the draws, standard errors and critical values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from kgprobe.arrays import Floats, Ints
from kgprobe.resources import Progress, Resources, single_blas_thread

Draw = Callable[[int, int, np.random.Generator], Floats]

_CHUNK_CELLS = 1 << 20
"""Numbers in a chunk of draws: enough for a fast matrix product."""

_CACHED_CELLS = 1 << 17
"""Numbers drawn at once: few enough to stay in the cache."""

_BLOCK_CELLS = 1 << 24
"""Numbers in a block of columns that is held in memory."""


MOST_UNITS = 1 << 16
"""Clusters that are drawn one by one; of more clusters, as many random groups are drawn."""


def random_groups(clusters: int, seed: int = 0) -> Ints | None:
    """The random group of each cluster where there are more than `MOST_UNITS` clusters, otherwise None.

    Sums over random groups vary between draws as sums over the clusters do: means, variances and third moments are
    equal but for the choice of the groups, which changes a standard deviation by about 1 / sqrt(2 groups) of it.
    Ten thousand draws leave several times that error in a quantile.

    Example:
        >>> np.bincount(random_groups(1 << 17)).tolist() == [2] * (1 << 16)
        True
    """
    if clusters <= MOST_UNITS:
        return None
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))  # not the generator of the draws
    return np.asarray(rng.permutation(clusters) % MOST_UNITS)


def resampled(rows: int, clusters: int, rng: np.random.Generator) -> Floats:
    """Bootstrap draws: how often each cluster is drawn, an array [rows, clusters].

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
    """All 2^clusters combinations of signs, the one without any change first.

    Example:
        >>> every_flip(2).tolist()
        [[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]]
    """
    bits = np.arange(1 << clusters)[:, None] >> np.arange(clusters)
    return 1.0 - 2.0 * (bits & 1).astype(np.float64)


def chunks(total: int, width: int) -> Iterator[int]:
    """Numbers of rows, which sum to ``total``, whose chunks of that width fit into memory.

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
    progress: Progress | None = None,
) -> Floats:
    """Reduce many random draws, [total, ...], in chunks that fit into memory.

    Every chunk has a random generator of its own, so the result does not depend on the number of threads.

    Args:
        draw: Makes some rows of draws.
        reduce: What to compute of each row.
        clusters: The length of a row.
        total: The number of rows.
        seed: The seed of the random generators.
        progress: Called with the number of new rows.

    Example:
        >>> kept = gathered(resampled, lambda counts: counts[:, :1], clusters=5, total=1000, seed=0)
        >>> kept.shape, bool(abs(kept.mean() - 1) < 0.1)
        ((1000, 1), True)
    """

    def work(chunk: tuple[int, int]) -> Floats:
        place, rows = chunk
        return reduce(draw(rows, clusters, np.random.default_rng([seed, place])))

    kept = []
    with single_blas_thread(), ThreadPoolExecutor(Resources().workers) as threads:
        for piece in threads.map(work, enumerate(chunks(total, clusters))):
            kept.append(piece)
            if progress:
                progress(len(piece))
    return np.concatenate(kept)


@dataclass(frozen=True)
class ColumnSums:
    """A reduction: sums of columns over the clusters of a draw.

    Attributes:
        width: The number of columns.
        rows: Gives some rows of the table [clusters, width].
    """

    width: int
    rows: Callable[[slice], Floats]


@dataclass(frozen=True)
class DrawFunction:
    """A reduction by a function of the draw.

    Attributes:
        width: The number of values.
        of: Gives the values of some draws, [draws, width].
    """

    width: int
    of: Callable[[Floats], Floats]


Reduction = ColumnSums | DrawFunction


def side_by_side(kinds: Sequence[Reduction], clusters: int) -> Callable[[Floats], Floats]:
    """Several reductions as one function of draws [draws, clusters]; their results are columns in the given order."""
    tables = [kind for kind in kinds if isinstance(kind, ColumnSums)]
    width = sum(table.width for table in tables)
    block = max(1, _BLOCK_CELLS // max(width, 1))

    # One block is cached. Several blocks are recomputed for every chunk of draws, which bounds the memory.
    @lru_cache(maxsize=1)
    def columns(start: int) -> Floats:
        return np.concatenate([table.rows(slice(start, start + block)) for table in tables], axis=1)

    def reduce(draws: Floats) -> Floats:
        sums = np.zeros((len(draws), width))
        for start in range(0, clusters if tables else 0, block):
            with np.errstate(invalid="ignore", over="ignore"):  # in a thread of its own; of a metric that overflows
                sums += draws[:, start : start + block] @ columns(start)
        of_tables = parted(sums, tables)
        return np.concatenate(
            [next(of_tables) if isinstance(kind, ColumnSums) else kind.of(draws) for kind in kinds], axis=1
        )

    return reduce


def parted(kept: Floats, kinds: Sequence[Reduction]) -> Iterator[Floats]:
    """Split the result of `side_by_side` into the results of each reduction."""
    ends = np.cumsum([kind.width for kind in kinds])
    return (kept[:, end - kind.width : end] for kind, end in zip(kinds, ends, strict=True))


def standard_errors(influence: Floats) -> Floats:
    """The standard error of each column's value, from the influence of every cluster, [clusters, columns].

    Example:
        >>> standard_errors(np.array([[-0.5], [0.5]])).tolist()
        [1.0]
    """
    clusters = influence.shape[0]
    if clusters < 2:
        return np.zeros(influence.shape[1])
    centred = influence - influence.mean(axis=0)
    squares = np.einsum("ij,ij->j", centred, centred)
    return np.asarray(np.sqrt(squares * clusters / (clusters - 1)))


def critical_value(influence: Floats, level: float = 0.95, replicates: int = 2_000, seed: int = 0) -> float:
    """The simultaneous critical value: half the width, in standard errors, of bands that hold for all columns at once.

    It is the quantile over bootstrap draws of the largest studentised deviation among the columns (bootstrap max-t).
    Columns that do not vary between clusters need no band.

    Args:
        influence: The influence of every cluster on each value, [clusters, columns]: for a weighted mean the sum over
            the cluster of weight times (score - mean), divided by the sum of all weights.
        level: The confidence level of all bands together.
        replicates: The number of bootstrap draws.
        seed: The seed of the random generator.

    Example:
        >>> influence = np.random.default_rng(0).normal(size=(500, 20))
        >>> one, twenty = critical_value(influence[:, :1]), critical_value(influence)
        >>> 1.8 < one < 2.1 < 2.8 < twenty < 3.3
        True
    """
    errors = standard_errors(influence)
    varying = errors > 0
    if not varying.any():
        return 0.0
    scaled = (influence - influence.mean(axis=0))[:, varying] / errors[varying]
    clusters, width = scaled.shape
    # Single precision is twice as fast, and changes the quantile by less than another seed does.
    columns = np.concatenate([scaled, np.square(scaled)], axis=1).astype(np.float32)

    def largest(counts: Floats) -> Floats:
        sums = counts.astype(np.float32) @ columns
        deviation, squares = sums[:, :width], sums[:, width:]
        variance = (squares - np.square(deviation) / clusters) * (clusters / (clusters - 1))
        # A draw in which a column does not vary gives no studentised deviation of it.
        known = variance > np.finfo(np.float32).eps
        studentised = np.abs(deviation) / np.sqrt(np.where(known, variance, np.inf))
        return np.asarray(studentised.max(axis=1), dtype=np.float64)

    draws = gathered(resampled, largest, clusters=clusters, total=replicates, seed=seed)
    return float(np.quantile(draws, level, method="higher"))
