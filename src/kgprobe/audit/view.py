"""The rank files of an audit aligned on their queries, and the findings about them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from kgprobe.arrays import Flags, Floats, Ints, codes_of
from kgprobe.graph import KnowledgeGraph
from kgprobe.ranks import RankFile, Ranks, RanksInfo
from kgprobe.ranks.schema import query_hashes
from kgprobe.tables import Table, arrow_table

_LONG = 160  # characters of a summary


class Severity(StrEnum):
    """Severity of a finding, most severe first.

    An error makes numbers wrong or incomparable. A warning is strong evidence of such an error. A note is useful to
    know; the file still counts as clean.
    """

    error = "error"
    warning = "warning"
    note = "note"


@dataclass(frozen=True)
class Finding:
    """One problem found by the audit.

    Attributes:
        models: Names of the models concerned.
        kind: Category of the finding, such as "candidates"; docs/audit.md describes them all.
        message: What is wrong, the evidence in numbers, and what to do.
        severity: Error, warning or note.
        rows: Number of rows concerned; None where the finding is not about rows.

    Example:
        >>> Finding(("mine",), "seeds", "Seeds 1 and 2 are copies.", "warning").unclean
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
        """Whether a file with this finding does not count as clean."""
        return self.severity is not Severity.note

    @property
    def summary(self) -> str:
        """The first sentence of the message without its full stop; if it is long, without the evidence at its end.

        Example:
            >>> Finding(("mine",), "candidates", "Unfiltered: 1 of 2 rows differ. Rank again.", "error").summary
            'Unfiltered: 1 of 2 rows differ'
        """
        first = re.split(r"\. (?=[A-Z])", self.message, maxsplit=1)[0].rstrip(".")
        what, _, _ = first.partition(": ")
        return what if len(first) > _LONG and what.count("(") == what.count(")") else first


class Audit(Table, list[Finding]):
    """The findings of an audit, most severe first: a list that is also a table.

    Example:
        >>> Audit([Finding(("one", "other"), "seeds", "Seeds 1 and 2 are copies.", "warning")])
        Audit(1 finding: 1 warning)
    """

    def to_rows(self) -> list[dict[str, Any]]:
        return [
            {
                "models": ", ".join(finding.models),
                "severity": str(finding.severity),
                "kind": finding.kind,
                "finding": finding.message,
                "rows": finding.rows,
            }
            for finding in self
        ]

    def to_arrow(self) -> pa.Table:
        return arrow_table(self.to_rows(), _FINDINGS)

    def __repr__(self) -> str:
        counts = Counter(finding.severity for finding in self)
        kinds = ", ".join(f"{n} {severity}{'s' * (n > 1)}" for severity in Severity if (n := counts[severity]))
        found = f"{len(self)} finding{'s' * (len(self) > 1)}: {kinds}" if self else "no findings"
        return f"Audit({found})"

    def __str__(self) -> str:
        return self._text() if self else repr(self)


_FINDINGS = pa.schema({**dict.fromkeys(("models", "severity", "kind", "finding"), pa.string()), "rows": pa.int64()})


