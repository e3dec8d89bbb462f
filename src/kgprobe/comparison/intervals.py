"""Confidence intervals: bootstrap-t and percentile intervals, and t intervals where training seeds are random.

A method's value varies with the queries and with the training runs. The variance of the mean over k runs is

    V = V_queries + V_seeds - V_both

where V_queries is that of the mean over clusters, V_seeds = s^2 / k, and V_both is the part that both of them contain:
how differently the runs do on the same queries. Its t distribution has degrees of freedom by Satterthwaite. That alone
is too narrow where a few runs happen to agree, so a second interval uses V_seeds alone with k - 1 degrees of freedom,
and the wider of the two counts.

For two models with different numbers of runs, the variance of both has the degrees of freedom of the smaller number:
otherwise two runs that happen to agree would leave the result to the many runs of the other model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kgprobe.arrays import Floats

FEWEST_QUERIES = 200
FEWEST_CLUSTERS = 100
FEWEST_VARYING = 20
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Interval:
    """A confidence interval.

    Attributes:
        low: Lower limit; NaN where none is known.
        high: Upper limit.
        level: The confidence level.
        method: ``bootstrap-t``, ``percentile``, ``t`` (seeds are random) or ``none``.
        trusted: Whether there are enough queries for the interval to have this level.
        remark: Why it is not trusted.
    """

    low: float
    high: float
    level: float
    method: str
    trusted: bool = True
    remark: str | None = None

    @property
    def reason(self) -> str | None:
        """Why a limit is not a finite number; None where both are."""
        if math.isfinite(self.low) and math.isfinite(self.high):
            return None
        unbounded = "the interval is unbounded: some bootstrap draws have no variance"
        return self.remark if math.isnan(self.low) or math.isnan(self.high) else unbounded


@dataclass(frozen=True)
class IntervalEvidence:
    """The effective sample sizes behind an interval.

    Attributes:
        queries: The effective number of queries.
        clusters: The effective number of clusters.
        varying: The effective number of clusters for the variance, (sum d^2)^2 / sum d^4 of their deviations d;
            infinite where it is not known.
        kurtosis: The kurtosis of the clusters' scores: 3 for a normal distribution.
        varies: Whether any cluster deviates at all.
    """

    queries: float
    clusters: float
    varying: float = math.inf
    kurtosis: float = 1.0
    varies: bool = True

    @classmethod
    def of(
        cls, queries: float, clusters: float, influence: Floats, weight: Floats, scale: float = 0.0
    ) -> IntervalEvidence:
        """From the influence of each cluster on a value, and its weight.

        An influence that is tiny on the scale of the values is a rounding error.

        Example:
            >>> found = IntervalEvidence.of(500, 500, np.array([-1.0, 1.0, 0.0]), weight=np.ones(3))
            >>> found.varying, found.kurtosis
            (2.0, 1.5)
        """
        if not np.abs(influence).sum() > _ROUNDING * scale:
            return cls(queries, clusters, varying=0.0, varies=False)
        added = _scaled_squares(influence)
        total = added.sum()
        varying = float(total**2 / np.square(added, out=added).sum())
        weighing: Any = weight > 0
        rows = slice(None) if weighing.all() else weighing
        share = weight[rows] / weight.sum()
        squares = _scaled_squares(influence[rows] / share)
        variance = float(share @ squares)
        kurtosis = float(share @ np.square(squares, out=squares)) / variance / variance
        return cls(queries, clusters, varying, kurtosis)

    def freedom(self, clusters: int) -> float:
        """Degrees of freedom of a variance estimated from this many clusters; fewer where a few contribute most of it.

        Example:
            >>> IntervalEvidence(queries=900, clusters=300, varying=100).freedom(300)  # as for normal deviations
            300.0
        """
        if math.isinf(self.varying):
            return max(self.clusters - 1, 1.0)
        rest = 1 / max(self.varying, 1.0) - 1 / clusters
        return max(2 / rest if rest > 0 else math.inf, 1.0)

    @property
    def remark(self) -> str | None:
        """Why the interval cannot be trusted; None where it can."""
        if self.queries < FEWEST_QUERIES:
            return f"the effective number of queries is {self.queries:,.0f}, below {FEWEST_QUERIES}"
        if self.clusters < FEWEST_CLUSTERS:
            return f"the effective number of clusters is {self.clusters:,.0f}, below {FEWEST_CLUSTERS}"
        if not self.varies:
            return "all clusters have the same score, so the variance is not known"
        if self.clusters < FEWEST_VARYING * self.kurtosis:
            return (
                f"most of the variance comes from a few clusters of queries, as if there were "
                f"{self.clusters / self.kurtosis:,.0f} instead of {self.clusters:,.0f}"
            )
        return None


def _scaled_squares(values: Floats) -> Floats:
    """The squares of the values divided by the largest of them; there may be millions, so with few copies."""
    scaled: Floats = values / max(values.max(), -values.min())
    return np.square(scaled, out=scaled)


def tails(values: Floats, level: float) -> tuple[float, float]:
    """The two order statistics with the share ``level`` between them; symmetric for mirrored values.

    Example:
        >>> tails(np.arange(101.0), 0.9)
        (5.0, 95.0)
    """
    outside = math.floor((1 - level) / 2 * (len(values) - 1) + 1e-9)
    low, high = outside, len(values) - 1 - outside
    ordered = np.partition(values, (low, high))
    return float(ordered[low]), float(ordered[high])


def bootstrap_t(estimate: float, error: float, values: Floats, errors: Floats, level: float) -> tuple[float, float]:
    """Bootstrap-t limits: quantiles of the replicates' studentised distances from the estimate.

    A replicate without variance has an infinite studentised distance, unless it equals the estimate. An interval that
    depends on it is unbounded rather than too narrow.

    Example:
        >>> bootstrap_t(0.0, 2.0, values=np.array([-1.0, 0.0, 1.0]), errors=np.ones(3), level=1.0)
        (-2.0, 2.0)
    """
    distance = values - estimate
    constant = errors <= 1e-9 * error
    distance[constant & (np.abs(distance) <= 1e-9 * error)] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        studentised = np.where(distance == 0, 0.0, distance / np.where(constant, 0.0, errors))
    low, high = tails(studentised, level)
    return estimate - high * error, estimate - low * error


def bootstrap_interval(
    estimate: float,
    error: float | None,
    replicates: tuple[Floats, Floats | None],
    *,
    level: float,
    limits: tuple[float, float],
    evidence: IntervalEvidence,
) -> Interval:
    """The confidence interval of a value: bootstrap-t where there are standard errors, otherwise percentiles.

    Args:
        estimate: The value.
        error: Its standard error, where the metric has a derivative.
        replicates: Values on bootstrap draws, and their standard errors.
        level: The confidence level.
        limits: The smallest and the largest possible value.
        evidence: The effective sample sizes.
    """
    values, errors = replicates
    usable = np.isfinite(values) if errors is None else np.isfinite(values) & np.isfinite(errors)
    if not math.isfinite(estimate) or not usable.any():
        return unknown(level, "the metric has no finite value here")
    if not evidence.varies or np.ptp(values[usable]) == 0:
        return Interval(estimate, estimate, level, "none", False, replace(evidence, varies=False).remark)
    if errors is None or error is None:
        method, (low, high) = "percentile", tails(values[usable], level)
    else:
        method, (low, high) = "bootstrap-t", bootstrap_t(estimate, error, values[usable], errors[usable], level)
    remark = evidence.remark or (None if usable.all() else "the metric has no value on some bootstrap draws")
    return Interval(*clipped(low, high, limits), level, method, remark is None, remark)


def clipped(low: float, high: float, limits: tuple[float, float]) -> tuple[float, float]:
    """Both ends, clipped to the limits."""
    return min(max(low, limits[0]), limits[1]), min(max(high, limits[0]), limits[1])


def unknown(level: float, remark: str) -> Interval:
    """An interval without limits."""
    return Interval(math.nan, math.nan, level, "none", trusted=False, remark=remark)


@dataclass(frozen=True)
class Component:
    """A variance with its degrees of freedom.

    Attributes:
        variance: The squared standard error.
        freedom: Degrees of freedom of its t distribution.
    """

    variance: float
    freedom: float

    def half_width(self, level: float) -> float:
        """Half the width of the interval of that level."""
        from scipy import special

        return -float(special.stdtrit(self.freedom, (1 - level) / 2)) * math.sqrt(self.variance)

    def probability(self, difference: float) -> float:
        """The two-sided p-value of a difference."""
        from scipy import special

        if self.variance == 0:  # without variance there is no evidence against chance
            return 1.0
        return 2 * float(special.stdtr(self.freedom, -abs(difference) / math.sqrt(self.variance)))


@dataclass(frozen=True)
class ContrastRuns:
    """The training runs of one model in a contrast.

    Attributes:
        factor: The factor of the model's mean: 1, or -1 for the model that is subtracted.
        values: The metric of every run.
        covariance: The covariance of these values over draws of queries, [runs, runs].
    """

    factor: float
    values: Floats
    covariance: Floats

    @property
    def between(self) -> float:
        """V_seeds: the variance of the mean over runs, estimated from the runs."""
        return float(np.var(self.values, ddof=1)) / len(self.values)

    @property
    def both(self) -> float:
        """V_both: the variance of a run's distance from the mean run, over draws of queries."""
        size = len(self.values)
        distances = float(np.trace(self.covariance)) - float(self.covariance.sum()) / size
        return max(distances, 0.0) / (size * (size - 1))


