"""Index of known triples: the known answers of every query, for filters and counts of candidates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kgprobe.arrays import AnyInts, Grouped, pair_keys


@dataclass(frozen=True, eq=False)
class KnownAnswers:
    """Index of known triples: the distinct known answers of each query of either side.

    Attributes:
        num_relations: Number of relations of the graph.
        tails: Known tails by ``head * num_relations + relation``.
        heads: Known heads by ``tail * num_relations + relation``.

    Example:
        >>> known = KnownAnswers.from_triples(
        ...     np.array([[0, 0, 1], [0, 0, 2], [0, 0, 2], [3, 0, 2]]), num_entities=4, num_relations=1
        ... )
        >>> triples = np.array([[0, 0, 2], [0, 0, 2], [1, 0, 1]])
        >>> known.count(*triples.T, tail_side=np.array([True, False, True])).tolist()
        [2, 2, 0]
    """

    num_relations: int
    tails: Grouped
    heads: Grouped

    @classmethod
    def from_triples(cls, triples: AnyInts, num_entities: int, num_relations: int) -> KnownAnswers:
        """Index the triples ([n, 3]: head, relation, tail) for queries of both sides."""
        head, relation, tail = triples.T
        num_queries = num_entities * num_relations
        return cls(
            num_relations=num_relations,
            tails=Grouped.build(pair_keys(head, relation, num_relations), tail, num_queries, num_entities),
            heads=Grouped.build(pair_keys(tail, relation, num_relations), head, num_queries, num_entities),
        )

    def count(
        self, head: npt.ArrayLike, relation: npt.ArrayLike, tail: npt.ArrayLike, tail_side: npt.ArrayLike
    ) -> npt.NDArray[np.int64]:
        """Number of distinct known answers of each query, including the target if it is known.

        Args:
            head: Heads of the test triples.
            relation: Relations of the test triples.
            tail: Tails of the test triples.
            tail_side: True for queries (head, relation, ?), False for (?, relation, tail).
        """
        h, r, t = (np.asarray(ids, dtype=np.int64) for ids in (head, relation, tail))
        predicts_tail = np.broadcast_to(np.asarray(tail_side, dtype=bool), h.shape)
        count = np.empty(len(h), dtype=np.int64)
        for side, given, answers in ((predicts_tail, h, self.tails), (~predicts_tail, t, self.heads)):
            count[side] = answers.count(pair_keys(given[side], r[side], self.num_relations))
        return count

    def others(
        self, head: npt.ArrayLike, relation: npt.ArrayLike, tail: npt.ArrayLike, tail_side: npt.ArrayLike
    ) -> npt.NDArray[np.int64]:
        """Number of distinct known answers of each query other than the target, which a filter removes.

        Example:
            >>> known = KnownAnswers.from_triples(np.array([[0, 0, 1], [0, 0, 2]]), num_entities=4, num_relations=1)
            >>> known.others([0, 0], [0, 0], [2, 3], True).tolist()
            [1, 2]
        """
        h, r, t = (np.asarray(ids, dtype=np.int64) for ids in (head, relation, tail))
        return self.count(h, r, t, tail_side) - self.tails.contains(pair_keys(h, r, self.num_relations), t)
