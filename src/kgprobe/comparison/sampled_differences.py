"""Compare models whose ranks are estimates from a sample of candidates: is their order settled by the sample?

The queries are fixed, and what is random is the sample. For a score that is linear in the rank, the difference of two
models has an unbiased estimate. If both were ranked on the same samples, the variance of the difference depends on how
often a candidate beats the targets of both, which is not recorded. At most, the two sets of better candidates are as
disjoint as their sizes allow: that bounds the covariance, and makes the interval wider than it has to be. For any other
score, the difference lies between those of opposite ends of the two intervals, each at half the error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from kgprobe.aggregate import Tie
from kgprobe.aggregate.weights import table_weights
from kgprobe.arrays import Flags, Floats, codes_of
from kgprobe.errors import DataError
from kgprobe.metrics import Metric, Score, parse_all
from kgprobe.metrics.metric import IndexMetric, MeanMetric, RatioMetric, ZMetric
from kgprobe.metrics.sample_bounds import hit_variance, open_rows
from kgprobe.metrics.sampled_estimates import LEVEL, SampledTable, half_width
from kgprobe.metrics.sampled_rows import SampledRows
from kgprobe.ranks import Ranks

_AFFINE = {MeanMetric.finish, RatioMetric.finish, IndexMetric.finish, ZMetric.finish}
"""Values that are an affine function of the mean score."""


@dataclass(frozen=True)
class SampledDifference:
    """The difference of a metric between two models whose candidates were sampled.

    Attributes:
        first: The one model.
        second: The model whose value is subtracted.
        metric: The metric.
        value: The estimate of the difference.
        low: The lower end of its interval.
        high: The upper end.
        level: The confidence level.

    Example:
        >>> from kgprobe.metrics import MRR
        >>> print(SampledDifference("a", "b", MRR(), 0.02, -0.01, 0.05, 0.95))
        MRR: the order of a and b is not settled by the sample (difference 0.0200, 95 % interval -0.0100 to 0.0500)
    """

    first: str
    second: str
    metric: Metric
    value: float
    low: float
    high: float
    level: float = LEVEL

    @property
    def settled(self) -> bool:
        """Whether the interval excludes 0, or the difference is known to be 0."""
        return self.low > 0 or self.high < 0 or self.low == self.high

    def to_row(self) -> dict[str, Any]:
        """The difference as a row of a table."""
        return {
            "first": self.first,
            "second": self.second,
            "metric": str(self.metric),
            "difference": self.value,
            "low": self.low,
            "high": self.high,
            "level": self.level,
            "settled": self.settled,
        }

    def __str__(self) -> str:
        interval = f"difference {self.value:.4f}, {100 * self.level:g} % interval {self.low:.4f} to {self.high:.4f}"
        if not self.settled:
            return (
                f"{self.metric}: the order of {self.first} and {self.second} is not settled by the sample ({interval})"
            )
        better = self.first if (self.value > 0) == self.metric.higher_is_better else self.second
        return f"{self.metric}: {better} is better on these queries, whatever the sample ({interval})"


def sampled_differences(
    models: Mapping[str, Ranks], metrics: str | Metric | Iterable[str | Metric], tie: Tie | str = Tie.mean
) -> list[SampledDifference]:
    """The differences of all pairs of models, metric by metric.

    Args:
        models: The rank tables, of which every one has estimates from samples and one training run.
        metrics: The metrics; those without an estimate are left out.
        tie: How ties are scored.

    Example:
        >>> def ranks(hits):
        ...     counts = dict(exact_greater=[0], exact_equal=[0], sample_size=[9], sampled_from=[9])
        ...     return Ranks.from_columns(
        ...         head=[0], relation=[0], tail=[1], side=["tail"], rank=[1 + hits], candidates=[10],
        ...         sample=dict(**counts, sampled_greater=[hits], sampled_equal=[0]),
        ...     )
        >>> for difference in sampled_differences({"one": ranks(1), "other": ranks(4)}, ["MR", "MRR"]):
        ...     print(difference)
        MR: one is better on these queries, whatever the sample (difference -3.0000, 95 % interval -3.0000 to -3.0000)
        MRR: one is better on these queries, whatever the sample (difference 0.3000, 95 % interval 0.3000 to 0.3000)
    """
    parsed, tie = [metric for metric in parse_all(metrics) if isinstance(metric, MeanMetric)], Tie(tie)
    tables = _same_queries(models)
    half = 1 - (1 - LEVEL) / 2
    ends = {name: SampledTable(table, parsed, (), tie, half) for name, table in tables.items()}
    scores = {name: [own.scores(metric)[0] for metric in parsed] for name, own in ends.items()}
    rows = {name: SampledRows.of(table, tie) for name, table in tables.items()}
    return [
        _difference(metric, (one, other), (scores[one][i], scores[other][i]), tables, rows)
        for i, metric in enumerate(parsed)
        for one, other in combinations(tables, 2)
        if not any(math.isnan(scores[name][i].value) for name in (one, other))
    ]


def _same_queries(models: Mapping[str, Ranks]) -> dict[str, Ranks]:
    """The tables in the order of the first one's queries."""
    first = next(iter(models.values()))
    found: dict[str, Ranks] = {}
    problems = []
    for name, table in models.items():
        if table.seed is not None and len(np.unique(table.seed)) > 1:
            problems.append(f"{name}: several training runs")
        elif table.same_queries(first):
            found[name] = table
        else:
            one, own = codes_of(
                [[t.head, t.relation, t.tail, t.predicts_tail.astype(np.int64)] for t in (first, table)]
            )
            if len(one) == len(own) and set(one.tolist()) == set(own.tolist()):
                found[name] = table.take(np.argsort(own)[np.argsort(np.argsort(one))])
            else:
                problems.append(f"{name}: other queries than {next(iter(models))}")
    if problems:
        remedy = "rank the same queries with every model, one training run in each file"
        raise DataError("these models cannot be compared on the same samples", problems, remedy)
    return found


