"""PROBE over a grid of (alpha, beta) in one pass.

With X[a, i] = 1 - f*(r_i, a) and W[b, i] the weight of query i, the surface is 1 - X W' / sum(W). Powers of ranks and
candidate counts are looked up in tables of the few that occur, and a chunk of rows is small enough to stay in the
cache: so the pass runs at the speed of the matrix product, and memory does not grow.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kgprobe.aggregate.weighted_mean import Tie, tied_rank, tied_score
from kgprobe.aggregate.weights import smallest_popularity
from kgprobe.arrays import Floats, distinct
from kgprobe.errors import DataError, UsageError
from kgprobe.ranks import RankFile, Ranks, refuse_intervals
from kgprobe.transform import SO_SMALL_THAT_LINEAR, AffinePower

MOST_EXPONENT = 600.0

"""Beyond this a power overflows, or a product of two does."""

_STEPS_BETWEEN_RESTARTS = 32

"""How often a row is computed anew, so that rounding does not add up."""


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
        self.largest = float(np.abs(exponents).max())
        steps = np.diff(exponents)
        self.even = len(exponents) > 2 and bool(np.abs(steps - steps[0]).max() <= 1e-14 * self.largest)

    def fill(self, log_base: Floats, out: Floats) -> None:
        """Write the powers into ``out``, an array [exponents, bases]."""
        # A row that overflowed or vanished would take all that follow along.
        if not self.even or self.largest * np.abs(log_base).max() >= MOST_EXPONENT:
            np.multiply.outer(self.exponents, log_base, out=out)
            np.exp(out, out=out)
            return
        factor = np.exp((self.exponents[1] - self.exponents[0]) * log_base)
        for k, exponent in enumerate(self.exponents):
            if k % _STEPS_BETWEEN_RESTARTS == 0:
                np.exp(exponent * log_base, out=out[k])
            else:
                np.multiply(out[k - 1], factor, out=out[k])


_BATCH, _CHUNK = 1 << 18, 2048

"""Rows that share their tables of powers, and rows whose part of a matrix product stays in the cache."""

_TABLE_ROWS = 1 << 16


class Surface(np.ndarray[tuple[int, int], np.dtype[np.float64]]):
    """The values, an array [alphas, betas], with its axes.

    Attributes:
        alphas: Predictive sharpness of each row.
        betas: Popularity-bias robustness of each column.
        effective: Effective number of queries for each beta (mean over seeds).
        left_out: Queries of a run that say nothing, having a single candidate (the largest number of any seed).
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

    Ranks that are intervals are refused: their ``at_best()`` and ``at_worst()`` have a surface each.

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
    refuse_intervals(source)
    popularity = _popularity(source, beta, eps_e, eps_r) if (beta != 0).any() else None
    totals: dict[int, list[Floats]] = {}
    left_out: Counter[int] = Counter()
    for batch in source.batches(_BATCH):
        informative = batch.candidates > 1
        left_out.update({seed: len(rows) for seed, rows in _by_seed(batch, ~informative)})
        for seed, rows in _by_seed(batch, informative):
            part = _Kernel(rows, alpha, beta, tie, popularity).sums()
            totals[seed] = [a + b for a, b in zip(totals[seed], part, strict=True)] if seed in totals else part
    if not totals:
        raise DataError("no query with more than one candidate", remedy="check the rank file")
    per_seed = [1 - product / weight for product, weight, _ in totals.values()]
    result: Surface = np.mean(per_seed, axis=0).view(Surface)
    result.alphas, result.betas, result.left_out = alpha, beta, max(left_out.values(), default=0)
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
class _Popularity:
    """What is added to each popularity column, and limits of the log of their product over the whole table."""

    eps: dict[str, float]
    least: float
    most: float

    def logs(self, ranks: Ranks) -> Floats:
        """The log of the product of both columns."""
        return np.asarray(sum(np.log(ranks.numbers(column) + eps) for column, eps in self.eps.items()))

    def tightened(self, source: Ranks | RankFile) -> _Popularity:
        """The limits that are reached, instead of those of two columns that may never be extreme together."""
        least, most = math.inf, -math.inf
        for batch in source.batches():
            logs = self.logs(batch)[batch.candidates > 1]
            least, most = logs.min(initial=least), logs.max(initial=most)
        return replace(self, least=float(least), most=float(most))


def _popularity(source: Ranks | RankFile, beta: Floats, eps_e: float | None, eps_r: float | None) -> _Popularity:
    given = {"entity_popularity": eps_e, "relation_popularity": eps_r}
    extremes: dict[str, list[float]] = {column: [] for column in given}
    for batch in source.batches():
        counted = batch.candidates > 1
        for column, found in extremes.items():
            values = batch.numbers(column) if counted.all() else batch.numbers(column)[counted]
            if values.size:
                least, most = values.min(), values.max()
                found += [least, most, values.min(where=values > 0, initial=most) if least == 0 else least]
    eps = {column: _epsilon(column, np.array(extremes[column]), given[column]) for column in given}
    limits = [[math.log(limit(extremes[column], default=1.0) + eps[column]) for column in eps] for limit in (min, max)]
    known = _Popularity(eps, least=sum(limits[0]), most=sum(limits[1]))
    vanishing = np.abs(beta).max() * (known.most - known.least) > MOST_EXPONENT / 2
    return known.tightened(source) if vanishing else known


