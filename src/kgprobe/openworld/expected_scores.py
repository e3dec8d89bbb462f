"""Expected score of a model of given strength when answers are missing, and its derivative by the strength.

The model is that of Yang et al. (2022): a model of strength l has learned every true answer of a query with
probability l, independently, and ranks what it has learned above everything else, in random order. The graph lacks some
answers. K of these are learned: they count as false, but stand above or among the known ones. So the rank of a learned
target is uniform over 1 .. K + 1.
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

_CELLS = 1 << 19  # largest number of elements of a block
_NEGLIGIBLE = 40.0  # tails of less than exp(-40) are left out: they are below the precision of any mean


def blocks(first: Floats, width: Floats) -> Iterator[tuple[Ints, Floats]]:
    """Group rows whose windows have similar widths; yield the rows and the integers of their windows [rows, widest].

    A narrower window is extended to the width of the widest in its block: what is beyond its end has no weight.

    Example:
        >>> for rows, k in blocks(np.array([0.0, 5.0]), np.array([1.0, 2.0])):
        ...     print(rows.tolist(), k.tolist())
        [0, 1] [[0.0, 1.0], [5.0, 6.0]]
    """
    order = np.argsort(width, kind="stable")
    wide = width[order].astype(np.int64)
    start = 0
    while start < len(order):
        # Widths ascend, so the last row of a block is its widest.
        fits = np.arange(1, len(order) - start + 1) * wide[start:] <= _CELLS
        stop = start + max(int(np.count_nonzero(fits)), 1)
        rows = order[start:stop]
        yield rows, first[rows, None] + np.arange(wide[stop - 1])
        start = stop


@dataclass(frozen=True, eq=False)
class Hidden(ABC):
    """Distribution of the number of missing answers of each query besides its target.

    A model learns a share of the missing answers, each independently: K of them are learned, L are not. All methods
    take that share; with a share of 1, K is the number of all missing answers.

    Attributes:
        count: A number of answers for each query; see the subclasses.
        rate: The missing rate: the share of all true answers that the graph lacks.
    """

    count: Floats
    rate: Floats

    @abstractmethod
    def mean(self, share: Floats) -> Floats:
        """The expectation of K."""

    @abstractmethod
    def probability(self, k: Floats, share: Floats) -> Floats:
        """The probability that K = k, for an array k [queries, several]."""

    @abstractmethod
    def unlearned(self, k: Floats, share: Floats) -> Floats:
        """The expectation of L given K = k, for an array k [queries, several]."""

    @abstractmethod
    def _spread(self, share: Floats) -> tuple[Floats, Floats]:
        """The variance of K, and the e-folding length of its longer tail."""

    def window(self, share: Floats) -> tuple[Floats, Floats]:
        """The smallest K with non-negligible probability, and the number of such K."""
        mean, (variance, length) = self.mean(share), self._spread(share)
        reach = np.sqrt(2 * _NEGLIGIBLE * variance) + _NEGLIGIBLE * length  # Bernstein's inequality
        first = np.maximum(np.floor(mean - reach), 0.0)
        last = np.minimum(np.ceil(mean + reach), self._most())
        return first, np.where(mean > 0, last - first + 1, 1.0)

    def _most(self) -> Floats:
        return np.full_like(self.count, np.inf)


class Removed(Hidden):
    """Missing answers of a complete graph: each of ``count`` other true answers is missing with probability ``rate``.

    K is binomial.

    Example:
        >>> hidden = Removed(np.array([28.0]), np.array([0.25]))
        >>> hidden.mean(np.array([0.5])).tolist(), hidden.probability(np.array([[0.0]]), np.ones(1)).round(5).tolist()
        ([3.5], [[0.00032]])
    """

    def mean(self, share: Floats) -> Floats:
        return self.count * (share * self.rate)

    def probability(self, k: Floats, share: Floats) -> Floats:
        return np.asarray(stats.binom.pmf(k, self.count[:, None], (share * self.rate)[:, None]))

    def unlearned(self, k: Floats, share: Floats) -> Floats:
        # All answers but the k learned missing ones are missing and not learned with the same probability.
        neither = 1 - share * self.rate
        odds = self.rate * (1 - share) / np.where(neither > 0, neither, 1.0)
        return np.maximum(self.count[:, None] - k, 0.0) * odds[:, None]

    def _spread(self, share: Floats) -> tuple[Floats, Floats]:
        p = share * self.rate
        return self.count * p * (1 - p), np.ones_like(p)

    def _most(self) -> Floats:
        return self.count


class Unknown(Hidden):
    """Missing answers of an incomplete graph that knows ``count`` answers of each query, the target included.

    Each other true answer was kept with probability 1 - rate, and the prior of their number is uniform. Then the number
    of missing answers is negative binomial with mean ``count * rate / (1 - rate)``, and the expected number of all
    answers is ``count / (1 - rate)``. No rounding is needed, and queries whose answers happen to be well known are told
    apart from queries with few answers.

    Example:
        >>> hidden = Unknown(np.array([3.0]), np.array([0.25]))
        >>> hidden.mean(np.ones(1)).tolist(), hidden.probability(np.array([[0.0, 1.0]]), np.ones(1)).round(4).tolist()
        ([1.0], [[0.4219, 0.3164]])
    """

    @property
    def _odds(self) -> Floats:
        return self.rate / (1 - self.rate)

    def mean(self, share: Floats) -> Floats:
        return self.count * share * self._odds

    def probability(self, k: Floats, share: Floats) -> Floats:
        # A random share of a negative binomial number is negative binomial.
        return np.asarray(stats.nbinom.pmf(k, self.count[:, None], (1 / (1 + share * self._odds))[:, None]))

    def unlearned(self, k: Floats, share: Floats) -> Floats:
        odds = (1 - share) * self._odds / (1 + share * self._odds)
        return (self.count[:, None] + k) * odds[:, None]

    def _spread(self, share: Floats) -> tuple[Floats, Floats]:
        odds = share * self._odds
        return self.count * odds * (1 + odds), 1 + odds


class Unlearned(StrEnum):
    """Score of a target that the model has not learned.

    nothing: 0 for every metric, as in the paper.
    anywhere: the score of a random rank among all candidates, as if no learned answer were above it.
    below: the score of a random rank below the K learned missing answers, as follows from the model.
    """

    nothing = "nothing"
    anywhere = "anywhere"
    below = "below"


@dataclass(frozen=True, eq=False)
class Expectation:
    """The expected score of each query and its derivative by the strength of the model."""

    value: Floats
    derivative: Floats

    def take(self, rows: Ints, shape: tuple[int, ...]) -> Expectation:
        return Expectation(self.value[rows].reshape(shape), self.derivative[rows].reshape(shape))


def expected(
    transformer: Transformer,
    hidden: Hidden,
    candidates: ArrayLike,
    strength: ArrayLike,
    unlearned: Unlearned = Unlearned.below,
) -> Expectation:
    """Expected score of each query and its derivative, for known numbers of candidates; all arguments broadcast.

    With f the transformer, S the score of an unlearned target and l the strength, the value is
    ``l E[mean of f(1 .. K + 1)] + (1 - l) E[S]``. Its derivative by l is ``E f(1 + K)`` for ``nothing``, that minus the
    chance level for ``anywhere``, and ``E[(f(1 + K) - S) (1 - E[L | K] / (E - 1 - K))]`` for ``below``, which has one
    sign if f is monotone, since K + L are among the E - 1 other candidates. If more answers are missing than there are
    candidates, the target is last.

    Example:
        >>> from kgprobe.transform import Power
        >>> hidden = Removed(np.array(28.0), np.array(0.25))
        >>> result = expected(Power(1.0), hidden, 5976, 0.9, Unlearned.anywhere)
        >>> round(float(result.value), 4), round(float(result.derivative), 4)
        (0.3409, 0.1516)
    """
    arrays = np.broadcast_arrays(hidden.count, hidden.rate, candidates, strength)
    columns, which = distinct([column.ravel().astype(np.float64) for column in arrays], arrays[0].size)
    count, rate, size, share = columns
    kind = type(hidden)
    result = Expectation(np.empty_like(size), np.empty_like(size))
    chance = chance_level(transformer, size)
    for rows, k in blocks(*kind(count, rate).window(share)):
        part = kind(count[rows], rate[rows]), size[rows], share[rows], chance[rows], k
        result.value[rows], result.derivative[rows] = _block(transformer, *part, unlearned)
    return result.take(which, arrays[0].shape)


def expected_where_candidates_vary(
    transformer: Transformer,
    others: ArrayLike,
    false: ArrayLike,
    rate: ArrayLike,
    strength: ArrayLike,
    unlearned: Unlearned = Unlearned.below,
) -> Expectation:
    """Expected score and derivative if every missing answer is one more candidate, because no filter removes it.

    Args:
        transformer: The transformer.
        others: Number of true answers of each query besides its target, in the complete graph.
        false: Number of false candidates.
        rate: The missing rate.
        strength: The strength of the model.
        unlearned: The score of an unlearned target.

    Example:
        >>> from kgprobe.transform import AffinePower
        >>> varying = expected_where_candidates_vary(AffinePower(0.0), 59, 75, 0.5, 0.9)
        >>> fixed = expected(AffinePower(0.0), Removed(np.array(59.0), np.array(0.5)), 106, 0.9)
        >>> round(float(varying.derivative), 4), round(float(fixed.derivative), 4)
        (0.17, 0.1707)
    """
    arrays = np.broadcast_arrays(others, false, rate, strength)
    columns, which = distinct([column.ravel().astype(np.float64) for column in arrays], arrays[0].size)
    count, wrong, missing, share = columns
    result = Expectation(np.empty_like(count), np.empty_like(count))
    everything = np.ones_like(count)
    for rows, m in blocks(*Removed(count, missing).window(everything)):
        weight = Removed(count[rows], missing[rows]).probability(m, everything[rows])
        given = expected(
            transformer, Removed(m, np.array(1.0)), wrong[rows, None] + 1 + m, share[rows, None], unlearned
        )
        result.value[rows] = (weight * given.value).sum(axis=1)
        result.derivative[rows] = (weight * given.derivative).sum(axis=1)
    return result.take(which, arrays[0].shape)


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
    """Values and derivatives of a block of queries; k are the numbers of learned missing answers."""
    size, share = candidates[:, None], strength[:, None]
    rest = np.maximum(size - 1 - k, 0.0)
    score = transformer(np.minimum(k + 1, size), size)
    reached = _sum_to(transformer, k[:, 0], candidates)[:, None] + np.cumsum(score, axis=1)
    # The score of an unlearned target, and (1 - strength) times its derivative by the strength.
    otherwise, change = chance[:, None], np.zeros_like(score)
    if unlearned is Unlearned.nothing:
        otherwise = np.zeros_like(otherwise)
    elif unlearned is Unlearned.below:
        otherwise = np.where(rest > 0, (size * otherwise - reached + score) / (rest + 1), score)
        change = hidden.unlearned(k, strength) * (otherwise - score) / np.where(rest > 0, rest, 1.0)
    weight = hidden.probability(k, strength)
    value = share * (reached / (k + 1)) + (1 - share) * otherwise
    return (weight * value).sum(axis=1), (weight * (score - otherwise + change)).sum(axis=1)


def _sum_to(transformer: Transformer, last: Floats, candidates: Floats) -> Floats:
    """The sum of the scores of the ranks 1 .. last; ranks beyond the number of candidates score as the last one."""
    within = np.clip(last, 1.0, candidates)
    inside = within * transformer.mean_over(np.ones_like(within), within, candidates)
    beyond = np.maximum(last - candidates, 0.0) * transformer(candidates, candidates)
    return np.where(last > 0, inside + beyond, 0.0)


def expected_closed(
    transformer: Transformer, chance: Floats, strength: float, unlearned: Unlearned = Unlearned.below
) -> Expectation:
    """Expected score and derivative of each query in the closed world, where a learned target has rank 1.

    Args:
        transformer: The transformer.
        chance: The chance level of each query: `chance_level` of its candidates, or `closed_chance`.
        strength: The strength of the model.
        unlearned: The score of an unlearned target; anywhere and below are the same here.

    Example:
        >>> from kgprobe.transform import AffinePower
        >>> f = AffinePower(-1.0)
        >>> result = expected_closed(f, chance_level(f, np.array([101.0])), strength=0.5)
        >>> result.value.round(12).tolist(), result.derivative.round(12).tolist()
        ([0.75], [0.5])
    """
    otherwise = np.zeros_like(chance) if unlearned is Unlearned.nothing else chance
    best = transformer.optimum
    return Expectation(strength * best + (1 - strength) * otherwise, best - otherwise)


def closed_chance(transformer: Transformer, hidden: Hidden, candidates: Floats) -> Floats:
    """The expected chance level of each query once its missing answers are filtered too.

    Example:
        >>> from kgprobe.transform import Identity
        >>> closed_chance(Identity(), Unknown(np.array([3.0]), np.array([0.25])), np.array([100.0])).tolist()
        [50.0]
    """
    return closed_mean(partial(chance_level, transformer), hidden, candidates, 1.0 + transformer.candidate_aware)


def closed_mean(function: Callable[[Floats], Floats], hidden: Hidden, candidates: Floats, least: float) -> Floats:
    """The expectation of a function of the number of candidates in the closed world, for each query.

    Args:
        function: Takes numbers of candidates, of any shape.
        hidden: Distribution of the missing answers, each of which is one candidate less.
        candidates: Number of candidates in the open world.
        least: Lower bound of the number of candidates in the closed world.

    Example:
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
