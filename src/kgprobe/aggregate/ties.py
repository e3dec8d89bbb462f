"""How a tie between the target and other candidates is scored."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from kgprobe.errors import DataError, UsageError
from kgprobe.ranks import Ranks
from kgprobe.transform import Transformer

Floats = NDArray[np.float64]


class Tie(StrEnum):
    """The score of a tie group: of its mean rank, its mean score, its best or its worst rank."""

    mean = "mean"
    expected = "expected"
    optimistic = "optimistic"
    pessimistic = "pessimistic"

    @classmethod
    def _missing_(cls, value: object) -> Tie:
        raise UsageError(f"tie '{value}' is not known", [f"it can be {', '.join(cls)}"])


def tied_rank(ranks: Ranks, tie: Tie) -> Floats:
    """The single rank that stands for the tie group; `Tie.expected` has none, and uses the mean rank."""
    return _RANK_OF[tie](ranks)


def tied_score(transformer: Transformer, ranks: Ranks, tie: Tie) -> Floats:
    """The score of every query.

    Example:
        Two candidates share the top. Hits@1 of their mean rank 1.5 is 0; on average it is one half.

        >>> from kgprobe.transform import Hits
        >>> top = Ranks.from_columns(
        ...     head=[0], relation=[0], tail=[1], side=["tail"], rank=[1.5], ties=[1], candidates=[9]
        ... )
        >>> [tied_score(Hits(1), top, tie).item() for tie in (Tie.mean, Tie.expected)]
        [0.0, 0.5]
    """
    if tie is not Tie.expected:
        return transformer(tied_rank(ranks, tie), ranks.candidates)
    first = _with_ties(ranks, ranks.optimistic)
    if (first % 1 != 0).any():
        raise DataError(
            "the exact expectation needs tie groups of whole ranks",
            [f"rank - ties/2 is not a whole number in {int((first % 1 != 0).sum()):,} rows"],
            "use --tie mean, or correct the column 'ties'",
        )
    return transformer.mean_over(first, ranks.pessimistic, ranks.candidates)


def _with_ties(ranks: Ranks, values: Floats) -> Floats:
    unknown = int(np.isnan(ranks.ties).sum())
    if unknown:
        raise DataError(
            f"the number of ties is not recorded in {unknown:,} of {len(ranks):,} rows",
            remedy="use --tie mean, or a rank file with the column 'ties'",
        )
    return values


_RANK_OF: dict[Tie, Callable[[Ranks], Floats]] = {
    Tie.mean: lambda ranks: ranks.rank,
    Tie.expected: lambda ranks: ranks.rank,
    Tie.optimistic: lambda ranks: _with_ties(ranks, ranks.optimistic),
    Tie.pessimistic: lambda ranks: _with_ties(ranks, ranks.pessimistic),
}
