"""Tests of all pairs of models by one metric: adjusted p-values, and the confidence intervals that agree with them.

A difference is significant exactly where its interval excludes 0: both come from the same draws under the null
hypothesis. With max-t, the critical value is a quantile of the largest standardised difference among all pairs, so the
intervals hold simultaneously. Holm and Benjamini-Hochberg set a level for every pair instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from kgprobe.arrays import Floats, Ints
from kgprobe.comparison.intervals import Interval, IntervalEvidence, Uncertainty, clipped, unknown
from kgprobe.errors import UsageError


class Correction(StrEnum):
    """Correction for multiple testing, over the pairs of models within one metric and one group of queries."""

    max_t = "max-t"
    holm = "holm"
    bh = "bh"
    none = "none"

    @property
    def interval_name(self) -> str:
        """What the interval of a difference is called."""
        return _INTERVAL_NAMES[self]


_INTERVAL_NAMES = {
    Correction.max_t: "simultaneous CI",
    Correction.holm: "CI at its step of Holm",
    Correction.bh: "CI adjusted for the false discovery rate",
    Correction.none: "CI",
}


def correction_named(name: str) -> Correction:
    """The correction of this name."""
    try:
        return Correction(name)
    except ValueError:
        raise UsageError(f"unknown `correction` '{name}'", [f"it can be {', '.join(Correction)}"]) from None


@dataclass(frozen=True)
class PairTests:
    """The tests of all pairs of models by one metric.

    Attributes:
        p: The p-value of each pair by itself.
        adjusted: The p-value after the correction.
        significant: Whether it is at most 1 - level.
        intervals: The confidence intervals of the differences; they exclude 0 where a difference is significant.
    """

    p: Floats
    adjusted: Floats
    significant: list[bool]
    intervals: list[Interval]


@dataclass(frozen=True)
class PairDifference:
    """The difference between two models.

    Attributes:
        value: The difference.
        error: Its standard error; None for a metric without derivative.
        limits: The smallest and the largest possible value.
        evidence: The effective sample sizes.
    """

    value: float
    error: float | None
    limits: tuple[float, float]
    evidence: IntervalEvidence

    def interval(self, half: float, significant: bool, level: float, method: str, remark: str | None) -> Interval:
        """The interval of this half width; without known variance a point if it is significant, else unbounded."""
        if not self.evidence.varies:
            half, method = (0.0 if significant or self.value == 0 else math.inf), "none"
        if not math.isfinite(self.value) or math.isnan(half):
            return unknown(level, "the metric has no finite value here")
        low, high = self.value - half, self.value + half
        if not significant:  # a limit of 0 may be off by a rounding error
            low, high = min(low, 0.0), max(high, 0.0)
        remark = self.evidence.remark or remark
        return Interval(*clipped(low, high, self.limits), level, method, remark is None, remark)


@dataclass(frozen=True)
class NullDraws:
    """The absolute differences of every pair, drawn under the null hypothesis.

    Attributes:
        draws: One row for each draw, one column for each pair; infinite where a draw has no value.
        observed: The observed absolute differences, less a rounding error; NaN where there is none.
        others: How often the observed difference counts as a draw: 1, or 0 where it is among the draws.
        clusters: The number of clusters that were swapped; None where the draws are of the bootstrap.
    """

    draws: Floats
    observed: Floats
    others: int
    clusters: int | None

    @property
    def p(self) -> Floats:
        """The share of draws at least as large as the observed difference, for each pair by itself."""
        counts = np.array([(own >= seen).sum() for own, seen in zip(self.draws.T, self.observed, strict=True)])
        return np.where(np.isnan(self.observed), np.nan, self._share(counts))

    def tests(self, pairs: Sequence[PairDifference], correction: Correction, level: float) -> PairTests:
        """The tests of all pairs with a correction; see `PairTests`."""
        alpha, p, pairs = _alpha(level), self.p, list(map(_with_variation, pairs, self.draws.T))
        if correction is Correction.max_t:
            adjusted, critical = self._jointly(pairs, alpha)
        else:
            adjusted = adjusted_p(correction, p)
            levels = pair_levels(correction, p, alpha)
            critical = np.array([self._critical(*one) for one in zip(self.draws.T, levels, strict=True)])
        significant = (adjusted <= alpha).tolist()
        finite = np.asarray(np.isfinite(self.draws).all(axis=0)).tolist()
        method = "bootstrap" if self.clusters is None else "permutation"
        intervals = [
            pair.interval(self._half_width(pair, at), sure, level, method, None if known else _NO_VALUE)
            for pair, at, sure, known in zip(pairs, critical.tolist(), significant, finite, strict=True)
        ]
        return PairTests(p, adjusted, significant, intervals)

    def _jointly(self, pairs: Sequence[PairDifference], alpha: float) -> tuple[Floats, Floats]:
        """The p-values adjusted by max-t, and the critical difference of every pair."""
        scale = np.array([self._scale(pair, own) for pair, own in zip(pairs, self.draws.T, strict=True)])
        largest = np.zeros(len(self.draws))
        for own, unit, seen in zip(self.draws.T, scale, self.observed, strict=True):
            if not math.isnan(seen) and unit > 0:
                np.maximum(largest, own / unit, out=largest)
        ordered = np.sort(largest)
        with np.errstate(divide="ignore", invalid="ignore"):
            seen = np.where(scale > 0, self.observed / scale, np.minimum(self.observed, 0.0))
        adjusted = self._share(len(ordered) - np.searchsorted(ordered, seen))
        critical = self._critical(largest, alpha)
        return np.where(np.isnan(self.observed), np.nan, adjusted), critical * np.where(scale > 0, scale, 1.0)

    def _share(self, counts: Floats | Ints) -> Floats:
        return np.asarray((counts + self.others) / (len(self.draws) + self.others))

    def _critical(self, draws: Floats, level: float) -> float:
        """The draw that a value must exceed to have a p-value of at most ``level``; infinite where none can."""
        if math.isnan(level):
            return math.nan
        above = math.floor(level * (len(draws) + self.others) - self.others + 1e-9)
        if above < 0 or not len(draws):
            return math.inf
        place = max(len(draws) - 1 - above, 0)
        return float(np.partition(draws, place)[place])

    def _scale(self, pair: PairDifference, draws: Floats) -> float:
        """The standard deviation of the draws of a pair."""
        if pair.error is None or self.clusters is None:
            return float(np.sqrt(np.mean(np.square(draws[np.isfinite(draws)]))))
        # Swaps leave the sum of the squared differences of the clusters as it is.
        return math.hypot(pair.error * math.sqrt(self.clusters - 1), pair.value) / math.sqrt(self.clusters)

    def _half_width(self, pair: PairDifference, critical: float) -> float:
        """The half width of an interval that excludes 0 where the difference exceeds the critical one.

        Draws are of uncentred differences: where these are as large as the critical value, their standard error is
        smaller, as in the relation of the sum of squares to the t statistic.
        """
        if pair.error is None or self.clusters is None or not math.isfinite(critical):
            return critical
        scale = self._scale(pair, np.empty(0))
        distance = critical / scale if scale else 0.0
        if distance >= math.sqrt(self.clusters):
            return math.inf
        return pair.error * distance * math.sqrt((self.clusters - 1) / (self.clusters - distance**2))


def _with_variation(pair: PairDifference, draws: Floats) -> PairDifference:
    """The difference, marked if it has no variance: without derivative, only its draws tell."""
    varies = pair.evidence.varies and (pair.error is not None or bool(draws.any()))
    return replace(pair, evidence=replace(pair.evidence, varies=varies))


_NO_VALUE = "the metric has no value on some draws"


def t_tests(
    pairs: Sequence[PairDifference],
    uncertainties: Sequence[Uncertainty],
    normal: Floats,
    correction: Correction,
    level: float,
) -> PairTests:
    """The tests of all pairs by t distributions, where training runs are random.

    Args:
        pairs: The differences.
        uncertainties: Their variances and degrees of freedom.
        normal: Draws of the standardised differences from a normal distribution with their correlation, [draws, pairs].
        correction: The correction.
        level: The confidence level.
    """
    alpha = _alpha(level)
    p = np.array([own.probability(pair.value) for pair, own in zip(pairs, uncertainties, strict=True)])
    if correction is Correction.max_t:
        adjusted, levels = _normal_max_t(p, normal, alpha)
    else:
        adjusted, levels = adjusted_p(correction, p), pair_levels(correction, p, alpha)
    significant = (adjusted <= alpha).tolist()
    intervals = [
        pair.interval(own.half_width(1 - at), sure, level, "t", None)
        for pair, own, at, sure in zip(pairs, uncertainties, levels.tolist(), significant, strict=True)
    ]
    return PairTests(p, adjusted, significant, intervals)


def _normal_max_t(p: Floats, normal: Floats, alpha: float) -> tuple[Floats, Floats]:
    """P-values adjusted by max-t, and the p-value below which a difference is significant.

    Each p-value becomes the normal deviate with the same probability, so pairs may have different degrees of freedom.
    """
    from scipy.special import ndtr, ndtri

    tests = ~np.isnan(p)
    if not tests.any():
        return p, p
    largest = np.sort(np.abs(normal[:, tests]).max(axis=1))
    counts = len(largest) - np.searchsorted(largest, -ndtri(p / 2))
    # A single pair needs no draws.
    adjusted = p if tests.sum() == 1 else np.maximum(p, (counts + 1) / (len(largest) + 1))
    above = math.floor(alpha * (len(largest) + 1) - 1 + 1e-9)
    least = 2 * float(ndtr(-largest[len(largest) - 1 - above])) if above >= 0 else 0.0
    return np.where(tests, adjusted, np.nan), np.full(len(p), alpha if tests.sum() == 1 else min(least, alpha))


def _alpha(level: float) -> float:
    return round(1 - level, 12)  # 1 - 0.9 is below 0.1


def adjusted_p(correction: Correction, p: ArrayLike) -> Floats:
    """P-values after a correction that needs nothing else."""
    by_name = {Correction.holm: holm, Correction.bh: benjamini_hochberg}
    return by_name[correction](p) if correction in by_name else np.asarray(p, dtype=np.float64)


def pair_levels(correction: Correction, p: ArrayLike, alpha: float) -> Floats:
    """The p-value up to which each test is significant: that of its step by Holm, the same for all otherwise.

    Example:
        >>> pair_levels(Correction.holm, [0.01, 0.04, 0.03], 0.06).round(3).tolist()
        [0.02, 0.06, 0.03]
        >>> pair_levels(Correction.bh, [0.01, 0.9, 0.03], 0.06).round(3).tolist()  # two of three are significant
        [0.04, 0.04, 0.04]
    """
    given = np.asarray(p, dtype=np.float64)
    levels = np.full(given.shape, np.nan)
    tests = np.flatnonzero(~np.isnan(given))
    found = int((adjusted_p(correction, given)[tests] <= alpha).sum())
    if correction is Correction.holm:
        order = tests[np.argsort(given[tests], kind="stable")]
        steps = np.minimum(np.arange(len(order)), found)  # after the first that is not significant, nothing is
        levels[order] = alpha / (len(order) - np.minimum(steps, len(order) - 1))
    elif correction is Correction.bh:
        levels[tests] = alpha * max(found, 1) / max(len(tests), 1)
    else:
        levels[tests] = alpha
    return levels


def holm(p: ArrayLike) -> Floats:
    """P-values adjusted by Holm: among those up to 0.05, the probability of any false rejection is at most 5 %.

    NaN is left unchanged and does not count as a test.

    Example:
        >>> holm([0.01, 0.04, 0.03]).round(12).tolist()
        [0.03, 0.06, 0.06]
    """
    return _adjusted(p, lambda own: np.maximum.accumulate(own * np.arange(len(own), 0, -1)))


def benjamini_hochberg(p: ArrayLike) -> Floats:
    """P-values adjusted by Benjamini and Hochberg: of those up to 0.05, at most 5 % are false on average.

    NaN is left unchanged and does not count as a test.

    Example:
        >>> benjamini_hochberg([0.01, 0.04, 0.03]).round(12).tolist()
        [0.03, 0.04, 0.04]
    """

    def stepped_up(own: Floats) -> Floats:
        scaled = own * (len(own) / np.arange(1, len(own) + 1))
        return np.minimum.accumulate(scaled[::-1])[::-1]

    return _adjusted(p, stepped_up)


def _adjusted(p: ArrayLike, adjust: Callable[[Floats], Floats]) -> Floats:
    """P-values adjusted in ascending order, at most 1; NaN is left unchanged."""
    given = np.asarray(p, dtype=np.float64)
    adjusted = np.full(given.shape, np.nan)
    tests = np.flatnonzero(~np.isnan(given))
    order = tests[np.argsort(given[tests], kind="stable")]
    adjusted[order] = np.minimum(adjust(given[order]), 1.0)
    return adjusted
