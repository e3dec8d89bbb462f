"""Paired permutation tests: swap two models in random clusters.

A swap turns the sums A and B over all clusters into (T + x) / 2 and (T - x) / 2, where T is the sum of both and x is
the sum of their differences with a sign for each cluster. So one matrix product of signs and columns does all swaps.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from kgprobe.arrays import Floats
from kgprobe.comparison.estimator_families import EstimatorFamily, SmoothFamily
from kgprobe.comparison.estimators import DistributionPart, Estimator
from kgprobe.comparison.lineup import Lineup
from kgprobe.comparison.pair_tests import NullDraws
from kgprobe.comparison.resampling import (
    ColumnSums,
    DrawFunction,
    Reduction,
    every_flip,
    flipped,
    gathered,
    parted,
    side_by_side,
)
from kgprobe.resources import Progress

Pair = tuple[int, int]
"""The positions of two models."""


def different_candidates(lineup: Lineup) -> dict[Pair, int]:
    """The pairs of models with different candidate sets, in both orders, with the number of queries that differ."""
    at = {model: i for i, model in enumerate(lineup.models)}
    found = {(at[one], at[other]): count for (one, other), count in lineup.candidate_differences.items()}
    return found | {(j, i): count for (i, j), count in found.items()}


def _all_pairs(values: Floats, different: Collection[Pair]) -> tuple[Pair, ...]:
    return tuple((i, j) for i in range(len(values)) for j in range(i + 1, len(values)))


def _best_pairs(values: Floats, different: Collection[Pair]) -> tuple[Pair, ...]:
    """The best model and each other; then the same among those whose candidates differ from those of the best."""
    ranked = np.argsort(-np.where(np.isnan(values), -np.inf, values), kind="stable").tolist()
    pairs: list[Pair] = []
    while ranked:
        best, *others = ranked
        pairs += [(best, i) for i in sorted(others)]
        ranked = [i for i in others if (best, i) in different]
    return tuple(pairs)


PAIRS = {"all": _all_pairs, "best": _best_pairs}
"""The pairs of models to compare, from their values (higher is better) and the pairs that cannot be tested."""

_ROUNDING = 1e-12
"""Smaller differences, relative to the values, are rounding errors of the sums."""


def permutation_tests(
    families: Sequence[EstimatorFamily],
    pairs: Sequence[Sequence[Pair]],
    *,
    permutations: int,
    seed: int = 0,
    progress: Progress | None = None,
) -> Iterator[NullDraws]:
    """The differences of each pair of models in each family after swaps, one family after the other.

    The p-value of a pair is the share of swaps with a difference at least as large as the observed one. All swaps are
    tried where there are no more of them than ``permutations``. Otherwise swaps are random, and the observed
    difference counts as one more, so that p is never 0.

    Args:
        families: One metric each, all on the same clusters.
        pairs: The models of each family to compare, by their positions.
        permutations: The number of random swaps.
        seed: The seed of the random generator.
        progress: Called with the number of new swaps.

    """
    if not any(pairs):
        yield from (NullDraws(np.empty((0, 0)), np.empty(0), 1, 0) for _ in families)
        return
    clusters = families[0].clusters
    swaps = [
        _SmoothSwaps(family, own) if isinstance(family, SmoothFamily) else _StepSwaps(family, own)
        for family, own in zip(families, pairs, strict=True)
    ]
    kinds = [one.reduction for one in swaps]
    reduce = side_by_side(kinds, clusters)
    exact = clusters < 63 and 1 << clusters <= permutations
    reduced = (
        reduce(every_flip(clusters))
        if exact
        else gathered(flipped, reduce, clusters=clusters, total=permutations, seed=seed, progress=progress)
    )
    others = 0 if exact else 1
    for one, part in zip(swaps, parted(reduced, kinds), strict=True):
        yield NullDraws(one.distances(part), one.observed, others, clusters)


class _Swaps(ABC):
    """The differences between two models after swaps, pair by pair."""

    def __init__(self, family: EstimatorFamily, pairs: Sequence[Pair]) -> None:
        self.estimators, self.pairs = family.estimators, pairs

    def distances(self, reduced: Floats) -> Floats:
        """The absolute differences after swaps, [swaps, pairs]."""
        found = np.empty((len(reduced), len(self.pairs)))
        for own, differences in zip(found.T, self.differences(reduced), strict=True):
            np.abs(differences, out=own)
        # A swap that leaves the metric without a value is no evidence for a difference.
        found[np.isnan(found)] = np.inf
        return found

    @property
    def observed(self) -> Floats:
        """The absolute differences of the models themselves, less a rounding error; NaN where there is none."""
        return np.array([self._observed(pair) for pair in self.pairs])

    def _observed(self, pair: Pair) -> float:
        first, second = (self.estimators[i].estimate for i in pair)
        if not (math.isfinite(first) and math.isfinite(second)):
            return math.nan
        return float(abs(first - second) - _ROUNDING * max(abs(first), abs(second)))

    @property
    @abstractmethod
    def reduction(self) -> Reduction:
        """What to compute of each row of signs."""

    @abstractmethod
    def differences(self, reduced: Floats) -> Iterator[Floats]:
        """The differences of every pair, from the results of `reduction`."""


class _SmoothSwaps(_Swaps):
    def __init__(self, family: SmoothFamily, pairs: Sequence[Pair]) -> None:
        super().__init__(family, pairs)
        self.family = family

    @property
    def reduction(self) -> Reduction:
        """The signed sums of all columns."""
        return ColumnSums(int(self.family.columns.shape[1]), self.family.columns.__getitem__)

    def differences(self, reduced: Floats) -> Iterator[Floats]:
        for pair in self.pairs:
            first, second = (self.family.condensed[i] for i in pair)
            places = [self.family.reads[i] for i in pair]
            partners = _partners(first, second)
            difference = np.zeros(len(reduced))
            for one, other in partners:
                own, its = first.reads[one], second.reads[other]
                moved = reduced[:, places[0][own]] - reduced[:, places[1][its]]
                total = first.sums[own] + second.sums[its]
                difference += first.parts[one].value((total + moved) / 2)
                difference -= second.parts[other].value((total - moved) / 2)
            yield difference / len(partners)


class _StepSwaps(_Swaps):
    def __init__(self, family: EstimatorFamily, pairs: Sequence[Pair]) -> None:
        super().__init__(family, pairs)
        by_model = [[p for p in e.parts if isinstance(p, DistributionPart)] for e in self.estimators]
        ranks = np.unique(np.concatenate([part.ranks for parts in by_model for part in parts]))
        self.spread = [[_spread(part, ranks) for part in parts] for parts in by_model]

    @property
    def reduction(self) -> Reduction:
        """The differences of all pairs: sums for every rank would take too much memory."""
        return DrawFunction(len(self.pairs), self._differences)

    def _differences(self, signs: Floats) -> Floats:
        sums = [[np.asarray(signs @ part.columns) for part in parts] for parts in self.spread]
        return np.stack([self._of(pair, sums) for pair in self.pairs], axis=1)

    def _of(self, pair: Pair, sums: list[list[Floats]]) -> Floats:
        first, second = pair
        partners = _partners(self.estimators[first], self.estimators[second])
        difference = np.zeros(len(sums[0][0]))
        for one, other in partners:
            a, b = self.spread[first][one], self.spread[second][other]
            moved = sums[first][one] - sums[second][other]
            total = a.columns.sum(axis=0) + b.columns.sum(axis=0)
            difference += a.value((total + moved) / 2) - b.value((total - moved) / 2)
        return difference / len(partners)

    def differences(self, reduced: Floats) -> Iterator[Floats]:
        return iter(reduced.T)


def _partners(first: Estimator, second: Estimator) -> list[Pair]:
    """Each run of the first model with one of the second; repeating all runs does not change their mean."""
    sizes = len(first.parts), len(second.parts)
    return [(run % sizes[0], run % sizes[1]) for run in range(math.lcm(*sizes))]


def _spread(part: DistributionPart, ranks: Floats) -> DistributionPart:
    """The same distribution with a column for every rank of any model."""
    from scipy import sparse

    entries = part.columns.tocoo()
    row, column = entries.coords
    places = (row, np.searchsorted(ranks, part.ranks)[column])
    columns = sparse.coo_array((entries.data, places), shape=(part.columns.shape[0], len(ranks))).tocsr()
    return DistributionPart(part.metric, ranks, columns)
