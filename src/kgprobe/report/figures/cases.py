"""Case studies: in four groups of popularity, the queries on which two models differ most, and what training says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kgprobe.aggregate import PopularityWeight
from kgprobe.errors import DataError

if TYPE_CHECKING:
    from kgprobe.compare import Lineup
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.ranks import Ranks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GROUPS = ("Most popular quarter", "Second quarter", "Third quarter", "Rarest quarter")


@dataclass(frozen=True)
class Profile:
    """What an entity is known for: the relations of its training triples.

    Attributes:
        label: The entity's.
        occurrences: How often it is head or tail in the training triples.
        shares: The share of each relation in them, largest first, by its label.
    """

    label: str
    occurrences: int
    shares: dict[str, float]


@dataclass(frozen=True)
class Case:
    """A query, and what two models make of it.

    Attributes:
        row: Its row in the lineup.
        given: The entity that is given.
        relation: The label of the relation.
        target: The entity that is to be found.
        predicts_tail: Whether the target is the tail.
        top_share: The share of queries whose triple is at least as popular.
        ranks: The rank of the target by either model, median over the seeds.
    """

    row: int
    given: Profile
    relation: str
    target: Profile
    predicts_tail: bool
    top_share: float
    ranks: tuple[float, float]


@dataclass(frozen=True)
class CaseGroup:
    """Queries of similar popularity.

    Attributes:
        name: What the group is called.
        queries: How many there are.
        means: The geometric mean of either model's ranks of them.
        cases: Those on which the models differ most, first those on which the first model is ahead.
    """

    name: str
    queries: int
    means: tuple[float, float]
    cases: tuple[Case, ...]


@dataclass(frozen=True)
class CaseStudy:
    """Two models in groups of popularity, the most popular first."""

    first: str
    second: str
    groups: tuple[CaseGroup, ...]


def popularity_groups(ranks: Ranks, groups: int = len(GROUPS)) -> tuple[Ints, Floats]:
    """The group of every query by the weight of its triple, 0 the most popular, and how many are at least as popular.

    Groups have about equally many queries; those of equal weight stay together.

    Example:
        >>> from kgprobe.ranks import Ranks
        >>> ranks = Ranks.from_columns(
        ...     head=[0, 0], relation=[0, 0], tail=[1, 1], side=["head", "tail"], rank=[1, 2], candidates=[5, 5],
        ...     entity_popularity=[0.1, 0.5], relation_popularity=[0.5, 1.0],
        ... )
        >>> group, share = popularity_groups(ranks)
        >>> group.tolist(), share.tolist()
        ([2, 0], [1.0, 0.5])
    """
    weighting = PopularityWeight(1.0, 1.0)
    weight = weighting.weights({name: ranks.numbers(name) for name in weighting.columns}, np.ones(len(ranks)))
    ordered = np.sort(weight)
    before, through = (np.searchsorted(ordered, weight, side=side) for side in ("left", "right"))
    middle = before + through - 1  # twice the position of the middle one of those of equal weight
    return middle * groups // (2 * len(ranks)), through / len(ranks)


def relation_profiles(graph: KnowledgeGraph, entities: Sequence[int]) -> list[Profile]:
    """What each entity is known for.

    Example:
        >>> from kgprobe.graph import KnowledgeGraph
        >>> graph = KnowledgeGraph.from_triples(
        ...     train=[[0, 0, 1], [0, 1, 2], [2, 1, 0]], relation_labels=["likes", "knows"]
        ... )
        >>> relation_profiles(graph, [0])
        [Profile(label='0', occurrences=3, shares={'knows': 0.6666666666666666, 'likes': 0.3333333333333333})]
    """
    counts = graph.popularity.counts
    if not counts.complete:
        raise DataError(
            f"{graph.name}: the relations of an entity cannot be listed",
            ["only some counts of the training triples are here, not the triples"],
            "use a graph that has its training triples",
        )
    wanted = np.asarray(entities, dtype=np.int64)
    limits = np.searchsorted(counts.pair_keys, np.stack([wanted, wanted + 1]) * counts.num_relations)
    profiles = []
    for entity, label, start, stop in zip(wanted, graph.entity_label(wanted), *limits, strict=True):
        relations = graph.relation_label(counts.pair_keys[start:stop] % counts.num_relations)
        shares: Counter[str] = Counter()  # relations may have the same name
        for name, count in zip(relations, counts.pair_counts[start:stop].tolist(), strict=True):
            shares[name] += count
        degree = int(counts.degree[entity])
        profiles.append(Profile(label, degree, {name: count / degree for name, count in shares.most_common()}))
    return profiles


def case_study(lineup: Lineup, graph: KnowledgeGraph, first: str, second: str, *, count: int = 1) -> CaseStudy:
    """Choose the queries of every group on which either model's rank is most times better than the other's.

    Args:
        lineup: Has both models, and the popularity of the queries.
        graph: Labels, and the training triples.
        first: One model.
        second: The other.
        count: How many queries in each group for either model.
    """
    ranks = np.array([np.median([run.rank for run in lineup.runs[model]], axis=0) for model in (first, second)])
    logs = np.log(ranks)
    lead = logs[1] - logs[0]
    group, top_share = popularity_groups(lineup.first)
    members = [np.flatnonzero(group == code) for code in range(len(GROUPS))]
    chosen = [_furthest(rows, lead, count) for rows in members]
    every = np.concatenate(chosen)
    queries = lineup.first
    given = np.where(queries.predicts_tail, queries.head, queries.tail)
    profiles = relation_profiles(graph, np.concatenate([given[every], queries.target[every]]).tolist())
    relations = graph.relation_label(queries.relation[every])
    cases = [
        Case(
            row=int(row),
            given=profiles[i],
            relation=relations[i],
            target=profiles[len(every) + i],
            predicts_tail=bool(queries.predicts_tail[row]),
            top_share=float(top_share[row]),
            ranks=_pair(ranks[:, row]),
        )
        for i, row in enumerate(every)
    ]
    ends = np.cumsum([len(rows) for rows in chosen])
    return CaseStudy(
        first,
        second,
        tuple(
            CaseGroup(
                name=name,
                queries=len(rows),
                means=_pair(np.exp(logs[:, rows].mean(axis=1))),
                cases=tuple(cases[end - len(own) : end]),
            )
            for name, rows, own, end in zip(GROUPS, members, chosen, ends, strict=True)
            if len(rows)
        ),
    )


def _furthest(rows: Ints, lead: Floats, count: int) -> Ints:
    """The rows in which the first is most ahead, then those in which the second is; the earlier one where equal."""
    picked = [rows[np.argsort(-sign * lead[rows], kind="stable")][:count] for sign in (1, -1)]
    return np.concatenate([part[sign * lead[part] > 0] for part, sign in zip(picked, (1, -1), strict=True)])


def _pair(values: Floats) -> tuple[float, float]:
    return float(values[0]), float(values[1])
