"""The order of models as the open and as the closed world sees it: the paper's figure of connected ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kgprobe.openworld.bench.pairs import PairCounts
from kgprobe.openworld.bench.points import Points

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

_DIGITS = 6


@dataclass(frozen=True, eq=False)
class Ranking:
    """For every model the checkpoint with the best open-world score, and its scores rounded as in the paper.

    Attributes:
        point: The number of that point.
        open: Its score in the open world; larger is better, whatever the metric.
        closed: Its score in the closed world, likewise.
    """

    point: Codes
    open: Floats
    closed: Floats

    @property
    def by_open(self) -> Codes:
        """The models from the best open-world score on; of equal ones the better in the closed world is first."""
        return np.lexsort((-self.closed, -self.open))

    @property
    def by_closed(self) -> Codes:
        """The models from the best closed-world score on; equal ones keep the order of the open world."""
        return np.lexsort((-self.open, -self.closed))

    @property
    def inverted(self) -> int:
        """Pairs of models in opposite order: the crossings of lines that join a model's places."""
        return PairCounts.of(self.open, self.closed).discordant

    @property
    def pairs(self) -> int:
        """All pairs of models."""
        return len(self.point) * (len(self.point) - 1) // 2


def ranking(points: Points, metric: int) -> Ranking:
    """Choose the best open-world checkpoint of every model by the metric of that number; the first of equal ones.

    Example:
        >>> from kgprobe.metrics import parse
        >>> values = np.array([[0.1, 0.4, 0.3, 0.2]])
        >>> points = Points(
        ...     (parse("MRR"),), ("a", "b"), np.array([0, 0, 1, 1]), ("1", "2", "1", "2"),
        ...     values, 1 - values, values[0], np.ones(1),
        ... )
        >>> found = ranking(points, 0)
        >>> found.point.tolist(), found.by_open.tolist(), found.by_closed.tolist(), found.inverted
        ([1, 2], [0, 1], [1, 0], 1)
    """
    sign = 1.0 if points.metrics[metric].higher_is_better else -1.0
    opened, closed = sign * points.open[metric], sign * points.closed[metric]
    own = [np.flatnonzero(points.model == number) for number in range(len(points.models))]
    best = np.array([places[opened[places].argmax()] for places in own])
    return Ranking(best, np.round(opened[best], _DIGITS), np.round(closed[best], _DIGITS))
