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
from kgprobe.metrics.sample_bounds import RIDGES, SampleBounds, alike, hit_variance, open_rows, rows_at_a_time
from kgprobe.ranks import Ranks
from kgprobe.ranks.schema import estimated_rank
from kgprobe.transform import Transformer

LEVEL = 0.95
_LEAST_EFFECTIVE = 8.0
"""With fewer effective queries in a variance, a sum is not taken as normal: intervals are exact for each query."""

_NOT_A_MEAN = "the ranks are estimates from a sample, of which only means of scores can be estimated"


@dataclass(frozen=True, eq=False)
class SampledRows:
    """What was counted for each query, once for the best and once for the worst reading of ties in the sample.

    Attributes:
        first: The best rank that the candidates allow that were all counted.
        size: The size of the sample.
        population: What it was drawn from.
        fewest: Sampled candidates that count as better: those with greater scores.
        most: The same at worst, with those of equal scores.
        hits: The same on average.
        squares: The sum of the squares of what is averaged.
        candidates: The number of all candidates.
    """

    first: Floats
    size: Ints
    population: Ints
    fewest: Ints
    most: Ints
    hits: Floats
    squares: Floats
    candidates: Floats

    @classmethod
    def of(cls, ranks: Ranks, tie: Tie) -> SampledRows:
        """The counts of a table."""
        greater, equal, size, population, more, same = (
            np.nan_to_num(ranks.numbers(name)).astype(np.int64)
            for name in (
                *("exact_greater", "exact_equal", "sample_size"),
                *("sampled_from", "sampled_greater", "sampled_equal"),
            )
        )
        known = np.isnan(ranks.numbers("sample_size"))  # rows of another table that was ranked in full
        # Equal scores count by one half in a mean rank, not at all in an optimistic one, fully in a pessimistic one.
        share = {Tie.mean: 0.5, Tie.optimistic: 0.0, Tie.pessimistic: 1.0}[tie]
        fewest = more + (same if tie is Tie.pessimistic else 0)
        most = more + (0 if tie is Tie.optimistic else same)
        return cls(
            first=np.where(
                known, ranks.rank + (2 * share - 1) / 2 * np.nan_to_num(ranks.ties), 1 + greater + share * equal
            ),
            size=size,
            population=population,
            fewest=fewest,
            most=most,
            hits=more + share * same,
            squares=more + share * share * same,
            candidates=ranks.candidates,
        )

    @property
    def rank(self) -> Floats:
        """The unbiased estimate of the rank."""
        none = np.zeros_like(self.first)
        return estimated_rank(self.first - 1, none, self.size, self.population, self.hits)

    def distinct(self, error: Floats) -> tuple[SampledRows, Floats, Ints]:
        """The distinct rows with another column, and the index of each row among them."""
        columns = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values, which = distinct([*(np.asarray(own, np.float64) for own in columns.values()), error], len(error))
        kept = (own.astype(old.dtype) for own, old in zip(values, columns.values(), strict=False))
        return SampledRows(*kept), values[-1], which


@dataclass(frozen=True, eq=False)
class RowBounds:
    """Statistics of each query whose expectations bound its score, and limits of the score.

    Larger is better here: scores of which smaller ones are better have the opposite sign.

    Attributes:
        upper: For each kind of bound, the statistic whose expectation is at least the score: [kinds, rows].
        upper_variance: Its estimated variance.
        lower: The statistic whose expectation is at most the score.
        lower_variance: Its estimated variance.
        best: The score at the best rank that the sample does not exclude at the error of each row.
        worst: The same at the worst rank.
        possible: The scores at the best and at the worst rank that are possible: [2, rows].
    """

    upper: Floats
    upper_variance: Floats
    lower: Floats
    lower_variance: Floats
    best: Floats
    worst: Floats
    possible: Floats

    def at(self, rows: Ints) -> RowBounds:
        """The same of other rows."""
        return RowBounds(*(getattr(self, name)[..., rows] for name in self.__dataclass_fields__))


def bounds_of_rows(
    rows: SampledRows, transformers: Sequence[Transformer], error: Floats
) -> dict[Transformer, RowBounds]:
    """The bounds of several scores of every row.

    Args:
        rows: The counts.
        transformers: The scores.
        error: For every row, the probability that each of its exact limits may be wrong.
    """
    found = {transformer: _known_bounds(rows, transformer) for transformer in transformers}
    unknown = np.flatnonzero(open_rows(rows.population, rows.size))
    if not len(unknown):
        return found
    rounded, which = alike(rows.population[unknown], rows.size[unknown])
    for group in range(int(which.max()) + 1):
        own = unknown[which == group]
        bounds = SampleBounds(int(rounded[which == group][0]), int(rows.size[own[0]]))
        for part in rows_at_a_time(len(own), len(bounds.grid)):
            some = own[part]
            fewest, _ = bounds.limits(rows.fewest[some], error[some])
            _, most = bounds.limits(rows.most[some], error[some])
            scale = rows.population[some] / bounds.population
            left = rows.population[some] - rows.size[some]
            limits = (
                np.maximum(np.floor(fewest * scale), rows.fewest[some]),
                np.minimum(np.ceil(most * scale), left + rows.most[some]),
                rows.fewest[some],
                left + rows.most[some],
            )
            for transformer, into in found.items():
                ends = (_score(rows, transformer, rows.first[some] + better, some) for better in limits)
                into.best[some], into.worst[some], into.possible[0, some], into.possible[1, some] = ends
                if not transformer.linear:
                    _put_statistics(rows, transformer, bounds, some, into)
    return found


