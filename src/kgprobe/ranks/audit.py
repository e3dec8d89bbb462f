"""A closer look at one rank file: what breaks the rules, and what does not fit the graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgprobe.graph import KnowledgeGraph
from kgprobe.ranks.checks import Checker
from kgprobe.ranks.parquet import RankFile
from kgprobe.ranks.schema import RanksInfo
from kgprobe.ranks.table import Ranks

Doubt = Callable[[Ranks], NDArray[np.bool_]]

_SAME = 1e-6
"""Popularity is a quotient of counts, so a file that stored it as float32 still agrees to this share."""


def audit(source: Ranks | RankFile, graph: KnowledgeGraph | None = None) -> list[str]:
    """Everything about a rank table that deserves a second look, one line each; empty when it is clean.

    Example:
        >>> table = Ranks.from_columns(
        ...     head=[0, 1], relation=[0, 0], tail=[1, 0], side=["tail"] * 2, rank=[1.25, 2], candidates=[9, 9]
        ... )
        >>> audit(table)
        ['rank is neither whole nor half, so it is no mean rank of a tie group: 1 of 2 rows']
    """

    def tables() -> Iterator[pa.Table]:
        return (batch.to_arrow() for batch in source.batches())

    checker = Checker(len(source), graph)
    for table in tables():
        checker.add(table)
    problems = checker.problems(tables)
    if problems:
        return problems
    doubts = _DOUBTS | (_graph_doubts(graph, source.info) if graph else {})
    counts: Counter[str] = Counter()
    seeds: Counter[int] = Counter()
    for batch in source.batches():
        counts.update({name: int(doubt(batch).sum()) for name, doubt in doubts.items()})
        if batch.seed is not None:
            seeds.update(dict(zip(*(part.tolist() for part in np.unique(batch.seed, return_counts=True)), strict=True)))
    found = [f"{name}: {count:,} of {len(source):,} rows" for name, count in counts.items() if count]
    if len(set(seeds.values())) > 1:
        found.append("seeds have different numbers of queries: " + ", ".join(f"{k}: {n:,}" for k, n in seeds.items()))
    return found


_DOUBTS: dict[str, Doubt] = {
    "rank is neither whole nor half, so it is no mean rank of a tie group": lambda ranks: (2 * ranks.rank) % 1 != 0,
    "rank and ties do not fit: rank - ties/2 is not whole": lambda ranks: (
        ~np.isnan(ranks.ties) & (ranks.optimistic % 1 != 0)
    ),
}


def _graph_doubts(graph: KnowledgeGraph, info: RanksInfo) -> dict[str, Doubt]:
    doubts: dict[str, Doubt] = {}
    filtered = tuple(graph.splits) if info.filtered is None else info.filtered
    # Extra triples, candidate sets and training facts that are not here cannot be counted again.
    there = graph.has_train or (info.filtered is not None and "train" not in filtered)
    if there and set(filtered) <= set(graph.splits) and "candidates" not in info.settings:
        known = graph.known_answers(*filtered) if filtered else None

        def odd_candidates(ranks: Ranks) -> NDArray[np.bool_]:
            left = np.full(len(ranks), graph.num_entities)
            if known is not None:
                left -= known.others(ranks.head, ranks.relation, ranks.tail, ranks.predicts_tail)
            return np.asarray(ranks.candidates != left)

        by = "all splits" if info.filtered is None else "+".join(filtered) or "nothing"
        doubts[f"candidates differ from what filtering by {by} leaves"] = odd_candidates

    def odd_popularity(ranks: Ranks) -> NDArray[np.bool_]:
        own = ranks.numbers("entity_popularity"), ranks.numbers("relation_popularity")
        due = graph.popularity.entity(ranks.target), graph.popularity.relation(ranks.relation, ranks.target)
        off = [np.abs(mine - right) > _SAME * right for mine, right in zip(own, due, strict=True)]
        return np.asarray(off[0] | off[1])

    doubts["popularity differs from that of the graph"] = odd_popularity
    return doubts
