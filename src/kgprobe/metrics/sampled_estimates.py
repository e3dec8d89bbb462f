"""Metrics of ranks that are estimated from a sample of candidates: values with confidence intervals.

The queries are fixed; what is random is the sample of candidates, drawn independently for every query. A score that is
linear in the rank has an unbiased estimate and a normal interval. Every other score has none (see `docs/sampling.md`):
two statistics bound its expectation from below and from above, and the interval is between them, wider by their own
sampling error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kgprobe.aggregate import Grouping, Statistic, Sums, Tie
from kgprobe.aggregate.weighted_mean import query_values
from kgprobe.aggregate.weights import table_weights
from kgprobe.arrays import Flags, Floats, Ints, distinct
from kgprobe.errors import UsageError
from kgprobe.metrics.cubes import Score
from kgprobe.metrics.metric import MeanMetric, Metric
from kgprobe.metrics.sample_bounds import open_rows
from kgprobe.metrics.sampled_rows import RowBounds, SampledRows, bounds_of_rows
from kgprobe.ranks import Ranks
from kgprobe.transform import Transformer

LEVEL = 0.95
_LEAST_EFFECTIVE = 8.0
"""With fewer effective queries in a variance, a sum is not taken as normal: intervals are exact for each query."""

_NOT_A_MEAN = "the ranks are estimates from a sample, of which only means of scores can be estimated"


@dataclass(frozen=True)
class Estimate:
    """A weighted sum of scores: its estimate and its interval.

    Attributes:
        value: The estimate.
        low: The lower end of the interval.
        high: The upper end.
    """

    value: float
    low: float
    high: float

    def turned(self, sign: float) -> Estimate:
        """The estimate of the opposite of the sum, if the sign is negative."""
        return self if sign > 0 else Estimate(-self.value, -self.high, -self.low)


def estimate_of(rows: RowBounds, weight: Floats, known: Flags, enough: Flags, level: float = LEVEL) -> Estimate:
    """The estimate of the weighted sum of the scores of some queries.

    Args:
        rows: The bounds of each query.
        weight: The weights.
        known: Queries whose rank is known, because all candidates are in the sample.
        enough: Queries whose sample has at least two candidates, so that variances can be estimated.
        level: The confidence level.
    """
    weighing = weight > 0
    if (known | ~weighing).all():
        value = float(rows.upper[0] @ weight)
        return Estimate(value, value, value)
    measured = bool((enough | known | ~weighing).all())
    error, linear = (1 - level) / 2, len(rows.upper) == 1
    share = error if linear else error / 2
    highs = (rows.upper @ weight + _normal_widths(rows.upper_variance, weight, share, measured)).tolist()
    lows = (rows.lower @ weight - _normal_widths(rows.lower_variance, weight, share, measured)).tolist()
    if not (linear and np.isfinite([*highs, *lows]).all()):
        highs += _sure_limits(rows.upper, rows.upper_ends, rows.upper_line, rows.best, weight, error / 2)[1]
        lows += _sure_limits(rows.lower, rows.lower_ends, rows.lower_line, rows.worst, weight, error / 2)[0]
    most, least = rows.possible @ weight
    low, high = sorted((max(*lows, float(least)), min(*highs, float(most))))
    middle = float((rows.upper @ weight).min() + (rows.lower @ weight).max()) / 2
    return Estimate(min(max(middle, low), high), low, high)


def _normal_widths(variances: Floats, weight: Floats, error: float, measured: bool) -> Floats:
    """For each kind of statistic, how far its mean may be from its expectation on one side; see `half_width`."""
    if not measured:
        return np.full(len(variances), np.inf)
    parts = variances * np.square(weight)
    return np.array([half_width(own, 2 * error / len(variances)) for own in parts])


def _sure_limits(
    statistics: Floats, ends: Floats, line: Floats, exact: Floats, weight: Floats, error: float
) -> tuple[list[float], list[float]]:
    """Lower and upper limits that hold for any number of queries: exact ones of every query, and Chernoff's.

    Args:
        statistics: The statistics of each kind.
        ends: The first statistic without hits and with hits alone.
        line: The line without hits, and by how much a hit lowers it.
        exact: The exact limits of every query.
        weight: The weights.
        error: The probability that the limits may miss on one side.
    """
    whole = float(exact @ weight)
    # The number of hits is as concentrated as that of independent draws (Hoeffding 1963), so a draw is a summand.
    found = [(whole, whole), _chernoff(statistics[-1] @ weight, line[0] @ weight, line[1] * weight, error / 3)]
    if len(statistics) > 1:
        losses = (ends[0] - ends[1]) * weight
        found.append(_chernoff(statistics[0] @ weight, ends[0] @ weight, losses, error / 3))
    return [low for low, _ in found], [high for _, high in found]


def _chernoff(value: float, top: float, losses: Floats, error: float) -> tuple[float, float]:
    """The limits of the expectation of a sum that falls with the number of hits.

    What the sum loses by hits is a sum of independent numbers from 0 to at most some M. In units of M it has the tails
    of Chernoff's bound, ``P(loss <= x) <= exp(x - m) (m / x)^x`` if its mean m is at least x, and so above the mean.

    Args:
        value: The sum.
        top: The sum without any hit.
        losses: The most that each of the numbers can be.
        error: The probability that each of the limits may be wrong.
    """
    most = float(losses.max(initial=0.0))
    if most <= 0:
        return float(top), float(top)
    low, high = chernoff_limits(max(float(top - value), 0.0) / most, error)
    return float(top - most * high), float(top - most * low)


def chernoff_limits(total: float, error: float) -> tuple[float, float]:
    """The limits of the mean of a sum of independent numbers from 0 to 1.

    Example:
        >>> [[round(limit, 2) for limit in chernoff_limits(total, 0.05)] for total in (0, 9)]
        [[0.0, 3.0], [3.5, 18.46]]
    """
    from scipy.special import lambertw

    least = -math.log(error)
    if total <= 0:
        return 0.0, least
    branch = -math.exp(-1 - least / total)
    low, high = (-total * float(lambertw(branch, k).real) for k in (0, -1)) if branch < 0 else (0.0, math.inf)
    return low, high if math.isfinite(high) else total + least + math.sqrt(2 * total * least)


def half_width(parts: Floats, error: float) -> float:
    """Half the width of the interval of a sum, from the variances of its parts; infinite if too few of them matter.

    The quantile is that of Student's t with as many degrees of freedom as the variance has effective parts.

    Args:
        parts: The variances.
        error: The probability that the interval may miss, on both sides together.

    Example:
        >>> half_width(np.ones(1_000_000) / 1e6, 0.05).__round__(3), half_width(np.ones(7), 0.05)
        (1.96, inf)
    """
    from scipy.stats import t

    total = float(parts.sum())
    effective = total * total / float(np.square(parts).sum()) if total > 0 else 0.0
    return float(t.ppf(1 - error / 2, effective)) * math.sqrt(total) if effective >= _LEAST_EFFECTIVE else math.inf


class SampledTable:
    """The queries of a table with samples of candidates, cut into slices: training runs and groups.

    Args:
        ranks: The table.
        metrics: The metrics that are estimated.
        by: Groupings that have learned their bands.
        tie: How ties are scored.
        level: The confidence level.
    """

    def __init__(
        self,
        ranks: Ranks,
        metrics: Sequence[Metric],
        by: Sequence[Grouping] = (),
        tie: Tie = Tie.mean,
        level: float = LEVEL,
    ) -> None:
        if tie is Tie.expected:
            title = "`tie='expected'` needs the number of ties, which a sample of candidates does not tell"
            raise UsageError(title, remedy="use `tie='mean'`")
        self.ranks, self.by, self.level = ranks, tuple(by), level
        rows = SampledRows.of(ranks, tie)
        self.known = ~open_rows(rows.population, rows.size)
        self.enough = rows.size >= 2
        seed = np.zeros(len(ranks)) if ranks.seed is None else ranks.seed.astype(np.float64)
        self.keys, self.slice = distinct([seed, *(one.codes(ranks) for one in by)], len(ranks))
        unknown = np.bincount(self.slice[~self.known], minlength=len(self.keys[0]))[self.slice]
        error = (1 - level) / 12 / np.maximum(unknown, 1)  # see `_sure_limits`
        some, error, self._row = rows.distinct(error)
        transformers = dict.fromkeys(metric.transformer for metric in metrics if isinstance(metric, MeanMetric))
        self._bounds = bounds_of_rows(some, list(transformers), error)
        self._values = query_values(ranks, tie)

    def scores(self, metric: Metric) -> list[Score]:
        """The score of a metric in each group."""
        groups, group = distinct(self.keys[1:], len(self.keys[0]))
        names = zip(*groups, strict=True) if groups else [()]
        labels = [{g.name: g.label(code) for g, code in zip(self.by, codes, strict=True)} for codes in names]
        found = [self._slice_score(metric, number) for number in range(len(self.keys[0]))]
        return [_over_seeds([found[i] for i in np.flatnonzero(group == g)], label) for g, label in enumerate(labels)]

    def slice_scores(self, metric: Metric) -> list[Score]:
        """The score of a metric in each training run of each group."""
        return [self._slice_score(metric, number) for number in range(len(self.keys[0]))]

    def _slice_score(self, metric: Metric, number: int) -> Score:
        own = np.flatnonzero(self.slice == number)
        counted = np.asarray(metric.counted(self.ranks.candidates[own]))
        about: dict[str, Any] = {"seeds": 1, "queries": int(counted.sum()), "left_out": int((~counted).sum())}
        about |= {"intervals": 0, "level": self.level, "sample": self.ranks.info.sample}
        nothing: dict[str, Any] = {"value": math.nan, "low": math.nan, "high": math.nan, "std": None, "effective": 0.0}
        if not isinstance(metric, MeanMetric):
            return Score(metric, **nothing, **about, reason=_NOT_A_MEAN)
        if not counted.any():
            return Score(metric, **nothing, **about, reason=metric.why_undefined(math.nan, 0, 0.0))
        part = self.ranks.take(own)
        weight = table_weights(part, metric.weighting, counted)
        found = self.estimate(metric.transformer, own, weight)
        ends = [self.finished(metric, own, weight, score) for score in (found.value, found.low, found.high)]
        effective = float(np.square(weight.sum()) / np.square(weight).sum())
        value, low, high = ends[0], min(ends), max(ends)
        reason = metric.why_undefined(value, int(counted.sum()), float(weight.sum()))
        return Score(metric, value, low, high, None, effective=effective, **about, reason=reason)

    def estimate(self, transformer: Transformer, own: Ints, weight: Floats) -> Estimate:
        """The estimate of the weighted sum of the scores of some rows."""
        sign = 1.0 if transformer.descending else -1.0
        positive = weight > 0  # a single candidate has no score, and no weight
        some = own[positive]
        rows = self._bounds[transformer].at(self._row[some])
        found = estimate_of(rows, weight[positive], self.known[some], self.enough[some], self.level)
        return found.turned(sign)

    def finished(self, metric: MeanMetric, own: Ints, weight: Floats, score: float) -> float:
        """The value of the metric for a sum of scores."""
        chance: dict[str, Floats] = {}
        for statistic in metric.statistics:
            if statistic is not Statistic.score:
                values = self._values(metric.transformer, statistic)[own]
                power = np.square(weight) if statistic is Statistic.chance_variance else weight
                chance[statistic.name] = np.array([(np.where(weight > 0, values, 0.0) * power).sum()])
        sums = Sums(np.array([weight.sum()]), np.array([np.square(weight).sum()]), np.array([score]), **chance)
        return float(metric.finish(sums)[0])


def _over_seeds(scores: list[Score], group: dict[str, Any]) -> Score:
    """The score over training runs: means of values and of the ends of intervals, which holds for any dependence."""
    valued = [score for score in scores if score.reason is None] or scores
    values = np.array([score.value for score in valued])
    return replace(
        valued[0],
        value=float(values.mean()),
        low=float(np.mean([score.low for score in valued])),
        high=float(np.mean([score.high for score in valued])),
        std=float(values.std(ddof=1)) if len(values) > 1 else None,
        seeds=len(valued),
        queries=max(score.queries for score in scores),
        effective=float(np.mean([score.effective for score in valued])),
        left_out=max(score.left_out for score in scores),
        empty_seeds=len(scores) - len(valued) if len(valued) < len(scores) else 0,
        group=group,
    )


def sampled_scores(
    ranks: Ranks, metrics: Sequence[Metric], by: Sequence[Grouping], tie: Tie, level: float = LEVEL
) -> list[Score]:
    """The scores of a table with samples of candidates, group by group; see `kgprobe.scores`."""
    table = SampledTable(ranks, metrics, by, tie, level)
    return [score for metric in metrics for score in table.scores(metric)]
