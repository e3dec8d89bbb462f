"""Scores by which facts may be hidden: what is popular, or what a model ranks high, is more likely known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.openworld.codes import codes_of
from kgprobe.ranks import Ranks

Floats = NDArray[np.float64]


def tail_popularity(graph: KnowledgeGraph) -> Floats:
    """For each fact, how many facts its tail is in.

    Example:
        >>> tail_popularity(KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[0, 0, 2], [1, 0, 2]])).tolist()
        [2.0, 2.0, 2.0]
    """
    head, _, tail = graph.triples().T
    degree: NDArray[np.int64] = np.bincount(np.concatenate([head, tail]), minlength=graph.num_entities)
    popularity: Floats = degree[tail].astype(np.float64)
    return popularity


def rank_scores(ranks: Ranks, graph: KnowledgeGraph) -> Floats:
    """For each fact, minus the rank of its tail, on average over training runs; NaN where it was not ranked.

    Raises:
        DataError: The table ranks facts that the graph does not have, or no tails.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[0, 0, 2]])
        >>> ranks = Ranks.from_columns(head=[0], relation=[0], tail=[2], side=["tail"], rank=[3], candidates=[3])
        >>> rank_scores(ranks, graph).tolist()
        [nan, -3.0]
    """
    tails = ranks.filter(ranks.predicts_tail)
    facts, ranked = codes_of([list(graph.triples().T), [tails.head, tails.relation, tails.tail]])
    strange = int((~np.isin(ranked, facts)).sum())
    problems = [f"{strange:,} of {len(tails):,} ranked facts are not in {graph.name}"] if strange else []
    problems += [] if len(tails) else ["it ranks no tails"]
    if problems:
        raise DataError(f"{ranks.info.model or 'ranks'}: these ranks are no scores of its facts", problems)
    size = int(max(facts.max(), ranked.max())) + 1
    total, count = np.bincount(ranked, tails.rank, size), np.bincount(ranked, minlength=size)
    means = np.full(size, np.nan)
    np.divide(-total, count, out=means, where=count > 0)
    return means[facts]
