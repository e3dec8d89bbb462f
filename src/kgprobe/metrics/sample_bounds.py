"""Bounds of a function of the number of better candidates, from the number of hits in a simple random sample.

Of N candidates, b are better than the target; a sample of n without replacement has X of them, so that X is
hypergeometric. A function f of b has no unbiased estimator in general, but there are functions u of X whose expectation
is at least f(b) for every b. They are built here from two facts about tail probabilities, which grow with b:

- ``1[b >= t] <= P_b(X > c) / P_t(X > c)`` for every c, and
- ``1[b >= t] >= 1 - P_b(X <= c) / P_s(X <= c)`` for every c, where s is the number before t.

A function on a grid is its first value plus its steps, so upward steps take the first bound and downward steps the
second. The same is done for the residual of a least-squares approximation of f by expectations of functions of X
(Krichene and Rendle, KDD 2020), which leaves smaller steps where f is smooth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kgprobe.arrays import Flags, Floats, Ints

_DENSE, _RATIO, _SHARE = 32, 0.05, 0.7
"""The grid has all numbers up to the first. Later steps are at most this ratio of the number, so that scores are nearly
linear between them, and this share of the standard deviation of N X / n, so that expectations are, too."""

RIDGES = (None, 0.1, 0.01)
"""Bounds that are computed: without an approximation, and with approximations of more and of less bias."""

_LEAST_TAIL = 1e-3
"""Steps are not bounded by rarer events: their bounds would be large numbers that are rarely added."""

_ROUNDING = 1e-9
"""Relative rounding error of probabilities, which must not make a bound narrower."""

_EXACT = 50
"""Up to so many candidates that are not sampled, populations are not rounded."""

_CELLS = 1 << 21


@dataclass(frozen=True)
class SampleBounds:
    """Bounds for samples of one size from populations of one size, which may be scaled a little.

    Attributes:
        population: N, the number of candidates.
        size: n, the size of the sample: less than N.

    Example:
        >>> bounds = SampleBounds(population=50, size=20)
        >>> values = 1 / (1 + bounds.grid)
        >>> lower, upper = bounds.statistics(values[None], np.arange(21)[None], RIDGES[1])
        >>> bool((bounds.pmf @ lower[0] <= values).all() and (bounds.pmf @ upper[0] >= values).all())
        True
    """

    population: int
    size: int

    @cached_property
    def grid(self) -> Ints:
        """Numbers of better candidates, from 0 to N."""
        numbers = list(range(min(_DENSE, self.population) + 1))
        while numbers[-1] < self.population:
            last = numbers[-1]
            deviation = math.sqrt(last * max(self.population - last, 1) / max(self.size, 1))
            numbers.append(min(self.population, last + max(1, int(min(_RATIO * last, _SHARE * deviation)))))
        return np.array(numbers, dtype=np.int64)

    @cached_property
    def pmf(self) -> Floats:
        """P(X = x) for every number of the grid, and every x from 0 to n."""
        from scipy.special import gammaln

        better, x = self.grid[:, None].astype(np.float64), np.arange(self.size + 1.0)
        left = self.population - better
        possible = (x <= better) & (self.size - x <= left)

        def log_binomial(n: Floats, k: Floats) -> Floats:
            return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))

        with np.errstate(invalid="ignore"):
            log = log_binomial(better, np.minimum(x, better))
            log += log_binomial(left, np.clip(self.size - x, 0, left))
        total = log_binomial(np.float64(self.population), np.float64(self.size))  # type: ignore[arg-type]
        return np.where(possible, np.exp(np.where(possible, log - total, -np.inf)), 0.0)

    @cached_property
    def _prior(self) -> Floats:
        """Weights with which bounds are chosen: their validity does not depend on them."""
        weight = np.log((self.grid + 1) / np.append(0.5, self.grid[:-1] + 1))
        return np.asarray(weight / weight.sum())

    @cached_property
    def _cdf(self) -> Floats:
        """P(X <= x) for every number of the grid."""
        return np.minimum(np.cumsum(self.pmf, axis=1), 1.0)

    @cached_property
    def _survival(self) -> Floats:
        """P(X >= x) for every number of the grid."""
        return np.minimum(np.cumsum(self.pmf[:, ::-1], axis=1)[:, ::-1], 1.0)

    @cached_property
    def _upward(self) -> _Steps:
        """For each step of the grid, ``q 1[X >= c]``, which is at least ``1[b >= t]`` on average."""
        return _Steps.of(*_best_tail(self._survival[1:], self._prior @ self._survival))

    @cached_property
    def _downward(self) -> _Steps:
        """For each step of the grid, ``1 - q 1[X <= c]``, which is at most ``1[b >= t]`` on average."""
        last, factor = _best_tail(self._cdf[:-1], self._prior @ self._cdf)
        return _Steps.of(last + 1, factor, constant=1 - factor)

    @cached_property
    def _scaled_pmf(self) -> Floats:
        """[n + 1, grid]: the probabilities divided by those under the prior."""
        return np.ascontiguousarray((self.pmf / np.maximum(self._prior @ self.pmf, 1e-300)).T)

    @cached_property
    def _products(self) -> Floats:
        return np.asarray(self.pmf @ self._scaled_pmf)

    def _inverse(self, ridge: float) -> Floats:
        if ridge not in self._inverses:
            system = (1 - ridge) * self._products + np.diag(ridge / self._prior)
            self._inverses[ridge] = np.asarray(np.linalg.inv(system), dtype=np.float64)
        return self._inverses[ridge]

    @cached_property
    def _inverses(self) -> dict[float, Floats]:
        return {}

    def statistics(self, values: Floats, hits: Ints, ridge: float | None) -> tuple[Floats, Floats]:
        """Functions of the hits whose expectations are at most and at least the value, whatever number is better.

        Args:
            values: For every row, the value on the grid: [rows, grid].
            hits: For every row, numbers of hits: [rows, k].
            ridge: The ridge of the approximation; see `RIDGES`.

        Returns:
            The lower and the upper statistic, [rows, k].
        """
        fitted, residual = np.zeros(hits.shape), values
        if ridge is not None:
            coefficients = values @ self._inverse(ridge)
            residual = values - coefficients @ self._products
            for k in range(hits.shape[1]):
                fitted[:, k] = np.einsum("ij,ij->i", self._scaled_pmf[hits[:, k]], coefficients)
        fitted += residual[:, :1]
        steps = np.diff(residual, axis=1)
        up, down = np.maximum(steps, 0), np.minimum(steps, 0)
        lower = fitted + self._downward.sums(up, hits) + self._upward.sums(down, hits)
        upper = fitted + self._upward.sums(up, hits) + self._downward.sums(down, hits)
        return lower, upper

    def bound(self, values: Floats, hits: Ints, ridge: float | None) -> tuple[Floats, Floats, Floats, Floats]:
        """The lower and the upper statistic at the hits, each followed by an estimate of its variance.

        The variance of a function u of a simple random sample is at most that of its steps (Poincare's inequality of
        the swap of a sampled and another candidate): ``(1 - n/N) X (n - X) / (n - 1) max(step down, step up)^2`` has
        an expectation that is not smaller, and equal to the variance where u is linear.
        """
        near = np.clip(np.stack([hits - 1, hits, hits + 1], axis=1), 0, self.size)
        scale = hit_variance(hits, hits, self.population, self.size)
        lower, upper = self.statistics(values, near, ridge)
        step_low, step_high = (np.abs(np.diff(found, axis=1)).max(axis=1) for found in (lower, upper))
        return lower[:, 1], scale * np.square(step_low), upper[:, 1], scale * np.square(step_high)

    def limits(self, hits: Ints, error: Floats) -> tuple[Ints, Ints]:
        """The fewest and the most better candidates for these hits, each wrong with at most this probability.

        They are the bounds of Clopper and Pearson for the hypergeometric distribution, rounded outwards to the grid.
        """
        top, error = len(self.grid), error * (1 - _ROUNDING)
        fewer = (self._survival[:, hits] <= error).sum(axis=0)  # of these, so many hits are improbable
        more = (self._cdf[:, hits] > error).sum(axis=0)  # of the others, so few hits are improbable
        low = np.where(fewer > 0, self.grid[np.maximum(fewer - 1, 0)] + 1, 0)
        high = np.where(more < top, self.grid[np.minimum(more, top - 1)] - 1, self.population)
        return np.maximum(low, hits), np.minimum(high, self.population - self.size + hits)


@dataclass(frozen=True)
class _Steps:
    """For each step of the grid, a function of the hits: a constant, and a factor that is added from some hits on.

    Attributes:
        order: The steps in the order of these hits.
        hits: The hits, in that order.
        factor: The factors, in that order.
        constant: The constants, in the order of the grid.
    """

    order: Ints
    hits: Ints
    factor: Floats
    constant: Floats

    @classmethod
    def of(cls, hits: Ints, factor: Floats, constant: Floats | None = None) -> _Steps:
        order = np.argsort(hits, kind="stable")
        return cls(order, hits[order], factor[order], np.zeros(len(hits)) if constant is None else constant)

    def sums(self, heights: Floats, hits: Ints) -> Floats:
        """The sum of the functions times the heights of the steps [rows, steps], at the hits of each row [rows, k]."""
        passed = np.zeros((len(heights), len(self.order) + 1))
        np.cumsum(heights[:, self.order] * self.factor, axis=1, out=passed[:, 1:])
        count = np.searchsorted(self.hits, hits, side="right")
        return np.asarray((heights @ self.constant)[:, None] + np.take_along_axis(passed, count, axis=1))


def _best_tail(tail: Floats, average: Floats) -> tuple[Ints, Floats]:
    """For each row, the event whose probability under the prior is smallest relative to that in the row."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(tail > _LEAST_TAIL, average / tail, np.inf)
    best = np.argmin(ratio, axis=1)
    return best, 1 / tail[np.arange(len(tail)), best]


