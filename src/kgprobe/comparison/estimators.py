"""Metrics of models, and their differences, as functions of sums over clusters of queries.

Resampling clusters re-weighs their sums, so a thousand replicates are one matrix product ``counts @ columns``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from kgprobe.aggregate import Tie, tied_rank, tied_score
from kgprobe.arrays import Floats, Ints, distinct, sum_by
from kgprobe.comparison.lineup import Clusters, GroupCells, Lineup, whole
from kgprobe.errors import UsageError
from kgprobe.metrics.evaluation import chance, read_column
from kgprobe.metrics.metric import (
    DistributionMetric,
    IndexMetric,
    MeanMetric,
    Metric,
    RatioMetric,
    Statistic,
    Sums,
    ZMetric,
)
from kgprobe.metrics.rank_metrics import IMedianRank, MADRank, MedianRank, StdRank, VarRank
from kgprobe.ranks import Ranks

_ROUNDING = 1e-12


def medians(values: Floats, weight: Floats) -> Floats:
    """The value at which half of the weight is reached, or the mean of two where it is reached exactly.

    Args:
        values: In ascending order.
        weight: The weight of each, one row for each distribution.

    Example:
        >>> medians(np.array([1.0, 2.0, 9.0]), np.array([[1.0, 1.0, 1.0], [2.0, 0.0, 2.0]])).tolist()
        [2.0, 5.0]
    """
    cumulative = np.cumsum(weight, axis=1)
    half = cumulative[:, -1:] / 2
    lower = (cumulative < half * (1 - _ROUNDING)).sum(axis=1)
    upper = (cumulative <= half * (1 + _ROUNDING)).sum(axis=1)
    return np.asarray(values[lower] + values[np.minimum(upper, len(values) - 1)]) / 2


def deviations(values: Floats, weight: Floats) -> Floats:
    """The median distance from the median.

    Example:
        >>> deviations(np.array([1.0, 2.0, 9.0]), np.array([[1.0, 1.0, 1.0], [3.0, 0.0, 1.0]])).tolist()
        [1.0, 0.0]
    """
    centres, which = np.unique(medians(values, weight), return_inverse=True)
    found = np.empty(len(weight))
    for place, centre in enumerate(centres):  # few: most draws have one of a few medians
        distance = np.abs(values - centre)
        order, own = np.argsort(distance), which == place
        found[own] = medians(distance[order], weight[own][:, order])
    return found


def of_distributions(metric: DistributionMetric, ranks: Floats, weight: Floats) -> Floats:
    """A statistic of every row, at once where that is known how.

    Args:
        metric: The statistic.
        ranks: Distinct ranks in ascending order.
        weight: The weight of each, one row for each distribution.
    """
    if (at_once := _AT_ONCE.get(type(metric))) is not None:
        return at_once(ranks, weight)
    return np.array([metric.of_distribution(ranks[row > 0], row[row > 0]) for row in weight])


_AT_ONCE: dict[type[DistributionMetric], Callable[[Floats, Floats], Floats]] = {
    MedianRank: medians,
    IMedianRank: lambda ranks, weight: 1 / medians(ranks, weight),
    MADRank: deviations,
}

_MOMENT_ROUNDING = 1e-13


class Part(ABC):
    """The metric of one training run: which columns it reads, and what it makes of their sums."""

    columns: Any
    """An array or sparse matrix [clusters, columns]."""
    smooth: bool
    """Whether its value has a derivative, so that a standard error can be had from it."""

    @abstractmethod
    def on(self, clusters: slice) -> Part:
        """The same on some of the clusters."""

    @abstractmethod
    def value(self, sums: Any) -> Any:
        """The metric for sums [..., columns] of its own columns."""


class MeanPart(Part):
    """A metric that is a function of a few sums."""

    smooth = True

    def __init__(self, metric: MeanMetric, columns: dict[str, Floats]) -> None:
        self.metric, self.names = metric, tuple(columns)
        self.columns = np.stack(list(columns.values()), axis=1)

    def on(self, clusters: slice) -> MeanPart:
        """The same on some of the clusters."""
        return MeanPart(self.metric, dict(zip(self.names, self.columns[clusters].T, strict=True)))

    @property
    def linear(self) -> bool:
        """Whether the value is linear in the sum of scores."""
        return type(self.metric).finish in _LINEAR

    def value(self, sums: Any) -> Any:
        """What the metric makes of the sums."""
        given = {name: sums[..., i] for i, name in enumerate(self.names)}
        missing = dict.fromkeys(("squared_weight", "score", "chance_mean", "chance_variance"), np.array(np.nan))
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.metric.finish(Sums(**(missing | given)))


class DistributionPart(Part):
    """A statistic of the distribution of ranks: it needs the weight of every rank that occurs."""

    smooth = False

    def __init__(self, metric: DistributionMetric, ranks: Floats, columns: Any) -> None:
        self.metric, self.ranks, self.columns = metric, ranks, columns

    def on(self, clusters: slice) -> DistributionPart:
        """The same on some of the clusters."""
        return DistributionPart(self.metric, self.ranks, self.columns[clusters])

    def within(self, low: float, high: float) -> DistributionPart:
        """The same, where lower ranks count as the one limit and higher ranks as the other."""
        from scipy import sparse

        ranks, place = np.unique(np.clip(self.ranks, low, high), return_inverse=True)
        shape = (len(self.ranks), len(ranks))
        merged = sparse.coo_array((np.ones(len(place)), (np.arange(len(place)), place)), shape=shape).tocsr()
        return DistributionPart(self.metric, ranks, self.columns @ merged)

    def value(self, sums: Any) -> Any:
        """The statistic of every replicate."""
        flat = np.asarray(sums).reshape(-1, len(self.ranks))
        return of_distributions(self.metric, self.ranks, flat).reshape(np.shape(sums)[:-1])


class MomentPart(Part):
    """A function of the variance of the ranks: of the sums of weights, ranks and squared ranks."""

    smooth = True

    def __init__(self, of_variance: Callable[[Any], Any], columns: Floats) -> None:
        self.of_variance, self.columns = of_variance, columns

    def on(self, clusters: slice) -> MomentPart:
        """The same on some of the clusters."""
        return MomentPart(self.of_variance, self.columns[clusters])

    def value(self, sums: Any) -> Any:
        """What is made of the variance; where it is next to nothing, it is rounding."""
        with np.errstate(invalid="ignore", divide="ignore"):
            weight, first, second = (sums[..., i] for i in range(3))
            variance = (second - first * first / weight) / weight
            alike = np.real(variance) <= _MOMENT_ROUNDING * np.real(second / weight)
            return self.of_variance(np.where(alike, 0.0, variance))


def part_of(ranks: Ranks, metric: Metric, clusters: Clusters, tie: Tie) -> tuple[Part, Floats]:
    """The metric of a run, and the weight of every query."""
    if isinstance(metric, MeanMetric):
        return _mean_part(ranks, metric, clusters, tie)
    if tie is Tie.expected:
        raise UsageError(f"no exact expectation over ties is known for {metric}", remedy="use tie 'mean'")
    make = _moment_part if type(metric) in _OF_VARIANCE else _distribution_part
    return make(ranks, metric, clusters, tie)


def _mean_part(ranks: Ranks, metric: Any, clusters: Clusters, tie: Tie) -> tuple[Part, Floats]:
    counted = (ranks.candidates > 1) | (not metric.needs_alternatives)
    weight = np.zeros(len(ranks))
    columns = {name: read_column(ranks, name)[counted] for name in metric.weighting.columns}
    weight[counted] = metric.weighting.weights(columns, np.ones(int(counted.sum())))
    amounts = {"weight": weight}
    for statistic in metric.statistics:
        amounts[statistic.name] = np.where(weight > 0, _SUMMED[statistic](ranks, metric.transformer, tie), 0.0) * (
            np.square(weight) if statistic is Statistic.chance_variance else weight
        )
    sums = {name: sum_by(clusters.codes, amount, clusters.count) for name, amount in amounts.items()}
    return MeanPart(metric, sums), weight


def _moment_part(ranks: Ranks, metric: Any, clusters: Clusters, tie: Tie) -> tuple[Part, Floats]:
    rank = tied_rank(ranks, tie)
    columns = [sum_by(clusters.codes, power, clusters.count) for power in (np.ones(len(ranks)), rank, np.square(rank))]
    return MomentPart(_OF_VARIANCE[type(metric)], np.stack(columns, axis=1)), np.ones(len(ranks))


def _distribution_part(ranks: Ranks, metric: Any, clusters: Clusters, tie: Tie) -> tuple[Part, Floats]:
    from scipy import sparse

    (values,), which = distinct([tied_rank(ranks, tie)], len(ranks))
    order = np.argsort(values)
    place = np.empty(len(values), dtype=np.int64)
    place[order] = np.arange(len(values))
    shape = (clusters.count, len(values))
    weight = np.ones(len(ranks))
    columns = sparse.coo_array((weight, (clusters.codes, place[which])), shape=shape).tocsr()
    return DistributionPart(metric, values[order], columns), weight


_LINEAR = {kind.finish for kind in (MeanMetric, RatioMetric, IndexMetric, ZMetric)}

_OF_VARIANCE: dict[type[Metric], Callable[[Any], Any]] = {VarRank: lambda variance: variance, StdRank: np.sqrt}


_SUMMED = {
    Statistic.score: lambda ranks, transformer, tie: tied_score(transformer, ranks, tie),
    Statistic.chance_mean: lambda ranks, transformer, tie: chance(ranks, transformer)[0],
    Statistic.chance_variance: lambda ranks, transformer, tie: chance(ranks, transformer)[1],
}


@dataclass(frozen=True)
class Estimator:
    """A weighted sum of metrics of training runs: the mean over seeds, or the difference of two such means.

    Attributes:
        parts: The metric of every run.
        factors: What each counts: 1 / seeds, negative for the model that is subtracted.
        queries: How many queries are evaluated.
        effective: The effective number of queries, (sum w)^2 / sum w^2; of a difference the smaller.
        effective_clusters: The same of clusters.

    Example:
        >>> from kgprobe.comparison.lineup import line_up
        >>> from kgprobe.metrics import parse
        >>> from kgprobe.ranks import Ranks
        >>> ranks = Ranks.from_columns(
        ...     head=[0, 0], relation=[0, 0], tail=[1, 2], side=["tail"] * 2, rank=[1, 2], candidates=[9, 9]
        ... )
        >>> lineup = line_up({"mine": ranks})
        >>> mrr = estimator(lineup, "mine", parse("MRR"), clusters=lineup.clusters("triple"))
        >>> mrr.estimate, mrr.value(np.array([[3.0, 1.0]]) @ mrr.columns).tolist()
        (0.75, [0.875])
    """

    parts: tuple[Part, ...]
    factors: tuple[float, ...]
    queries: int
    effective: float
    effective_clusters: float

    @cached_property
    def _layout(self) -> tuple[Any, list[Ints]]:
        """All columns, and which of them each part reads; equal ones, such as weights, are kept once."""
        if not self.smooth:
            from scipy import sparse  # takes long to import, and few metrics need it

            widths = [part.columns.shape[1] for part in self.parts]
            ends = np.cumsum(widths)
            return sparse.hstack([sparse.csr_array(part.columns) for part in self.parts], format="csr"), [
                np.arange(end - width, end) for width, end in zip(widths, ends, strict=True)
            ]
        return joined([part.columns for part in self.parts])

    @property
    def columns(self) -> Any:
        """An array [clusters, columns], sparse where the estimator is not smooth; the sums of it give the value."""
        return self._layout[0]

    @property
    def reads(self) -> list[Ints]:
        """Which of the columns each part reads."""
        return self._layout[1]

    @property
    def smooth(self) -> bool:
        """Whether the value has a derivative."""
        return all(part.smooth for part in self.parts)

    def run_values(self, sums: Any) -> Any:
        """The metric of every run, [..., runs], for sums [..., columns]."""
        return np.stack([part.value(sums[..., own]) for part, own in zip(self.parts, self.reads, strict=True)], -1)

    def value(self, sums: Any) -> Any:
        """The value for sums [..., columns] over re-weighted clusters."""
        return self.run_values(sums) @ np.array(self.factors)

    def by_run(self) -> list[Estimator]:
        """The metric of every run alone."""
        return [replace(self, parts=(part,), factors=(1.0,)) for part in self.parts]

    @cached_property
    def sums(self) -> Floats:
        """The sums over all clusters as they are."""
        clusters = self.columns.shape[0]
        if not self.smooth:
            return np.asarray(np.ones(clusters) @ self.columns)
        which = np.zeros(clusters, dtype=np.int64)
        return np.array([sum_by(which, column, 1)[0] for column in self.columns.T])

    @cached_property
    def estimate(self) -> float:
        """The value on the queries as they are: that of ``kgprobe eval``."""
        return float(self.value(self.sums))

    def gradient(self, sums: Any) -> Floats:
        """The derivative of the value by each sum, [..., columns], to the last digit (complex step)."""
        if not self.smooth:
            raise UsageError("the value of this metric has no derivative")
        step = 1e-30 * np.maximum(np.abs(sums), 1e-200)
        gradient = np.empty(np.shape(sums))
        for i in range(np.shape(sums)[-1]):
            moved = np.asarray(sums, dtype=np.complex128).copy()
            moved[..., i] += 1j * step[..., i]
            gradient[..., i] = self.value(moved).imag / step[..., i]
        return gradient


def estimator(
    lineup: Lineup, model: str, metric: Metric, *, clusters: Clusters, tie: Tie | str = Tie.mean
) -> Estimator:
    """The mean of a metric over the training runs of a model.

    Args:
        lineup: The models.
        model: One of them.
        metric: The metric.
        clusters: Which queries stand or fall together.
        tie: How ties are scored.
    """
    return estimators(lineup, model, metric, cells=whole(clusters), tie=tie)[0]


def estimators(
    lineup: Lineup, model: str, metric: Metric, *, cells: GroupCells, tie: Tie | str = Tie.mean
) -> list[Estimator]:
    """The same for each group of queries; weights are those that they have among all.

    Args:
        lineup: The models.
        model: One of them.
        metric: The metric.
        cells: The groups, and which of their queries stand or fall together.
        tie: How ties are scored.
    """
    made = [part_of(run, metric, cells.clusters, Tie(tie)) for run in lineup.runs[model]]
    weights = [weight for _, weight in made]
    by_cell = [sum_by(cells.clusters.codes, weight, cells.clusters.count) for weight in weights]
    return [
        Estimator(
            parts=tuple(part.on(group.cells) for part, _ in made),
            factors=(1 / len(made),) * len(made),
            queries=max(int((weight[group.queries] > 0).sum()) for weight in weights),
            effective=float(np.mean([_effective(weight[group.queries]) for weight in weights])),
            effective_clusters=float(np.mean([_effective(weight[group.cells]) for weight in by_cell])),
        )
        for group in cells.groups
    ]


def difference(first: Estimator, second: Estimator) -> Estimator:
    """How much the first value is above the second, on the same clusters."""
    return Estimator(
        parts=first.parts + second.parts,
        factors=first.factors + tuple(-factor for factor in second.factors),
        queries=min(first.queries, second.queries),
        effective=min(first.effective, second.effective),
        effective_clusters=min(first.effective_clusters, second.effective_clusters),
    )


def condensed(given: Estimator) -> Estimator:
    """The same value from fewer columns, where runs differ in their scores alone and the value is linear in them."""
    parts = [part for part in given.parts if isinstance(part, MeanPart) and part.linear]
    if len(parts) < max(2, len(given.parts)) or len(set(given.factors)) > 1:
        return given
    first, score = parts[0], parts[0].names.index("score")
    others = [np.delete(part.columns, score, axis=1) for part in parts]
    if not all(np.array_equal(others[0], other) for other in others[1:]):
        return given
    columns = dict(zip(first.names, first.columns.T, strict=True))
    columns["score"] = np.mean([part.columns[:, score] for part in parts], axis=0)
    return replace(given, parts=(MeanPart(first.metric, columns),), factors=(sum(given.factors),))


def joined(tables: Sequence[Any]) -> tuple[Floats, list[Ints]]:
    """All columns that occur, each once, and where those of every table are among them.

    Example:
        >>> columns, places = joined([np.array([[1.0, 5.0]]), np.array([[1.0, 6.0]])])
        >>> columns.tolist(), [place.tolist() for place in places]
        ([[1.0, 5.0, 6.0]], [[0, 1], [0, 2]])
    """
    kept: dict[bytes, int] = {}
    columns: list[Floats] = []
    places = []
    for table in tables:
        own = []
        for column in table.T:
            at = kept.setdefault(column.tobytes(), len(columns))
            if at == len(columns):
                columns.append(column)
            own.append(at)
        places.append(np.array(own))
    return np.stack(columns, axis=1), places


def _effective(weight: Floats) -> float:
    largest = weight.max(initial=0.0)
    scaled = weight / largest if largest > 0 else weight
    squares = float(np.square(scaled).sum())
    return float(scaled.sum()) ** 2 / squares if squares > 0 else 0.0
