"""Estimators: metrics of models and their differences as functions of sums over clusters of queries.

A bootstrap draw changes only how often each cluster counts, so a thousand draws are one matrix product
``counts @ columns``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np

from kgprobe.aggregate import Sums, Tie, tied_rank
from kgprobe.aggregate.weighted_mean import query_values, weighted
from kgprobe.aggregate.weights import table_weights
from kgprobe.arrays import Floats, Ints, distinct, sum_by
from kgprobe.comparison.lineup import Clusters, GroupCells, Lineup, whole
from kgprobe.errors import UsageError
from kgprobe.metrics.metric import DistributionMetric, IndexMetric, MeanMetric, Metric, RatioMetric, ZMetric
from kgprobe.metrics.rank_metrics import StdRank, VarRank
from kgprobe.ranks import Ranks

_MOMENT_ROUNDING = 1e-13
_BLOCK_ROWS = 1 << 20
"""Rows whose scores are computed at once."""


class Part(ABC):
    """The metric of one training run, as a function of sums of its columns."""

    columns: Any
    """An array or sparse matrix [clusters, columns]."""
    smooth: bool
    """Whether the value has a derivative, from which a standard error can be computed."""

    def on(self, clusters: slice) -> Part:
        """The same metric on some of the clusters."""
        return self._with(self.columns[clusters])

    def merged(self, groups: Clusters) -> Part:
        """The same metric on groups of clusters, with the same totals to the last bit."""
        other = self._with(_column_sums(self.columns, groups))
        other.totals = self.totals
        return other

    @cached_property
    def totals(self) -> Floats:
        """The sums over all clusters, each counted once."""
        clusters = self.columns.shape[0]
        if not isinstance(self.columns, np.ndarray):
            return np.asarray(np.ones(clusters) @ self.columns)
        which = np.zeros(clusters, dtype=np.int64)
        return np.array([sum_by(which, column, 1)[0] for column in self.columns.T])

    def _with(self, columns: Any) -> Part:
        other = copy(self)
        other.columns = columns
        other.__dict__.pop("totals", None)
        return other

    @abstractmethod
    def value(self, sums: Any) -> Any:
        """The metric for sums [..., columns] of its own columns."""


class MeanPart(Part):
    """A metric that is a function of a few sums."""

    smooth = True

    def __init__(self, metric: MeanMetric, columns: dict[str, Floats]) -> None:
        self.metric, self.names = metric, tuple(columns)
        self.columns = np.stack(list(columns.values()), axis=1)

    @property
    def linear(self) -> bool:
        """Whether the value is linear in the sum of scores."""
        return type(self.metric).finish in _LINEAR

    def value(self, sums: Any) -> Any:
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.metric.finish(Sums(**{name: sums[..., i] for i, name in enumerate(self.names)}))


class DistributionPart(Part):
    """A statistic of the distribution of ranks, with a column for every rank that occurs."""

    smooth = False

    def __init__(self, metric: DistributionMetric, ranks: Floats, columns: Any) -> None:
        self.metric, self.ranks, self.columns = metric, ranks, columns

    def within(self, low: float, high: float) -> DistributionPart:
        """The same metric with ranks clipped to these limits."""
        from scipy import sparse

        ranks, place = np.unique(np.clip(self.ranks, low, high), return_inverse=True)
        shape = (len(self.ranks), len(ranks))
        merged = sparse.coo_array((np.ones(len(place)), (np.arange(len(place)), place)), shape=shape).tocsr()
        return DistributionPart(self.metric, ranks, self.columns @ merged)

    def value(self, sums: Any) -> Any:
        return self.metric.of_distribution(self.ranks, np.asarray(sums))


class MomentPart(Part):
    """A function of the variance of the ranks: of the sums of weights, ranks and squared ranks."""

    smooth = True

    def __init__(self, of_variance: Callable[[Any], Any], columns: Floats) -> None:
        self.of_variance, self.columns = of_variance, columns

    def value(self, sums: Any) -> Any:
        with np.errstate(invalid="ignore", divide="ignore"):
            weight, first, second = (sums[..., i] for i in range(3))
            variance = (second - first * first / weight) / weight
            rounding = np.real(variance) <= _MOMENT_ROUNDING * np.real(second / weight)
            return self.of_variance(np.where(rounding, 0.0, variance))


def part_of(ranks: Ranks, metric: Metric, clusters: Clusters, tie: Tie, slices: Ints | None = None) -> Part:
    """The metric of a training run; ``slices`` are the groups of the queries."""
    if isinstance(metric, MeanMetric):
        return _mean_part(ranks, metric, clusters, tie, slices)
    if tie is Tie.expected:
        raise UsageError(f"`tie='expected'` is not available for {metric}", remedy="use `tie='mean'`")
    make = _moment_part if type(metric) in _OF_VARIANCE else _distribution_part
    return make(ranks, metric, clusters, tie)


def query_weights(ranks: Ranks, metric: Metric, slices: Ints | None = None) -> Floats:
    """The weight of every query of a training run; ``slices`` are the groups of the queries."""
    if not isinstance(metric, MeanMetric):
        return np.ones(len(ranks))
    return table_weights(ranks, metric.weighting, metric.counted(ranks.candidates), slices)


def _mean_part(ranks: Ranks, metric: MeanMetric, clusters: Clusters, tie: Tie, slices: Ints | None) -> Part:
    weight = query_weights(ranks, metric, slices)
    sums = {"weight": sum_by(clusters.codes, weight, clusters.count)}
    *others, last = metric.statistics
    for statistic in [*others, last]:
        amount, start = weight if statistic is last else np.empty(len(ranks)), 0  # in place, to save memory
        for batch in ranks.batches(_BLOCK_ROWS):
            rows = slice(start, start + len(batch))
            values = query_values(batch, tie)(metric.transformer, statistic)
            amount[rows] = weighted(statistic, values, weight[rows])
            start = rows.stop
        sums[statistic.name] = sum_by(clusters.codes, amount, clusters.count)
    return MeanPart(metric, sums)


def _moment_part(ranks: Ranks, metric: Any, clusters: Clusters, tie: Tie) -> Part:
    rank = tied_rank(ranks, tie)
    columns = [sum_by(clusters.codes, power, clusters.count) for power in (np.ones(len(ranks)), rank, np.square(rank))]
    return MomentPart(_OF_VARIANCE[type(metric)], np.stack(columns, axis=1))


def _distribution_part(ranks: Ranks, metric: Any, clusters: Clusters, tie: Tie) -> Part:
    from scipy import sparse

    (values,), which = distinct([tied_rank(ranks, tie)], len(ranks))
    order = np.argsort(values)
    place = np.empty(len(values), dtype=np.int64)
    place[order] = np.arange(len(values))
    shape = (clusters.count, len(values))
    columns = sparse.coo_array((np.ones(len(ranks)), (clusters.codes, place[which])), shape=shape).tocsr()
    return DistributionPart(metric, values[order], columns)


_LINEAR = {kind.finish for kind in (MeanMetric, RatioMetric, IndexMetric, ZMetric)}
_OF_VARIANCE: dict[type[Metric], Callable[[Any], Any]] = {VarRank: lambda variance: variance, StdRank: np.sqrt}


@dataclass(frozen=True)
class Estimator:
    """A linear combination of metrics of training runs: the mean over seeds, or the difference of two such means.

    Attributes:
        parts: The metric of every run.
        factors: The factor of each run: 1 / seeds, negative for the model that is subtracted.
        queries: The number of evaluated queries.
        effective: The effective number of queries, (sum w)^2 / sum w^2; for a difference, the smaller of the two.
        effective_clusters: The effective number of clusters.
        fewest_queries: The number of evaluated queries in the training run that has the fewest.
    """

    parts: tuple[Part, ...]
    factors: tuple[float, ...]
    queries: int
    effective: float
    effective_clusters: float
    fewest_queries: int = 1

    @cached_property
    def _layout(self) -> tuple[Any, list[Ints]]:
        """All columns, and which of them each part reads; equal columns, such as weights, are kept once."""
        if self.smooth:
            return joined([part.columns for part in self.parts])
        from scipy import sparse  # slow to import, and few metrics need it

        columns = sparse.hstack([sparse.csr_array(part.columns) for part in self.parts], format="csr")
        ends = np.cumsum([part.columns.shape[1] for part in self.parts])
        return columns, np.split(np.arange(ends[-1]), ends[:-1])

    @property
    def columns(self) -> Any:
        """An array [clusters, columns], sparse where the estimator is not smooth."""
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
        """The value for sums [..., columns]."""
        return self.run_values(sums) @ np.array(self.factors)

    def merged(self, groups: Clusters) -> Estimator:
        """The same estimator on groups of clusters."""
        return replace(self, parts=tuple(part.merged(groups) for part in self.parts))

    def by_run(self) -> list[Estimator]:
        """One estimator for each run."""
        return [replace(self, parts=(part,), factors=(1.0,)) for part in self.parts]

    @cached_property
    def sums(self) -> Floats:
        """The sums over all clusters, each counted once."""
        sums = np.empty(self.columns.shape[1])
        for part, own in zip(self.parts, self.reads, strict=True):
            sums[own] = part.totals
        return sums

    @cached_property
    def estimate(self) -> float:
        """The value on all queries, which `kgprobe.evaluate` gives too."""
        return float(self.value(self.sums))

    def gradient(self, sums: Any) -> Floats:
        """The derivative of the value with respect to each sum, [..., columns], by the complex-step method."""
        if not self.smooth:
            raise UsageError("this metric has no derivative")
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
    """The mean of a metric over the training runs of a model."""
    return estimators(lineup, model, metric, cells=whole(clusters), tie=tie)[0]


def estimators(
    lineup: Lineup, model: str, metric: Metric, *, cells: GroupCells, tie: Tie | str = Tie.mean
) -> list[Estimator]:
    """The mean of a metric over the training runs, for each group of queries; weights are those in the whole table."""
    runs, slices = lineup.runs[model], _group_of_each_query(cells)
    parts = [part_of(run, metric, cells.clusters, Tie(tie), slices) for run in runs]
    samples = [_sample_sizes(query_weights(run, metric, slices), cells) for run in runs]
    return [
        Estimator(
            parts=tuple(part.on(group.cells) for part in parts),
            factors=(1 / len(parts),) * len(parts),
            queries=max(queries for queries, _, _ in own),
            effective=float(np.mean([effective for _, effective, _ in own])),
            effective_clusters=float(np.mean([effective for _, _, effective in own])),
            fewest_queries=min(queries for queries, _, _ in own),
        )
        for group, own in zip(cells.groups, zip(*samples, strict=True), strict=True)
    ]


def _sample_sizes(weight: Floats, cells: GroupCells) -> list[tuple[int, float, float]]:
    """The number of evaluated queries of each group, and the effective numbers of its queries and clusters."""
    by_cell = sum_by(cells.clusters.codes, weight, cells.clusters.count)
    return [
        (int((weight[group.queries] > 0).sum()), _effective(weight[group.queries]), _effective(by_cell[group.cells]))
        for group in cells.groups
    ]


def _group_of_each_query(cells: GroupCells) -> Ints | None:
    """The number of the group of every query; None for a single group."""
    if len(cells.groups) == 1:
        return None
    slices = np.empty(len(cells.clusters.codes), dtype=np.int64)
    for number, group in enumerate(cells.groups):
        slices[group.queries] = number
    return slices


def difference(first: Estimator, second: Estimator) -> Estimator:
    """The first value minus the second, on the same clusters."""
    return Estimator(
        parts=first.parts + second.parts,
        factors=first.factors + tuple(-factor for factor in second.factors),
        queries=min(first.queries, second.queries),
        effective=min(first.effective, second.effective),
        effective_clusters=min(first.effective_clusters, second.effective_clusters),
    )


def condensed(full: Estimator) -> Estimator:
    """The same value from fewer columns, where only the scores of the runs differ and the value is linear in them."""
    parts = [part for part in full.parts if isinstance(part, MeanPart) and part.linear]
    if len(parts) < max(2, len(full.parts)) or len(set(full.factors)) > 1:
        return full
    first, score = parts[0], parts[0].names.index("score")
    others = [np.delete(part.columns, score, axis=1) for part in parts]
    if not all(np.array_equal(others[0], other) for other in others[1:]):
        return full
    columns = dict(zip(first.names, first.columns.T, strict=True))
    columns["score"] = np.mean([part.columns[:, score] for part in parts], axis=0)
    return replace(full, parts=(MeanPart(first.metric, columns),), factors=(sum(full.factors),))


def joined(tables: Sequence[Any]) -> tuple[Floats, list[Ints]]:
    """All distinct columns of the tables, and the positions of each table's columns among them."""
    kept: dict[bytes, int] = {}
    columns: list[Floats] = []
    places = []
    for table in tables:
        own = []
        for column in table.T:
            at = kept.setdefault(blake2b(np.ascontiguousarray(column).data).digest(), len(columns))
            if at == len(columns):
                columns.append(column)
            own.append(at)
        places.append(np.array(own))
    unchanged = len(tables) == 1 and len(columns) == tables[0].shape[1]
    return tables[0] if unchanged else np.stack(columns, axis=1), places


def _column_sums(columns: Any, groups: Clusters) -> Any:
    """The sums of an array or a sparse matrix [clusters, columns] over each group of clusters."""
    if isinstance(columns, np.ndarray):
        return np.stack([sum_by(groups.codes, column, groups.count) for column in columns.T], axis=1)
    from scipy import sparse

    rows = len(groups.codes)
    members = sparse.csr_array((np.ones(rows), (groups.codes, np.arange(rows))), shape=(groups.count, rows))
    return members @ columns


def _effective(weight: Floats) -> float:
    largest = weight.max(initial=0.0)
    if largest == 0:
        return 0.0
    scaled = weight / largest  # so that no square underflows
    return float(Sums(scaled.sum(), np.square(scaled, out=scaled).sum()).effective)
