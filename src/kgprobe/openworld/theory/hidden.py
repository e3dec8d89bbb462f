"""How many true answers of a query the graph lacks, and how many of these a model has learned."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]

_NEGLIGIBLE = 40.0
"""Tails of less than exp(-40) are left out: they are below the last digit of any mean."""


@dataclass(frozen=True, eq=False)
class Hidden(ABC):
    """The distribution of the number of missing answers of each query, its target not among them.

    A share of the missing answers, each independently, is learned by a model: K of them are, and L are not. All
    methods take that share; at 1 they speak of all missing answers.

    Attributes:
        count: What is known of each query; see the subclass.
        rate: The missing rate: the share of all true answers that the graph lacks.
    """

    count: Floats
    rate: Floats

    @abstractmethod
    def mean(self, share: Floats) -> Floats:
        """The expectation of K."""

    @abstractmethod
    def probability(self, k: Floats, share: Floats) -> Floats:
        """The probability of every K = k, an array [queries, several]."""

    @abstractmethod
    def unlearned(self, k: Floats, share: Floats) -> Floats:
        """The expectation of L for every K = k, an array [queries, several]."""

    @abstractmethod
    def _spread(self, share: Floats) -> tuple[Floats, Floats]:
        """The variance of K, and the e-folding length of its longer tail."""

    def window(self, share: Floats) -> tuple[Floats, Floats]:
        """The first K that has any probability worth the name, and the number of those that have."""
        mean, (variance, length) = self.mean(share), self._spread(share)
        reach = np.sqrt(2 * _NEGLIGIBLE * variance) + _NEGLIGIBLE * length  # Bernstein's inequality
        first = np.maximum(np.floor(mean - reach), 0.0)
        last = np.minimum(np.ceil(mean + reach), self._most())
        return first, np.where(mean > 0, last - first + 1, 1.0)

    def _most(self) -> Floats:
        return np.full_like(self.count, np.inf)


class Removed(Hidden):
    """Of a complete world: each of ``count`` other true answers is missing with probability ``rate``.

    Example:
        >>> hidden = Removed(np.array([28.0]), np.array([0.25]))
        >>> hidden.mean(np.array([0.5])).tolist(), hidden.probability(np.array([[0.0]]), np.ones(1)).round(5).tolist()
        ([3.5], [[0.00032]])
    """

    def mean(self, share: Floats) -> Floats:
        """That of the binomial distribution."""
        return self.count * (share * self.rate)

    def probability(self, k: Floats, share: Floats) -> Floats:
        """That of the binomial distribution."""
        return np.asarray(stats.binom.pmf(k, self.count[:, None], (share * self.rate)[:, None]))

    def unlearned(self, k: Floats, share: Floats) -> Floats:
        """Each answer that is not missing and learned is missing and not learned with the same probability."""
        neither = 1 - share * self.rate
        odds = self.rate * (1 - share) / np.where(neither > 0, neither, 1.0)
        return np.maximum(self.count[:, None] - k, 0.0) * odds[:, None]

    def _spread(self, share: Floats) -> tuple[Floats, Floats]:
        p = share * self.rate
        return self.count * p * (1 - p), np.ones_like(p)

    def _most(self) -> Floats:
        return self.count


class Unknown(Hidden):
    """Of an incomplete graph: it knows ``count`` answers, the target among them, and lacks an unknown number.

    Each other true answer was kept with probability 1 - rate, and nothing else is known of their number (every number
    is as likely as any other before the graph is seen): then the missing ones have a negative binomial distribution
    with mean ``count * rate / (1 - rate)``, and all answers are expected to be ``count / (1 - rate)``. Nothing has to
    be rounded, and queries whose answers happen to be well known are told from those with few answers.

    Example:
        >>> hidden = Unknown(np.array([3.0]), np.array([0.25]))
        >>> hidden.mean(np.ones(1)).tolist(), hidden.probability(np.array([[0.0, 1.0]]), np.ones(1)).round(4).tolist()
        ([1.0], [[0.4219, 0.3164]])
    """

    @property
    def _odds(self) -> Floats:
        return self.rate / (1 - self.rate)

    def mean(self, share: Floats) -> Floats:
        """The known answers times the odds of missing and being learned."""
        return self.count * share * self._odds

    def probability(self, k: Floats, share: Floats) -> Floats:
        """That of the negative binomial distribution, which stays one when a share is taken."""
        return np.asarray(stats.nbinom.pmf(k, self.count[:, None], (1 / (1 + share * self._odds))[:, None]))

    def unlearned(self, k: Floats, share: Floats) -> Floats:
        """The more missing answers are learned, the more there are: it grows with k."""
        odds = (1 - share) * self._odds / (1 + share * self._odds)
        return (self.count[:, None] + k) * odds[:, None]

    def _spread(self, share: Floats) -> tuple[Floats, Floats]:
        odds = share * self._odds
        return self.count * odds * (1 + odds), 1 + odds
