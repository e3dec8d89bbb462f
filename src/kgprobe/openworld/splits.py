"""Take a graph as complete and remove some of its triples."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kgprobe.arrays import AnyInts, Flags, Floats, codes_of, pair_keys, run_starts
from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.openworld.world import OpenWorld
from kgprobe.ranks import Ranks


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


def split_world(
    graph: KnowledgeGraph,
    density: float = 0.75,
    train_share: float = 0.7,
    seed: int = 0,
    score: ArrayLike | None = None,
    odds: float = 1.0,
    valid: float = 0.0,
    name: str | None = None,
) -> OpenWorld:
    """Hide facts of a graph, all of whose splits together are taken as complete.

    Each fact is kept with probability ``density``, and a kept one is trained on with probability ``train_share``; the
    other kept ones are known answers, the rest is missing. Which facts are hidden may depend on a score: the odds of
    a hard fact (one that is not trained on) to be missing are

        ln odds(missing) = a + ln(odds) * (depth - 1/2),

    where the depth is 0 for the answer of its tail query with the highest score and 1 for the one with the lowest, and
    a is such that as many facts are missing, on average, as without a score. With infinite odds the answers of a query
    with the lowest scores are missing, as many as would be missing at random.

    The split does not depend on the order of the facts. For one seed, what is trained on depends on ``density`` and
    ``train_share`` alone.

    Args:
        graph: The graph.
        density: The share of the facts that is kept; 1 minus the missing rate.
        train_share: The share of the kept facts that is trained on.
        seed: Another seed is another split.
        score: A number for each fact, in the order of ``graph.triples()``: higher is less likely missing. It may be NaN
            for facts that are trained on.
        odds: The odds of the answer with the lowest score to be missing, over those of the one with the highest.
        valid: The share of the facts that are trained on which is set aside to select models by.
        name: What reports call the world.

    Raises:
        UsageError: The numbers make no sense.
        DataError: The graph has no facts to split, or a hard fact has no score.

    Example:
        >>> from kgprobe.graph.family_tree import family_tree
        >>> world = split_world(family_tree(trees=2), density=0.75)
        >>> {part: round(share, 2) for part, share in world.shares.items()}
        {'train': 0.52, 'valid': 0.0, 'known': 0.23, 'missing': 0.25, 'hard_missing': 0.52}
    """
    shares = {"density": float(density), "train_share": float(train_share)}
    _check(shares, odds, valid, seed, scored=score is not None)
    facts, rows = _distinct_facts(graph)
    given = None if score is None else _as_scores(score, graph, rows)
    rng = np.random.default_rng(seed)
    learned = rng.random(len(facts)) < density * train_share
    hidden = ~learned
    missing = np.zeros(len(facts), dtype=bool)
    rate = (1 - density) / (1 - density * train_share) if density < 1 else 0.0
    missing[hidden] = _missing(facts[hidden], rng.random(len(facts))[hidden], rate, _of_hard(given, hidden), odds)
    selecting = learned & (rng.random(len(facts)) < valid)
    return OpenWorld(
        name or f"{graph.name}-{density:g}",
        graph.num_entities,
        graph.num_relations,
        train=facts[learned & ~selecting],
        valid=facts[selecting],
        known=facts[hidden & ~missing],
        missing=facts[missing],
        entity_labels=graph.entity_labels,
        relation_labels=graph.relation_labels,
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
        f"{name} is {share}, expected more than 0 and at most 1" for name, share in shares.items() if not 0 < share <= 1
    ]
    if not 0 <= valid < 1:
        problems.append(f"valid is {valid}, expected a share from 0 to less than 1")
    if not odds > 0:
        problems.append(f"odds are {odds}, expected more than 0 (1: the score does not matter)")
    elif odds != 1 and not scored:
        problems.append(f"odds of {odds:g} need a score")
    if seed < 0:
        problems.append(f"seed is {seed}, expected 0 or more")
    if problems:
        remedy = "take for example a density of 0.75 and a train share of 0.7, and a score where the odds are not 1"
        raise UsageError("no world can be split like this", problems, remedy)


def _distinct_facts(graph: KnowledgeGraph) -> tuple[AnyInts, AnyInts]:
    """The facts in order of head, relation and tail, each once, and where they are among those of the graph."""
    if graph.train_counts is not None:
        problem = "only counts of the training triples are here, not the triples"
        raise DataError(f"{graph.name}: it cannot be taken as complete", [problem], "use a graph that has them")
    triples = graph.triples().astype(np.int64)
    if not len(triples):
        raise DataError(f"{graph.name}: it has no facts to split")
    order = np.lexsort(triples.T[::-1])
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(triples[order], axis=0) != 0).any(axis=1)
    return triples[order[new]], order[new]


def _as_scores(score: ArrayLike, graph: KnowledgeGraph, rows: AnyInts) -> Floats:
    scores, count = np.asarray(score), len(graph.triples())
    if scores.shape != (count,) or scores.dtype.kind not in "fiu":
        found = f"{scores.dtype} of shape {scores.shape}"
        raise DataError(
            f"{graph.name}: these are no scores", [f"expected a number for each of {count:,} facts, found {found}"]
        )
    return scores[rows].astype(np.float64)


def _of_hard(scores: Floats | None, hidden: Flags) -> Floats | None:
    if scores is None:
        return None
    own = scores[hidden]
    if absent := int(np.isnan(own).sum()):
        raise DataError(
            f"{absent:,} of {len(own):,} hard facts have no score",
            remedy="score all that is not trained on: 'kgprobe openworld evaluate --task all' makes such ranks",
        )
    return own


def _missing(facts: AnyInts, draws: Floats, rate: float, score: Floats | None, odds: float) -> Flags:
    """Which of the hard facts, in their order, are missing."""
    if score is None or odds == 1 or rate in (0, 1):
        return draws < rate
    query = _query_of(facts)
    if math.isinf(odds):
        return _lowest(query, score, draws, rate)
    return draws < _chances(depths(query, score), rate, math.log(odds))


def _query_of(facts: AnyInts) -> AnyInts:
    """The number of the tail query of each fact; facts of one query are neighbours."""
    head, relation, _ = facts.T
    starts = run_starts(pair_keys(head, relation, int(relation.max(initial=0)) + 1))
    return np.repeat(np.arange(len(starts)), np.diff(starts, append=len(facts)))


def depths(query: AnyInts, score: Floats) -> Floats:
    """How deep each fact is by score among those of its query: 0 for the highest, 1 for the lowest.

    Equal scores are equally deep, and one that is alone is in the middle.

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
    found = np.empty(len(order))
    found[order] = np.where(last > 0, place / np.maximum(last, 1), 0.5)
    return found


def _chances(depth: Floats, rate: float, log_odds: float) -> Floats:
    """The chance of each fact to be missing, ``rate`` on average."""
    from scipy.optimize import brentq
    from scipy.special import expit, logit

    tilt = log_odds * (depth - 0.5)
    reach = abs(log_odds) / 2
    level = brentq(lambda a: float(expit(a + tilt).mean()) - rate, logit(rate) - reach, logit(rate) + reach)
    chances: Floats = expit(level + tilt)
    return chances


def _lowest(query: AnyInts, score: Floats, draws: Floats, rate: float) -> Flags:
    """The answers with the lowest scores of each query, as many as are missing at random; draws settle ties."""
    count, size = np.bincount(query, draws < rate), np.bincount(query)
    order = np.lexsort((draws, -score, query))
    place = np.arange(len(order)) - np.repeat(np.cumsum(size) - size, size)
    found = np.empty(len(order), dtype=bool)
    found[order] = place >= np.repeat(size - count, size)
    return found
