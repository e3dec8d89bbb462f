"""Rank tables as Parquet files: read at once, streamed in batches, or written; rank intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from enum import StrEnum
from functools import reduce
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pyarrow as pa

from kgprobe.errors import DataError, UsageError, naming
from kgprobe.parquet_files import open_parquet, require_room
from kgprobe.ranks.metadata import RanksInfo
from kgprobe.ranks.schema import Checker, conform
from kgprobe.ranks.table import BATCH_ROWS, Ranks
from kgprobe.ranks.table_builder import TableBuilder
from kgprobe.resources import Progress

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph, Popularity

_CHECKED = 8
"""Bytes that validation keeps for each row."""


class RankFile:
    """A rank file on disk, streamed in batches so that it may be larger than memory.

    A file without kgprobe's metadata takes its model name from the file name.

    Args:
        path: The file.
        progress: Called with the number of rows of every batch that was read.
    """

    def __init__(self, path: str | PathLike[str], progress: Progress | None = None) -> None:
        self.path, self._progress = Path(path), progress
        self._file = open_parquet(self.path)
        require_room(self.path, len(self) * _CHECKED)
        with naming(self.path):
            info = RanksInfo.from_metadata(self._file.schema.metadata)
            conform(self.empty_table())
        self.info = info if info.model else replace(info, model=self.path.stem)
        self._changes: tuple[Callable[[Ranks], Ranks], ...] = ()

    def __len__(self) -> int:
        return len(self._file)

    def __repr__(self) -> str:
        return f"RankFile({str(self.path)!r}, {len(self):,} queries, model={self.info.model!r})"

    @property
    def column_names(self) -> list[str]:
        """The columns of the batches."""
        return self._changed(Ranks(self.empty_table(), validate=False)).column_names

    def empty_table(self) -> pa.Table:
        """The columns without rows."""
        return self._file.schema.empty_table()

    def with_popularity(self, popularity: Popularity) -> RankFile:
        """The same file; batches have the popularity of their targets."""
        return self._also(lambda ranks: ranks.with_popularity(popularity))

    def at_best(self) -> RankFile:
        """The same file; ranks that are intervals are replaced by the best possible rank."""
        return self._also(Ranks.at_best)

    def at_worst(self) -> RankFile:
        """The same file; ranks that are intervals are replaced by the worst possible rank."""
        return self._also(Ranks.at_worst)

    def _also(self, change: Callable[[Ranks], Ranks]) -> RankFile:
        other = copy(self)  # shares the open file
        other._changes = (*self._changes, change)
        return other

    def _changed(self, ranks: Ranks) -> Ranks:
        return reduce(lambda changed, change: change(changed), self._changes, ranks)

    @property
    def has_intervals(self) -> bool:
        """Whether any rank is an interval; reads the file up to the first one."""
        return "worst_rank" in self.column_names and any(batch.has_intervals for batch in self.batches())

    @property
    def is_estimated(self) -> bool:
        """Whether ranks are estimates from a sample of candidates."""
        return "sample_size" in self.column_names

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[Ranks]:
        """The rows in batches, not validated (see `validate`)."""
        for table in self._file.batches(rows):
            with naming(self.path):
                ranks = Ranks(table, self.info, validate=False)
            if self._progress is not None:
                self._progress(len(ranks))
            yield self._changed(ranks)

    def read(self, graph: KnowledgeGraph | None = None, progress: Progress | None = None) -> Ranks:
        """The whole file in memory, read and validated in one pass; with a graph, also against the graph."""
        self._progress = progress or self._progress
        self._file.require_room(_CHECKED)
        checker = Checker(len(self), graph)
        builder = TableBuilder(len(self))
        builder.add(self._changed(Ranks(self.empty_table(), validate=False)).to_arrow())
        for batch in self.batches():
            table = batch.to_arrow()
            checker.add(table)
            builder.add(table)
        checker.raise_problems(str(self.path), lambda: (batch.to_arrow() for batch in self.batches()))
        ranks = Ranks.built(builder.table(), self.info)
        ranks.mark_validated(graph)
        return ranks


def validate(source: Ranks | RankFile, graph: KnowledgeGraph | None = None) -> None:
    """Read a table or file in bounded memory and raise a DataError that lists every problem.

    A table that is known to be valid is not checked again.
    """
    if isinstance(source, Ranks) and source.is_validated(graph):
        return

    def tables() -> Iterator[pa.Table]:
        return (batch.to_arrow() for batch in source.batches())

    checker = Checker(len(source), graph)
    for table in tables():
        checker.add(table)
    checker.raise_problems(
        str(source.path) if isinstance(source, RankFile) else str(source.info.model or "ranks"), tables
    )
    if isinstance(source, Ranks):
        source.mark_validated(graph)


def read_ranks(path: str | PathLike[str]) -> Ranks:
    """Read and validate a rank file.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "mine.parquet"
        >>> Ranks.from_columns(head=[0], relation=[0], tail=[1], side=["tail"], rank=[1], candidates=[9]).write(path)
        >>> read_ranks(path)
        Ranks(1 query, model='mine')
    """
    return RankFile(path).read()


RanksLike: TypeAlias = Ranks | RankFile | str | PathLike[str]
"""A rank table, a rank file or its path: what every public argument ``ranks`` accepts."""


def open_ranks(ranks: Any) -> Ranks | RankFile:
    """The table or file itself, or the file at a path, opened but not read.

    Example:
        >>> open_ranks(5)
        Traceback (most recent call last):
            ...
        kgprobe.errors.UsageError: `ranks` is a int
        Remedy: pass a rank table (Ranks), a RankFile, or the path of a rank file
    """
    if isinstance(ranks, Ranks | RankFile):
        return ranks
    if isinstance(ranks, str | PathLike):
        return RankFile(ranks)
    kind = type(ranks).__name__
    raise UsageError(f"`ranks` is a {kind}", remedy="pass a rank table (Ranks), a RankFile, or the path of a rank file")


Source = TypeVar("Source", Ranks, RankFile, Ranks | RankFile)


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
        raise UsageError(f"unknown end of an interval: '{value}'", [f"expected one of {', '.join(cls)}"])

    def of(self, source: Source) -> Source:
        """The table or file in which every rank that is an interval is replaced by this end of it."""
        return source.at_best() if self is End.best else source.at_worst()


def refuse_intervals(source: Ranks | RankFile) -> None:
    """Raise a DataError if any rank is an interval, for computations that need exact ranks.

    Example:
        >>> refuse_intervals(
        ...     Ranks.from_columns(
        ...         head=[0], relation=[0], tail=[1], side=["tail"], rank=[11], worst_rank=[40], candidates=[40]
        ...     )
        ... )
        Traceback (most recent call last):
        ...
        kgprobe.errors.DataError: 1 of 1 ranks are intervals, so there is no single value
        Remedy: scores() gives the interval of a metric ('kgprobe eval'); at_best() and at_worst() ...
    """
    if "worst_rank" not in source.column_names:
        return
    if count := sum(int(batch.intervals.sum()) for batch in source.batches()):
        file = f"{source.path}: " if isinstance(source, RankFile) else ""
        raise DataError(
            f"{file}{count:,} of {len(source):,} ranks are intervals, so there is no single value",
            remedy="scores() gives the interval of a metric ('kgprobe eval'); "
            "at_best() and at_worst() give exact ranks ('--at best', '--at worst')",
        )


def refuse_estimates(source: Ranks | RankFile) -> None:
    """Raise a DataError if ranks are estimates from a sample of candidates, of which a function is no estimate.

    Example:
        >>> counts = dict(exact_greater=[0], exact_equal=[0], sample_size=[4], sampled_from=[8])
        >>> refuse_estimates(
        ...     Ranks.from_columns(
        ...         head=[0], relation=[0], tail=[1], side=["tail"], rank=[3], candidates=[9],
        ...         sample=dict(**counts, sampled_greater=[1], sampled_equal=[0]),
        ...     )
        ... )
        Traceback (most recent call last):
        ...
        kgprobe.errors.DataError: ranks are estimates from a sample of candidates, which are not ranks of their own
        Remedy: scores() gives the estimate of a metric and its interval ('kgprobe eval'), also for several models
    """
    if source.is_estimated:
        file = f"{source.path}: " if isinstance(source, RankFile) else ""
        raise DataError(
            f"{file}ranks are estimates from a sample of candidates, which are not ranks of their own",
            remedy="scores() gives the estimate of a metric and its interval ('kgprobe eval'), also for several models",
        )
