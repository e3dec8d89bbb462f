"""The score of every training run of every model over a grid of perspectives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kgprobe.aggregate import Tie, surface
from kgprobe.compare.lineup import Lineup

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ModelSurface:
    """PROBE of a model over a grid.

    Attributes:
        runs: The value of every training run, [runs, alphas, betas].
        effective: The effective number of queries for each beta, the mean over the runs.
        left_out: Queries that say nothing, having a single candidate.
    """

    runs: Floats
    effective: Floats
    left_out: int

    @property
    def mean(self) -> Floats:
        """The mean over the runs: the value of ``kgprobe eval``."""
        return np.asarray(self.runs.mean(axis=0))

    @property
    def std(self) -> Floats:
        """The sample standard deviation over the runs; NaN where there is one run only."""
        if len(self.runs) == 1:
            return np.full(self.runs.shape[1:], np.nan)
        return np.asarray(self.runs.std(axis=0, ddof=1))


def model_surface(
    lineup: Lineup, model: str, alphas: ArrayLike, betas: ArrayLike, *, tie: Tie | str = Tie.mean
) -> ModelSurface:
    """PROBE of one model of a line-up over a grid.

    Example:
        >>> from kgprobe.compare.lineup import line_up
        >>> from kgprobe.ranks import Ranks
        >>> ranks = Ranks.from_columns(
        ...     head=[0, 0], relation=[0, 0], tail=[1, 1], side=["head", "tail"], rank=[1, 2], candidates=[5, 5]
        ... )
        >>> model_surface(line_up({"mine": ranks}), "mine", [1.0, 0.0], [0.0]).mean.round(4).tolist()
        [[0.6875], [0.7847]]
    """
    found = [surface(run, alphas, betas, tie=tie) for run in lineup.runs[model]]
    return ModelSurface(
        runs=np.stack([np.asarray(grid) for grid in found]),
        effective=np.mean([grid.effective for grid in found], axis=0),
        left_out=max(grid.left_out for grid in found),
    )


@dataclass(frozen=True)
class Line:
    """A line through the plane: alpha moves and beta stays, or the other way round.

    Attributes:
        lineup: The models.
        tie: How ties are scored.
        alpha: The alpha that stays; None where it moves.
        beta: The beta that stays; None where it moves.
    """

    lineup: Lineup
    tie: Tie | str
    alpha: float | None = None
    beta: float | None = None

    def scores(self, model: str, values: Floats) -> Floats:
        """PROBE of a model where the one that moves has these values."""
        grid = (values, [self.beta]) if self.alpha is None else ([self.alpha], values)
        return model_surface(self.lineup, model, *grid, tie=self.tie).mean.ravel()

    def difference(self, first: str, second: str) -> Callable[[Floats], Floats]:
        """How far the first model is above the second, as a function of what moves."""
        return lambda values: self.scores(first, values) - self.scores(second, values)
