"""Paired permutation tests, and corrections for multiple testing.

Swapping turns the sums A and B over all clusters into (T + x) / 2 and (T - x) / 2, where T is the sum of both and x
adds up their differences with a sign for each cluster. So a matrix product of random signs and columns does all swaps.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from kgprobe.arrays import Floats
from kgprobe.comparison.estimator_families import EstimatorFamily, SmoothFamily
from kgprobe.comparison.estimators import DistributionPart, Estimator
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


def holm(p: ArrayLike) -> Floats:
    """P values adjusted by Holm: reject those up to 0.05, and the risk of any false rejection is at most 5 %.

    What is not a number is no test: it is left as it is and does not count.

    Example:
        >>> holm([0.01, 0.04, 0.03]).round(12).tolist()
        [0.03, 0.06, 0.06]
    """
    given = np.asarray(p, dtype=np.float64)
    adjusted = np.full(given.shape, np.nan)
    tests = np.flatnonzero(~np.isnan(given))
    order = tests[np.argsort(given[tests], kind="stable")]
    scaled = given[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return adjusted


def benjamini_hochberg(p: ArrayLike) -> Floats:
    """P values adjusted by Benjamini and Hochberg: of those up to 0.05, at most 5 % are false on average.

    What is not a number is no test: it is left as it is and does not count.

    Example:
        >>> benjamini_hochberg([0.01, 0.04, 0.03]).round(12).tolist()
        [0.03, 0.04, 0.04]
    """
    given = np.asarray(p, dtype=np.float64)
    adjusted = np.full(given.shape, np.nan)
    tests = np.flatnonzero(~np.isnan(given))
    order = tests[np.argsort(given[tests], kind="stable")]
    scaled = given[order] * (len(order) / np.arange(1, len(order) + 1))
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return adjusted


Pair = tuple[int, int]

_NOISE = 1e-12

"""Differences that are smaller relative to the values come from the order in which sums are added."""


def permutation_tests(
    families: Sequence[EstimatorFamily],
    pairs: Sequence[Sequence[Pair]],
    *,
    permutations: int,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Floats]:
    """The p value of each pair of models, in each family: how often swapped models differ at least as much.

    All ways to swap are tried, where there are not more of them than permutations; else random ones, and the models as
    they are count as one more, so that p is never 0.

    Args:
        families: One metric each, all on the same clusters.
        pairs: Which models of each family to compare, by their places.
        permutations: How many random swaps.
        seed: Makes them repeatable.
        progress: Is told how many swaps have been made.

    Returns:
        For each family an array [pairs]; NaN where a metric has no finite value.
    """
    if not any(pairs):
        return [np.empty(0) for _ in families]
    clusters = families[0].clusters
    swaps = [
        _SmoothSwaps(family, own) if isinstance(family, SmoothFamily) else _StepSwaps(family, own)
        for family, own in zip(families, pairs, strict=True)
    ]
    kinds = [one.kept for one in swaps]
    keep = side_by_side(kinds, clusters)
    exact = clusters < 63 and 1 << clusters <= permutations
    kept = (
        keep(every_flip(clusters))
        if exact
        else gathered(flipped, keep, clusters=clusters, total=permutations, seed=seed, progress=progress)
    )
    others = 0 if exact else 1
    return [one.p_values(part, others) for one, part in zip(swaps, parted(kept, kinds), strict=True)]


class _Swaps(ABC):
    """The differences between models, pair by pair, when they swap."""

    def __init__(self, family: EstimatorFamily, pairs: Sequence[Pair]) -> None:
        self.estimators, self.pairs = family.estimators, pairs

    def p_values(self, kept: Floats, others: int) -> Floats:
        """The share of differences that are as large as the observed one, which counts as one of the others."""
        pairs = zip(self.differences(kept), self.pairs, strict=True)
        return np.array([self._share(differences, pair, others) for differences, pair in pairs])

    def _share(self, differences: Floats, pair: Pair, others: int) -> float:
        first, second = (self.estimators[i].estimate for i in pair)
        if not (math.isfinite(first) and math.isfinite(second)):
            return math.nan
        least = abs(first - second) - _NOISE * max(abs(first), abs(second))
        # A swap that leaves the metric without a value says nothing against the models being alike.
        as_large = int((~(np.abs(differences) < least)).sum())
        return (as_large + others) / (len(differences) + others)

    @property
    @abstractmethod
    def kept(self) -> Reduction:
        """What is to be kept of each row of signs."""

    @abstractmethod
    def differences(self, kept: Floats) -> Iterator[Floats]:
        """From all that was kept, the differences of every pair."""


class _SmoothSwaps(_Swaps):
    def __init__(self, family: SmoothFamily, pairs: Sequence[Pair]) -> None:
        super().__init__(family, pairs)
        self.family = family

    @property
    def kept(self) -> Reduction:
        """The signed sums of all columns: those of a pair are the differences of its models' own."""
        return ColumnSums(int(self.family.columns.shape[1]), self.family.columns.__getitem__)

    def differences(self, kept: Floats) -> Iterator[Floats]:
        """Values of the swapped sums."""
        for pair in self.pairs:
            first, second = (self.family.condensed[i] for i in pair)
            places = [self.family.reads[i] for i in pair]
            partners = _partners(first, second)
            difference = np.zeros(len(kept))
            for one, other in partners:
                own, its = first.reads[one], second.reads[other]
                moved = kept[:, places[0][own]] - kept[:, places[1][its]]
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
    def kept(self) -> Reduction:
        """The differences of all pairs: sums for every rank would be too many to keep."""
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

    def differences(self, kept: Floats) -> Iterator[Floats]:
        """One column for each pair."""
        return iter(kept.T)


def _partners(first: Estimator, second: Estimator) -> list[Pair]:
    """Each run of the first with one of the second; repeating all runs leaves their mean as it is."""
    sizes = len(first.parts), len(second.parts)
    return [(run % sizes[0], run % sizes[1]) for run in range(math.lcm(*sizes))]


def _spread(part: DistributionPart, ranks: Floats) -> DistributionPart:
    """The same distribution with a column for every rank that any model has."""
    from scipy import sparse

    entries = part.columns.tocoo()
    row, column = entries.coords
    places = (row, np.searchsorted(ranks, part.ranks)[column])
    columns = sparse.coo_array((entries.data, places), shape=(part.columns.shape[0], len(ranks))).tocsr()
    return DistributionPart(part.metric, ranks, columns)
