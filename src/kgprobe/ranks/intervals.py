"""Ranks that are intervals: of a target beyond the end of a list, only the best and the worst rank are known."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from kgprobe.errors import DataError, UsageError
from kgprobe.ranks.parquet import RankFile
from kgprobe.ranks.table import Ranks

Source = TypeVar("Source", Ranks, RankFile)


class End(StrEnum):
    """The two ends of a rank that is an interval.

    Example:
        >>> ranks = Ranks.from_columns(
        ...     head=[0], relation=[0], tail=[1], side=["tail"], rank=[11], worst_rank=[40], candidates=[40]
        ... )
        >>> [end.of(ranks).rank.item() for end in End]
        [11.0, 40.0]
    """

    best = "best"
    worst = "worst"

    @classmethod
    def _missing_(cls, value: object) -> End:
        raise UsageError(f"an interval has no end '{value}'", [f"it can be {', '.join(cls)}"])

    def of(self, source: Source) -> Source:
        """The exact table or file in which every rank that is an interval is this end of it."""
        return source.at_best() if self is End.best else source.at_worst()


def refuse_intervals(source: Ranks | RankFile) -> None:
    """Refuse a table in which a rank is an interval, where a single number is asked for.

    Example:
        >>> refuse_intervals(
        ...     Ranks.from_columns(
        ...         head=[0], relation=[0], tail=[1], side=["tail"], rank=[11], worst_rank=[40], candidates=[40]
        ...     )
        ... )
        Traceback (most recent call last):
        ...
        kgprobe.errors.DataError: 1 of 1 ranks are intervals, so there is no single value
        Remedy: scores() and 'kgprobe eval' give the interval of a metric; at_best() and at_worst() ...
    """
    if "worst_rank" not in source.column_names:
        return
    if count := sum(int(batch.intervals.sum()) for batch in source.batches()):
        file = f"{source.path}: " if isinstance(source, RankFile) else ""
        raise DataError(
            f"{file}{count:,} of {len(source):,} ranks are intervals, so there is no single value",
            remedy="scores() and 'kgprobe eval' give the interval of a metric; "
            "at_best() and at_worst() (--at best, --at worst) give exact ranks",
        )
