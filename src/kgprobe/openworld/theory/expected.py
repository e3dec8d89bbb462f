"""The expected score of a model of a given strength where answers are missing at random, and its slope.

The model is that of Yang et al. (2022): a model of strength l has learned every true answer of a query with
probability l, each independently, and puts what it has learned above everything else, in an order of which nothing
is known. The graph lacks some answers; K of these are learned, and stand above or among the known ones though they
count as false. So a learned target has a rank that is uniform over 1 .. K + 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kgprobe.aggregate import distinct
from kgprobe.openworld.theory.blocks import blocks
from kgprobe.openworld.theory.hidden import Hidden, Removed
from kgprobe.transform import Transformer

Floats = NDArray[np.float64]


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


_UNLEARNED: dict[Unlearned, Callable[[_Cells], tuple[Floats, Floats]]] = {
    Unlearned.nothing: lambda cells: (np.zeros_like(cells.chance), np.zeros_like(cells.chance)),
    Unlearned.anywhere: lambda cells: (cells.chance, np.zeros_like(cells.chance)),
    Unlearned.below: lambda cells: (cells.lower, cells.falls),
}
"""The score of an unlearned target, and (1 - strength) times how it changes with the strength."""


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
