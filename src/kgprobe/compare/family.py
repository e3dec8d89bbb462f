"""One metric of several models on the same clusters, for any re-weighing of them: what resampling works on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kgprobe.compare.estimator import Estimator, condensed, joined
from kgprobe.compare.kept import Kept, Rule, Table
from kgprobe.compare.narrow import narrowed

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Replicates:
    """What a metric would have been on other draws of clusters.

    Attributes:
        values: An array [replicates, models].
        covariance: The models' squared standard errors and covariances as each replicate would estimate them, an
            array [replicates, models, models]; none for a metric without derivative.
    """

    values: Floats
    covariance: Floats | None

    def of(self, contrast: Floats) -> tuple[Floats, Floats | None]:
        """Values and standard errors of a weighted sum of the models, such as a difference."""
        used = np.flatnonzero(contrast)  # a model that has no value must not take away those of others
        values = self.values[:, used] @ contrast[used]
        if self.covariance is None:
            return values, None
        squared = np.einsum("rij,i,j->r", self.covariance[:, used][:, :, used], contrast[used], contrast[used])
        return values, np.sqrt(np.maximum(squared, 0.0))


class Family(ABC):
    """One metric of several models.

    Attributes:
        estimators: The metric of every model.
        clusters: How many clusters there are.
    """

    def __init__(self, estimators: Sequence[Estimator]) -> None:
        self.estimators = tuple(estimators)
        self.clusters = int(estimators[0].columns.shape[0])

    @property
    def estimate(self) -> Floats:
        """The value of every model."""
        return np.array([estimator.estimate for estimator in self.estimators])

    def by_run(self) -> Family:
        """The training runs of all models, as if each were a model of its own."""
        return family([run for estimator in self.estimators for run in estimator.by_run()])

    @property
    @abstractmethod
    def influence(self) -> Floats | None:
        """What each cluster adds to the deviation of every model, [clusters, models]; none without derivative."""

    @property
    @abstractmethod
    def kept(self) -> Kept:
        """What is to be kept of each draw of clusters."""

    @abstractmethod
    def finish(self, kept: Floats) -> Replicates:
        """The replicates, from all that was kept."""


class SmoothFamily(Family):
    """Metrics that are smooth functions of a few sums.

    Attributes:
        condensed: The estimators with as few columns as they need.
        columns: All their columns, [clusters, columns].
        reads: Which of them each model reads.
    """

    def __init__(self, estimators: Sequence[Estimator]) -> None:
        super().__init__(estimators)
        self.condensed = tuple(map(condensed, estimators))
        self.columns, self.reads = joined([estimator.columns for estimator in self.condensed])
        self._left, self._right = np.triu_indices(self.columns.shape[1])
        total = self.columns.sum(axis=0)
        self._ratio = total / total[0] if total[0] else np.zeros(len(total))

    @property
    def kept(self) -> Kept:
        """Sums of columns, and of their products in pairs."""
        return Table(int(self.columns.shape[1]) + len(self._left), self._design)

    def _design(self, rows: slice) -> Floats:
        """The columns and their products in pairs.

        In the products, every column is taken relative to the first (the weights), lest nearly equal scores cancel.
        """
        own = self.columns[rows]
        basis = own - np.multiply.outer(own[:, 0], self._ratio)
        basis[:, 0] = own[:, 0]
        design = np.empty((len(own), own.shape[1] + len(self._left)))
        single, pairs = np.split(design, [own.shape[1]], axis=1)
        single[:] = own
        pairs[:] = basis[:, self._left]
        pairs *= basis[:, self._right]
        return design

    def finish(self, kept: Floats) -> Replicates:
        """Values and covariances of the models."""
        width = self.columns.shape[1]
        sums, pairs = kept[:, :width], kept[:, width:]
        squares = np.empty((len(kept), width, width))
        squares[:, self._left, self._right] = pairs
        squares[:, self._right, self._left] = pairs
        values = np.empty((len(kept), len(self.estimators)))
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
        """The derivative at the sums as they are, applied to each cluster."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            made = np.stack([one.columns @ one.gradient(one.sums) for one in self.condensed], axis=1)
            return np.asarray(made - made.mean(axis=0))


class StepFamily(Family):
    """Metrics without derivative, such as the median rank."""

    influence = None

    def __init__(self, estimators: Sequence[Estimator]) -> None:
        super().__init__(narrowed(estimators))

    @property
    def kept(self) -> Kept:
        """The value of every model: sums for every rank would be too many to keep."""
        return Rule(len(self.estimators), self._values)

    def _values(self, counts: Floats) -> Floats:
        return np.stack([estimator.value(counts @ estimator.columns) for estimator in self.estimators], axis=1)

    def finish(self, kept: Floats) -> Replicates:
        """Values alone."""
        return Replicates(kept, None)


def family(estimators: Sequence[Estimator]) -> Family:
    """One metric of several models on the same clusters.

    Example:
        >>> from kgprobe.compare.lineup import line_up
        >>> from kgprobe.compare.estimator import estimator
        >>> from kgprobe.metrics import parse
        >>> from kgprobe.ranks import Ranks
        >>> ranks = Ranks.from_columns(
        ...     head=[0, 1], relation=[0, 0], tail=[1, 2], side=["tail"] * 2, rank=[1, 2], candidates=[9, 9]
        ... )
        >>> lineup = line_up({"mine": ranks})
        >>> mine = family([estimator(lineup, "mine", parse("MRR"), clusters=lineup.clusters())])
        >>> mine.estimate.tolist(), mine.influence.tolist()
        ([0.75], [[0.125], [-0.125]])
        >>> mine.finish(np.array([[2.0, 0.0]]) @ mine.kept.rows(slice(None))).values.tolist()
        [[1.0]]
    """
    kind = SmoothFamily if all(estimator.smooth for estimator in estimators) else StepFamily
    return kind(estimators)
