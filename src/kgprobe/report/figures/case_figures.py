"""Case studies: queries on which two models differ most, by popularity group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgprobe.aggregate import PopularityWeight
from kgprobe.arrays import Floats, Ints
from kgprobe.errors import DataError
from kgprobe.report.figures.style import PAGE, Look, in_style, legend_above, log_axis, looks, panels, plain, whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from kgprobe.comparison import Lineup
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.ranks import Ranks

GROUPS = ("Most popular quarter", "Second quarter", "Third quarter", "Rarest quarter")


@dataclass(frozen=True)
class Profile:
    """The relations of an entity in the training triples."""

    label: str
    occurrences: int
    shares: dict[str, float]


@dataclass(frozen=True)
class Case:
    """A query with the ranks of two models.

    Attributes:
        row: Its row in the line-up.
        given: The given entity.
        relation: The name of the relation.
        target: The target entity.
        predicts_tail: Whether the target is the tail.
        top_share: The share of queries whose triple is at least as popular.
        ranks: The rank of the target by each model, median over the seeds.
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
    """Queries of similar popularity."""

    name: str
    queries: int
    means: tuple[float, float]
    cases: tuple[Case, ...]


@dataclass(frozen=True)
class CaseStudy:
    """Case studies of two models by popularity group, the most popular first."""

    first: str
    second: str
    groups: tuple[CaseGroup, ...]


def popularity_groups(ranks: Ranks, groups: int = len(GROUPS)) -> tuple[Ints, Floats]:
    """The popularity group of each query (0 is the most popular), and the share of queries at least as popular.

    Groups are quantiles of the weight of the triple; queries with equal weights are in the same group.

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
    middle = before + through - 1  # twice the middle position among equal weights
    return middle * groups // (2 * len(ranks)), through / len(ranks)


def relation_profiles(graph: KnowledgeGraph, entities: Sequence[int]) -> list[Profile]:
    """The relations of each entity in the training triples.

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
            ["the graph has only counts of the training triples, not the triples"],
            "use a graph with its training triples",
        )
    ids = np.asarray(entities, dtype=np.int64)
    limits = np.searchsorted(counts.pair_keys, np.stack([ids, ids + 1]) * counts.num_relations)
    profiles = []
    for entity, label, start, stop in zip(ids, graph.entity_name(ids), *limits, strict=True):
        relations = graph.relation_name(counts.pair_keys[start:stop] % counts.num_relations)
        shares: Counter[str] = Counter()  # relations may share a label
        for name, count in zip(relations, counts.pair_counts[start:stop].tolist(), strict=True):
            shares[name] += count
        degree = int(counts.degree[entity])
        profiles.append(Profile(label, degree, {name: count / degree for name, count in shares.most_common()}))
    return profiles


def case_study(lineup: Lineup, graph: KnowledgeGraph, first: str, second: str, *, count: int = 1) -> CaseStudy:
    """Select the queries of each group with the largest rank ratios between two models."""
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
    relations = graph.relation_name(queries.relation[every])
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
    """The rows in which the first model leads most, then those in which the second does; ties in row order."""
    picked = [rows[np.argsort(-sign * lead[rows], kind="stable")][:count] for sign in (1, -1)]
    return np.concatenate([part[sign * lead[part] > 0] for part, sign in zip(picked, (1, -1), strict=True)])


def _pair(values: Floats) -> tuple[float, float]:
    return float(values[0]), float(values[1])


_HEADING = 0.75  # height of a group heading; a query has height 1
_QUERY, _OTHERS = "0.2", ("0.62", "0.78", "0.70", "0.86")
_LONGEST = 26