def _epsilon(column: str, extremes: Floats, given: float | None) -> float:
    if np.isnan(extremes).any():
        raise DataError("beta other than 0 needs the popularity of the targets", remedy="give --graph")
    eps = smallest_popularity(column, extremes) if given is None else given
    if not 0 <= eps < math.inf:
        raise UsageError(f"epsilon must be a number of at least 0, not {eps}")
    if eps == 0 and (extremes == 0).any():
        raise DataError(
            f"with epsilon 0 a query of {column.replace('_', ' ')} 0 would weigh infinitely much",
            remedy="give a positive epsilon, or none to use the default",
        )
    return eps


def _by_seed(batch: Ranks, kept: NDArray[np.bool_]) -> Iterator[tuple[int, Ranks]]:
    if batch.seed is None and kept.all():
        yield 0, batch
        return
    seeds = np.zeros(len(batch), dtype=np.int64) if batch.seed is None else batch.seed
    for seed in np.unique(seeds[kept]).tolist():
        yield seed, batch.filter(kept & (seeds == seed))


class _Kernel:
    """Tables of powers of everything that occurs, so that a chunk costs a few look-ups and a matrix product."""

    def __init__(self, ranks: Ranks, alpha: Floats, beta: Floats, tie: Tie, popularity: _Popularity | None) -> None:
        alpha = np.where(np.abs(alpha) < SO_SMALL_THAT_LINEAR, 0.0, alpha)
        each_rank, self.rank = _indexed(tied_rank(ranks, tie))
        each_size, self.size = _indexed(ranks.candidates)
        overflows = np.isinf(alpha) | (np.abs(alpha) * math.log(each_size.max()) > MOST_EXPONENT)
        asked = np.flatnonzero(overflows | (tie is Tie.expected)).tolist()
        self.exact = {i: 1 - tied_score(AffinePower(float(alpha[i])), ranks, tie) for i in asked}
        # Whatever these tables hold that is no number belongs to an alpha that is asked, or does not occur.
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            self.gain = _powers_less_one(each_rank, alpha)
            self.scale = 1 / _powers_less_one(each_size, alpha)
        self.weight_powers = Powers(-beta)
        # Relative to the rarest that a query can be, none overflows but of a negative beta.
        self.log_popularity = popularity.logs(ranks) - popularity.least if popularity else np.zeros(len(ranks))
        span = popularity.most - popularity.least if popularity else 0.0
        self.log_heaviest = np.maximum(-beta, 0) * span

    def sums(self) -> list[Floats]:
        """The sums of X W', of W and of W squared over the table.

        One thread: the chunks are so small that threads wait for each other longer than they work.
        """
        alphas, betas = self.gain.shape[1], self.log_heaviest.size
        x, scale, w = np.empty((_CHUNK, alphas)), np.empty((_CHUNK, alphas)), np.empty((betas, _CHUNK))
        product, weight, squared = np.zeros((alphas, betas)), np.zeros(betas), np.zeros(betas)
        ones = np.ones(_CHUNK)
        for start in range(0, len(self.rank), _CHUNK):
            rows = slice(start, min(start + _CHUNK, len(self.rank)))
            size = rows.stop - rows.start
            X, S, W = x[:size], scale[:size], w[:, :size]
            np.take(self.gain, self.rank[rows], axis=0, out=X, mode="clip")
            np.take(self.scale, self.size[rows], axis=0, out=S, mode="clip")
            with np.errstate(over="ignore", invalid="ignore"):  # the columns that overflow are overwritten
                X *= S
            for i, values in self.exact.items():
                X[:, i] = values[rows]
            self._weights(rows, W)
            product += X.T @ W.T
            weight += W @ ones[:size]
            squared += np.einsum("bi,bi->b", W, W)
        return [product, weight, squared]

    def _weights(self, rows: slice, W: Floats) -> None:
        if self.log_heaviest.max() < MOST_EXPONENT / 2:  # so that the squares do not overflow either
            self.weight_powers.fill(self.log_popularity[rows], W)
        else:
            np.multiply.outer(self.weight_powers.exponents, self.log_popularity[rows], out=W)
            np.exp(W - self.log_heaviest[:, None], out=W)


def _indexed(values: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """All values that occur (and maybe others), and which of them each row has."""
    doubled = 2 * values
    least, most = doubled.min(), doubled.max()
    if most - least < _TABLE_ROWS and (doubled == np.floor(doubled)).all():
        return np.arange(least, most + 1) / 2, (doubled - least).astype(np.int64)
    (found,), which = distinct([values], len(values))
    return found, which


def _powers_less_one(base: Floats, alpha: Floats) -> Floats:
    """``base ** -alpha - 1``, an array [bases, alphas]; for alpha 0 its limit after division by -alpha."""
    logs = np.log(base)
    result = np.expm1(np.multiply.outer(logs, -alpha))
    result[:, alpha == 0] = logs[:, None]
    return np.asarray(result)
