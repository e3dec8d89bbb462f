"""The queries of a page, or a sample of them, as arrays.

Ranks and candidate counts are stored as codes into tables of their distinct values, so that a slider step costs two
look-ups and a product per rank. Columns that several runs share are stored once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.aggregate.groups import ByQuantile
from kgprobe.arrays import Floats, Ints, distinct
from kgprobe.comparison.lineup import Lineup
from kgprobe.graph import KnowledgeGraph
from kgprobe.ranks import Ranks
from kgprobe.ranks.schema import POPULARITY

_BANDS = 5


@dataclass
class Content:
    """A part of the data of a page."""

    header: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    steps: frozenset[str] = frozenset()

    def __or__(self, other: Content) -> Content:
        return Content(self.header | other.header, self.arrays | other.arrays, self.steps | other.steps)


def query_content(lineup: Lineup, graph: KnowledgeGraph | None, weighted: bool) -> Content:
    """Triples, sides, ranks, candidate counts, labels and, if weighted, popularity of all queries.

    Example:
        >>> from kgprobe.comparison import line_up
        >>> ranks = Ranks.from_columns(
        ...     head=[7, 7], relation=[0, 0], tail=[9, 9], side=["head", "tail"], rank=[1, 2.5], candidates=[9, 8]
        ... )
        >>> content = query_content(line_up({"mine": ranks}), None, weighted=False)
        >>> content.header["runs"], content.arrays["ranks"].tolist(), content.arrays["rank0"].tolist()
        ([{'model': 0, 'rank': 0, 'candidates': 0, 'popularity': None}], [1.0, 2.5], [0, 1])
        >>> content.arrays["entities"].tolist(), content.arrays["triple"].tolist(), content.arrays["head"].tolist()
        ([7, 9], [0, 0], [0])
    """
    runs = [(number, run) for number, own in enumerate(lineup.runs.values()) for run in own]
    tables = [run for _, run in runs]
    rank_values, ranks = _shared([run.rank for run in tables])
    candidate_values, candidates = _shared([run.candidates for run in tables])
    own_ranks, rank_of = _once(ranks)
    own_candidates, candidates_of = _once(candidates)
    content = _triples(lineup, graph)
    content.arrays |= {"ranks": rank_values, "candidates": candidate_values}
    content.arrays |= {f"rank{i}": codes for i, codes in enumerate(own_ranks)}
    content.arrays |= {f"candidates{i}": codes for i, codes in enumerate(own_candidates)}
    popularity_of: Sequence[int | None] = [None] * len(runs)
    if weighted:
        pairs, popularity = _pairs(tables)
        own_popularity, popularity_of = _once(popularity)
        content.arrays |= {"entityPopularity": pairs[0], "relationPopularity": pairs[1]}
        content.arrays |= {f"popularity{i}": codes for i, codes in enumerate(own_popularity)}
        content |= _bands(lineup.first, pairs, graph)
    content.header["runs"] = [
        {"model": model, "rank": rank_of[i], "candidates": candidates_of[i], "popularity": popularity_of[i]}
        for i, (model, _) in enumerate(runs)
    ]
    return content


def has_popularity(lineup: Lineup) -> bool:
    """Whether every evaluated query of every run has both popularities, which weights need."""
    return all(
        not np.isnan(known).any() and (known > 0).any()
        for own in lineup.runs.values()
        for run in own
        for known in (run.numbers(column)[run.candidates > 1] for column in POPULARITY)
    )


def _triples(lineup: Lineup, graph: KnowledgeGraph | None) -> Content:
    first, clusters = lineup.first, lineup.clusters("triple")
    row = np.empty(clusters.count, dtype=np.int64)
    row[clusters.codes[::-1]] = np.arange(len(first))[::-1]
    entities, (head, tail) = _shared([first.head[row], first.tail[row]])
    relations, (relation,) = _shared([first.relation[row]])
    arrays: dict[str, NDArray[Any]] = {
        "triple": clusters.codes,
        "tailSide": first.predicts_tail.astype(np.uint8),
        "head": head,
        "relation": relation,
        "tail": tail,
    }
    # Sides of a triple are neighbours or in the same order, so differences compress well.
    return Content(arrays=arrays, steps=frozenset({"triple"})) | _names(graph, entities, relations)


def _names(graph: KnowledgeGraph | None, entities: Ints, relations: Ints) -> Content:
    """The names or labels of the entities and relations that occur, or their ids if there are none."""
    content = Content()
    if graph is None or (graph.entity_labels is None and graph.entity_names is None):
        content.arrays["entities"] = entities
    else:
        content.header["entities"] = _labelled(graph.entity_name(entities), entities)
    if graph is None or (graph.relation_labels is None and graph.relation_names is None):
        content.arrays["relations"] = relations
    else:
        content.header["relations"] = _labelled(graph.relation_name(relations), relations)
    if graph is not None and (labels := _labels_behind_names(graph, entities, relations)):
        content.header["labels"] = labels
    return content


def _labels_behind_names(graph: KnowledgeGraph, entities: Ints, relations: Ints) -> dict[str, list[str]]:
    """The labels of what is shown by name, so that it can be searched for by label too."""
    labels = {}
    if graph.entity_labels is not None and graph.entity_names is not None:
        labels["entities"] = graph.entity_label(entities)
    if graph.relation_labels is not None and graph.relation_names is not None:
        labels["relations"] = graph.relation_label(relations)
    return labels


def _labelled(names: Sequence[str], ids: Ints) -> list[str]:
    """The names; the id where a name is blank."""
    return [name if name.strip() else str(own) for name, own in zip(names, ids.tolist(), strict=True)]


def _bands(first: Ranks, pairs: tuple[Floats, Floats], graph: KnowledgeGraph | None) -> Content:
    """Quantile bands of popularity, as in ``kgprobe eval --by popularity:5``, with names in words."""
    grouping = ByQuantile("popularity", _BANDS)
    grouping.learn(first.filter(first.candidates > 1))
    popularity = pairs[0] * pairs[1]
    band = np.searchsorted(grouping.edges[1:-1], popularity, side="left")
    count = len(grouping.edges) - 1
    ends = [_ends(popularity[band == code]) for code in range(count)]
    # delta(e) delta(r|e) is the number of training triples of r with e, divided by twice the number of triples.
    times = 2 * graph.popularity.counts.num_triples if graph is not None else 0
    counted = bool(times) and np.allclose(popularity * times, np.rint(popularity * times), rtol=0, atol=1e-3)
    words = [_times(*(round(end * times) for end in own)) for own in ends] if counted else _degrees(ends)
    return Content({"bands": [grouping.label(code) for code in range(count)], "bandWords": words}, {"band": band})


def _ends(values: Floats) -> tuple[float, float]:
    return (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)


_NEVER = "never seen with this relation"


def _times(least: int, most: int) -> str:
    """How often the targets of a band occur with the relation of the query.

    Example:
        >>> _times(0, 0), _times(1, 1), _times(2, 3), _times(0, 3)
        ('never seen with this relation', 'seen once with this relation', 'seen 2 to 3 times with this relation', \
'seen 0 to 3 times with this relation')
    """
    if most == 0:
        return _NEVER
    if least == most:
        return f"seen {'once' if most == 1 else f'{most:,} times'} with this relation"
    return f"seen {least:,} to {most:,} times with this relation"


_DEGREES = {
    1: ("any popularity",),
    2: ("rare", "common"),
    3: ("rare", "medium", "common"),
    4: ("very rare", "rare", "common", "very common"),
    5: ("very rare", "rare", "medium", "common", "very common"),
}


def _degrees(ends: Sequence[tuple[float, float]]) -> list[str]:
    """Names of bands if the number of training triples is not known.

    Example:
        >>> _degrees([(0, 0), (0.1, 0.2), (0.3, 0.4)]), _degrees([(0, 0.1)])
        (['never seen with this relation', 'rare', 'common'], ['any popularity'])
    """
    never = [_NEVER] if ends[0][1] == 0 else []
    rest = len(ends) - len(never)
    return [*never, *(_DEGREES[rest] if rest else ())]


def _shared(columns: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], list[Ints]]:
    """The distinct values of all columns in ascending order, and each column as codes into them."""
    parts = [distinct([column.astype(np.float64)], len(column)) for column in columns]
    values = np.unique(np.concatenate([own for (own,), _ in parts]))
    return values.astype(columns[0].dtype), [np.searchsorted(values, own)[which] for (own,), which in parts]


def _pairs(tables: Sequence[Ranks]) -> tuple[tuple[Floats, Floats], list[Ints]]:
    """The distinct pairs of popularities of all tables, and each table as codes into them."""
    parts = [distinct([run.numbers(column) for column in POPULARITY], len(run)) for run in tables]
    joined = [np.concatenate([values[i] for values, _ in parts]) for i in range(len(POPULARITY))]
    (entity, relation), place = distinct(joined, len(joined[0]))
    places = np.split(place, np.cumsum([len(values[0]) for values, _ in parts])[:-1])
    return (entity, relation), [own[which] for own, (_, which) in zip(places, parts, strict=True)]


def _once(columns: Sequence[Ints]) -> tuple[list[Ints], list[int]]:
    """The distinct columns, and the index of each column among them."""
    kept: list[Ints] = []
    which = []
    for column in columns:
        at = next((i for i, other in enumerate(kept) if np.array_equal(column, other)), len(kept))
        if at == len(kept):
            kept.append(column)
        which.append(at)
    return kept, which


_MOST_DIFFERENT = 20_000


@dataclass(frozen=True)
class Sample:
    """A sample of the rows of a line-up.

    Attributes:
        random: Rows of randomly drawn triples, each with all its queries, in their original order.
        different: Additional rows on which the models differ most.
    """

    random: Ints
    different: Ints

    @property
    def rows(self) -> Ints:
        """All rows, the random ones first."""
        return np.concatenate([self.random, self.different])

    def of(self, lineup: Lineup) -> Lineup:
        """The line-up restricted to these rows."""
        runs = {model: tuple(run.take(self.rows) for run in own) for model, own in lineup.runs.items()}
        return Lineup(runs, lineup.left_out)


def draw_sample(lineup: Lineup, size: int, seed: int = 0) -> Sample:
    """About `size` random rows, and up to a fifth as many other rows on which the models differ most.

    Example:
        >>> from kgprobe.comparison import line_up
        >>> def ranks(last):
        ...     return Ranks.from_columns(
        ...         head=range(9), relation=[0] * 9, tail=[0] * 9, side=["tail"] * 9, rank=[1] * 8 + [last],
        ...         candidates=[9] * 9,
        ...     )
        >>> sample = draw_sample(line_up({"one": ranks(1), "other": ranks(9)}), 5, seed=1)
        >>> sample.random.tolist(), sample.different.tolist()
        ([0, 1, 2, 4, 7], [8])
    """
    chosen = _drawn(lineup, size, seed)
    spread = _spread(lineup)
    spread[chosen] = -1.0
    most = min(_MOST_DIFFERENT, size // 5, int((~chosen).sum()))
    np.negative(spread, out=spread)
    different = np.sort(np.argpartition(spread, most - 1)[:most]) if most else np.empty(0, dtype=np.int64)
    return Sample(np.flatnonzero(chosen), different)


def _drawn(lineup: Lineup, size: int, seed: int) -> NDArray[np.bool_]:
    """Whether each row is drawn: those of random triples, about `size` of them."""
    clusters = lineup.clusters("triple")
    order = np.random.default_rng(seed).permutation(clusters.count)
    queries = np.bincount(clusters.codes, minlength=clusters.count)
    drawn = np.zeros(clusters.count, dtype=bool)
    drawn[order[np.cumsum(queries[order]) <= max(size, int(queries.max()))]] = True
    return np.asarray(drawn[clusters.codes])


def _spread(lineup: Lineup) -> NDArray[np.float64]:
    """The difference between the largest and the smallest log rank over the models, for each query."""
    best, worst = np.full(len(lineup), np.inf), np.full(len(lineup), -np.inf)
    for own in lineup.runs.values():
        log_rank = np.log(own[0].rank)
        for run in own[1:]:
            log_rank += np.log(run.rank)
        log_rank /= len(own)
        np.minimum(best, log_rank, out=best)
        np.maximum(worst, log_rank, out=worst)
    worst -= best
    return worst
