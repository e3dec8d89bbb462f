"""Estimator families: one metric of several models on the same clusters, evaluated on many bootstrap draws.

The share of the weight below a rank has a standard deviation of at most 0.5 / sqrt(n) between draws of n clusters, so a
window of eight standard deviations around one half contains the median of practically every draw.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kgprobe.arrays import Floats, Ints
from kgprobe.comparison.estimators import DistributionPart, Estimator, condensed, joined
from kgprobe.comparison.lineup import Clusters
from kgprobe.comparison.resampling import ColumnSums, DrawFunction, Reduction, gathered, parted, resampled, side_by_side
from kgprobe.metrics.metric import Metric
from kgprobe.metrics.rank_metrics import IMedianRank, MADRank, MedianRank
from kgprobe.resources import Progress

Ends = tuple[float, float]

_DEVIATIONS = 8
_MEDIANS: set[type[Metric]] = {MedianRank, IMedianRank, MADRank}
_KEPT_CELLS = 1 << 26


@dataclass(frozen=True)
class Replicates:
    """Bootstrap replicates of a metric.

    Attributes:
        values: An array [replicates, models].
        covariance: The covariance matrix of the models' values as each replicate estimates it, an array [replicates,
            models, models]; None for a metric without derivative.
    """

    values: Floats
    covariance: Floats | None

    def of(self, contrast: Floats) -> tuple[Floats, Floats | None]:
        """Values and standard errors of a linear combination of the models, such as a difference."""
        used = np.flatnonzero(contrast)  # a model without a value must not affect the others
        values = self.values[:, used] @ contrast[used]
        if self.covariance is None:
            return values, None
        squared = np.einsum("rij,i,j->r", self.covariance[:, used][:, :, used], contrast[used], contrast[used])
        return values, np.sqrt(np.maximum(squared, 0.0))


class EstimatorFamily(ABC):
    """One metric of several models.

    Attributes:
        estimators: The metric of every model.
        clusters: The number of clusters.
    """

    def __init__(self, estimators: Sequence[Estimator]) -> None:
        self.estimators = tuple(estimators)
        self.clusters = int(estimators[0].columns.shape[0])

    @property
    def estimate(self) -> Floats:
        """The value of every model."""
        return np.array([estimator.estimate for estimator in self.estimators])

    def merged(self, groups: Clusters) -> EstimatorFamily:
        """The same family on groups of clusters."""
        return estimator_family([estimator.merged(groups) for estimator in self.estimators])

    def by_run(self) -> EstimatorFamily:
        """The family in which every training run is a model of its own."""
        return estimator_family([run for estimator in self.estimators for run in estimator.by_run()])

    @property
    @abstractmethod
    def influence(self) -> Floats | None:
        """The influence of each cluster on the value of every model, [clusters, models]; None without derivative."""

    @property
    @abstractmethod
    def reduction(self) -> Reduction:
        """What to compute of each draw of clusters."""

    @abstractmethod
    def finish(self, reduced: Floats) -> Replicates:
        """The replicates, from the results of `reduction`."""


class SmoothFamily(EstimatorFamily):
    """Metrics that are smooth functions of a few sums.

    Attributes:
        condensed: The estimators with as few columns as they need.
    """

    def __init__(self, estimators: Sequence[Estimator]) -> None:
        super().__init__(estimators)
        self.condensed = tuple(map(condensed, estimators))

    @cached_property
    def _layout(self) -> tuple[Floats, list[Ints]]:
        return joined([estimator.columns for estimator in self.condensed])

    @property
    def columns(self) -> Floats:
        """All columns of the estimators, [clusters, columns]."""
        return self._layout[0]

    @property
    def reads(self) -> list[Ints]:
        """The positions of each model's columns."""
        return self._layout[1]

    @cached_property
    def _pairs(self) -> tuple[Ints, Ints]:
        """The columns of each product."""
        return np.triu_indices(self.columns.shape[1])

    @cached_property
    def _ratio(self) -> Floats:
        """The total of each column relative to that of the first."""
        total = self.columns.sum(axis=0)
        return np.asarray(total / total[0] if total[0] else np.zeros(len(total)))

    @property
    def reduction(self) -> Reduction:
        """Sums of columns, and of the products of each pair of columns."""
        return ColumnSums(int(self.columns.shape[1]) + len(self._pairs[0]), self._design)

    def _design(self, rows: slice) -> Floats:
        """The columns and the products of each pair of columns.

        In the products, every column is taken relative to the first (the weights) to avoid cancellation.
        """
        own, (left, right) = self.columns[rows], self._pairs
        design = np.empty((len(own), own.shape[1] + len(left)))
        single, pairs = np.split(design, [own.shape[1]], axis=1)
        single[:] = own
        with np.errstate(over="ignore", invalid="ignore"):  # of a metric that overflows
            basis = own - np.multiply.outer(own[:, 0], self._ratio)
            basis[:, 0] = own[:, 0]
            pairs[:] = basis[:, left]
            pairs *= basis[:, right]
        return design

    def finish(self, reduced: Floats) -> Replicates:
        width, (left, right) = self.columns.shape[1], self._pairs
        sums, pairs = reduced[:, :width], reduced[:, width:]
        squares = np.empty((len(reduced), width, width))
        squares[:, left, right] = pairs
        squares[:, right, left] = pairs
        values = np.empty((len(reduced), len(self.estimators)))
        gradient = np.zeros((*values.shape, width))
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):  # a replicate may have no weight at all
            for i, (estimator, own) in enumerate(zip(self.condensed, self.reads, strict=True)):
                values[:, i] = estimator.value(sums[:, own])
                gradient[:, i, own] = estimator.gradient(sums[:, own])
            along = np.einsum("rmk,rk->rm", gradient, sums)
            gradient[:, :, 0] = gradient @ self._ratio
            covariance = gradient @ squares @ gradient.swapaxes(1, 2)
            covariance -= along[:, :, None] * along[:, None, :] / self.clusters
        return Replicates(values, covariance * (self.clusters / max(self.clusters - 1, 1)))

    @cached_property
    def influence(self) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            made = np.stack([one.columns @ one.gradient(one.sums) for one in self.condensed], axis=1)
            made -= made.mean(axis=0)
            return np.asarray(made)