def _score(rows: SampledRows, transformer: Transformer, rank: Floats, some: Ints) -> Floats:
    """The score of ranks of some rows, [rows] or [rows, k], with the sign that makes larger ones better."""
    size = rows.candidates[some]
    size = size if rank.ndim == 1 else np.broadcast_to(size[:, None], rank.shape)
    return (1.0 if transformer.higher_is_better else -1.0) * transformer(np.clip(rank, 1, size), size)


def _known_bounds(rows: SampledRows, transformer: Transformer) -> RowBounds:
    """The bounds if the estimated rank were known; for a linear score, with the variance of the estimate."""
    everything = np.arange(len(rows.size))
    value = _score(rows, transformer, rows.rank, everything)
    kinds = 1 if transformer.linear else len(RIDGES)
    variance = np.zeros((kinds, len(value)))
    if transformer.linear:
        below, above = (_score(rows, transformer, rows.first + step, everything) for step in (0, 1))
        scale = (above - below) * rows.population / np.maximum(rows.size, 1)
        own = np.square(scale) * hit_variance(rows.hits, rows.squares, rows.population, rows.size)
        variance[0] = np.where(open_rows(rows.population, rows.size), own, 0.0)
    statistic = np.tile(value, (kinds, 1))
    return RowBounds(
        upper=statistic,
        upper_variance=variance,
        lower=statistic.copy(),
        lower_variance=variance.copy(),
        best=value.copy(),
        worst=value.copy(),
        possible=np.tile(value, (2, 1)),
    )


def _put_statistics(
    rows: SampledRows, transformer: Transformer, bounds: SampleBounds, some: Ints, into: RowBounds
) -> None:
    """Set the statistics of some rows for a score that is not linear."""
    at_best, at_worst = _grid_ranks(rows, some, bounds, transformer)
    above = _score(rows, transformer, at_best, some)
    same = transformer.continuous and bool((rows.fewest[some] == rows.most[some]).all())
    below = above if same else _score(rows, transformer, at_worst, some)
    for kind, ridge in enumerate(RIDGES):
        low, low_variance, high, high_variance = bounds.bound(above, rows.fewest[some], ridge)
        if not same:
            low, low_variance, _, _ = bounds.bound(below, rows.most[some], ridge)
        into.lower[kind, some], into.lower_variance[kind, some] = low, low_variance
        into.upper[kind, some], into.upper_variance[kind, some] = high, high_variance


def _grid_ranks(rows: SampledRows, some: Ints, bounds: SampleBounds, transformer: Transformer) -> tuple[Floats, Floats]:
    """The ranks [rows, grid] at which the score is taken for an upper and for a lower bound.

    They differ where the score jumps: the best and the worst rank between two numbers of the grid.
    """
    better = bounds.grid * (rows.population[some, None] / bounds.population)
    first = rows.first[some, None]
    if transformer.continuous:
        return first + better, first + better
    better = np.rint(better)
    before = np.concatenate([np.full((len(some), 1), -1.0), better[:, :-1]], axis=1)
    return first + np.minimum(before + 1, better), first + better


@dataclass(frozen=True)
class Estimate:
    """A weighted sum of scores: its estimate, its interval, and the parts that the interval is made of.

    Attributes:
        value: The estimate.
        low: The lower end of the interval.
        high: The upper end.
        exact: Whether the interval is made of exact intervals of every query.
    """

    value: float
    low: float
    high: float
    exact: bool

    def turned(self, sign: float) -> Estimate:
        """The estimate of the opposite of the sum, if the sign is negative."""
        return self if sign > 0 else Estimate(-self.value, -self.high, -self.low, self.exact)


def estimate_of(rows: RowBounds, weight: Floats, known: Flags, enough: Flags, level: float = LEVEL) -> Estimate:
    """The estimate of the weighted sum of the scores of some queries.

    Args:
        rows: The bounds of each query.
        weight: The weights.
        known: Queries whose rank is known, because all candidates are in the sample.
        enough: Queries whose sample has at least two candidates, so that variances can be estimated.
        level: The confidence level.
    """
    upper, lower = rows.upper @ weight, rows.lower @ weight
    error = (1 - level) / len(upper)
    squared = np.square(weight)
    highs = upper + np.array([half_width(variance * squared, error) for variance in rows.upper_variance])
    lows = lower - np.array([half_width(variance * squared, error) for variance in rows.lower_variance])
    weighing = weight > 0
    if (known | ~weighing).all():
        return Estimate(float(upper[0]), float(upper[0]), float(upper[0]), exact=True)
    measured = bool((enough | known | ~weighing).all())
    fits_high, fits_low = np.isfinite(highs) & measured, np.isfinite(lows) & measured
    exact = not (fits_high.any() and fits_low.any())
    most, least = rows.possible @ weight
    top, bottom = int(np.argmin(np.where(fits_high, highs, np.inf))), int(np.argmax(np.where(fits_low, lows, -np.inf)))
    high, low = (float(rows.best @ weight), float(rows.worst @ weight)) if exact else (highs[top], lows[bottom])
    low, high = max(float(low), float(least)), min(float(high), float(most))
    low, high = min(low, high), max(low, high)
    value = min(max(float(upper[top] + lower[bottom]) / 2, low), high)
    return Estimate(value, low, high, exact)


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
        error = (1 - level) / 2 / np.maximum(unknown, 1)
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
        sign = 1.0 if transformer.higher_is_better else -1.0
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
