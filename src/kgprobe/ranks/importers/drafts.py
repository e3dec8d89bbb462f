"""A foreign file on its way to become ranks: collected columns and problems, user-given facts, and the final table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgprobe.errors import DataError, UsageError, nearest
from kgprobe.graph import SPLITS
from kgprobe.ranks.schema import (
    COLUMNS,
    POPULARITY,
    REQUIRED,
    ROWS_NAMED,
    Checker,
    RanksInfo,
    Rule,
    conform,
    describe,
    entity_rules,
    graph_rules,
)
from kgprobe.ranks.table import Ranks, concatenate, merge_seeds

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph


@dataclass
class Draft:
    """The columns that one file gives, with null where a value could not be read.

    Attributes:
        path: The file.
        rows: How many rows it has.
        columns: Columns of a rank table under their canonical names, then label columns.
        problems: What is wrong with the file.
        needs: What is not wrong, but cannot be done with what the user has given.
        notes: What the user should know about how the file was read.
        malformed: Columns with values that could not be read, each already named in ``problems`` or ``needs``.

    Example:
        >>> draft = Draft(Path("ranks.csv"), rows=3)
        >>> draft.refuse("rank", "rank is not a number", np.array([False, True, True]))
        >>> draft.problems
        ['rank is not a number: 2 rows (rows 2-3)']
    """

    path: Path
    rows: int = 0
    columns: dict[str, pa.Array] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    malformed: set[str] = field(default_factory=set)

    def refuse(self, column: str, what: str, rows: NDArray[np.bool_]) -> None:
        """Note that a column cannot be read in some rows."""
        found = np.flatnonzero(rows)
        if found.size:
            self.problems.append(describe(what, found.size, (found[:ROWS_NAMED] + 1).tolist()))
            self.malformed.add(column)

    def require(self, column: str, what: str) -> None:
        """Note that a column cannot be had without something that the user did not give."""
        self.needs.append(what)
        self.malformed.add(column)

    def table(self) -> pa.Table:
        """The columns as a rank table, null where one is absent that must be there."""
        absent = {name: pa.nulls(self.rows, kind) for name, kind in REQUIRED.items() if name not in self.columns}
        return conform(pa.table(self.columns | absent))

    def judge(self, rules: tuple[Rule, ...]) -> list[str]:
        """Everything that is wrong: what could not be read, and what breaks the rules of a rank table."""
        table = self.table()
        checker = Checker(len(table), further=rules)
        checker.add(table)
        # A value that could not be read is null here. It has been named, and is not also missing.
        named = tuple(f"{column} is missing" for column in self.malformed)
        broken = [problem for problem in checker.problems(lambda: [table]) if not problem.startswith(named)]
        return self.problems + broken

    @property
    def label_columns(self) -> list[str]:
        """The columns beyond the canonical ones."""
        return [name for name in self.columns if name not in COLUMNS]


@dataclass(frozen=True)
class Given:
    """The circumstances of an import, checked when they are put together.

    Attributes:
        graph: The graph whose queries were ranked; gives popularity, labels and what was filtered.
        entities: Its number of entities, where the graph itself is not at hand.
        model: What reports call the model.
        split: The split that was ranked.
        seed: The training run of a single file.
        files: How many files are imported together.

    Example:
        >>> Given(entities=135).num_entities
        135
    """

    graph: KnowledgeGraph | None = None
    entities: int | None = None
    model: str | None = None
    split: str | None = None
    seed: int | None = None
    files: int = 1

    def __post_init__(self) -> None:
        problems = option_problems(
            has_graph=self.graph is not None,
            entities=self.entities,
            split=self.split,
            seed=self.seed,
            files=self.files,
        )
        if problems:
            raise UsageError("this cannot be imported as asked", problems)

    @property
    def num_entities(self) -> int | None:
        """The number of entities, if anything says it."""
        return self.entities if self.graph is None else self.graph.num_entities


def option_problems(
    *, has_graph: bool, entities: int | None, split: str | None, seed: int | None, files: int
) -> list[str]:
    """What makes no sense about the circumstances, all of it, without looking at any file.

    Example:
        >>> option_problems(has_graph=True, entities=9, split="tset", seed=None, files=1)
        ['both a graph and a number of entities are given: the graph has its own', "no split is called 'tset'; ...]
    """
    problems = []
    if has_graph and entities is not None:
        problems.append("both a graph and a number of entities are given: the graph has its own")
    if entities is not None and entities < 1:
        problems.append(f"{entities} entities: a graph has at least 1")
    if split is not None and split not in SPLITS:
        problems.append(f"no split is called {split!r}{nearest(split, SPLITS)}")
    if seed is not None and files > 1:
        problems.append(f"one seed for {files} files: several files are several seeds, numbered by their names")
    return problems


@dataclass(frozen=True)
class Reading:
    """How files were read: goes into the metadata, so that a table can be traced to its source.

    Attributes:
        format: The format of the files.
        candidates: Where the numbers of candidates come from.
        popularity: Where popularity comes from when no graph gives it; None if from nowhere.
        filtered: The splits whose facts are known to be filtered.
    """

    format: str
    candidates: str
    popularity: str | None = None
    filtered: tuple[str, ...] | None = None
    notes: list[str] = field(default_factory=list)


def finish_import(drafts: Sequence[Draft], given: Given, reading: Reading) -> Ranks:
    """One rank table of all files, or everything that is wrong with any of them."""
    _refuse(drafts, given)
    info = RanksInfo(
        model=given.model,
        graph=given.graph.name if given.graph else None,
        graph_hash=given.graph.content_hash if given.graph else None,
        split=given.split,
        filtered=reading.filtered,
        filter_hash=given.graph.content_hash if given.graph and reading.filtered else None,
    )
    ranks = _join([Ranks(draft.table(), info, validate=False) for draft in drafts], drafts, given)
    notes = [*reading.notes, *_prefixed(drafts, [draft.notes for draft in drafts])]
    popularity = reading.popularity
    if given.graph is not None:
        if given.graph.train_counts is not None or len(given.graph.triples("train")):
            ranks, popularity = ranks.with_popularity(given.graph.popularity), "graph"
        else:
            notes.append(f"{given.graph.name} has no training triples, so it gives no popularity")
    settings: dict[str, Any] = {
        "source": [draft.path.name for draft in drafts],
        "format": reading.format,
        "candidates": reading.candidates,
        "popularity": popularity,
        "notes": [*notes, *_null_notes(ranks)],
    }
    return ranks.with_info(settings=settings)


def seeds_of(paths: Sequence[Path]) -> list[int]:
    """The number that ends each file's name, if all have one and no two the same; else 1, 2, 3, ...

    Example:
        >>> seeds_of([Path("RotatE_umls_2.json"), Path("RotatE_umls_7.json.gz")])
        [2, 7]
        >>> seeds_of([Path("a.csv"), Path("b_2.csv")])
        [1, 2]
    """
    found = [re.search(r"_(\d{1,18})$", path.name.split(".")[0]) for path in paths]
    numbers = [int(match[1]) for match in found if match]
    return numbers if len(set(numbers)) == len(paths) else list(range(1, len(paths) + 1))


def _join(tables: list[Ranks], drafts: Sequence[Draft], given: Given) -> Ranks:
    if "seed" in drafts[0].columns:
        return concatenate(tables) if len(tables) > 1 else tables[0]
    if len(tables) > 1:
        seeds = seeds_of([draft.path for draft in drafts])
        return merge_seeds(dict(zip(seeds, tables, strict=True)))
    return tables[0] if given.seed is None else merge_seeds({given.seed: tables[0]})


def _refuse(drafts: Sequence[Draft], given: Given) -> None:
    rules: tuple[Rule, ...] = ()
    if given.graph is not None:
        rules = graph_rules(given.graph)
    elif given.entities is not None:
        rules = entity_rules(given.entities)
    data = _prefixed(drafts, [draft.judge(rules) for draft in drafts])
    usage = _prefixed(drafts, [draft.needs for draft in drafts])
    seeded = [draft for draft in drafts if "seed" in draft.columns]
    if seeded and given.seed is not None:
        usage.append(f"a seed is given, and {seeded[0].path.name} has a column of seeds")
    if seeded and len(seeded) < len(drafts):
        bare = ", ".join(draft.path.name for draft in drafts if draft not in seeded)
        data.append(f"some of the files have a column of seeds, others do not: {bare}")
    title = f"{drafts[0].path}: cannot be imported" if len(drafts) == 1 else "these files cannot be imported"
    if data:
        counting = "rows count from 1, without a header; " if any(draft.rows for draft in drafts) else ""
        raise DataError(title, data + usage, f"{counting}correct the file, or see 'kgprobe import --help'")
    if usage:
        raise UsageError(title, usage)


def _prefixed(drafts: Sequence[Draft], lines: Sequence[list[str]]) -> list[str]:
    """All lines, each with the name of its file where there are several files."""
    several = len(drafts) > 1
    return [f"{d.path.name}: {line}" if several else line for d, own in zip(drafts, lines, strict=True) for line in own]


def _null_notes(ranks: Ranks) -> list[str]:
    absent = [name for name in ("ties", *POPULARITY) if name not in ranks.column_names]
    notes = [f"not recorded: {', '.join(absent)}"] if absent else []
    if ranks.has_intervals:
        notes.append(f"{ranks.intervals.sum():,} of {len(ranks):,} ranks are intervals, from rank to worst_rank")
    nulls = {name: ranks.column(name).null_count for name in ranks.column_names if name != "worst_rank"}
    return notes + [f"{name} is null in {count:,} of {len(ranks):,} rows" for name, count in nulls.items() if count]