class StepFamily(EstimatorFamily):
    """Metrics without derivative, such as the median rank."""

    influence = None

    def __init__(self, estimators: Sequence[Estimator]) -> None:
        super().__init__(narrowed(estimators))

    @property
    def reduction(self) -> Reduction:
        """The value of every model: sums for every rank would take too much memory."""
        return DrawFunction(len(self.estimators), self._values)

    def _values(self, counts: Floats) -> Floats:
        return np.stack([estimator.value(counts @ estimator.columns) for estimator in self.estimators], axis=1)

    def finish(self, reduced: Floats) -> Replicates:
        return Replicates(reduced, None)


def estimator_family(estimators: Sequence[Estimator]) -> EstimatorFamily:
    """One metric of several models on the same clusters."""
    kind = SmoothFamily if all(estimator.smooth for estimator in estimators) else StepFamily
    return kind(estimators)


def bootstrap(
    families: Sequence[EstimatorFamily], *, replicates: int, seed: int = 0, progress: Progress | None = None
) -> Iterator[Replicates]:
    """The bootstrap replicates of every family, one after the other.

    Args:
        families: Metrics of models, all on the same clusters.
        replicates: The number of bootstrap draws.
        seed: The seed of the random generator.
        progress: Called with the number of new draws.
    """
    kinds = [family.reduction for family in families]
    at_once = max(1, _KEPT_CELLS // (replicates * max((kind.width for kind in kinds), default=1)))
    for start in range(0, len(families), at_once):
        batch, own = families[start : start + at_once], kinds[start : start + at_once]
        clusters = batch[0].clusters
        reported = progress if start == 0 else None
        reduce = side_by_side(own, clusters)
        reduced = gathered(resampled, reduce, clusters=clusters, total=replicates, seed=seed, progress=reported)
        yield from (family.finish(part) for family, part in zip(batch, parted(reduced, own), strict=True))


def narrowed(estimators: Sequence[Estimator]) -> list[Estimator]:
    """The same values from fewer columns: ranks far from the median of every model are clipped.

    Args:
        estimators: A metric without derivative, of several models on the same clusters.
    """
    parts = [part for one in estimators for part in one.parts if isinstance(part, DistributionPart)]
    if not all(type(part.metric) in _MEDIANS for part in parts):
        return list(estimators)
    centres, halves = (list(ends) for ends in zip(*map(_ends, parts), strict=True))
    low, high = _hull(centres)
    if isinstance(parts[0].metric, MADRank):  # distances reach from any median to any end
        far = max(_hull(halves)[1] - low, high - _hull(halves)[0])
        low, high = low - far, high + far
    narrow = iter([part.within(low, high) for part in parts])
    return [replace(one, parts=tuple(next(narrow) for _ in one.parts)) for one in estimators]


def _ends(part: DistributionPart) -> tuple[Ends, Ends]:
    """The interval of ranks that contains the median of every draw, and one that contains more than half of it."""
    ranks = part.ranks
    by_cluster, by_rank = (np.asarray(part.columns.sum(axis=axis)) for axis in (1, 0))
    room = _DEVIATIONS / 2 * math.sqrt(np.square(by_cluster).sum()) / by_cluster.sum()
    share = np.cumsum(by_rank) / by_rank.sum()
    low, high = (ranks[min(int(np.searchsorted(share, at)), len(ranks) - 1)] for at in (0.5 - room, 0.5 + room))
    distance = np.sort(np.abs(np.subtract.outer([low, high], ranks)).ravel())
    below = np.concatenate([[0.0], share])
    within = below[np.searchsorted(ranks, low + distance, "right")] - below[np.searchsorted(ranks, high - distance)]
    reach = distance[min(int(np.searchsorted(within, 0.5 + room)), len(distance) - 1)]
    return (float(low), float(high)), (float(high - reach), float(low + reach))


def _hull(intervals: Sequence[Ends]) -> Ends:
    return min(low for low, _ in intervals), max(high for _, high in intervals)
