"""What is counted for every target; parts over disjoint entities add up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Counts:
    """For every target: how many other candidates are better, how many tie with it, how many there are.

    Counted over a range of entities; the counts of disjoint ranges add up to those of their union.

    Example:
        >>> part = Counts(greater=np.array([3]), equal=np.array([1]), others=np.array([50]))
        >>> whole = part + part
        >>> whole.rank.tolist(), whole.candidates.tolist()
        ([8.0], [101])
    """

    greater: Ints
    equal: Ints
    others: Ints

    @classmethod
    def zeros(cls, targets: int) -> Counts:
        """Nothing counted yet."""
        return cls(*(np.zeros(targets, dtype=np.int64) for _ in range(3)))

    def put(self, targets: slice, greater: Ints, equal: Ints, others: Ints) -> None:
        """Fill in what was counted for some of the targets."""
        self.greater[targets], self.equal[targets], self.others[targets] = greater, equal, others

    def at(self, targets: Ints) -> Counts:
        """The counts of the targets in another order."""
        return Counts(self.greater[targets], self.equal[targets], self.others[targets])

    def __add__(self, more: Counts) -> Counts:
        return Counts(self.greater + more.greater, self.equal + more.equal, self.others + more.others)

    @property
    def rank(self) -> NDArray[np.float64]:
        """Mean rank of the target over its tie group."""
        return 1 + self.greater + self.equal / 2

    @property
    def candidates(self) -> Ints:
        """How many candidates there are, the target included."""
        return 1 + self.others
