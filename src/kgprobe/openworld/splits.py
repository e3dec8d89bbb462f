"""`split_world`: take a graph as complete, and divide its triples into training, known and missing ones."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from kgprobe.arrays import AnyInts, Flags, Floats, Ints, codes_of, pair_keys, run_starts
from kgprobe.errors import DataError, UsageError
from kgprobe.graph import GraphLike, KnowledgeGraph, as_graph
from kgprobe.openworld.world import OpenWorld
from kgprobe.ranks import Ranks


def tail_popularity(graph: KnowledgeGraph) -> Floats:
    """For each triple, the degree of its tail entity.

    Example:
        >>> tail_popularity(KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[0, 0, 2], [1, 0, 2]])).tolist()
        [2.0, 2.0, 2.0]
    """
    head, _, tail = graph.triples().T
    degree: Ints = np.bincount(np.concatenate([head, tail]), minlength=graph.num_entities)
    return np.asarray(degree[tail], dtype=np.float64)


def rank_scores(ranks: Ranks, graph: KnowledgeGraph) -> Floats:
    """For each triple of the graph, minus the mean rank of its tail over training runs; NaN if it was not ranked.

    Raises:
        DataError: The table has triples that are not in the graph, or no tail queries.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[0, 0, 2]])
        >>> ranks = Ranks.from_columns(head=[0], relation=[0], tail=[2], side=["tail"], rank=[3], candidates=[3])
        >>> rank_scores(ranks, graph).tolist()
        [nan, -3.0]
    """
    tails = ranks.filter(ranks.predicts_tail)
    triples, ranked = codes_of([list(graph.triples().T), [tails.head, tails.relation, tails.tail]])
    foreign = int((~np.isin(ranked, triples)).sum())
    problems = [f"{foreign:,} of {len(tails):,} ranked triples are not in {graph.name}"] if foreign else []
    problems += [] if len(tails) else ["it has no tail queries"]
    if problems:
        raise DataError(f"{ranks.info.model or 'ranks'}: these ranks cannot score the triples of the graph", problems)
    size = int(max(triples.max(), ranked.max())) + 1
    total, count = np.bincount(ranked, tails.rank, size), np.bincount(ranked, minlength=size)
    means = np.full(size, np.nan)
    np.divide(-total, count, out=means, where=count > 0)
    return means[triples]


def split_world(
    graph: GraphLike,
    density: float = 0.75,
    train_share: float = 0.7,
    seed: int = 0,
    score: ArrayLike | None = None,
    odds: float = 1.0,
    valid: float = 0.0,
    name: str | None = None,
) -> OpenWorld:
    """Make an open world from a graph, all of whose splits together are taken as complete.

    Each triple is kept with probability ``density``, and a kept one is trained on with probability ``train_share``. The
    other kept triples are known, the rest is missing. Which of the hard triples (those that are not trained on) are
    missing may depend on a score:

        ln odds(missing) = a + ln(odds) * (depth - 1/2),

    where the depth is 0 for the answer of its tail query with the highest score and 1 for the one with the lowest, and
    a is such that as many triples are missing, on average, as without a score. With infinite odds, the answers of a
    query with the lowest scores are missing, as many as would be missing at random.

    The split does not depend on the order of the triples. For a given seed, the training triples depend only on
    ``density`` and ``train_share``.

    Args:
        graph: The graph.
        density: Share of the triples that is kept; 1 minus the missing rate.
        train_share: Share of the kept triples that is trained on.
        seed: Random seed.
        score: A number for each triple, in the order of ``graph.triples()``: higher is less likely missing. It may be
            NaN for training triples.
        odds: Odds of being missing of the answer with the lowest score, over those of the answer with the highest.
        valid: Share of the training triples that is set aside for validation.
        name: Name of the world in reports.

    Raises:
        UsageError: An argument is out of range.
        DataError: The graph has no triples to split, or a hard triple has no score.

    Example:
        >>> from kgprobe.graph.family_tree import family_tree
        >>> world = split_world(family_tree(trees=2), density=0.75)
        >>> {part: round(share, 2) for part, share in world.shares.items()}
        {'train': 0.52, 'valid': 0.0, 'known': 0.23, 'missing': 0.25, 'hard_missing': 0.52}
    """
    shares = {"density": float(density), "train_share": float(train_share)}
    _check(shares, odds, valid, seed, scored=score is not None)
    graph = as_graph(graph)
    triples, rows = _distinct_triples(graph)
    scores = None if score is None else _as_scores(score, graph)[rows]
    rng = np.random.default_rng(seed)
    learned = rng.random(len(triples)) < density * train_share
    hidden = ~learned
    missing = np.zeros(len(triples), dtype=bool)
    rate = (1 - density) / (1 - density * train_share) if density < 1 else 0.0
    draws = rng.random(len(triples))[hidden]
    missing[hidden] = _missing(triples[hidden], draws, rate, _of_hard(scores, hidden), odds)
    selecting = learned & (rng.random(len(triples)) < valid)
    return OpenWorld(
        name or f"{graph.name}-{density:g}",
        graph.num_entities,
        graph.num_relations,
        train=triples[learned & ~selecting],
        valid=triples[selecting],
        known=triples[hidden & ~missing],
        missing=triples[missing],
        entity_labels=graph.entity_labels,
        relation_labels=graph.relation_labels,
        entity_names=graph.entity_names,
        relation_names=graph.relation_names,
        settings={
            "graph": graph.name,
            **shares,
            "valid": float(valid),
            "seed": int(seed),
            "score": None if score is None else "given",
            "odds": float(odds) if math.isfinite(odds) else str(odds),
        },
    )


def _check(shares: Mapping[str, float], odds: float, valid: float, seed: int, *, scored: bool) -> None:
    problems = [
        f"{name} is {share}; it must be above 0 and at most 1" for name, share in shares.items() if not 0 < share <= 1
    ]
    if not 0 <= valid < 1:
        problems.append(f"valid is {valid}; it must be at least 0 and below 1")
    if not odds > 0:
        problems.append(f"odds is {odds}; it must be above 0 (1: the score does not matter)")
    elif odds != 1 and not scored:
        problems.append(f"odds is {odds:g}, which needs a score")
    if seed < 0:
        problems.append(f"seed is {seed}; it must be at least 0")
    if problems:
        remedy = "use for example density=0.75 and train_share=0.7, and give a score if odds is not 1"
        raise UsageError("invalid settings of an open world", problems, remedy)


def _distinct_triples(graph: KnowledgeGraph) -> tuple[AnyInts, AnyInts]:
    """The distinct triples sorted by head, relation and tail, and the row of each in ``graph.triples()``."""
    if graph.train_counts is not None:
        problem = "it has only counts of its training triples"
        raise DataError(f"{graph.name}: cannot be split", [problem], "use a graph that has its training triples")
    triples = graph.triples().astype(np.int64)
    if not len(triples):
        raise DataError(f"{graph.name}: the graph has no triples to split")
    order = np.lexsort(triples.T[::-1])
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(triples[order], axis=0) != 0).any(axis=1)
    return triples[order[new]], order[new]


def _as_scores(score: ArrayLike, graph: KnowledgeGraph) -> Floats:
    scores, count = np.asarray(score), len(graph.triples())
    if scores.shape != (count,) or scores.dtype.kind not in "fiu":
        problem = f"expected a number for each of {count:,} triples, found {scores.dtype} of shape {scores.shape}"
        raise DataError(f"{graph.name}: invalid scores", [problem])
    return scores.astype(np.float64)


def _of_hard(scores: Floats | None, hidden: Flags) -> Floats | None:
    if scores is None:
        return None
    own = scores[hidden]
    if absent := int(np.isnan(own).sum()):
        raise DataError(
            f"{absent:,} of {len(own):,} hard triples have no score",
            remedy="score all triples that are not trained on: 'kgprobe openworld evaluate --task all' ranks them",
        )
    return own


def _missing(triples: AnyInts, draws: Floats, rate: float, score: Floats | None, odds: float) -> Flags:
    """Which of the hard triples are missing."""
    if score is None or odds == 1 or rate in (0, 1):
        return draws < rate
    query = _query_of(triples)
    if math.isinf(odds):
        return _lowest(query, score, draws, rate)
    return draws < _chances(depths(query, score), rate, math.log(odds))


def _query_of(triples: AnyInts) -> AnyInts:
    """The index of the tail query of each triple; the triples are sorted by query."""
    head, relation, _ = triples.T
    starts = run_starts(pair_keys(head, relation, int(relation.max(initial=0)) + 1))
    return np.repeat(np.arange(len(starts)), np.diff(starts, append=len(triples)))


def depths(query: AnyInts, score: Floats) -> Floats:
    """Position of each triple by score among those of its query: 0 for the highest score, 1 for the lowest.

    Equal scores have equal depth; a triple that is alone in its query has depth 1/2.

    Example:
        >>> depths(np.array([0, 0, 0, 0, 1]), np.array([5.0, 9.0, 5.0, 1.0, 3.0])).tolist()
        [0.5, 0.0, 0.5, 1.0, 0.5]
    """
    order = np.lexsort((-score, query))
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(query[order]) != 0) | (score[order][1:] != score[order][:-1])
    ties = np.flatnonzero(new)
    length = np.diff(ties, append=len(order))
    size = np.bincount(query)
    before = np.repeat(np.cumsum(size) - size, size)
    last = np.repeat(size - 1, size)
    place = np.repeat(ties + (length - 1) / 2, length) - before
    depth = np.empty(len(order))
    depth[order] = np.where(last > 0, place / np.maximum(last, 1), 0.5)
    return depth


def _chances(depth: Floats, rate: float, log_odds: float) -> Floats:
    """The probability of each triple to be missing, ``rate`` on average."""
    from scipy.optimize import brentq
    from scipy.special import expit, logit

    tilt = log_odds * (depth - 0.5)
    reach = abs(log_odds) / 2
    level = brentq(lambda a: float(expit(a + tilt).mean()) - rate, logit(rate) - reach, logit(rate) + reach)
    return np.asarray(expit(level + tilt))


def _lowest(query: AnyInts, score: Floats, draws: Floats, rate: float) -> Flags:
    """The answers of each query with the lowest scores, as many as are missing at random; draws break ties."""
    count, size = np.bincount(query, draws < rate), np.bincount(query)
    order = np.lexsort((draws, -score, query))
    place = np.arange(len(order)) - np.repeat(np.cumsum(size) - size, size)
    lowest = np.empty(len(order), dtype=bool)
    lowest[order] = place >= np.repeat(size - count, size)
    return lowest
