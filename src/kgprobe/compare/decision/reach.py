"""How far one can move the perspective before another model wins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kgprobe.aggregate import Tie
from kgprobe.compare.decision.crossings import roots, samples
from kgprobe.compare.decision.surfaces import Line
from kgprobe.compare.lineup import Lineup

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Crossing:
    """Where another model catches up with the winner.

    Attributes:
        at: The alpha or beta there.
        model: The other model.
    """

    at: float
    model: str


@dataclass(frozen=True)
class Reach:
    """The stretch of one axis, through the point that was asked about, on which the winner stays ahead.

    Attributes:
        axis: ``alpha`` or ``beta``.
        low: Where it ends below; None where the winner is ahead down to ``limits[0]``.
        high: Where it ends above; None where the winner is ahead up to ``limits[1]``.
        limits: The range that was looked at.
    """

    axis: str
    low: Crossing | None
    high: Crossing | None
    limits: tuple[float, float]

    def __str__(self) -> str:
        low, high = self.low.at if self.low else self.limits[0], self.high.at if self.high else self.limits[1]
        ends = [f"{end.model} below" for end in [self.low] if end] + [
            f"{end.model} above" for end in [self.high] if end
        ]
        return f"{self.axis} {low:.3g} to {high:.3g}" + (f" ({', '.join(ends)})" if ends else "")


def reach(
    lineup: Lineup, winner: str, axis: str, point: dict[str, float], limits: tuple[float, float], tie: Tie | str
) -> Reach:
    """The stretch of an axis on which a model stays ahead of all others.

    Args:
        lineup: The models.
        winner: The model that is ahead at the point.
        axis: ``alpha`` or ``beta``: which of them moves.
        point: Both of them, where it is.
        limits: The range of the axis to look at; widened to hold the point.
        tie: How ties are scored.

    Example:
        >>> from kgprobe.compare.lineup import line_up
        >>> from kgprobe.ranks import Ranks
        >>> def ranks(*rank):
        ...     return Ranks.from_columns(
        ...         head=[0, 1], relation=[0, 0], tail=[1, 2], side=["tail"] * 2, rank=rank, candidates=[100, 100]
        ...     )
        >>> lineup = line_up({"sharp": ranks(1, 80), "even": ranks(4, 5)})
        >>> print(reach(lineup, "sharp", "alpha", {"alpha": 1.0, "beta": 0.0}, (-1.0, 1.0), "mean"))
        alpha 0.311 to 1 (even below)
    """
    here, low, high = point[axis], min(limits[0], point[axis]), max(limits[1], point[axis])
    line = Line(lineup, tie, **{name: value for name, value in point.items() if name != axis})
    points = samples(low, high)
    ahead = line.scores(winner, points)
    met = [
        Crossing(float(at), other)
        for other in lineup.models
        if other != winner
        for at in roots(line.difference(winner, other), points, ahead - line.scores(other, points))
    ]
    below = max((crossing for crossing in met if crossing.at <= here), key=lambda crossing: crossing.at, default=None)
    above = min((crossing for crossing in met if crossing.at > here), key=lambda crossing: crossing.at, default=None)
    return Reach(axis, below, above, (low, high))
