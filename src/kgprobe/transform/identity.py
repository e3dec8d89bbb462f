"""The rank itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kgprobe.transform.base import Floats, Transformer


@dataclass(frozen=True)
class Identity(Transformer):
    """The rank as its own score, as in the mean rank: lower is better.

    Example:
        >>> import numpy as np
        >>> Identity()(np.array([1.0, 2.5]), np.array([9.0, 9.0])).tolist()
        [1.0, 2.5]
    """

    higher_is_better: ClassVar[bool] = False

    def __call__(self, rank: Floats, candidates: Floats) -> Floats:
        """The ranks."""
        return rank

    def mean_over(self, first: Floats, last: Floats, candidates: Floats) -> Floats:
        """The middle of the run."""
        return (first + last) / 2

    def chance(self, candidates: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of the discrete uniform distribution."""
        return (candidates + 1) / 2, (candidates * candidates - 1) / 12
