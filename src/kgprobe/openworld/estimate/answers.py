"""What an open rank table says of the answers of its queries: how many are held out, and where each stands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kgprobe.errors import DataError, UsageError, spans
from kgprobe.graph import KnowledgeGraph
from kgprobe.ranks import Ranks, refuse_intervals

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The held-out answers of the queries of a rank table, one for each row.

    Attributes:
        ranks: The table; all its answers of a query are ranked against the same candidates.
        query: The query of each row, from 0.
        held_out: How many answers its query has in the table.
        above: How many of them the model puts before this one.
        known: How many answers of the query the graph knows in all its splits, this one included.

    Example:
        >>> queries = dict(head=[0, 0, 1], relation=[0] * 3, tail=[2, 3, 2], side=["tail"] * 3)
        >>> ranks = Ranks.from_columns(**queries, rank=[5, 1, 2], candidates=[8, 8, 9])
        >>> answers = HeldOut.of(ranks, entities=10)
        >>> answers.held_out.tolist(), answers.above.tolist(), answers.known.tolist()
        ([2, 2, 1], [1, 0, 0], [3, 3, 2])
    """

    ranks: Ranks
    query: Ints
    held_out: Ints
    above: Ints
    known: Ints

    @classmethod
    def of(cls, ranks: Ranks, graph: KnowledgeGraph | None = None, entities: int | None = None) -> HeldOut:
        """Read them off a table of one training run.

        Args:
            ranks: The table, filtered by all that is known.
            graph: Counts the known answers of every query.
            entities: The number of entities, from which the filtered candidates tell the same where there is no graph.

        Raises:
            DataError: The table is not filtered, has intervals or no rows, or does not fit the graph.
            UsageError: Neither a graph nor the number of entities is given.
        """
        refuse_intervals(ranks)
        _require_filtered(ranks)
        side = ranks.predicts_tail
        given = np.where(side, ranks.head, ranks.tail)
        _, query = np.unique(np.stack([given, ranks.relation, side]), axis=1, return_inverse=True)
        query = query.ravel().astype(np.int64)
        order = np.lexsort((ranks.rank, query))
        starts = np.flatnonzero(np.diff(query[order], prepend=-1))
        size = np.diff(starts, append=len(query))
        above, held_out = np.empty_like(query), np.empty_like(query)
        above[order] = np.arange(len(query)) - np.repeat(starts, size)
        held_out[order] = np.repeat(size, size)
        known = _known(ranks, graph, entities)
        _require_consistent(ranks, graph, known, held_out)
        return cls(ranks, query, held_out, above, known)

    def take(self, rows: Ints) -> HeldOut:
        """Some of the rows, which still know of the answers that are left out."""
        return HeldOut(self.ranks.take(rows), self.query[rows], self.held_out[rows], self.above[rows], self.known[rows])

    @property
    def queries(self) -> int:
        """How many queries there are."""
        return int(self.query.max()) + 1


def _require_filtered(ranks: Ranks) -> None:
    if not len(ranks):
        raise DataError("there is no held-out answer to estimate from", remedy="rank facts that training did not see")
    filtered = ranks.info.filtered
    if filtered is not None and (not filtered or (ranks.info.split and ranks.info.split not in filtered)):
        raise DataError(
            "the ranks are not filtered, so that known answers stand among the candidates",
            [f"filtered: {', '.join(filtered) or 'nothing'}"],
            "rank again with the default filter",
        )


def _known(ranks: Ranks, graph: KnowledgeGraph | None, entities: int | None) -> Ints:
    if graph is not None and graph.has_train:
        others = graph.known_answers().others(ranks.head, ranks.relation, ranks.tail, ranks.predicts_tail)
        return others + 1
    size = graph.num_entities if graph is not None else entities
    if size is None:
        raise UsageError(
            "how many answers of a query are known cannot be told from ranks alone",
            remedy="give the graph (--graph), or the number of its entities (--entities)",
        )
    return (size - ranks.candidates + 1).astype(np.int64)


def _require_consistent(ranks: Ranks, graph: KnowledgeGraph | None, known: Ints, held_out: Ints) -> None:
    problems = []
    few = np.flatnonzero(known < held_out)
    if len(few):
        problems.append(
            f"rows {spans((few + 1).tolist())}: the table has more answers of the query than the graph knows, "
            f"such as {held_out[few[0]]} and {known[few[0]]}"
        )
    left = np.inf if graph is None else graph.num_entities - known + 1
    more = np.flatnonzero(ranks.candidates > left)
    if len(more):
        problems.append(
            f"rows {spans((more + 1).tolist())}: there are more candidates than filtering by all that the graph knows "
            "leaves"
        )
    if problems:
        raise DataError(
            "the ranks do not fit the graph",
            problems,
            "give the graph, or the number of entities, that was ranked, with all its splits",
        )
