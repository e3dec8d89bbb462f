"""How far the lead of one model over another could be off, at every point of a grid and for all of them at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kgprobe.compare.critical import critical_value
from kgprobe.compare.decision.influence import Influences

Floats = NDArray[np.float64]

_COARSE, _COLUMNS, _ROWS = 5, 2_000, 4_096
"""Points along each axis that stand for the plane, the most columns that they may give, the most rows that are kept."""
_NOTHING = 1e-28
"""The variance, of scores between 0 and 1, below which there is nothing but rounding."""


@dataclass(frozen=True)
class SeedNoise:
    """What training once more would change.

    Attributes:
        std: The standard deviation over the runs, [models, alphas, betas].
        runs: How many runs each model has.
    """

    std: Floats
    runs: Floats

    @property
    def variance(self) -> Floats:
        """Of the mean over the runs; 0 where one run leaves it unknown."""
        return np.square(np.nan_to_num(self.std)) / self.runs[:, None, None]

    def freedom(self, total: Floats) -> Floats:
        """Degrees of freedom, by Satterthwaite, of the variance of a difference between two models.

        The runs of both models count as known no better than those of the model with fewer.

        Args:
            total: That variance, [models, models, alphas, betas], of which this noise is a part.
        """
        own = np.square(self.variance)
        fewest = np.maximum(np.minimum.outer(self.runs, self.runs) - 1, 1)[:, :, None, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            freedom = np.square(total) * fewest / (own[:, None] + own[None, :])
        return np.asarray(np.nan_to_num(freedom, nan=np.inf, posinf=np.inf))


def covariances(influences: Influences, alphas: Floats, betas: Floats) -> Floats:
    """The covariance of the models' scores, [alphas, betas, models, models]; NaN where there is only one cluster."""
    count, models = influences.clusters.count, influences.models
    found = np.empty((len(alphas), len(betas), models, models))
    for some, j, table in influences.tables(alphas, betas):
        flat = table.reshape(count, -1)
        products = (flat.T @ flat).reshape(table.shape[1], models, table.shape[1], models)
        found[some, j] = np.einsum("aman->amn", products)
    return found * (count / (count - 1) if count > 1 else np.nan)


def variances_of_differences(covariance: Floats) -> Floats:
    """The variance of the difference between every two models, [models, models, alphas, betas]."""
    own = np.einsum("abmm->abm", covariance)
    sums = own[..., :, None] + own[..., None, :]
    difference = sums - covariance - np.swapaxes(covariance, 2, 3)
    # What is left of a model minus itself, or minus a copy, is rounding.
    difference[difference < 1e-13 * sums + _NOTHING] = 0.0
    return np.moveaxis(difference, (2, 3), (0, 1))


def band_width(
    influences: Influences, alphas: Floats, betas: Floats, *, level: float, replicates: int, seed: int
) -> float:
    """How many standard errors a lead must have to be beyond noise, for all pairs of models and the whole plane.

    A coarse grid over the same ranges stands for the plane: scores change so smoothly with alpha and beta that
    neighbouring points are nearly the same. Where there are many clusters, sums of random groups of them stand for
    them, which have the same covariance.
    """
    first, second = np.triu_indices(influences.models, 1)
    if not len(first):
        return np.nan
    axis = int(np.clip(np.sqrt(_COLUMNS / len(first)), 2, _COARSE))
    count = influences.clusters.count
    order = np.random.default_rng(seed).permutation(count)
    starts = np.linspace(0, count, min(count, _ROWS), endpoint=False).astype(np.int64)
    columns = []
    for _, _, table in influences.tables(_spread(alphas, axis), _spread(betas, axis)):
        grouped = np.add.reduceat(table[order], starts)
        columns.append((grouped[..., first] - grouped[..., second]).reshape(len(starts), -1))
    joined = np.concatenate(columns, axis=1)
    varying = np.einsum("ij,ij->j", joined, joined) > _NOTHING
    return critical_value(joined[:, varying], level, replicates, seed)


def widened(width: float, freedom: Floats) -> Floats:
    """The same width of a band where the variance is known from few training runs: a quantile of Student's t.

    Example:
        >>> widened(1.959964, np.array([np.inf, 10.0, 2.0])).round(3).tolist()
        [1.96, 2.228, 4.303]
    """
    from scipy.special import ndtr, stdtrit  # takes long to import

    return np.where(np.isinf(freedom), width, -stdtrit(freedom, ndtr(-width)))  # the lower tail has more digits


def _spread(axis: Floats, count: int) -> Floats:
    """A few numbers over the range of an axis."""
    return np.unique(np.linspace(axis.min(), axis.max(), count))
