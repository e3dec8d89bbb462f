"""Pairs of points that two measurements order alike, against each other, or not at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

_ROWS = 256
"""Points that are compared with all others at once."""


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Counts over ordered pairs of points by the models that both belong to, each point with itself included.

    As they are kept by model, Kendall's tau of any sample of whole models follows from them without another look at
    the points: a model that is drawn w times has w copies of its points, and every count is a quadratic form in w.

    Attributes:
        sizes: The number of points of each model.
        agreeing: Pairs in the same order less those in opposite order [models, models].
        first_ties: Pairs that the first measurement ties.
        second_ties: Pairs that the second ties.
        both_ties: Pairs that both tie.
    """

    sizes: Floats
    agreeing: Floats
    first_ties: Floats
    second_ties: Floats
    both_ties: Floats

    @classmethod
    def of(cls, first: Floats, second: Floats, model: Codes | None = None, models: int = 1) -> PairCounts:
        """Count the pairs of points.

        Args:
            first: A measurement of every point.
            second: Another one.
            model: The number of the model of each point; without it all points belong together.
            models: How many models there are.

        Example:
            >>> counts = PairCounts.of(np.array([1.0, 2.0, 3.0, 3.0]), np.array([1.0, 3.0, 2.0, 4.0]))
            >>> counts.pairs, counts.tied, counts.discordant, round(counts.tau().item(), 4)
            (6, 1, 1, 0.5477)
        """
        group = np.zeros(len(first), dtype=np.int64) if model is None else model
        member = (group[:, None] == np.arange(models)).astype(np.float64)
        agreeing = np.zeros((models, models))
        for start in range(0, len(first), _ROWS):
            rows = slice(start, start + _ROWS)
            one, other = (np.sign(values[rows, None] - values) for values in (first, second))
            agreeing += member[rows].T @ ((one * other) @ member)
        codes = [np.unique(values, return_inverse=True)[1] for values in (first, second)]
        both = np.unique(np.stack(codes), axis=1, return_inverse=True)[1].ravel()
        return cls(member.sum(axis=0), agreeing, *(_ties(code, group, models) for code in (*codes, both)))

    def tau(self, weights: Floats | None = None) -> Floats:
        """Kendall's tau-b of the points of models that are drawn so often [..., models]; NaN where it has no value."""
        drawn = self._whole if weights is None else weights
        pairs = self._unordered(np.outer(self.sizes, self.sizes), drawn)
        first, second = (self._unordered(ties, drawn) for ties in (self.first_ties, self.second_ties))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(_form(self.agreeing, drawn) / 2 / np.sqrt((pairs - first) * (pairs - second)))

    @property
    def pairs(self) -> int:
        """All pairs of points."""
        return self._count(np.outer(self.sizes, self.sizes))

    @property
    def tied(self) -> int:
        """Pairs that at least one of both measurements ties."""
        return self._count(self.first_ties + self.second_ties - self.both_ties)

    @property
    def discordant(self) -> int:
        """Pairs in opposite order."""
        return (self.pairs - self.tied - round(float(self.agreeing.sum() / 2))) // 2

    @property
    def _whole(self) -> Floats:
        return np.ones(len(self.sizes))

    def _count(self, ordered: Floats) -> int:
        return round(float(self._unordered(ordered, self._whole)))

    def _unordered(self, ordered: Floats, weights: Floats) -> Floats:
        """Every pair once, and none of a point with itself; copies of a point are pairs."""
        return np.asarray((_form(ordered, weights) - weights @ self.sizes) / 2)


def _ties(code: Codes, group: Codes, models: int) -> Floats:
    """Pairs of equal codes by the models of both."""
    count = np.zeros((models, int(code.max(initial=-1)) + 1))
    np.add.at(count, (group, code), 1)
    return np.asarray(count @ count.T)


def _form(matrix: Floats, weights: Floats) -> Floats:
    return np.asarray(((weights @ matrix) * weights).sum(axis=-1))
