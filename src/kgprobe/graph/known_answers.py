"""Index of known triples: the known answers of every query, for filters and counts of candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kgprobe.arrays import AnyInts, Grouped, Ints, find, pair_keys, run_starts
from kgprobe.errors import UsageError
from kgprobe.graph.triple_streams import Columns, KeySet, chunks, distinct_rows

_HEAD, _RELATION, _TAIL = range(3)


@dataclass(frozen=True, eq=False)
class KnownAnswers:
    """Index of known triples: the distinct known answers of each query of either side.

    Attributes:
        num_relations: Number of relations of the graph.
        tails: Known tails by ``head * num_relations + relation``.
        heads: Known heads by ``tail * num_relations + relation``.
        complete: Whether every query is here; if not, a query that was asked has a key, also without answers.

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
    complete: bool = True

    @classmethod
    def from_triples(cls, triples: AnyInts, num_entities: int, num_relations: int) -> KnownAnswers:
        """Index the triples ([n, 3]: head, relation, tail) for queries of both sides."""
        return cls.build([triples], num_entities, num_relations)

    @classmethod
    def build(cls, parts: Sequence[AnyInts], num_entities: int, num_relations: int) -> KnownAnswers:
        """Index the triples in several arrays, which may repeat each other's, for queries of both sides."""
        sizes = num_entities, num_relations
        return cls(
            num_relations=num_relations,
            tails=_grouped(parts, (_HEAD, _RELATION, _TAIL), sizes),
            heads=_grouped(parts, (_TAIL, _RELATION, _HEAD), sizes),
        )

    @classmethod
    def of_queries(
        cls, parts: Sequence[AnyInts], num_entities: int, num_relations: int, tails: AnyInts, heads: AnyInts
    ) -> KnownAnswers:
        """Index the answers of some queries alone, which takes memory for these, and one pass over the triples.

        Args:
            parts: The triples, in several arrays.
            num_entities: Number of entities of the graph.
            num_relations: Number of relations of the graph.
            tails: Keys ``head * num_relations + relation`` of queries for the tail.
            heads: Keys ``tail * num_relations + relation`` of queries for the head.

        Example:
            >>> triples = np.array([[0, 0, 1], [0, 0, 2], [3, 0, 2]])
            >>> known = KnownAnswers.of_queries([triples], 4, 1, tails=np.array([0, 2]), heads=np.array([2]))
            >>> known.tails.keys.tolist(), known.tails.offsets.tolist(), known.tails.values.tolist()
            ([0, 2], [0, 2, 2], [1, 2])
            >>> known.heads.values.tolist()
            [0, 3]
        """
        sizes, asked = (num_entities, num_relations), (KeySet(tails), KeySet(heads))
        kept: tuple[list[AnyInts], list[AnyInts]] = ([], [])
        for part in parts:
            for some in chunks(part):
                for given, keys, found in zip((_HEAD, _TAIL), asked, kept, strict=True):
                    found.append(some[keys.likely(pair_keys(some[:, given], some[:, _RELATION], num_relations))])
        return cls(
            num_relations=num_relations,
            tails=_only(asked[0].keys, _grouped(kept[0], (_HEAD, _RELATION, _TAIL), sizes)),
            heads=_only(asked[1].keys, _grouped(kept[1], (_TAIL, _RELATION, _HEAD), sizes)),
            complete=False,
        )

    def places(self, answers: Grouped, keys: AnyInts) -> Ints:
        """The group of each query in the index of its side, -1 if it has no known answers.

        Raises:
            UsageError: The index has the answers of other queries alone.
        """
        place = find(answers.keys, keys)
        if not self.complete and (missing := int((place < 0).sum())):
            problems = [f"{missing:,} of {len(keys):,} queries were not asked for when it was built"]
            raise UsageError("the known answers cannot be looked up", problems, "index all known triples")
        return place

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
            group = self.places(answers, pair_keys(given[side], r[side], self.num_relations))
            count[side] = np.where(group < 0, 0, answers.offsets[group + 1] - answers.offsets[group])
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


def _grouped(parts: Sequence[AnyInts], order: tuple[int, int, int], sizes: tuple[int, int]) -> Grouped:
    """The answers of each query: ``order`` says which columns of the triples are given, relation and answer."""
    num_entities, num_relations = sizes
    tables: list[Columns] = [[part[:, column] for column in order] for part in parts]
    kind = np.result_type(np.int32, *(part.dtype for part in parts))
    keys, starts, values = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=kind)]
    rows, last = 0, -1
    for (given, relation, answer), _ in distinct_rows(tables, (num_entities, num_relations, num_entities)):
        key = pair_keys(given, relation, num_relations)
        first = run_starts(key)
        first = first[1:] if key[0] == last else first
        keys.append(key[first])
        starts.append(first + rows)
        values.append(answer.astype(kind))
        rows, last = rows + len(key), int(key[-1])
    starts.append(np.array([rows]))
    return Grouped(np.concatenate(keys), np.concatenate(starts), np.concatenate(values), num_entities)


def _only(keys: Ints, groups: Grouped) -> Grouped:
    """The groups of these keys, in ascending order; a key that has no group gets an empty one."""
    place = find(keys, groups.keys)
    length = np.diff(groups.offsets)
    sizes = np.zeros(len(keys), dtype=np.int64)
    sizes[place[place >= 0]] = length[place >= 0]
    offsets = np.append(0, np.cumsum(sizes))
    values = groups.values if (place >= 0).all() else groups.values[np.repeat(place >= 0, length)]
    return Grouped(keys, offsets, values, groups.num_values)
