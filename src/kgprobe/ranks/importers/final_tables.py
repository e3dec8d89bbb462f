"""The rank table of imported files: what they record, assume and verify; or one error with all their problems."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import SPLITS
from kgprobe.ranks.importers.diagnosis import Evidence, diagnose, tie_doubts
from kgprobe.ranks.importers.drafts import Draft, ImportOptions, flags
from kgprobe.ranks.importers.triple_columns import splits_of
from kgprobe.ranks.metadata import Assumption, Basis, CandidatesInfo, ImportInfo, RanksInfo, Verification
from kgprobe.ranks.schema import POPULARITY
from kgprobe.ranks.table import Ranks, concatenate, merge_seeds

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph


def finish_import(drafts: Sequence[Draft], options: ImportOptions) -> Ranks:
    """One rank table of all files, or an error with every problem of every file."""
    _refuse(drafts, options)
    graph = options.graph
    filtered = drafts[0].filtered if len({draft.filtered for draft in drafts}) == 1 else None
    info = RanksInfo(
        model=options.model,
        graph=graph.name if graph else None,
        graph_hash=graph.content_hash if graph else None,
        split=options.split,
        filtered=filtered,
        candidates=_joint_candidates(drafts),
    )
    ranks = _join([Ranks(draft.table(), info, validate=False) for draft in drafts], drafts, options.seed)
    verified = _verify(drafts, options)
    notes = _prefixed(drafts, [[*draft.notes, *tie_doubts(draft)] for draft in drafts])
    popularity = next((draft.popularity for draft in drafts if draft.popularity), None)
    if graph is not None and (graph.train_counts is not None or len(graph.triples("train"))):
        ranks, popularity = ranks.with_popularity(graph.popularity), "graph"
    elif graph is not None:
        notes.append(f"{graph.name} has no training triples, so it gives no popularity")
    imported = ImportInfo(
        source=tuple(draft.path.name for draft in drafts),
        format=", ".join(dict.fromkeys(draft.format for draft in drafts)),
        popularity=popularity,
        notes=(*notes, *_null_notes(ranks)),
        assumed=tuple(one for one in Assumption if any(one in draft.assumed for draft in drafts)),
        verified=verified,
    )
    return ranks.with_info(imported=imported)


def _joint_candidates(drafts: Sequence[Draft]) -> CandidatesInfo:
    """Where the counts of all files come from: assumed, if those of any file are."""
    infos = [draft.candidates for draft in drafts]
    basis = Basis.assumed if any(info.basis is Basis.assumed for info in infos) else Basis.recorded
    return CandidatesInfo(basis, counted="; ".join(dict.fromkeys(info.counted for info in infos if info.counted)))


def seeds_of(paths: Sequence[Path]) -> list[int]:
    """The number at the end of each file name, if every name has a different one; otherwise 1, 2, 3, ...

    Example:
        >>> seeds_of([Path("RotatE_umls_2.json"), Path("RotatE_umls_7.json.gz")])
        [2, 7]
        >>> seeds_of([Path("a.csv"), Path("b_2.csv")])
        [1, 2]
    """
    matches = [re.search(r"_(\d{1,18})$", path.name.split(".")[0]) for path in paths]
    numbers = [int(match[1]) for match in matches if match]
    return numbers if len(set(numbers)) == len(paths) else list(range(1, len(paths) + 1))


def _join(tables: list[Ranks], drafts: Sequence[Draft], seed: int | None) -> Ranks:
    if "seed" in drafts[0].columns:
        return concatenate(tables) if len(tables) > 1 else tables[0]
    if len(tables) > 1:
        return merge_seeds(dict(zip(seeds_of([draft.path for draft in drafts]), tables, strict=True)))
    return tables[0] if seed is None else merge_seeds({seed: tables[0]})


def _refuse(drafts: Sequence[Draft], options: ImportOptions) -> None:
    own = [draft.all_problems(options.rules) for draft in drafts]
    data = _prefixed(drafts, own)
    usage = _prefixed(drafts, [draft.needs for draft in drafts])
    seeded = [draft for draft in drafts if "seed" in draft.columns]
    if seeded and options.seed is not None:
        usage.append(f"`seed` is given, but {seeded[0].path.name} has a seed column")
    if seeded and len(seeded) < len(drafts):
        unseeded = ", ".join(draft.path.name for draft in drafts if "seed" not in draft.columns)
        data.append(f"some files have a seed column, others do not: {unseeded}")
    if data:
        wide = "; a row with the ranks of both sides counts as two" if any(draft.wide for draft in drafts) else ""
        counting = f"rows count from 1, without the header{wide}; " if any(draft.rows for draft in drafts) else ""
        advice = [
            hint for draft, problems in zip(drafts, own, strict=True) if problems for hint in diagnose(draft, options)
        ]
        foreign = any("outside the graph" in problem for problem in data)
        if not advice and options.graph is not None and (foreign or any(Evidence(d, options).lost for d in drafts)):
            advice.append(f"give the `graph` that was ranked, if it is not {options.graph.name}")
        remedy = f"{counting}correct the file, or name its columns with `columns`"
        raise DataError(_title(drafts), data + usage, "; ".join([*dict.fromkeys(advice), remedy]))
    if usage:
        raise UsageError(_title(drafts), usage)


def _title(drafts: Sequence[Draft]) -> str:
    return f"{drafts[0].path}: cannot be imported" if len(drafts) == 1 else "these files cannot be imported"


@dataclass(frozen=True)
class _Placement:
    """Where the distinct triples of a file are in the graph.

    Attributes:
        graph: Name of the graph.
        triples: Number of distinct triples.
        splits: How many of them are in each split.
        nowhere: How many of them are in no split.
    """

    graph: str
    triples: int
    splits: Mapping[str, int]
    nowhere: int

    @classmethod
    def of(cls, draft: Draft, graph: KnowledgeGraph) -> _Placement:
        names = ("head", "relation", "tail")
        distinct = pa.table({name: draft.columns[name] for name in names}).group_by(names).aggregate([])
        inside = splits_of(graph, {name: distinct.column(name).combine_chunks() for name in names})
        nowhere = ~np.any(list(inside.values()), axis=0)
        splits = {split: int(found.sum()) for split, found in inside.items()}
        return cls(graph.name, len(distinct), splits, int(nowhere.sum()))

    def all_in(self, split: str | None) -> bool:
        return split is not None and self.splits.get(split) == self.triples

    def told(self, due: str) -> str:
        """How many triples are in which split, that which should have them first."""
        others = [f"{count:,} in {split}" for split, count in self.splits.items() if split != due and count]
        others += [f"{self.nowhere:,} in no split of {self.graph}"] if self.nowhere else []
        return ", ".join([f"{self.splits.get(due, 0):,} of {self.triples:,} triples are in {due}", *others])


def _verify(drafts: Sequence[Draft], options: ImportOptions) -> tuple[Verification, ...]:
    """What the graph verifies about all files; triples that are not where they should be are noted.

    Raises:
        DataError: No triple of a file is in the split that is given, but most are in others; or most are not in the
            graph, though all are when they are read in another way. Else they may have been ranked on purpose.
    """
    graph = options.graph
    if graph is None or not graph.splits:
        return ()
    due = options.split or SPLITS[-1]
    problems: list[list[str]] = []
    advice: list[str] = []
    verified: list[set[Verification]] = []
    for draft in drafts:
        placed = _Placement.of(draft, graph)
        # Some triples of a graph are in it with head and tail exchanged as well.
        lost = 2 * placed.nowhere > placed.triples
        hints = diagnose(draft, options, triples_only=True) if lost else []
        elsewhere = options.split is not None and not placed.splits.get(due) and not lost
        hints += [f"`split='{split}'`?" for split in placed.splits if elsewhere and placed.all_in(split)]
        refused = bool(hints) or elsewhere
        problems.append([placed.told(due)] if refused else [])
        draft.notes += [] if refused or placed.all_in(due) else [placed.told(due)]
        advice += hints
        facts = {
            Verification.in_graph: not placed.nowhere,
            Verification.in_split: placed.all_in(options.split),
            Verification.candidates: _counts_agree(draft, graph),
        }
        verified.append({fact for fact, true in facts.items() if true})
    if any(problems):
        remedy = "; ".join(dict.fromkeys(advice)) or "give the graph and the split that were ranked"
        raise DataError(_title(drafts), _prefixed(drafts, problems), remedy)
    return tuple(fact for fact in Verification if all(fact in own for own in verified))


def _counts_agree(draft: Draft, graph: KnowledgeGraph) -> bool:
    """Whether the file has candidate counts, and all are those that filtering by all splits of the graph leaves."""
    if draft.candidates.basis is not Basis.recorded or not graph.has_train:
        return False
    head, relation, tail = (draft.columns[name].to_numpy() for name in ("head", "relation", "tail"))
    predicts_tail = flags(pc.equal(draft.columns["side"], "tail"))
    left = graph.num_entities - graph.known_answers().others(head, relation, tail, predicts_tail)
    return bool((draft.columns["candidates"].to_numpy() == left).all())


def _prefixed(drafts: Sequence[Draft], lines: Sequence[list[str]]) -> list[str]:
    """All lines; those of several files begin with the file name."""
    several = len(drafts) > 1
    return [f"{d.path.name}: {line}" if several else line for d, own in zip(drafts, lines, strict=True) for line in own]


def _null_notes(ranks: Ranks) -> list[str]:
    absent = [name for name in ("ties", *POPULARITY) if name not in ranks.column_names]
    notes = [f"not recorded: {', '.join(absent)}"] if absent else []
    if ranks.has_intervals:
        notes.append(f"{ranks.intervals.sum():,} of {len(ranks):,} ranks are intervals, from rank to worst_rank")
    nulls = {name: ranks.column(name).null_count for name in ranks.column_names if name != "worst_rank"}
    return notes + [f"{name} is null in {count:,} of {len(ranks):,} rows" for name, count in nulls.items() if count]
