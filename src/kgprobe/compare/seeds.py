"""Seeds as a second level of variation: what another training of the same method would have given.

A method's value varies with the queries and with the training runs. The variance of the mean over k runs is

    V = V_queries + V_seeds - V_both

where V_queries is that of the mean over clusters, V_seeds = s^2 / k, and V_both is the part that both of them
contain: how differently the runs do on the same queries. Its t distribution has degrees of freedom by Satterthwaite.
That alone is too narrow where few runs happen to agree, so the seeds also speak for themselves: V is at least what
V_seeds estimates, with k - 1 degrees of freedom, and the wider of the two statements counts.

Of two models with different numbers of runs, the spread of both counts as known no better than that of the fewer: two
runs that happen to agree would else leave the word to the many runs of the other model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kgprobe.compare.interval import Evidence, Interval, clipped, unknown

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Component:
    """A variance and how well it is known.

    Attributes:
        variance: The squared standard error.
        freedom: Degrees of freedom of the t distribution that goes with it.
    """

    variance: float
    freedom: float

    def half_width(self, level: float) -> float:
        """How far limits of that level are off the value."""
        from scipy import special

        return float(special.stdtrit(self.freedom, (1 + level) / 2)) * math.sqrt(self.variance)

    def probability(self, difference: float) -> float:
        """How probable a difference at least as large is where there is none."""
        from scipy import special

        if self.variance == 0:  # nothing varies, so nothing tells a difference from chance
            return 1.0
        return 2 * float(special.stdtr(self.freedom, -abs(difference) / math.sqrt(self.variance)))


@dataclass(frozen=True)
class Runs:
    """The training runs of one model in a contrast.

    Attributes:
        factor: What the model's mean counts: 1, or -1 for the model that is subtracted.
        values: The metric of every run.
        covariance: The covariance of these values between draws of queries, [runs, runs].
    """

    factor: float
    values: Floats
    covariance: Floats

    @property
    def between(self) -> float:
        """V_seeds: the variance of the mean over runs, as the runs show it."""
        return float(np.var(self.values, ddof=1)) / len(self.values)

    @property
    def both(self) -> float:
        """V_both: the variance of a run's distance from the mean run, between draws of queries."""
        size = len(self.values)
        distances = float(np.trace(self.covariance)) - float(self.covariance.sum()) / size
        return max(distances, 0.0) / (size * (size - 1))


@dataclass(frozen=True)
class Uncertainty:
    """How far a value may be off, for reasons of queries and seeds, and for reasons of seeds alone.

    Example:
        >>> runs = Runs(1.0, np.array([0.2, 0.4]), covariance=np.zeros((2, 2)))
        >>> found = Uncertainty.of(Component(0.0, 99.0), [runs])
        >>> round(found.both.variance, 12), round(found.both.freedom, 12)
        (0.01, 1.0)
    """

    both: Component
    seeds: Component

    @classmethod
    def of(cls, queries: Component, models: Sequence[Runs]) -> Uncertainty:
        """From the variance over queries, and the runs of each model, trained independently of each other."""
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

    def interval(self, estimate: float, *, level: float, limits: tuple[float, float], evidence: Evidence) -> Interval:
        """The interval of the value."""
        if not (math.isfinite(estimate) and math.isfinite(self.both.variance)):
            return unknown(level, "the metric has no finite value here")
        half = max(self.both.half_width(level), self.seeds.half_width(level))
        remark = evidence.remark
        return Interval(*clipped(estimate - half, estimate + half, limits), level, "t", remark is None, remark)

    def probability(self, difference: float) -> float:
        """The p value of a difference, never 0: at most one less the level of the intervals that leave out 0."""
        if not (math.isfinite(difference) and math.isfinite(self.both.variance)):
            return math.nan
        # Where all runs agree to the last digit, the seeds have nothing to say.
        heard = [one for one in (self.both, self.seeds) if one.variance > 0] or [self.both]
        return max(*(one.probability(difference) for one in heard), float(np.finfo(np.float64).tiny))


def _satterthwaite(variance: float, parts: Sequence[Component]) -> Component:
    """A variance made of parts, with the degrees of freedom of the scaled chi-squared that is most like it."""
    spread = sum(part.variance**2 / part.freedom for part in parts if part.variance > 0)
    return Component(variance, variance**2 / spread if spread > 0 else parts[0].freedom)
