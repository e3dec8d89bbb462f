"""Expected score of a model of given strength when answers are missing, and its derivative.

The model is that of Yang et al. (2022): a model of strength l has learned every true answer of a query with
probability l, each independently, and puts what it has learned above everything else, in an order of which nothing
is known. The graph lacks some answers; K of these are learned, and stand above or among the known ones though they
count as false. So a learned target has a rank that is uniform over 1 .. K + 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from kgprobe.arrays import Floats, Ints, distinct
from kgprobe.transform import Transformer

_CELLS = 1 << 19  # numbers in one block


def blocks(first: Floats, width: Floats) -> Iterator[tuple[Ints, Floats]]:
    """Rows whose windows are about as wide, and the integers of the windows: [rows, widest of them].

    A window that is narrower than the widest of its block runs on: what is beyond its end has no weight.

    Example:
        >>> for rows, k in blocks(np.array([0.0, 5.0]), np.array([1.0, 2.0])):
        ...     print(rows.tolist(), k.tolist())
        [0, 1] [[0.0, 1.0], [5.0, 6.0]]
    """
    order = np.argsort(width, kind="stable")
    wide = width[order].astype(np.int64)
    start = 0
    while start < len(order):
        # Widths ascend, so the block may take rows as long as the widest of them, the last, leaves room.
        room = np.arange(1, len(order) - start + 1) * wide[start:] <= _CELLS
        stop = start + max(int(np.count_nonzero(room)), 1)
        rows = order[start:stop]
        yield rows, first[rows, None] + np.arange(wide[stop - 1])
        start = stop


_NEGLIGIBLE = 40.0  # tails of less than exp(-40) are left out: they are below the last digit of any mean


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


class Unlearned(StrEnum):
    """What the target scores where the model has not learned it.

    nothing: 0, whatever the metric: the paper's reading.
    anywhere: what a random one of all ranks scores, as if no learned answer were above it.
    below: what a random rank below the K learned missing answers scores: what follows from the model.
    """

    nothing = "nothing"
    anywhere = "anywhere"
    below = "below"


@dataclass(frozen=True, eq=False)
class Expectation:
    """The expected score of each query and its derivative by the strength of the model."""

    value: Floats
    slope: Floats


@dataclass(frozen=True, eq=False)
class _Cells:
    """What is known for every K of a block of queries: arrays [queries, several], or [queries, 1].

    Attributes:
        score: The score just below the K learned missing answers.
        lower: The mean score of the ranks below them.
        chance: The mean score of all ranks.
        falls: The derivative of the expectation of ``lower`` by the strength, times (1 - strength).
    """

    score: Floats
    lower: Floats
    chance: Floats
    falls: Floats


# The score of an unlearned target, and (1 - strength) times how it changes with the strength.
_UNLEARNED: dict[Unlearned, Callable[[_Cells], tuple[Floats, Floats]]] = {
    Unlearned.nothing: lambda cells: (np.zeros_like(cells.chance), np.zeros_like(cells.chance)),
    Unlearned.anywhere: lambda cells: (cells.chance, np.zeros_like(cells.chance)),
    Unlearned.below: lambda cells: (cells.lower, cells.falls),
}


def expected(
    transformer: Transformer,
    hidden: Hidden,
    candidates: ArrayLike,
    strength: ArrayLike,
    unlearned: Unlearned = Unlearned.below,
) -> Expectation:
    """Expected score and slope of each query where its number of candidates is known; everything broadcasts.

    With f the transformer, S the score of an unlearned target and l the strength, the value is
    ``l E[mean of f(1 .. K + 1)] + (1 - l) E[S]``. Its slope is ``E f(1 + K)`` for a target that scores nothing,
    less the chance level for one that stands anywhere, and ``E[(f(1 + K) - S) (1 - E[L | K] / (E - 1 - K))]`` for one
    that stands below: of one sign where f is, since K + L are among the E - 1 other candidates. Where more answers are
    missing than there are candidates, the target is last.

    Example:
        >>> from kgprobe.transform import Power
        >>> hidden = Removed(np.array(28.0), np.array(0.25))
        >>> found = expected(Power(1.0), hidden, 5976, 0.9, Unlearned.anywhere)
        >>> round(float(found.value), 4), round(float(found.slope), 4)
        (0.3409, 0.1516)
    """
    asked = np.broadcast_arrays(hidden.count, hidden.rate, candidates, strength)
    columns, which = distinct([column.ravel().astype(np.float64) for column in asked], asked[0].size)
    count, rate, size, share = columns
    kind = type(hidden)
    found = Expectation(np.empty_like(size), np.empty_like(size))
    chance = chance_level(transformer, size)
    first, width = kind(count, rate).window(share)
    for rows, k in blocks(first, width):
        part = kind(count[rows], rate[rows]), size[rows], share[rows], chance[rows], k
        found.value[rows], found.slope[rows] = _block(transformer, *part, unlearned)
    shape = asked[0].shape
    return Expectation(found.value[which].reshape(shape), found.slope[which].reshape(shape))


def expected_where_candidates_vary(
    transformer: Transformer,
    others: ArrayLike,
    false: ArrayLike,
    rate: ArrayLike,
    strength: ArrayLike,
    unlearned: Unlearned = Unlearned.below,
) -> Expectation:
    """Expected score and slope where every missing answer is one more candidate, as no filter removes it.

    Args:
        transformer: The transformer.
        others: The true answers of each query besides its target, in the complete world.
        false: Its false candidates.
        rate: The missing rate.
        strength: The strength of the model.
        unlearned: What an unlearned target scores.

    Example:
        >>> from kgprobe.transform import AffinePower
        >>> found = expected_where_candidates_vary(AffinePower(0.0), 59, 75, 0.5, 0.9)
        >>> fixed = expected(AffinePower(0.0), Removed(np.array(59.0), np.array(0.5)), 106, 0.9)
        >>> round(float(found.slope), 4), round(float(fixed.slope), 4)
        (0.17, 0.1707)
    """
    asked = np.broadcast_arrays(others, false, rate, strength)
    columns, which = distinct([column.ravel().astype(np.float64) for column in asked], asked[0].size)
    count, wrong, missing, share = columns
    found = Expectation(np.empty_like(count), np.empty_like(count))
    everything = np.ones_like(count)
    first, width = Removed(count, missing).window(everything)
    for rows, m in blocks(first, width):
        weight = Removed(count[rows], missing[rows]).probability(m, everything[rows])
        given = Removed(m, np.array(1.0))
        at = expected(transformer, given, wrong[rows, None] + 1 + m, share[rows, None], unlearned)
        found.value[rows], found.slope[rows] = (weight * at.value).sum(axis=1), (weight * at.slope).sum(axis=1)
    shape = asked[0].shape
    return Expectation(found.value[which].reshape(shape), found.slope[which].reshape(shape))


def chance_level(transformer: Transformer, candidates: Floats) -> Floats:
    """The mean score of all ranks, for each number of candidates.

    Example:
        >>> from kgprobe.transform import AffinePower
        >>> chance_level(AffinePower(-1.0), np.array([3.0, 10.0])).round(12).tolist()
        [0.5, 0.5]
    """
    sizes, which = np.unique(candidates, return_inverse=True)
    return transformer.mean_over(np.ones_like(sizes), sizes, sizes)[which].reshape(np.shape(candidates))


def _block(
    transformer: Transformer,
    hidden: Hidden,
    candidates: Floats,
    strength: Floats,
    chance: Floats,
    k: Floats,
    unlearned: Unlearned,
) -> tuple[Floats, Floats]:
    """Values and slopes of the queries of a block, k being the numbers of learned missing answers above."""
    size, share = candidates[:, None], strength[:, None]
    rest = np.maximum(size - 1 - k, 0.0)
    score = transformer(np.minimum(k + 1, size), size)
    reached = _sum_to(transformer, k[:, 0], candidates)[:, None] + np.cumsum(score, axis=1)
    lower = np.where(rest > 0, (size * chance[:, None] - reached + score) / (rest + 1), score)
    falls = hidden.unlearned(k, strength) * (lower - score) / np.where(rest > 0, rest, 1.0)
    otherwise, change = _UNLEARNED[unlearned](_Cells(score, lower, chance[:, None], falls))
    weight = hidden.probability(k, strength)
    value = share * (reached / (k + 1)) + (1 - share) * otherwise
    return (weight * value).sum(axis=1), (weight * (score - otherwise + change)).sum(axis=1)


def _sum_to(transformer: Transformer, last: Floats, candidates: Floats) -> Floats:
    """The sum of the scores of the ranks 1 .. last; those beyond the last candidate score as it does."""
    within = np.clip(last, 1.0, candidates)
    inside = within * transformer.mean_over(np.ones_like(within), within, candidates)
    beyond = np.maximum(last - candidates, 0.0) * transformer(candidates, candidates)
    return np.where(last > 0, inside + beyond, 0.0)


def expected_closed(
    transformer: Transformer, chance: Floats, strength: float, unlearned: Unlearned = Unlearned.below
) -> Expectation:
    """Expected score and slope of each query in the closed world: a learned target is first.

    Args:
        transformer: The transformer.
        chance: The chance level of each query: `chance_level` of its candidates, or `closed_chance`.
        strength: The strength of the model.
        unlearned: What an unlearned target scores; anywhere and below are the same here.

    Example:
        >>> from kgprobe.transform import AffinePower
        >>> f = AffinePower(-1.0)
        >>> found = expected_closed(f, chance_level(f, np.array([101.0])), strength=0.5)
        >>> found.value.round(12).tolist(), found.slope.round(12).tolist()
        ([0.75], [0.5])
    """
    otherwise = np.zeros_like(chance) if unlearned is Unlearned.nothing else chance
    best = transformer.optimum
    return Expectation(strength * best + (1 - strength) * otherwise, best - otherwise)


def closed_chance(transformer: Transformer, hidden: Hidden, candidates: Floats) -> Floats:
    """The expected chance level of each query of the open world once the missing answers are filtered too.

    Example:
        >>> from kgprobe.openworld.expected_scores import Unknown
        >>> from kgprobe.transform import Identity
        >>> closed_chance(Identity(), Unknown(np.array([3.0]), np.array([0.25])), np.array([100.0])).tolist()
        [50.0]
    """
    return closed_mean(partial(chance_level, transformer), hidden, candidates, 1.0 + transformer.candidate_aware)


def closed_mean(function: Callable[[Floats], Floats], hidden: Hidden, candidates: Floats, least: float) -> Floats:
    """The mean of a function of the number of candidates of the closed world, for each query of the open one.

    Args:
        function: Takes numbers of candidates, of any shape.
        hidden: The missing answers of each query, each of which is a candidate less.
        candidates: The candidates of the open world.
        least: The fewest candidates that the closed world may have; a single one says nothing to some metrics.

    Example:
        >>> from kgprobe.openworld.expected_scores import Unknown
        >>> hidden = Unknown(np.array([3.0]), np.array([0.25]))
        >>> closed_mean(np.square, hidden, np.array([100.0]), 1.0).round(9).tolist()
        [9802.333333333]
    """
    everything = np.ones_like(candidates)
    mean = np.empty_like(candidates)
    for rows, m in blocks(*hidden.window(everything)):
        weight = type(hidden)(hidden.count[rows], hidden.rate[rows]).probability(m, everything[rows])
        values = function(np.maximum(candidates[rows, None] - m, least))
        mean[rows] = (weight * values).sum(axis=1) / weight.sum(axis=1)
    return mean