def gravest_first(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings by severity; findings of equal severity keep their order.

    Example:
        >>> found = [Finding(("a",), "ties", "", "note"), Finding(("b",), "queries", "", "error")]
        >>> [finding.kind for finding in gravest_first(found)]
        ['queries', 'ties']
    """
    order = list(Severity)
    return sorted(findings, key=lambda finding: order.index(finding.severity))


Source = Ranks | RankFile

# Beyond this many rows in all, the same queries of every file are looked at as a sample: some 500 MB.
MOST_ROWS = 3_000_000
_QUERY = ("head", "relation", "tail", "side")
_NUMBERS = ("rank", "candidates", "ties", "entity_popularity", "relation_popularity")


@dataclass(frozen=True)
class AuditQueries:
    """The distinct queries of all files: the ranked triple, and whether its tail is the target."""

    head: Ints
    relation: Ints
    tail: Ints
    predicts_tail: Flags

    def __len__(self) -> int:
        return len(self.head)

    @property
    def triples(self) -> tuple[Ints, Ints, Ints]:
        return self.head, self.relation, self.tail

    @cached_property
    def target(self) -> Ints:
        return np.where(self.predicts_tail, self.tail, self.head)

    @cached_property
    def given(self) -> Ints:
        """The entity of the triple that is not the target."""
        return np.where(self.predicts_tail, self.head, self.tail)


@dataclass(frozen=True)
class AuditedRun:
    """One training run, aligned on the queries of the view.

    Attributes:
        model: Name of the model.
        seed: Training seed, if recorded.
        has: Which queries of the view the run ranks.
        columns: Recorded columns by name, one number per query of the view; NaN for queries that the run does not rank
            and for ranks that are intervals, or estimates from a sample of candidates.
        intervals: Number of ranks that are intervals.
    """

    model: str
    seed: int | None
    has: Flags
    columns: Mapping[str, Floats]
    intervals: int

    def numbers(self, name: str) -> Floats:
        """A column; all NaN if it is not recorded."""
        column = self.columns.get(name)
        return np.full(len(self.has), np.nan) if column is None else column

    @property
    def rank(self) -> Floats:
        return self.columns["rank"]

    @property
    def candidates(self) -> Floats:
        return self.columns["candidates"]

    @property
    def rows(self) -> int:
        return int(self.has.sum())


@dataclass(frozen=True)
class View:
    """The aligned files of an audit, the input of every check.

    Attributes:
        queries: The queries of all files.
        runs: Training runs of each model.
        info: Metadata of each file.
        graph: The graph, if given.
        one_in: 1 for all queries, k for a sample of one query in k.
    """

    queries: AuditQueries
    runs: Mapping[str, tuple[AuditedRun, ...]]
    info: Mapping[str, RanksInfo]
    graph: KnowledgeGraph | None
    one_in: int = 1

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(self.runs)

    @cached_property
    def has(self) -> Mapping[str, Flags]:
        """Which queries are ranked by at least one run of a model."""
        return {model: np.any([run.has for run in runs], axis=0) for model, runs in self.runs.items()}

    def relation_name(self, relation: int) -> str:
        return f"relation {relation}" if self.graph is None else self.graph.relation_name([relation])[0]


def prepare(sources: Mapping[str, Source], graph: KnowledgeGraph | None, most_rows: int = MOST_ROWS) -> View:
    """Align the runs of valid rank files on their queries; above ``most_rows`` rows, on a sample of the queries.

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
    tables = {model: _read(source, one_in) for model, source in sources.items()}
    columns = [_query_columns(table) for table in tables.values()] or [[np.empty(0, dtype=np.int64)] * len(_QUERY)]
    codes = codes_of(columns)
    _, first = np.unique(np.concatenate(codes), return_index=True)
    head, relation, tail, side = (np.concatenate(parts)[first] for parts in zip(*columns, strict=True))
    runs = {
        model: tuple(_runs(model, table, rows, len(first)))
        for (model, table), rows in zip(tables.items(), codes, strict=False)
    }
    queries = AuditQueries(head, relation, tail, side.astype(bool))
    return View(queries, runs, {model: source.info for model, source in sources.items()}, graph, one_in)


def _read(source: Source, one_in: int) -> Ranks:
    """The rows of a file, or those of the sampled queries. A hash of the query decides, so all files agree."""
    tables: list[pa.Table] = []
    for batch in source.batches():
        table = batch.to_arrow()
        wanted = (*_QUERY, *_NUMBERS, "worst_rank", "seed", "sample_size")
        names = [name for name in wanted if name in table.column_names]
        if one_in > 1:
            table = table.filter(pa.array(query_hashes(table.select(_QUERY)) % np.uint64(one_in) == 0))
        tables.append(table.select(names))
    if not tables:
        tables = [source.empty_table() if isinstance(source, RankFile) else source.to_arrow()]
    return Ranks(pa.concat_tables(tables).unify_dictionaries(), validate=False)


def _query_columns(table: Ranks) -> list[Ints]:
    return [table.head, table.relation, table.tail, table.predicts_tail.astype(np.int64)]


def _runs(model: str, table: Ranks, rows: Ints, size: int) -> Iterator[AuditedRun]:
    seeds = np.zeros(len(table), dtype=np.int64) if table.seed is None else table.seed
    numbers = {name: table.numbers(name) for name in _NUMBERS if name in table.column_names}
    estimated = ~np.isnan(table.numbers("sample_size"))
    numbers["rank"] = np.where(table.intervals | estimated, np.nan, table.rank)
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
