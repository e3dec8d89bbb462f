"""Simultaneous confidence bands over an (alpha, beta) grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kgprobe.aggregate import Tie
from kgprobe.arrays import Floats
from kgprobe.comparison.intervals import FEWEST_QUERIES
from kgprobe.comparison.lineup import Lineup
from kgprobe.comparison.resampling import critical_value, standard_errors
from kgprobe.decision.influence import Influences, model_surface

_COARSE, _COLUMNS, _ROWS = 5, 2_000, 4_096

"""Points along each axis that stand for the plane, the most columns that they may give, the most rows that are kept."""

_NOTHING = 1e-28

"""The variance, of scores between 0 and 1, below which there is nothing but rounding."""


@dataclass(frozen=True)
class SeedVariance:
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


@dataclass(frozen=True)
class Bands:
    """PROBE of a model, or the difference of two, with limits that hold for the whole grid at once.

    Attributes:
        alphas: The grid's alphas.
        betas: The grid's betas.
        value: PROBE at every point, [alphas, betas].
        error: Its standard error.
        critical: How many standard errors the limits are off the value; at a single point about 2 would do.
        level: How often all limits of the grid hold together.
        effective: The effective number of queries for each beta.
        limits: The smallest and the largest possible value.
    """

    alphas: Floats
    betas: Floats
    value: Floats
    error: Floats
    critical: float
    level: float
    effective: Floats
    limits: tuple[float, float]

    @property
    def low(self) -> Floats:
        """The lower limits."""
        return np.clip(self.value - self.critical * self.error, *self.limits)

    @property
    def high(self) -> Floats:
        """The upper limits."""
        return np.clip(self.value + self.critical * self.error, *self.limits)

    @property
    def trusted(self) -> NDArray[np.bool_]:
        """For each beta, whether there are queries enough for the level to be true."""
        return self.effective >= FEWEST_QUERIES


def bands(
    lineup: Lineup,
    alphas: ArrayLike,
    betas: ArrayLike,
    *,
    model: str,
    against: str | None = None,
    cluster: str = "triple",
    level: float = 0.95,
    replicates: int = 2_000,
    tie: Tie | str = Tie.mean,
    seed: int = 0,
) -> Bands:
    """Simultaneous limits of PROBE over a grid, about these training runs.

    Args:
        lineup: The models.
        alphas: Predictive sharpness.
        betas: Popularity-bias robustness.
        model: The model to look at.
        against: Another model, whose score is subtracted.
        cluster: What queries that stand or fall together share.
        level: How often all limits should hold together.
        replicates: How many times clusters are drawn anew.
        tie: How ties are scored.
        seed: Makes the draws repeatable.

    Example:
        >>> from kgprobe.comparison.lineup import line_up
        >>> from kgprobe.ranks import Ranks
        >>> ranks = Ranks.from_columns(
        ...     head=range(400), relation=[0] * 400, tail=[0] * 400, side=["tail"] * 400,
        ...     rank=[1, 2, 4, 8] * 100, candidates=[100] * 400,
        ... )
        >>> found = bands(line_up({"mine": ranks}), [-1, 0, 1], [0], model="mine")
        >>> found.low.round(3).ravel().tolist(), found.high.round(3).ravel().tolist()
        ([0.969, 0.756, 0.426], [0.975, 0.793, 0.501])
    """
    shape = np.atleast_1d(np.asarray(alphas, dtype=np.float64)), np.atleast_1d(np.asarray(betas, dtype=np.float64))
    signs = {model: 1.0} if against is None else {model: 1.0, against: -1.0}
    surfaces = {name: model_surface(lineup, name, *shape, tie=tie) for name in signs}
    chosen = Lineup({name: lineup.runs[name] for name in signs}, {})
    influence = _influence(chosen, list(signs.values()), shape, cluster, tie)
    size = (len(shape[0]), len(shape[1]))
    return Bands(
        alphas=shape[0],
        betas=shape[1],
        value=np.sum([sign * surfaces[name].mean for name, sign in signs.items()], axis=0),
        error=standard_errors(influence).reshape(size),
        critical=critical_value(influence, level, replicates, seed),
        level=level,
        effective=np.min([found.effective for found in surfaces.values()], axis=0),
        limits=(0.0, 1.0) if against is None else (-1.0, 1.0),
    )


def _influence(
    lineup: Lineup, signs: Sequence[float], shape: tuple[Floats, Floats], cluster: str, tie: Tie | str
) -> Floats:
    """What each cluster adds to the deviation at every point, [clusters, alphas x betas]."""
    clusters = lineup.clusters(cluster)
    influences = Influences(lineup, clusters, popular=bool(shape[1].any()), tie=tie)
    made = np.empty((clusters.count, len(shape[0]), len(shape[1])))
    for some, beta, table in influences.tables(*shape):
        made[:, some, beta] = table @ np.array(signs)
    return made.reshape(clusters.count, -1)
