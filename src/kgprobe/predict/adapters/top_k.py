"""Rank targets by top-k lists of predictions; the rank of a target that is not listed is an interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kgprobe.arrays import Flags, Floats, Ints, find, pair_keys
from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph, KnownAnswers
from kgprobe.predict.adapters.list_matching import Unlisted
from kgprobe.predict.scorers import Side
from kgprobe.predict.tasks import Counts
from kgprobe.ranks import ListsInfo


@dataclass(frozen=True, eq=False)
class SideLists:
    """The lists of the queries for one side.

    Attributes:
        keys: ``given * num_relations + relation`` of the queries, distinct and sorted.
        offsets: ``entities[offsets[i]:offsets[i + 1]]`` is the list of query i, best first.
        entities: The predictions; -1 for a wrong answer that is no entity of the graph.
        ties: The start of each run of predictions with equal scores, and finally the number of predictions.

    Example:
        >>> lists = SideLists.build([7, 3], [np.array([4, 5]), np.array([1])], [np.array([0, 0]), np.array([0])])
        >>> lists.keys.tolist(), lists.offsets.tolist(), lists.entities.tolist(), lists.ties.tolist()
        ([3, 7], [0, 1, 3], [1, 4, 5], [0, 1, 3])
    """

    keys: Ints
    offsets: Ints
    entities: Ints
    ties: Ints

    @classmethod
    def build(cls, keys: Sequence[int], entities: Sequence[Ints], levels: Sequence[Ints]) -> SideLists:
        """Sort lists by their distinct keys; predictions of one list tie if their levels are equal."""
        order = np.argsort(np.array(keys, dtype=np.int64))
        empty = np.empty(0, dtype=np.int64)
        predictions, level = (
            np.concatenate([empty, *(part[i] for i in order.tolist())]) for part in (entities, levels)
        )
        sizes = np.array([len(entities[i]) for i in order.tolist()], dtype=np.int64)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        new = np.ones(len(predictions) + 1, dtype=bool)
        new[1:-1] = level[1:] != level[:-1]
        new[offsets] = True
        return cls(np.array(keys, dtype=np.int64)[order], offsets, predictions, np.flatnonzero(new))

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, eq=False)
class TopKLists:
    """The top-k predictions of a system for queries of a graph.

    Attributes:
        path: The file that they come from.
        graph: The graph.
        sides: The lists of the queries for each side.
        unlisted: How candidates that a list leaves out are ranked: "unknown" makes the rank of a target among them an
            interval, "tied" ranks all of them as ties after the list.
        info: How the answers were matched to entities.
    """

    path: Path
    graph: KnowledgeGraph
    sides: Mapping[Side, SideLists]
    unlisted: Unlisted = Unlisted.unknown
    info: ListsInfo | None = None

    def __len__(self) -> int:
        """Number of queries that have a list."""
        return sum(map(len, self.sides.values()))


_SHOWN = 5


@dataclass(frozen=True, eq=False)
class ListRanks:
    """The ranks of targets, one for each triple of the first side, then of the next.

    Attributes:
        rank: Mean rank of the target over its tie group; the best possible rank if the target is not listed.
        ties: Number of other candidates with the same score.
        candidates: Number of candidates after filtering, the target included.
        worst_rank: The worst possible rank if the rank is an interval, else NaN.
        unasked: Number of lists of queries that no triple asks.
    """

    rank: Floats
    ties: Ints
    candidates: Ints
    worst_rank: Floats
    unasked: int


def rank_lists(lists: TopKLists, triples: Ints, sides: Sequence[Side], known: KnownAnswers | None) -> ListRanks:
    """Rank the targets of triples by lists.

    Known answers other than the target are removed from a list before positions are counted.

    Args:
        lists: The lists, one for every query of the triples.
        triples: [n, 3] (head, relation, tail).
        sides: The sides that are predicted.
        known: The known answers; None for no filter.

    Raises:
        DataError: Some queries have no list.

    Example:
        >>> import tempfile
        >>> from kgprobe.predict.adapters.top_k_files import open_top_k
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[0, 0, 2], [0, 0, 3]], num_entities=9)
        >>> path = Path(tempfile.mkdtemp()) / "predictions.jsonl"
        >>> _ = path.write_text('{"head": 0, "relation": 0, "predictions": [1, 8, 2]}')
        >>> found = rank_lists(open_top_k(path, graph), graph.triples("test"), ["tail"], graph.known_answers())
        >>> found.rank.tolist(), found.worst_rank.tolist(), found.candidates.tolist()
        ([2.0, 2.0], [nan, 7.0], [7, 7])
    """
    asked = [_Asked(lists, side, np.asarray(triples, dtype=np.int64)) for side in sides]
    _refuse_missing(lists, asked)
    parts = [_rank(queries, known, lists.unlisted) for queries in asked]
    rank, ties, candidates, worst_rank = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    used = sum(len(np.unique(queries.row)) for queries in asked)
    return ListRanks(rank, ties, candidates, worst_rank, unasked=len(lists) - used)


class _Asked:
    """The queries of triples for one side: their keys, their targets, and their lists (-1 if there is none)."""

    def __init__(self, lists: TopKLists, side: Side, triples: Ints) -> None:
        self.side, self.triples, self.lists, self.graph = side, triples, lists.sides[side], lists.graph
        head, relation, tail = triples.T
        given, self.target = (head, tail) if side == "tail" else (tail, head)
        self.key = pair_keys(given, relation, self.graph.num_relations)
        self.row = find(self.lists.keys, self.key)


def _refuse_missing(lists: TopKLists, asked: Sequence[_Asked]) -> None:
    problems = []
    for queries in asked:
        missing = np.unique(queries.key[queries.row < 0])
        if missing.size:
            given, relation = np.divmod(missing[:_SHOWN], lists.graph.num_relations)
            names = zip(lists.graph.entity_label(given), lists.graph.relation_label(relation), strict=True)
            shown = [f"({e}, {r}, ?)" if queries.side == "tail" else f"(?, {r}, {e})" for e, r in names]
            more = ", ..." if missing.size > _SHOWN else ""
            count = f"{missing.size:,} of {len(np.unique(queries.key)):,} queries for the {queries.side}"
            problems.append(f"{count} have no list: {', '.join(shown)}{more}")
    if problems:
        raise DataError(
            f"{lists.path}: lists are missing",
            problems,
            "give an empty list where the system predicted nothing, or rank only the sides that it predicts",
        )


def _rank(asked: _Asked, known: KnownAnswers | None, unlisted: Unlisted) -> tuple[Floats, Ints, Ints, Floats]:
    """Rank, ties, candidates and worst rank of the targets of one side."""
    head, relation, tail = asked.triples.T
    others = np.full(len(head), asked.graph.num_entities - 1)
    if known is not None:
        others -= known.others(head, relation, tail, asked.side == "tail")
    greater, equal, beyond = _count(asked, known, others)
    behind = beyond & (others > greater)  # if the target alone is unlisted, its rank is known
    if unlisted is Unlisted.tied:
        equal = np.where(behind, others - greater, equal)
    counts = Counts(greater, equal, others)
    is_interval = behind & (unlisted is Unlisted.unknown)
    return counts.rank, counts.equal, counts.candidates, np.where(is_interval, counts.candidates, np.nan)


def _count(asked: _Asked, known: KnownAnswers | None, others: Ints) -> tuple[Ints, Ints, Flags]:
    """The numbers of candidates before and tied with each target in its list, and whether it is not listed.

    A wrong answer that is no entity takes the place of one of the candidates that the list leaves out. So it counts as
    long as there are any, and no rank is larger than the number of candidates.
    """
    lists = asked.lists
    row = np.repeat(np.arange(len(lists)), np.diff(lists.offsets))
    answers = None if known is None else known.tails if asked.side == "tail" else known.heads
    is_entity = lists.entities >= 0
    kept = is_entity.copy()
    if answers is not None:
        kept[is_entity] = ~answers.contains(lists.keys[row[is_entity]], lists.entities[is_entity])
    place = _positions(row, asked)
    beyond = place < 0
    start, end = lists.offsets[asked.row], lists.offsets[asked.row + 1]
    # An unlisted target comes after the last run of equal scores, in a run of its own.
    first, last, own = end.copy(), end.copy(), np.zeros(len(end), dtype=bool)
    run = np.searchsorted(lists.ties, place[~beyond], side="right") - 1
    first[~beyond], last[~beyond], own[~beyond] = lists.ties[run], lists.ties[run + 1], kept[place[~beyond]]
    before, wrong_before = (np.concatenate([[0], np.cumsum(flags)]) for flags in (kept, ~is_entity))
    left_out = others - (before[end] - before[start] - own)
    wrong = np.minimum(wrong_before[first] - wrong_before[start], left_out)
    wrong_tied = np.minimum(wrong_before[last] - wrong_before[first], left_out - wrong)
    greater, equal = before[first] - before[start], before[last] - before[first] - own
    return greater + wrong, equal + wrong_tied, beyond


def _positions(row: Ints, asked: _Asked) -> Ints:
    """The position of each target among the predictions of all lists, -1 if its list does not have it."""
    size = asked.graph.num_entities + 1
    members = pair_keys(row, asked.lists.entities + 1, size)  # 0 is a wrong answer that is no entity
    order = np.argsort(members)
    found = find(members[order], pair_keys(asked.row, asked.target + 1, size))
    positions = np.full(len(found), -1, dtype=np.int64)
    positions[found >= 0] = order[found[found >= 0]]
    return positions
