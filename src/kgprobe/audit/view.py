"""The rank files of an audit lined up on all queries, and the findings about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgprobe.arrays import Flags, Floats, Ints
from kgprobe.graph import KnowledgeGraph
from kgprobe.ranks import RankFile, Ranks, RanksInfo
from kgprobe.ranks.schema import query_hashes


class Severity(StrEnum):
    """How grave a finding is, the gravest first.

    An error is a fact that makes numbers wrong or incomparable; a warning is strong evidence of that; a note is worth
    knowing and does not make a file unclean.
    """

    error = "error"
    warning = "warning"
    note = "note"


@dataclass(frozen=True)
class Finding:
    """One cause of concern.

    Attributes:
        models: The models concerned, by the names under which their files were given.
        kind: The family of the finding, such as "candidates"; the audit's page describes them all.
        message: What was found, the evidence in numbers, and what to do.
        severity: How grave it is.
        rows: How many rows of the files are concerned; None where it is not a matter of rows.

    Example:
        >>> Finding(("mine",), "seeds", "seeds 1 and 2 are copies", "warning").unclean
        True
    """

    models: tuple[str, ...]
    kind: str
    message: str
    severity: Severity
    rows: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "severity", Severity(self.severity))

    @property
    def unclean(self) -> bool:
        """Whether a file with this finding is not clean."""
        return self.severity is not Severity.note


def gravest_first(findings: Iterable[Finding]) -> list[Finding]:
    """The findings in the order of their severity, otherwise as they come.

    Example:
        >>> found = [Finding(("a",), "ties", "", "note"), Finding(("b",), "queries", "", "error")]
        >>> [finding.kind for finding in gravest_first(found)]
        ['queries', 'ties']
    """
    order = list(Severity)
    return sorted(findings, key=lambda finding: order.index(finding.severity))


Source = Ranks | RankFile

_MOST_ROWS = 3_000_000

"""Beyond this many rows in all, the same queries of every file are looked at as a sample: some 500 MB."""

_QUERY = ("head", "relation", "tail", "side")

_NUMBERS = ("rank", "candidates", "ties", "entity_popularity", "relation_popularity")


@dataclass(frozen=True)
class AuditQueries:
    """The distinct queries of all files.

    Attributes:
        head: Head entity of the test triple.
        relation: Its relation.
        tail: Its tail entity.
        predicts_tail: Whether the tail is asked for.
    """

    head: Ints
    relation: Ints
    tail: Ints
    predicts_tail: Flags

    def __len__(self) -> int:
        return len(self.head)

    @property
    def triples(self) -> tuple[Ints, Ints, Ints]:
        """Head, relation and tail."""
        return self.head, self.relation, self.tail

    @cached_property
    def target(self) -> Ints:
        """The entity that is asked for."""
        return np.where(self.predicts_tail, self.tail, self.head)

    @cached_property
    def given(self) -> Ints:
        """The entity that is not."""
        return np.where(self.predicts_tail, self.head, self.tail)


@dataclass(frozen=True)
class AuditedRun:
    """One training run: a number for each query of the view, NaN where it has none.

    Attributes:
        model: The name of the model.
        seed: Which run of it, where the file says so.
        has: Which queries the run has.
        columns: What is recorded of them, by name; a rank that is an interval is not a number here.
        intervals: How many ranks are intervals.
    """

    model: str
    seed: int | None
    has: Flags
    columns: Mapping[str, Floats]
    intervals: int

    def numbers(self, name: str) -> Floats:
        """A column; all NaN, where it is not recorded."""
        column = self.columns.get(name)
        return np.full(len(self.has), np.nan) if column is None else column

    @property
    def rank(self) -> Floats:
        """The exact ranks."""
        return self.columns["rank"]

    @property
    def candidates(self) -> Floats:
        """How many candidates there are."""
        return self.columns["candidates"]

    @property
    def rows(self) -> int:
        """How many queries it has."""
        return int(self.has.sum())


@dataclass(frozen=True)
class View:
    """The files of an audit, ready to be looked at.

    Attributes:
        queries: Every query that any file has.
        runs: The training runs of every model.
        info: What every file says about itself.
        graph: The graph, where it is known.
        one_in: 1 where all queries are here, k where they are a sample of one in k.
    """

    queries: AuditQueries
    runs: Mapping[str, tuple[AuditedRun, ...]]
    info: Mapping[str, RanksInfo]
    graph: KnowledgeGraph | None
    one_in: int = 1

    @property
    def models(self) -> tuple[str, ...]:
        """The names, in the order in which the files were given."""
        return tuple(self.runs)

    @cached_property
    def has(self) -> Mapping[str, Flags]:
        """Which queries any run of a model has."""
        return {model: np.any([run.has for run in runs], axis=0) for model, runs in self.runs.items()}

    def relation_name(self, relation: int) -> str:
        """What a person calls a relation."""
        return f"relation {relation}" if self.graph is None else self.graph.relation_label([relation])[0]


def prepare(sources: Mapping[str, Source], graph: KnowledgeGraph | None, most_rows: int = _MOST_ROWS) -> View:
    """Line up the runs of files that keep the rules of a rank table.

    Example:
        >>> table = Ranks.from_columns(
        ...     head=[0, 1], relation=[0, 0], tail=[1, 0], side=["tail"] * 2, seed=[1, 2], rank=[1, 2],
        ...     candidates=[9, 9],
        ... )
        >>> view = prepare({"mine": table}, None)
        >>> [(run.seed, run.rank[run.has].tolist()) for run in view.runs["mine"]]
        [(1, [1.0]), (2, [2.0])]
    """
    one_in = max(1, -(-sum(len(source) for source in sources.values()) // most_rows))
    parts = {model: _read(source, one_in) for model, source in sources.items()}
    hashes = [part.hashes for part in parts.values()]
    every = np.concatenate([*hashes, np.empty(0, dtype=np.uint64)])
    _, first, codes = np.unique(every, return_index=True, return_inverse=True)
    rows = dict(zip(parts, np.split(codes, np.cumsum([len(part) for part in hashes])), strict=False))
    queries = _queries([part.table for part in parts.values()], first)
    runs = {model: tuple(_runs(model, parts[model].table, rows[model], len(first))) for model in parts}
    return View(queries, runs, {model: source.info for model, source in sources.items()}, graph, one_in)


@dataclass(frozen=True)
class _Part:
    table: Ranks
    hashes: NDArray[np.uint64]


def _read(source: Source, one_in: int) -> _Part:
    """The rows of a file, or those of the sampled queries."""
    tables: list[pa.Table] = []
    hashes: list[NDArray[np.uint64]] = []
    for batch in source.batches():
        table = batch.to_arrow()
        own = query_hashes(table.select(_QUERY))
        kept = own % np.uint64(one_in) == 0
        wanted = [name for name in (*_QUERY, *_NUMBERS, "worst_rank", "seed") if name in table.column_names]
        tables.append(table.select(wanted) if one_in == 1 else table.select(wanted).filter(pa.array(kept)))
        hashes.append(own[kept])
    if not tables:
        empty = source.empty_table() if isinstance(source, RankFile) else source.to_arrow()
        return _Part(Ranks(empty, validate=False), np.empty(0, dtype=np.uint64))
    return _Part(Ranks(pa.concat_tables(tables).unify_dictionaries(), validate=False), np.concatenate(hashes))


def _queries(tables: list[Ranks], first: Ints) -> AuditQueries:
    none = np.empty(0, dtype=np.int64)
    head, relation, tail = (
        np.concatenate([*(getattr(table, name) for table in tables), none])[first]
        for name in ("head", "relation", "tail")
    )
    side = np.concatenate([*(table.predicts_tail for table in tables), none.astype(bool)])[first]
    return AuditQueries(head, relation, tail, side)


def _runs(model: str, table: Ranks, rows: Ints, size: int) -> Iterator[AuditedRun]:
    seeds = np.zeros(len(table), dtype=np.int64) if table.seed is None else table.seed
    numbers = {name: table.numbers(name) for name in _NUMBERS if name in table.column_names}
    numbers["rank"] = np.where(table.intervals, np.nan, table.rank)
    for seed in np.unique(seeds) if len(table) else [0]:
        own = seeds == seed
        at = rows[own]
        has = np.zeros(size, dtype=bool)
        has[at] = True
        columns = {}
        for name, values in numbers.items():
            columns[name] = np.full(size, np.nan)
            columns[name][at] = values[own]
        yield AuditedRun(
            model, None if table.seed is None else int(seed), has, columns, int(table.intervals[own].sum())
        )