def hit_variance(hits: Floats | Ints, squares: Floats | Ints, population: Ints | int, size: Ints | int) -> Floats:
    """The unbiased estimate of the variance of the number of hits in a sample without replacement.

    Args:
        hits: The sum of the sampled values.
        squares: The sum of their squares; the same, if they are 0 and 1.
        population: The size of the population.
        size: The size of the sample, at least 2.

    Example:
        >>> hit_variance(np.array([5]), np.array([5]), population=20, size=10).round(4).tolist()
        [1.3889]
    """
    spread = size * (squares - np.square(hits) / np.maximum(size, 1)) / np.maximum(np.asarray(size) - 1, 1)
    return np.asarray((1 - size / np.maximum(population, 1)) * spread)


def rows_at_a_time(rows: int, grid: int) -> Iterator[slice]:
    """Slices of rows for which arrays [rows, grid] have bounded size."""
    step = max(1, _CELLS // grid)
    return (slice(start, start + step) for start in range(0, rows, step))


def alike(population: Ints, size: Ints, most: int = 8) -> tuple[Ints, Ints]:
    """Populations by which bounds are computed: rounded to steps of 2 % of what is not sampled, if they are many.

    Returns:
        For each row the rounded population, and the number of its pair of population and size.
    """
    rounded = population
    if len(np.unique(np.stack([population, size]), axis=1).T) > most:
        left = np.maximum(population - size, 1)
        steps = np.rint(np.exp(np.rint(np.log(left) / 0.02) * 0.02)).astype(np.int64)
        rounded = size + np.where(left <= _EXACT, left, steps)
    _, which = np.unique(np.stack([rounded, size]), axis=1, return_inverse=True)
    return rounded, which.reshape(-1)


def open_rows(population: Ints, size: Ints) -> Flags:
    """Rows in which not all candidates are in the sample."""
    return np.asarray(size < population)
