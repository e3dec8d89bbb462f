"""PROBE over a whole grid of (alpha, beta) in one pass: a chunked matrix product.

With X[a, i] = 1 - f*(r_i, a) and W[b, i] the weight of query i, the surface is 1 - X W' / sum(W). A chunk of rows is
small enough to stay in the cache, so the pass runs at the speed of the exponentials, and memory does not grow.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kgprobe.aggregate.keyed import distinct
from kgprobe.aggregate.ties import Tie, tied_rank, tied_score
from kgprobe.aggregate.weights import smallest_popularity
from kgprobe.errors import DataError, UsageError
from kgprobe.ranks import RankFile, Ranks
from kgprobe.transform import AffinePower
from kgprobe.transform.power import SO_SMALL_THAT_LINEAR

Floats = NDArray[np.float64]

_CHUNK = 2048
_STEPS_BETWEEN_RESTARTS = 32
"""How often a row of powers is computed anew, so that rounding does not add up."""
_NOT_SMALL = 1e-3
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
    alpha, beta, tie = _axis("alpha", alphas), _axis("beta", betas), Tie(tie)
    if not np.isfinite(beta).all():
        raise UsageError("beta must be finite")
    weighted = bool((beta != 0).any())
    shifts = _shifts(source, eps_e, eps_r) if weighted else ()
    totals: dict[int, list[Floats]] = {}
    left_out = 0
    for batch in source.batches(1 << 20):
        informative = batch.candidates > 1
        left_out += int((~informative).sum())
        for seed, rows in _by_seed(batch, informative):
            part = _accumulate(rows, alpha, beta, tie, shifts)
            totals[seed] = [a + b for a, b in zip(totals[seed], part, strict=True)] if seed in totals else part
    if not totals:
        raise DataError("no query with more than one candidate", remedy="check the rank file")
    per_seed = [1 - product / weight for product, weight, _ in totals.values()]
    result: Surface = np.mean(per_seed, axis=0).view(Surface)
    result.alphas, result.betas, result.left_out = alpha, beta, left_out
    result.effective = np.mean([weight**2 / squared for _, weight, squared in totals.values()], axis=0)
    return result


def _axis(name: str, values: ArrayLike) -> Floats:
    try:
        axis = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        axis = np.array([np.nan])
    if axis.ndim > 1 or axis.size == 0 or np.isnan(axis).any():
        raise UsageError(f"{name} must be a list of numbers")
    return axis


@dataclass(frozen=True)
class _Shift:
    """What is added to a popularity column, and between which values the column lies."""

    column: str
    eps: float
    least: float
    most: float


def _shifts(source: Ranks | RankFile, eps_e: float | None, eps_r: float | None) -> tuple[_Shift, ...]:
    columns = ("entity_popularity", "relation_popularity")
    found: dict[str, list[Floats]] = {column: [np.empty(0)] for column in columns}
    for batch in source.batches():
        for column, extremes in found.items():
            counted = batch.candidates > 1
            values = batch.numbers(column) if counted.all() else batch.numbers(column)[counted]
            if values.size:
                most = values.max()
                extremes.append(np.array([values.min(), values.min(where=values > 0, initial=most), most]))
            if np.isnan(extremes[-1]).any():
                raise DataError("beta other than 0 needs the popularity of the targets", remedy="give --graph")
    return tuple(
        _shift(column, np.concatenate(found[column]), eps) for column, eps in zip(columns, (eps_e, eps_r), strict=True)
    )


def _shift(column: str, extremes: Floats, given: float | None) -> _Shift:
    eps = smallest_popularity(column, extremes) if given is None else given
    if not 0 <= eps < math.inf:
        raise UsageError(f"epsilon must be a number of at least 0, not {eps}")
    least, most = extremes.min(initial=math.inf), extremes.max(initial=0.0)
    if least + eps == 0:
        raise DataError(
            f"with epsilon 0 a query of {column.replace('_', ' ')} 0 would weigh infinitely much",
            remedy="give a positive epsilon, or none to use the default",
        )
    return _Shift(column, eps, float(least), float(most))


def _by_seed(batch: Ranks, kept: NDArray[np.bool_]) -> Iterator[tuple[int, Ranks]]:
    if batch.seed is None and kept.all():
        yield 0, batch
        return
    seeds = np.zeros(len(batch), dtype=np.int64) if batch.seed is None else batch.seed
    for seed in np.unique(seeds[kept]).tolist():
        yield seed, batch.filter(kept & (seeds == seed))


def _accumulate(ranks: Ranks, alpha: Floats, beta: Floats, tie: Tie, shifts: Sequence[_Shift]) -> list[Floats]:
    """The sums of X W', of W and of W squared over a table."""
    kernel = _Kernel(ranks, alpha, beta, tie, shifts)
    chunks = [slice(i, min(i + _CHUNK, len(ranks))) for i in range(0, len(ranks), _CHUNK)]
    workers = min(os.cpu_count() or 1, 1 + len(chunks) // 64)
    if workers == 1:
        return kernel.sums(chunks)
    with ThreadPoolExecutor(workers) as pool:
        parts = list(pool.map(kernel.sums, [chunks[k::workers] for k in range(workers)]))
    return [np.sum([part[i] for part in parts], axis=0) for i in range(3)]


class _Kernel:
    """Everything that depends on the table alone, so that a chunk costs a few powers and a matrix product."""

    def __init__(self, ranks: Ranks, alpha: Floats, beta: Floats, tie: Tie, shifts: Sequence[_Shift]) -> None:
        alpha = np.where(np.abs(alpha) < SO_SMALL_THAT_LINEAR, 0.0, alpha)
        self.alpha, self.beta = alpha, beta
        self.rank_powers, self.weight_powers = Powers(-alpha), Powers(-beta)
        self.rank = tied_rank(ranks, tie)
        (sizes,), self.size = distinct([ranks.candidates], len(ranks))
        overflows = np.isinf(alpha) | (np.abs(alpha) * math.log(sizes.max()) > _MOST_EXPONENT)
        asked = np.flatnonzero(overflows | (tie is Tie.expected)).tolist()
        self.exact = {i: 1 - tied_score(AffinePower(float(alpha[i])), ranks, tie) for i in asked}
        self.scale = np.stack([_scale(float(a), sizes) if i not in self.exact else sizes for i, a in enumerate(alpha)])
        self.popularity = [(ranks.numbers(shift.column), shift.eps) for shift in shifts]
        # Popularity is taken relative to the least, so that no weight overflows but of a large negative beta.
        self.log_least = sum(math.log(shift.least + shift.eps) for shift in shifts)
        log_most = sum(math.log(shift.most + shift.eps) for shift in shifts)
        self.log_heaviest = np.maximum(-beta, 0) * (log_most - self.log_least)

    def sums(self, chunks: Sequence[slice]) -> list[Floats]:
        """The three sums over some chunks of rows."""
        alphas, betas = self.alpha.size, self.beta.size
        x, scale, w = np.empty((alphas, _CHUNK)), np.empty((alphas, _CHUNK)), np.empty((betas, _CHUNK))
        product, weight, squared = np.zeros((alphas, betas)), np.zeros(betas), np.zeros(betas)
        for rows in chunks:
            X, S, W = (buffer[:, : rows.stop - rows.start] for buffer in (x, scale, w))
            self._losses(rows, X, S)
            self._weights(rows, W)
            product += X @ W.T
            weight += W.sum(axis=1)
            squared += np.einsum("bi,bi->b", W, W)
        return [product, weight, squared]

    def _losses(self, rows: slice, X: Floats, S: Floats) -> None:
        log_rank = np.log(self.rank[rows])
        with np.errstate(over="ignore", invalid="ignore"):  # the rows that overflow are overwritten
            self.rank_powers.fill_less_one(log_rank, X)
            X[self.alpha == 0] = log_rank
            X *= np.take(self.scale, self.size[rows], axis=1, out=S, mode="clip")
        for i, values in self.exact.items():
            X[i] = values[rows]

    def _weights(self, rows: slice, W: Floats) -> None:
        log_popularity = np.full(W.shape[1], -self.log_least)
        for values, eps in self.popularity:
            log_popularity += np.log(values[rows] + eps)
        if self.log_heaviest.max() < _MOST_EXPONENT / 2:  # so that the squares do not overflow either
            self.weight_powers.fill(log_popularity, W)
        else:
            np.multiply.outer(-self.beta, log_popularity, out=W)
            np.exp(W - self.log_heaviest[:, None], out=W)


def _scale(alpha: float, sizes: Floats) -> Floats:
    return 1 / np.log(sizes) if alpha == 0 else 1 / np.expm1(-alpha * np.log(sizes))


class Powers:
    """``base ** exponents[k]`` for many bases; over even steps each row is the one before times a common factor.

    Example:
        >>> out = np.empty((3, 1))
        >>> Powers(np.array([0.0, 1.0, 2.0])).fill(np.log([3.0]), out)
        >>> out.ravel().round(12).tolist()
        [1.0, 3.0, 9.0]
    """

    def __init__(self, exponents: Floats) -> None:
        self.exponents = exponents
        steps = np.diff(exponents)
        finite = len(exponents) > 2 and bool(np.isfinite(exponents).all())
        self.even = finite and bool(np.abs(steps - steps[0]).max() <= 1e-14 * np.abs(exponents).max())
        self.largest = float(np.abs(exponents).max(initial=0.0))
        self.smallest = float(np.abs(exponents[exponents != 0]).min(initial=1.0))

    def fill(self, log_base: Floats, out: Floats) -> None:
        """Write the powers into ``out``, an array [exponents, bases]."""
        # A row that overflowed or vanished would take all that follow along.
        if not self.even or self.largest * np.abs(log_base).max() >= _MOST_EXPONENT:
            np.multiply.outer(self.exponents, log_base, out=out)
            np.exp(out, out=out)
            return
        factor = np.exp((self.exponents[1] - self.exponents[0]) * log_base)
        for k, exponent in enumerate(self.exponents):
            if k % _STEPS_BETWEEN_RESTARTS == 0:
                np.exp(exponent * log_base, out=out[k])
            else:
                np.multiply(out[k - 1], factor, out=out[k])

    def fill_less_one(self, log_base: Floats, out: Floats) -> None:
        """Write the powers less 1, without cancellation where the exponent is small."""
        if self.even and self.smallest >= _NOT_SMALL:
            self.fill(log_base, out)
            out -= 1
        else:
            np.multiply.outer(self.exponents, log_base, out=out)
            np.expm1(out, out=out)
