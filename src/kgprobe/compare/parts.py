"""The metric of one training run as a function of sums over clusters of queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.aggregate import Tie, distinct, sum_by, tied_rank, tied_score
from kgprobe.compare.lineup import Clusters
from kgprobe.compare.medians import of_distributions
from kgprobe.errors import UsageError
from kgprobe.metrics.accumulator import chance, read_column
from kgprobe.metrics.base import (
    DistributionMetric,
    IndexMetric,
    MeanMetric,
    Metric,
    RatioMetric,
    Statistic,
    Sums,
    ZMetric,
)
from kgprobe.metrics.plain import StdRank, VarRank
from kgprobe.ranks import Ranks

Floats = NDArray[np.float64]
_ROUNDING = 1e-13


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
            alike = np.real(variance) <= _ROUNDING * np.real(second / weight)
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
