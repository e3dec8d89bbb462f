"""Bands that hold for every point of an (alpha, beta) grid at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kgprobe.aggregate import Tie
from kgprobe.compare.critical import critical_value, standard_errors
from kgprobe.compare.decision.influence import Influences
from kgprobe.compare.decision.surfaces import model_surface
from kgprobe.compare.interval import FEWEST_QUERIES
from kgprobe.compare.lineup import Lineup

__all__ = ["Bands", "bands", "critical_value", "standard_errors"]

Floats = NDArray[np.float64]


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
        >>> from kgprobe.compare.lineup import line_up
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
