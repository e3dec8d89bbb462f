"""Rank tables as Parquet files: read at once, streamed in batches, or written; rank intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from enum import StrEnum
from functools import reduce
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from kgprobe.errors import DataError, UsageError, naming
from kgprobe.ranks.schema import Checker, RanksInfo, conform
from kgprobe.ranks.table import BATCH_ROWS, Ranks
from kgprobe.ranks.table_builder import TableBuilder
from kgprobe.resources import Progress

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from kgprobe.graph import KnowledgeGraph, Popularity

_BUFFER = 1 << 20


class RankFile:
    """A rank file on disk, streamed in batches so that it may be larger than memory.

    A file without kgprobe's metadata takes its model name from the file name.

    Args:
        path: The file.
        progress: Called with the number of rows of every batch that was read.
    """

    def __init__(self, path: str | PathLike[str], progress: Progress | None = None) -> None:
        self.path, self._progress = Path(path), progress
        self._file = _open(self.path)
        with naming(self.path):
            info = RanksInfo.from_metadata(self._file.schema_arrow.metadata)
            conform(self.empty_table())
        self.info = info if info.model else replace(info, model=self.path.stem)
        self._changes: tuple[Callable[[Ranks], Ranks], ...] = ()

    def __len__(self) -> int:
        return int(self._file.metadata.num_rows)

    @property
    def column_names(self) -> list[str]:
        """The columns of the batches."""
        return self._changed(Ranks(self.empty_table(), validate=False)).column_names

    def empty_table(self) -> pa.Table:
        """The columns without rows."""
        return self._file.schema_arrow.empty_table()

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

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[Ranks]:
        """The rows in batches, not validated (see `validate`)."""
        stream = self._file.iter_batches(batch_size=rows)
        while True:
            with naming(self.path):
                try:
                    batch = next(stream)
                except StopIteration:
                    return
                except (OSError, pa.ArrowException) as error:
                    raise _damaged(self.path, error) from None
                ranks = Ranks(pa.Table.from_batches([batch]), self.info, validate=False)
            if self._progress is not None:
                self._progress(len(ranks))
            yield self._changed(ranks)

    def read(self, graph: KnowledgeGraph | None = None, progress: Progress | None = None) -> Ranks:
        """The whole file in memory, read and validated in one pass; with a graph, also against the graph."""
        self._progress = progress or self._progress
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


def _open(path: Path) -> pq.ParquetFile:
    import pyarrow.parquet as pq

    try:
        if not path.exists():
            raise DataError(f"{path}: no such file", remedy="check the name and the folder")
        if path.is_dir():
            raise DataError(f"{path}: this is a folder, not a rank file", remedy="give the Parquet files in it")
        with path.open("rb") as file:
            if not file.read(1):
                raise DataError(f"{path}: the file is empty", remedy="write or copy it again")
    except OSError as error:  # no permission, or not a valid name
        raise DataError(f"{path}: cannot be read", [str(error)], "check the name and the permissions") from None
    try:
        # By default the reader keeps every byte that it has read in memory.
        return pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER)
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> DataError:
    with path.open("rb") as file:
        start = file.read(4)
        file.seek(-4, 2) if path.stat().st_size >= 4 else None
        end = file.read(4)
    if start != b"PAR1":
        return DataError(
            f"{path}: this is not a Parquet file",
            [f"it begins with {start!r}"],
            "convert it with import_ranks ('kgprobe import')",
        )
    problem = "its end is missing: it was truncated" if end != b"PAR1" else str(error).split("\n")[0]
    return DataError(f"{path}: the Parquet file is damaged", [problem], "write or copy it again")


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