@in_style
def draw_case_studies(study: CaseStudy, look_of: Mapping[str, Look] | None = None) -> Figure:
    """Queries by popularity group: on the left the ranks of both models, on the right the relations of the entities."""
    look = look_of or looks([study.first, study.second])
    height = sum(_HEADING + len(group.cases) for group in study.groups)
    figure, (ranks, profiles) = panels(PAGE, 1.0 + 0.36 * height, 1, 2, sharey=True, width_ratios=[3, 2])
    places: list[float] = []
    top = 0.0
    for group in study.groups:
        heading = (
            f"{group.name} ({group.queries:,} queries; geometric mean rank "
            f"{plain(study.first, 14)} {group.means[0]:,.1f}, {plain(study.second, 14)} {group.means[1]:,.1f})"
        )
        ranks.annotate(
            heading,
            (0, top + _HEADING / 2),
            xycoords=("figure fraction", "data"),
            va="center",
            weight="bold",
            fontsize=7,
        )
        top += _HEADING
        for case in group.cases:
            places.append(top + 0.5)
            _draw_ranks(ranks, case, places[-1], (look[study.first], look[study.second]))
            _draw_profiles(profiles, case, places[-1])
            top += 1
    cases = [case for group in study.groups for case in group.cases]
    most = max((rank for case in cases for rank in case.ranks), default=1.0)
    log_axis(ranks, "x", 0.8, 1.6 * max(10.0, most))
    ranks.set_yticks(places, [_query(case) for case in cases])
    ranks.set(ylim=(top, 0), xlabel="rank of the target\n(median over seeds)")
    profiles.set(xlim=(0, 1), xlabel="relations in the training triples\n(given entity above, target below)")
    profiles.set_xticks([0, 0.5, 1], ["0%", "50%", "100%"])
    for axes in (ranks, profiles):
        axes.spines["left"].set_visible(False)
        axes.tick_params("y", length=0)
    profiles.tick_params(labelleft=False)
    _name_colours(figure, study, look)
    return figure


def _query(case: Case) -> str:
    given, relation = plain(case.given.label, _LONGEST), plain(case.relation, _LONGEST)
    asked = f"({given}, {relation}, ?)" if case.predicts_tail else f"(?, {relation}, {given})"
    return f"{asked}\n→ {plain(case.target.label, _LONGEST)}"


def _draw_ranks(axes: Axes, case: Case, place: float, look: tuple[Look, Look]) -> None:
    axes.plot(case.ranks, (place, place), color="0.7", linewidth=1.2, zorder=1)
    close = max(case.ranks) < 3 * min(case.ranks)
    for rank, own in zip(case.ranks, look, strict=True):
        axes.plot(rank, place, color=own.colour, marker=own.marker, markersize=5, linestyle="none")
        outward = "right" if rank == min(case.ranks) else "left"
        ha = outward if close else "center"
        axes.annotate(whole(rank), (rank, place), xytext=(0, 5), textcoords="offset points", ha=ha, fontsize=7)


def _draw_profiles(axes: Axes, case: Case, place: float) -> None:
    for profile, middle in ((case.given, place - 0.2), (case.target, place + 0.2)):
        _draw_profile(axes, profile, case.relation, middle)


def _draw_profile(axes: Axes, profile: Profile, relation: str, middle: float) -> None:
    """The relation of the query in dark grey first, then the others in lighter greys."""
    own = profile.shares.get(relation, 0.0)
    others = [share for name, share in profile.shares.items() if name != relation]
    left = 0.0
    for i, share in enumerate([own, *others]):
        colour = _QUERY if i == 0 else _OTHERS[i % len(_OTHERS)]
        axes.barh(middle, share, 0.32, left, color=colour, edgecolor="white", linewidth=0.4)
        left += share
    note = f"{own:.0%} of {profile.occurrences:,}" if profile.occurrences else "not in training"
    axes.text(1.02, middle, note, va="center", fontsize=7)


def _name_colours(figure: Figure, study: CaseStudy, look: Mapping[str, Look]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    models = [
        Line2D([], [], color=look[m].colour, marker=look[m].marker, linestyle="none", label=plain(m))
        for m in (study.first, study.second)
    ]
    shares = [Patch(color=_QUERY, label="relation of the query"), Patch(color=_OTHERS[0], label="other relations")]
    handles = [*models, *shares]
    legend_above(figure, handles, [str(handle.get_label()) for handle in handles])
