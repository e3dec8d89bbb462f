"""Standard errors and simultaneous critical values of differences over an (alpha, beta) grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kgprobe.arrays import Floats
from kgprobe.comparison.resampling import critical_value
from kgprobe.decision.influence import Influences

_COARSE, _COLUMNS, _ROWS = 5, 2_000, 4_096
"""Points along each axis of the coarse grid, and the largest numbers of its columns and rows."""

_ROUNDING = 1e-28
"""A smaller variance, of scores between 0 and 1, is a rounding error."""


@dataclass(frozen=True)
class SeedVariance:
    """The variance between training runs.

    Attributes:
        std: The standard deviation over the runs, [models, alphas, betas].
        runs: The number of runs of each model.
    """

    std: Floats
    runs: Floats

    @property
    def variance(self) -> Floats:
        """The variance of the mean over the runs; 0 for a single run."""
        return np.square(np.nan_to_num(self.std)) / self.runs[:, None, None]

    def freedom(self, total: Floats) -> Floats:
        """Degrees of freedom, by Satterthwaite, of the variance of a difference between two models.

        Both models have the degrees of freedom of the one with fewer runs.

        Args:
            total: The whole variance of the difference, [models, models, alphas, betas].
        """
        own = np.square(self.variance)
        fewest = np.maximum(np.minimum.outer(self.runs, self.runs) - 1, 1)[:, :, None, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            freedom = np.square(total) * fewest / (own[:, None] + own[None, :])
        return np.asarray(np.nan_to_num(freedom, nan=np.inf, posinf=np.inf))


def covariances(influences: Influences, alphas: Floats, betas: Floats) -> Floats:
    """The covariance of the models' scores, [alphas, betas, models, models]; NaN for a single cluster."""
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
    # A model minus itself, or minus a copy, leaves a rounding error.
    difference[difference < 1e-13 * sums + _ROUNDING] = 0.0
    return np.moveaxis(difference, (2, 3), (0, 1))


def band_width(
    influences: Influences, alphas: Floats, betas: Floats, *, level: float, replicates: int, seed: int
) -> float:
    """The simultaneous critical value of a lead, in standard errors, for all pairs of models and the whole plane.

    It is computed on a coarse grid over the same ranges: scores are so smooth in alpha and beta that neighbouring
    points are nearly equal. Where there are many clusters, sums of random groups of clusters are used, which have the
    same covariance.
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
    varying = np.einsum("ij,ij->j", joined, joined) > _ROUNDING
    return critical_value(joined[:, varying], level, replicates, seed)


def widened(width: float, freedom: Floats) -> Floats:
    """The critical value of Student's t with the same level as a normal critical value.

    Example:
        >>> widened(1.959964, np.array([np.inf, 10.0, 2.0])).round(3).tolist()
        [1.96, 2.228, 4.303]
    """
    from scipy.special import ndtr, stdtrit  # slow to import

    return np.where(np.isinf(freedom), width, -stdtrit(freedom, ndtr(-width)))  # the lower tail has more digits


def _spread(axis: Floats, count: int) -> Floats:
    """Evenly spaced numbers over the range of an axis."""
    return np.unique(np.linspace(axis.min(), axis.max(), count))