def _difference(
    metric: MeanMetric,
    names: tuple[str, str],
    scores: tuple[Score, Score],
    tables: Mapping[str, Ranks],
    rows: Mapping[str, SampledRows],
) -> SampledDifference:
    first, second = scores
    value = first.value - second.value
    low, high = first.low - second.high, first.high - second.low
    one, other = (tables[name] for name in names)
    if (
        metric.transformer.linear
        and type(metric).finish in _AFFINE
        and np.array_equal(one.candidates, other.candidates)
    ):
        spread = _deviation(metric, (one, other), (rows[names[0]], rows[names[1]]))
        if spread is not None:
            low, high = value - spread, value + spread
    return SampledDifference(*names, metric, value, low, high)


def _deviation(metric: MeanMetric, tables: tuple[Ranks, Ranks], rows: tuple[SampledRows, SampledRows]) -> float | None:
    """Half the width of the interval of a difference of linear scores; None if there are too few variances."""
    ranks = tables[0]
    counted = np.asarray(metric.counted(ranks.candidates))
    weight = table_weights(ranks, metric.weighting, counted)
    share = np.where(weight > 0, weight, 0.0)
    scale = _slope(metric, ranks, weight)
    parts = np.zeros(len(ranks))
    unknown: Flags = np.zeros(len(ranks), dtype=bool)
    factors: list[Floats] = []
    for own in rows:
        open_ = open_rows(own.population, own.size)
        factor = np.where(open_, own.population / np.maximum(own.size, 1), 0.0)
        parts += np.square(factor) * hit_variance(own.hits, own.squares, own.population, own.size)
        factors.append(factor)
        unknown |= open_
    if (unknown & (share > 0) & ((rows[0].size < 2) | (rows[1].size < 2))).any():
        return None
    if _shared_samples(tables):
        parts += 2 * factors[0] * factors[1] * _most_negative(*rows)
    if not (unknown & (share > 0)).any():
        return 0.0
    found = half_width(np.square(share * scale) * parts, 1 - LEVEL)
    return found if math.isfinite(found) else None


def _slope(metric: MeanMetric, ranks: Ranks, weight: Floats) -> Floats:
    """By how much the value changes if the rank of a query changes by one, divided by the weight of the query."""
    table = SampledTable(ranks, [metric])
    first, second = np.ones(len(ranks)), np.minimum(2.0, ranks.candidates)
    steps = metric.transformer(second, ranks.candidates) - metric.transformer(first, ranks.candidates)
    own = np.arange(len(ranks))
    unit = table.finished(metric, own, weight, 1.0) - table.finished(metric, own, weight, 0.0)
    return np.asarray(np.where(weight > 0, np.nan_to_num(steps), 0.0) * unit)


def _shared_samples(tables: tuple[Ranks, Ranks]) -> bool:
    """Whether both models may have been ranked on the same samples: unless their seeds differ."""
    one, other = (table.info.sample for table in tables)
    return one is None or other is None or one.seed == other.seed


def _most_negative(one: SampledRows, other: SampledRows) -> Floats:
    """Minus the smallest covariance that the hits of two models in one sample can have."""
    size = np.maximum(one.size, 1)
    p, q = one.hits / size, other.hits / np.maximum(other.size, 1)
    fewer = np.minimum(one.size, other.size)
    left = 1 - size / np.maximum(one.population, 1)
    return np.asarray(np.maximum(left, 0) * fewer * np.minimum(p * q, (1 - p) * (1 - q)))
