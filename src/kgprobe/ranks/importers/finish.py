"""From drafts to ranks: judged together, told apart by seed, with popularity and metadata."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kgprobe.errors import DataError, UsageError
from kgprobe.ranks.checks import Rule, entity_rules, graph_rules
from kgprobe.ranks.importers.draft import Draft
from kgprobe.ranks.importers.given import Given
from kgprobe.ranks.join import concatenate, merge_seeds
from kgprobe.ranks.schema import POPULARITY, RanksInfo
from kgprobe.ranks.table import Ranks


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


def finish(drafts: Sequence[Draft], given: Given, reading: Reading) -> Ranks:
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
