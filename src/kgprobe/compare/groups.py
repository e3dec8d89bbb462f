"""Groups of queries that are compared separately, each with the clusters that it has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kgprobe.aggregate import distinct, parse_groupings
from kgprobe.compare.lineup import Clusters, Codes, Lineup
from kgprobe.errors import UsageError
from kgprobe.metrics.accumulator import sortable


@dataclass(frozen=True)
class Group:
    """Some of the queries.

    Attributes:
        name: What it is called, by column.
        queries: The rows of its queries.
        cells: Its clusters, among the cells of all groups.
    """

    name: dict[str, Any]
    queries: Codes
    cells: slice


@dataclass(frozen=True)
class Cells:
    """Queries by group and, within a group, by cluster, so that one pass serves all groups.

    Attributes:
        clusters: The cell of every query; those of a group are neighbours, in the order of the clusters.
        groups: The groups.
    """

    clusters: Clusters
    groups: Sequence[Group]


def whole(clusters: Clusters) -> Cells:
    """All queries as a single group without a name."""
    return Cells(clusters, [Group({}, np.arange(len(clusters.codes)), slice(0, clusters.count))])


def grouped(lineup: Lineup, by: str | Iterable[str], clusters: Clusters) -> Cells:
    """The groups of a line-up with the clusters of each.

    Example:
        >>> from kgprobe.compare.lineup import line_up
        >>> from kgprobe.ranks import Ranks
        >>> ranks = Ranks.from_columns(
        ...     head=[0, 0], relation=[0, 0], tail=[1, 1], side=["tail", "head"], rank=[1, 2], candidates=[9, 9]
        ... )
        >>> lineup = line_up({"mine": ranks})
        >>> found = grouped(lineup, ["side"], lineup.clusters("triple"))
        >>> [(group.name, group.queries.tolist(), group.cells) for group in found.groups]
        [({'side': 'head'}, [1], slice(0, 1, None)), ({'side': 'tail'}, [0], slice(1, 2, None))]
    """
    found = groups(lineup, by)
    if len(found) == 1:
        return Cells(clusters, [Group(*found[0], slice(0, clusters.count))])
    place = np.empty(len(lineup), dtype=np.int64)
    for i, (_, rows) in enumerate(found):
        place[rows] = i
    pairs, cell = np.unique(place * clusters.count + clusters.codes, return_inverse=True)
    ends = np.searchsorted(pairs, np.arange(len(found) + 1) * clusters.count).tolist()
    return Cells(
        Clusters(cell, len(pairs)),
        [Group(name, rows, slice(*ends[i : i + 2])) for i, (name, rows) in enumerate(found)],
    )


def groups(lineup: Lineup, by: str | Iterable[str]) -> list[tuple[dict[str, Any], Codes]]:
    """Name and rows of every group, in the order of `kgprobe.scores`; where none is asked for, all without a name."""
    groupings = parse_groupings([by] if isinstance(by, str) else by)
    if not groupings:
        return [({}, np.arange(len(lineup)))]
    ranked = [grouping.name for grouping in groupings if grouping.name in ("rank", "worst_rank", "seed", "ties")]
    if ranked:
        raise UsageError(f"models do not share groups by {', '.join(ranked)}", remedy="group by what queries have")
    for grouping in groupings:
        grouping.learn(lineup.first)
    values, which = distinct([grouping.codes(lineup.first) for grouping in groupings], len(lineup))
    rows = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
    names = [
        {grouping.name: grouping.label(code) for grouping, code in zip(groupings, codes, strict=True)}
        for codes in zip(*values, strict=True)
    ]
    found = list(zip(names, rows, strict=True))
    return sorted(found, key=lambda group: [sortable(name) for name in group[0].values()])
