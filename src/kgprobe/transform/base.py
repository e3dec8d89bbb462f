"""What every rank transformer can do."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kgprobe.transform.series import mean_over_range

Floats = NDArray[np.float64]


class Transformer(ABC):
    """A function of rank and candidate count, with its exact mean over a run of ranks.

    Subclasses are frozen dataclasses, so that transformers can be compared, hashed and shared.
    """

    optimum: ClassVar[float] = 1.0
    """The score of rank 1."""

    higher_is_better: ClassVar[bool] = True
    candidate_aware: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, rank: Floats, candidates: Floats) -> Floats:
        """The score of each rank among that many candidates."""

    @property
    def steepness(self) -> float:
        """The largest power of the rank by which the score may vary; guides numerical summation."""
        return 1.0

    def mean_over(self, first: Floats, last: Floats, candidates: Floats) -> Floats:
        """The exact mean of the score over the ranks ``first .. last``: its expectation over a tie group.

        Example:
            >>> from kgprobe.transform import Power
            >>> Power(1.0).mean_over(np.array([1.0]), np.array([2.0]), np.array([10.0])).tolist()
            [0.75]
        """
        return mean_over_range(self, first, last, candidates, self.steepness)

    def chance(self, candidates: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of the score of a uniformly random rank, for each candidate count.

        Example:
            >>> from kgprobe.transform import Identity
            >>> mean, variance = Identity().chance(np.array([4.0]))
            >>> mean.item(), variance.item()
            (2.5, 1.25)
        """
        if math.isinf(self.steepness):  # every score is 0 or 1 (or infinite)
            mean = self.mean_over(np.ones_like(candidates), candidates, candidates)
            return mean, mean * np.abs(1 - mean)
        sizes, which = np.unique(candidates, return_inverse=True)
        first = np.ones_like(sizes)
        mean = self.mean_over(first, sizes, sizes)
        by_size = dict(zip(sizes.tolist(), mean.tolist(), strict=True))

        def squared_deviation(rank: Floats, size: Floats) -> Floats:
            unique, inverse = np.unique(size, return_inverse=True)
            centre = np.array([by_size[s] for s in unique.tolist()])[inverse].reshape(size.shape)
            return np.asarray(np.square(self(rank, size) - centre))

        variance = mean_over_range(squared_deviation, first, sizes, sizes, 2 * self.steepness)
        return mean[which], variance[which]
