"""The weighted mean of scores, from sums that merge; the score of a tie group and the score of a random rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import cache
from typing import Any

import numpy as np

from kgprobe.arrays import Floats, distinct, sum_by
from kgprobe.errors import DataError, UsageError
from kgprobe.ranks import RankFile, Ranks
from kgprobe.transform import Transformer

_UNKNOWN: Any = np.float64(np.nan)
_undefined_is_nan = np.errstate(divide="ignore", invalid="ignore")


class Statistic(Enum):
    """What is summed of a transformer: its score, or the mean or variance of the score of a random rank."""

    score = "score"
    chance_mean = "chance mean"
    chance_variance = "chance variance"


@dataclass(frozen=True)
class Sums:
    """Sums over the queries of each slice, from which every mean metric is computed; w is the weight of a query.

    Attributes:
        weight: Sum of w.
        squared_weight: Sum of w squared.
        score: Sum of w times the score.
        chance_mean: Sum of w times the mean score of a random rank.
        chance_variance: Sum of w squared times the variance of the score of a random rank.

    Example:
        >>> Sums.of(scores=np.array([1.0, 0.5]), weights=np.array([1.0, 3.0])).mean.item()
        0.625
    """

    weight: Floats
    squared_weight: Floats = _UNKNOWN
    score: Floats = _UNKNOWN
    chance_mean: Floats = _UNKNOWN
    chance_variance: Floats = _UNKNOWN

    @classmethod
    def of(cls, scores: Floats, weights: Floats) -> Sums:
        """The sums of queries with these scores and weights."""
        return cls(weights.sum(), np.square(weights).sum(), weighted(Statistic.score, scores, weights).sum())

    @property
    @_undefined_is_nan
    def mean(self) -> Floats:
        """The weighted mean of the scores (Eq. 5 of the paper): the sum of w times the score, divided by that of w."""
        return self.score / self.weight

    @property
    @_undefined_is_nan
    def effective(self) -> Floats:
        """The effective number of queries, (sum w)^2 / sum w^2."""
        return np.square(self.weight) / self.squared_weight


def refuse_empty(ranks: Ranks | RankFile) -> None:
    """Raise a DataError for a table without queries, of which no mean can be taken."""
    if not len(ranks):
        raise DataError("the table is empty", ["there is no query to evaluate"], "check how the rank file was written")


def no_alternatives() -> DataError:
    """The error for a table in which every query is left out."""
    return DataError(
        "every query has a single candidate, so there is nothing to evaluate",
        ["a target without other candidates has nothing to be ranked against"],
        "check the candidates of the rank file",
    )


def weighted(statistic: Statistic, values: Floats, weights: Floats) -> Floats:
    """What each query adds to a sum of `Sums`: w (for a variance, w squared) times its value; 0 where w is 0."""
    factor = np.square(weights) if statistic is Statistic.chance_variance else weights
    return np.where(weights > 0, values, 0.0) * factor


def query_values(ranks: Ranks, tie: Tie) -> Callable[[Transformer, Statistic], Floats]:
    """A function that gives a statistic of a transformer for every query of a table; each is computed once."""

    @cache
    def chance(transformer: Transformer) -> tuple[Floats, Floats]:
        (sizes,), which = distinct([ranks.candidates], len(ranks))
        mean, variance = transformer.chance(sizes)
        return mean[which], variance[which]

    @cache
    def values(transformer: Transformer, statistic: Statistic) -> Floats:
        if statistic is Statistic.score:
            return tied_score(transformer, ranks, tie)
        return chance(transformer)[statistic is Statistic.chance_variance]

    return values


class KeyedSums:
    """Sums of rows of numbers, kept separately for every distinct combination of key values.

    Memory grows with the number of combinations, not of queries. Batches may come in any order, and partial results
    merge.

    Example:
        >>> sums = KeyedSums(keys=1, terms=1)
        >>> sums.add([np.array([1.0, 2.0, 1.0])], np.array([[10.0, 20.0, 30.0]]))
        >>> [v.tolist() for v in sums.keys], sums.sums.tolist()
        ([[1.0, 2.0]], [[40.0, 20.0]])
    """

    def __init__(self, keys: int, terms: int) -> None:
        self._pieces: list[tuple[list[Floats], Floats]] = [([np.empty(0) for _ in range(keys)], np.empty((terms, 0)))]
        self._pending = 0

    def add(self, keys: Sequence[Floats], terms: Floats) -> None:
        """Add rows: one array for each key, and an array [terms, rows]."""
        self._append(*_reduce(keys, terms))

    def merge(self, other: KeyedSums) -> None:
        """Add the sums of another instance."""
        self._append(other.keys, other.sums)

    @property
    def keys(self) -> list[Floats]:
        """The distinct combinations, one array for each key."""
        self._compact()
        return self._pieces[0][0]

    @property
    def sums(self) -> Floats:
        """The sums, an array [terms, combinations]."""
        self._compact()
        return self._pieces[0][1]

    def _append(self, keys: list[Floats], terms: Floats) -> None:
        self._pieces.append((keys, terms))
        self._pending += terms.shape[1]
        # Joining the pieces only when they outgrow what is already joined keeps the total work linear.
        if self._pending > max(1 << 16, self._pieces[0][1].shape[1]):
            self._compact()

    def _compact(self) -> None:
        if len(self._pieces) == 1:
            return
        keys = [np.concatenate(parts) for parts in zip(*(piece[0] for piece in self._pieces), strict=True)]
        self._pieces = [_reduce(keys, np.concatenate([piece[1] for piece in self._pieces], axis=1))]
        self._pending = 0


def _reduce(keys: Sequence[Floats], terms: Floats) -> tuple[list[Floats], Floats]:
    if not keys:
        return [], terms.sum(axis=1, keepdims=True)
    values, which = distinct(keys, terms.shape[1])
    size = len(values[0])
    if size == 1:
        return values, terms.sum(axis=1, keepdims=True)
    return values, np.stack([sum_by(which, term, size) for term in terms])


class Tie(StrEnum):
    """The score of a tie group: of its mean rank, its mean score, its best or its worst rank."""

    mean = "mean"
    expected = "expected"
    optimistic = "optimistic"
    pessimistic = "pessimistic"

    @classmethod
    def _missing_(cls, value: object) -> Tie:
        raise UsageError(f"unknown tie '{value}'", [f"it can be {', '.join(cls)}"])


def tied_rank(ranks: Ranks, tie: Tie) -> Floats:
    """The single rank that stands for the tie group; `Tie.expected` has none, and uses the mean rank."""
    return _RANK_OF[tie](ranks)


def tied_score(transformer: Transformer, ranks: Ranks, tie: Tie) -> Floats:
    """The score of every query.

    Example:
        Two candidates share the top. Hits@1 of their mean rank 1.5 is 0; on average it is one half.

        >>> from kgprobe.transform import TopK
        >>> top = Ranks.from_columns(
        ...     head=[0], relation=[0], tail=[1], side=["tail"], rank=[1.5], ties=[1], candidates=[9]
        ... )
        >>> [tied_score(TopK(1), top, tie).item() for tie in (Tie.mean, Tie.expected)]
        [0.0, 0.5]
    """
    if tie is not Tie.expected:
        return transformer(tied_rank(ranks, tie), ranks.candidates)
    first = _with_ties(ranks, ranks.optimistic)
    if (first % 1 != 0).any():
        raise DataError(
            "`tie='expected'` needs tie groups of whole ranks",
            [f"rank - ties/2 is not a whole number in {int((first % 1 != 0).sum()):,} rows"],
            "use `tie='mean'`, or correct the column 'ties'",
        )
    return transformer.mean_over(first, ranks.pessimistic, ranks.candidates)


def _with_ties(ranks: Ranks, values: Floats) -> Floats:
    unknown = int(np.isnan(ranks.ties).sum())
    if unknown:
        raise DataError(
            f"the number of ties is not recorded in {unknown:,} of {len(ranks):,} rows",
            remedy="use `tie='mean'`, or a rank file with the column 'ties'",
        )
    return values


_RANK_OF: dict[Tie, Callable[[Ranks], Floats]] = {
    Tie.mean: lambda ranks: ranks.rank,
    Tie.expected: lambda ranks: ranks.rank,
    Tie.optimistic: lambda ranks: _with_ties(ranks, ranks.optimistic),
    Tie.pessimistic: lambda ranks: _with_ties(ranks, ranks.pessimistic),
}
