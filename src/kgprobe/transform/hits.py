"""Hits@K: inside the first K or not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kgprobe.transform.base import Floats, Transformer


@dataclass(frozen=True)
class Hits(Transformer):
    """1 for a rank of at most k, else 0.

    Example:
        >>> Hits(5)(np.array([1.0, 5.0, 5.5]), np.array([9.0, 9.0, 9.0])).tolist()
        [1.0, 1.0, 0.0]
    """

    k: int

    def __call__(self, rank: Floats, candidates: Floats) -> Floats:
        """Whether each rank is among the first k."""
        return np.where(rank <= self.k, 1.0, 0.0)

    def mean_over(self, first: Floats, last: Floats, candidates: Floats) -> Floats:
        """The share of the run that is among the first k."""
        return np.clip(np.minimum(last, self.k) - first + 1, 0, None) / (last - first + 1)

    def chance(self, candidates: Floats) -> tuple[Floats, Floats]:
        """The Bernoulli mean and variance of a random rank."""
        mean = np.minimum(self.k / candidates, 1.0)
        return mean, mean * (1 - mean)
