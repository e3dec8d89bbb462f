"""The baselines that every model should beat: candidates scored by how often they occur in training."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.grouped import Grouped
from kgprobe.graph.sorted_keys import find, pair_keys
from kgprobe.ranks import Ranks, RanksInfo, concatenate

Ints = NDArray[np.int64]
_HEAD, _RELATION, _TAIL = range(3)
_PAIRS_AT_ONCE = 1 << 22


class Frequency(StrEnum):
    """What is counted: an entity on the predicted side of the query's relation, or anywhere."""

    relation = "relation"
    entity = "entity"


def rank_by_frequency(graph: KnowledgeGraph, frequency: Frequency = Frequency.relation, split: str = "test") -> Ranks:
    """Filtered ranks of both sides of a split, each candidate scored by its frequency in training.

    The score does not look at the entity that is given, so what it reaches is what popularity alone explains.

    Example:
        >>> graph = KnowledgeGraph.from_triples(
        ...     train=np.array([[0, 0, 1], [2, 0, 1], [3, 0, 2]]), test=np.array([[3, 0, 1]])
        ... )
        >>> ranks = rank_by_frequency(graph)
        >>> ranks.column("side").to_pylist(), ranks.rank.tolist(), ranks.candidates.tolist()
        (['tail', 'head'], [1.0, 1.0], [3.0, 2.0])
    """
    triples = graph.triples(split).astype(np.int64)
    known = graph.known_answers()
    info = RanksInfo(
        model=f"{frequency} frequency",
        graph=graph.name,
        graph_hash=graph.content_hash,
        split=split,
        filtered=tuple(graph.splits),
    )
    sides = [
        _rank_side(graph, triples, frequency, "tail", known.tails, info),
        _rank_side(graph, triples, frequency, "head", known.heads, info),
    ]
    return concatenate(sides).with_popularity(graph.popularity)


def _rank_side(
    graph: KnowledgeGraph, triples: Ints, frequency: Frequency, side: str, answers: Grouped, info: RanksInfo
) -> Ranks:
    given, target = (_HEAD, _TAIL) if side == "tail" else (_TAIL, _HEAD)
    train = graph.triples("train")
    anywhere = np.bincount(train[:, [_HEAD, _TAIL]].ravel(), minlength=graph.num_entities)
    better, ties, candidates = (np.zeros(len(triples), dtype=np.int64) for _ in range(3))
    for relation in np.unique(triples[:, _RELATION]).tolist():
        rows = np.flatnonzero(triples[:, _RELATION] == relation)
        there = train[train[:, _RELATION] == relation, target]
        score = anywhere if frequency is Frequency.entity else np.bincount(there, minlength=graph.num_entities)
        keys = pair_keys(triples[rows, given], triples[rows, _RELATION], graph.num_relations)
        better[rows], ties[rows], candidates[rows] = _place(score, triples[rows, target], keys, answers)
    return Ranks.from_columns(
        head=triples[:, _HEAD],
        relation=triples[:, _RELATION],
        tail=triples[:, _TAIL],
        side=np.full(len(triples), side),
        rank=1 + better + ties / 2,
        ties=ties,
        candidates=candidates,
        info=info,
    )


def _place(score: Ints, target: Ints, keys: Ints, answers: Grouped) -> tuple[Ints, Ints, Ints]:
    """How many candidates beat and tie each target, and how many there are, without its other known answers."""
    ordered = np.sort(score)
    own = score[target]
    upper = np.searchsorted(ordered, own, side="right")
    better = len(score) - upper
    ties = upper - np.searchsorted(ordered, own, side="left")
    group = find(answers.keys, keys)
    first, size = answers.offsets[group], answers.offsets[group + 1] - answers.offsets[group]
    step = max(1, _PAIRS_AT_ONCE // int(size.max(initial=1)))
    for start in range(0, len(target), step):
        rows = np.arange(start, min(start + step, len(target)))
        query = np.repeat(rows, size[rows])
        within = np.arange(len(query)) - np.repeat(np.cumsum(size[rows]) - size[rows], size[rows])
        known = score[answers.values[first[query] + within]]
        better[rows] -= np.bincount(query - start, weights=known > own[query], minlength=len(rows)).astype(np.int64)
        ties[rows] -= np.bincount(query - start, weights=known == own[query], minlength=len(rows)).astype(np.int64)
    # The target is among its own known answers, so the ties no longer count it.
    return better, ties, len(score) - size + 1