@dataclass(frozen=True)
class Uncertainty:
    """The uncertainty of a value: over queries and seeds together, and over seeds alone.

    Example:
        >>> runs = ContrastRuns(1.0, np.array([0.2, 0.4]), covariance=np.zeros((2, 2)))
        >>> found = Uncertainty.of(Component(0.0, 99.0), [runs])
        >>> round(found.both.variance, 12), round(found.both.freedom, 12)
        (0.01, 1.0)
    """

    both: Component
    seeds: Component

    @classmethod
    def of(cls, queries: Component, models: Sequence[ContrastRuns]) -> Uncertainty:
        """From the variance over queries, and the independently trained runs of each model."""
        freedom = min(len(runs.values) for runs in models) - 1
        seeds = [Component(runs.factor**2 * runs.between, freedom) for runs in models]
        twice = [runs.factor**2 * runs.both for runs in models]
        excess = [(one, both) for one, both in zip(seeds, twice, strict=True) if one.variance > both]
        variance = queries.variance + sum(one.variance - both for one, both in excess)
        parts = [queries, *(one for one, _ in excess)]
        parts += [Component(both, one.freedom * queries.freedom) for one, both in excess]
        return cls(
            both=_satterthwaite(variance, parts),
            seeds=_satterthwaite(sum(one.variance for one in seeds), seeds),
        )

    def interval(
        self, estimate: float, *, level: float, limits: tuple[float, float], evidence: IntervalEvidence
    ) -> Interval:
        if not (math.isfinite(estimate) and math.isfinite(self.both.variance)):
            return unknown(level, "the metric has no finite value here")
        half = self.half_width(level)
        remark = evidence.remark
        return Interval(*clipped(estimate - half, estimate + half, limits), level, "t", remark is None, remark)

    def half_width(self, level: float) -> float:
        """Half the width of the interval of that level."""
        return max(self.both.half_width(level), self.seeds.half_width(level))

    def probability(self, difference: float) -> float:
        """The p-value of a difference, never 0; it is below 1 - level where the interval of that level excludes 0."""
        if not (math.isfinite(difference) and math.isfinite(self.both.variance)):
            return math.nan
        # Where all runs agree to the last digit, the variance over seeds is not used.
        used = [one for one in (self.both, self.seeds) if one.variance > 0] or [self.both]
        return max(*(one.probability(difference) for one in used), float(np.finfo(np.float64).tiny))


def _satterthwaite(variance: float, parts: Sequence[Component]) -> Component:
    """A sum of variances, with its degrees of freedom by Satterthwaite."""
    spread = sum(part.variance**2 / part.freedom for part in parts if part.variance > 0)
    return Component(variance, variance**2 / spread if spread > 0 else parts[0].freedom)
