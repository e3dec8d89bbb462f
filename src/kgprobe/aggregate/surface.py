"""PROBE over a whole grid of (alpha, beta) in one pass: a chunked matrix product.

With X[a, i] = 1 - f*(r_i, a) and W[b, i] the weight of query i, the surface is 1 - X W' / sum(W). A chunk of rows is
small enough to stay in the cache, so the pass runs at the speed of the exponentials, and memory does not grow.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kgprobe.aggregate.ties import Tie, tied_rank, tied_score
from kgprobe.aggregate.weights import smallest_popularity
from kgprobe.errors import DataError
from kgprobe.ranks import RankFile, Ranks
from kgprobe.transform import AffinePower

Floats = NDArray[np.float64]

_CHUNK = 2048
_MOST_EXPONENT = 600.0
"""Beyond this, |alpha| ln E overflows the plain form and the transformer itself is asked."""


class Surface(np.ndarray[tuple[int, int], np.dtype[np.float64]]):
    """The values, an array [alphas, betas], with its axes.

    Attributes:
        alphas: Predictive sharpness of each row.
        betas: Popularity-bias robustness of each column.
        effective: Effective number of queries for each beta (mean over seeds).
        left_out: Queries with a single candidate, which say nothing.
    """

    alphas: Floats
    betas: Floats
    effective: Floats
    left_out: int

    def __array_finalize__(self, source: Any) -> None:
        for name in ("alphas", "betas", "effective", "left_out"):
            setattr(self, name, getattr(source, name, None))


def surface(
    source: Ranks | RankFile,
    alphas: ArrayLike,
    betas: ArrayLike,
    *,
    tie: Tie | str = Tie.mean,
    eps_e: float | None = None,
    eps_r: float | None = None,
) -> Surface:
    """PROBE(alpha, beta) for every alpha and beta; with several seeds, the mean over them.

    Example:
        >>> ranks = Ranks.from_columns(
        ...     head=[0, 0], relation=[0, 0], tail=[1, 1], side=["head", "tail"], rank=[1, 2], candidates=[5, 5],
        ...     entity_popularity=[0.5, 0.1], relation_popularity=[1.0, 0.5],
        ... )
        >>> surface(ranks, [1.0, 0.0], [0.0, 1.0]).round(4).tolist()
        [[0.6875, 0.4886], [0.7847, 0.6476]]
    """
    alpha, beta = np.atleast_1d(np.asarray(alphas, float)), np.atleast_1d(np.asarray(betas, float))
    if np.isnan(alpha).any() or not np.isfinite(beta).all():
        raise DataError("alpha and beta must be numbers, and beta finite")
    weighted = bool((beta != 0).any())
    eps = _epsilons(source, eps_e, eps_r) if weighted else None
    totals: dict[int, list[Floats]] = {}
    left_out = 0
    for batch in source.batches(1 << 20):
        informative = batch.candidates > 1
        left_out += int((~informative).sum())
        for seed, rows in _by_seed(batch, informative):
            part = _accumulate(rows, alpha, beta, Tie(tie), eps)
            totals[seed] = [a + b for a, b in zip(totals[seed], part, strict=True)] if seed in totals else part
    if not totals:
        raise DataError("no query with more than one candidate", remedy="check the rank file")
    per_seed = [1 - product / weight for product, weight, _ in totals.values()]
    result: Surface = np.mean(per_seed, axis=0).view(Surface)
    result.alphas, result.betas, result.left_out = alpha, beta, left_out
    result.effective = np.mean([weight**2 / squared for _, weight, squared in totals.values()], axis=0)
    return result


def _epsilons(source: Ranks | RankFile, eps_e: float | None, eps_r: float | None) -> tuple[float, float]:
    smallest: dict[str, list[float]] = {"entity_popularity": [], "relation_popularity": []}
    for batch in source.batches():
        for column, found in smallest.items():
            values = batch.numbers(column)[batch.candidates > 1]
            if np.isnan(values).any():
                raise DataError("beta other than 0 needs the popularity of the targets", remedy="give --graph")
            found += values[values > 0].min(initial=np.inf, keepdims=True).tolist()
    chosen = [
        smallest_popularity(column, np.array([v for v in found if v < np.inf])) if given is None else given
        for (column, found), given in zip(smallest.items(), (eps_e, eps_r), strict=True)
    ]
    if min(chosen) <= 0:
        raise DataError("epsilon must be above 0", remedy="leave it out to use the smallest popularity above 0")
    return chosen[0], chosen[1]


def _by_seed(batch: Ranks, kept: NDArray[np.bool_]) -> Iterator[tuple[int, Ranks]]:
    if batch.seed is None and kept.all():
        yield 0, batch
        return
    seeds = np.zeros(len(batch), dtype=np.int64) if batch.seed is None else batch.seed
    for seed in np.unique(seeds[kept]).tolist():
        yield seed, batch.filter(kept & (seeds == seed))


def _accumulate(ranks: Ranks, alpha: Floats, beta: Floats, tie: Tie, eps: tuple[float, float] | None) -> list[Floats]:
    """The sums of X W', of W and of W squared over a table."""
    kernel = _Kernel(ranks, alpha, beta, tie, eps)
    chunks = [slice(i, min(i + _CHUNK, len(ranks))) for i in range(0, len(ranks), _CHUNK)]
    workers = min(os.cpu_count() or 1, 1 + len(chunks) // 64)
    if workers == 1:
        return kernel.sums(chunks)
    with ThreadPoolExecutor(workers) as pool:
        parts = list(pool.map(kernel.sums, [chunks[k::workers] for k in range(workers)]))
    return [np.sum([part[i] for part in parts], axis=0) for i in range(3)]


class _Kernel:
    """Everything that depends on the table alone, so that a chunk costs exponentials and a matrix product."""

    def __init__(self, ranks: Ranks, alpha: Floats, beta: Floats, tie: Tie, eps: tuple[float, float] | None) -> None:
        self.alpha, self.beta = alpha, beta
        self.rank = tied_rank(ranks, tie)
        sizes, self.size = np.unique(ranks.candidates, return_inverse=True)
        overflows = np.isinf(alpha) | (np.abs(alpha) * math.log(sizes[-1]) > _MOST_EXPONENT)
        asked = np.flatnonzero(overflows | (tie is Tie.expected)).tolist()
        self.exact = {i: 1 - tied_score(AffinePower(float(alpha[i])), ranks, tie) for i in asked}
        self.scale = {i: _scale(float(a), sizes) for i, a in enumerate(alpha) if i not in self.exact}
        self.popularity: tuple[tuple[Floats, float], ...] = ()
        if eps is not None:
            columns = (ranks.numbers("entity_popularity"), ranks.numbers("relation_popularity"))
            self.popularity = tuple(zip(columns, eps, strict=True))
        # The largest weight that a query can have, so that none overflows: popularity 0, or 1 where beta is negative.
        self.log_largest = beta * np.where(beta > 0, sum(math.log(e) for _, e in self.popularity), 0.0)

    def sums(self, chunks: Sequence[slice]) -> list[Floats]:
        """The three sums over some chunks of rows."""
        x, w = np.empty((self.alpha.size, _CHUNK)), np.empty((self.beta.size, _CHUNK))
        product, weight, squared = np.zeros((x.shape[0], w.shape[0])), np.zeros(w.shape[0]), np.zeros(w.shape[0])
        for rows in chunks:
            X, W = x[:, : rows.stop - rows.start], w[:, : rows.stop - rows.start]
            self._losses(rows, X)
            self._weights(rows, W)
            product += X @ W.T
            weight += W.sum(axis=1)
            squared += np.einsum("bi,bi->b", W, W)
        return [product, weight, squared]

    def _losses(self, rows: slice, X: Floats) -> None:
        log_rank = np.log(self.rank[rows])
        with np.errstate(over="ignore", invalid="ignore"):  # the rows that overflow are overwritten
            np.multiply.outer(-self.alpha, log_rank, out=X)
            np.expm1(X, out=X)
        size = self.size[rows]
        for i, scale in self.scale.items():
            if self.alpha[i] == 0:
                X[i] = log_rank
            X[i] *= scale.take(size)
        for i, values in self.exact.items():
            X[i] = values[rows]

    def _weights(self, rows: slice, W: Floats) -> None:
        if not self.popularity:
            W[:] = 1
            return
        log_popularity = sum(np.log(values[rows] + eps) for values, eps in self.popularity)
        np.multiply.outer(-self.beta, log_popularity, out=W)
        W += self.log_largest[:, None]
        np.exp(W, out=W)


def _scale(alpha: float, sizes: Floats) -> Floats:
    return 1 / np.log(sizes) if alpha == 0 else 1 / np.expm1(-alpha * np.log(sizes))
