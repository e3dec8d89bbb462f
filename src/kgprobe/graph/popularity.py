"""Entity popularity and entity-conditioned relation popularity in the training triples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kgprobe.arrays import AnyInts, find, id_problems, pair_keys
from kgprobe.errors import DataError
from kgprobe.graph.triple_streams import Columns, KeySet, chunks, distinct_rows


def entity_degrees(triples: AnyInts, num_entities: int) -> npt.NDArray[np.int64]:
    """Number of times each entity is head or tail; a self-loop counts twice.

    Example:
        >>> entity_degrees(np.array([[0, 0, 1], [1, 0, 1]]), num_entities=3).tolist()
        [1, 3, 0]
    """
    degrees = np.zeros(num_entities, dtype=np.int64)
    for some in chunks(triples):
        for side in (0, 2):
            np.add.at(degrees, some[:, side], 1)
    return degrees


@dataclass(frozen=True, eq=False)
class TrainCounts:
    """Occurrences of entities and (entity, relation) pairs in the training triples; enough to compute popularity.

    Attributes:
        num_triples: Number of training triples.
        num_relations: Number of relations of the graph.
        degree: Number of times each entity is head or tail; a self-loop counts twice.
        pair_keys: Sorted ``entity * num_relations + relation`` of the counted pairs.
        pair_counts: Number of times the entity of each pair occurs, on either side, in triples of the relation.
        complete: Whether all pairs that occur were counted.

    Example:
        >>> train = np.array([[0, 1, 2], [2, 1, 2]])
        >>> counts = TrainCounts.from_triples(train, num_entities=3, num_relations=2)
        >>> counts.degree.tolist(), counts.pair_keys.tolist(), counts.pair_counts.tolist()
        ([1, 0, 3], [1, 5], [1, 3])
    """

    num_triples: int
    num_relations: int
    degree: npt.NDArray[np.int64]
    pair_keys: npt.NDArray[np.int64]
    pair_counts: AnyInts
    complete: bool = True

    @classmethod
    def from_triples(cls, train: AnyInts, num_entities: int, num_relations: int) -> TrainCounts:
        """Count all pairs of the training triples."""
        keys, counts = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        kind = np.int32 if 2 * len(train) < 2**31 else np.int64
        ends: list[Columns] = [(train[:, side], train[:, 1]) for side in (0, 2)]
        for (entity, relation), count in distinct_rows(ends, (num_entities, num_relations)):
            keys.append(pair_keys(entity, relation, num_relations))
            counts.append(count.astype(kind))
        return cls(
            num_triples=len(train),
            num_relations=num_relations,
            degree=entity_degrees(train, num_entities),
            pair_keys=np.concatenate(keys),
            pair_counts=np.concatenate(counts, dtype=kind),
        )

    @classmethod
    def of_pairs(
        cls, train: AnyInts, entities: npt.ArrayLike, relations: npt.ArrayLike, num_entities: int, num_relations: int
    ) -> TrainCounts:
        """Count some (entity, relation) pairs of the training triples, in one pass.

        Example:
            >>> counts = TrainCounts.of_pairs(np.array([[0, 1, 2], [2, 1, 2]]), [2, 0], [1, 0], 3, 2)
            >>> counts.degree.tolist(), counts.pair_keys.tolist(), counts.pair_counts.tolist(), counts.complete
            ([1, 0, 3], [0, 5], [0, 3], False)
        """
        e, r = np.broadcast_arrays(np.asarray(entities, dtype=np.int64), np.asarray(relations, dtype=np.int64))
        asked = KeySet(pair_keys(e.ravel(), r.ravel(), num_relations))
        occurring = (pair_keys(some[:, side], some[:, 1], num_relations) for some in chunks(train) for side in (0, 2))
        return cls(
            num_triples=len(train),
            num_relations=num_relations,
            degree=entity_degrees(train, num_entities),
            pair_keys=asked.keys,
            pair_counts=asked.counts(occurring),
            complete=False,
        )

    @classmethod
    def from_pairs(
        cls, degree: AnyInts, entity: AnyInts, relation: AnyInts, count: AnyInts, *, num_relations: int
    ) -> TrainCounts:
        """Counts of some of the (entity, relation) pairs, such as those of the test triples.

        Example:
            >>> counts = TrainCounts.from_pairs(
            ...     degree=np.array([3, 1]), entity=np.array([1, 0]), relation=np.array([0, 1]),
            ...     count=np.array([1, 2]), num_relations=2,
            ... )
            >>> counts.num_triples, counts.pair_keys.tolist(), counts.pair_counts.tolist(), counts.complete
            (2, [1, 2], [2, 1], False)
        """
        keys = pair_keys(entity, relation, num_relations)
        order = np.argsort(keys)
        return cls(
            num_triples=int(degree.sum()) // 2,
            num_relations=num_relations,
            degree=degree.astype(np.int64),
            pair_keys=keys[order],
            pair_counts=count[order],
            complete=False,
        )


@dataclass(frozen=True, eq=False)
class Popularity:
    """Entity popularity delta(e) and relation popularity delta(r|e), looked up for arrays of ids.

    delta(e) is (times e is head + times e is tail) / (2 x training triples). delta(r|e) is the share of the
    occurrences of e that are in triples of r. A self-loop counts twice in both. Both are 0 for an entity that is not
    in the training triples.

    Example:
        >>> train = np.array([[0, 0, 1], [0, 1, 1], [0, 1, 2]])
        >>> popularity = Popularity.from_triples(train, num_entities=4, num_relations=2)
        >>> popularity.entity(np.array([0, 3])).tolist()
        [0.5, 0.0]
        >>> popularity.relation(relations=np.array([1, 0, 0]), entities=np.array([1, 1, 2])).tolist()
        [0.5, 0.5, 0.0]
    """

    counts: TrainCounts

    @classmethod
    def from_triples(cls, train: AnyInts, num_entities: int, num_relations: int) -> Popularity:
        """Popularity in the given training triples ([n, 3]: head, relation, tail)."""
        return cls(TrainCounts.from_triples(train, num_entities, num_relations))

    @classmethod
    def from_counts(cls, counts: TrainCounts) -> Popularity:
        """Popularity from counts, if the training triples are not available."""
        return cls(counts)

    def entity(self, entities: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """delta(e) of each entity."""
        ids = np.asarray(entities, dtype=np.int64)
        _refuse(id_problems("entity", ids.ravel(), len(self.counts.degree)))
        share: npt.NDArray[np.float64] = self.counts.degree[ids] / max(2 * self.counts.num_triples, 1)
        return share

    def relation(self, relations: npt.ArrayLike, entities: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """delta(r|e) of each pair.

        Raises:
            DataError: The counts do not cover a pair whose entity is in the training triples, so that its share is
                unknown.
        """
        r, e = np.broadcast_arrays(np.asarray(relations, dtype=np.int64), np.asarray(entities, dtype=np.int64))
        shape, e, r = e.shape, e.ravel(), r.ravel()
        limits = len(self.counts.degree), self.counts.num_relations
        _refuse(id_problems("entity", e, limits[0]) + id_problems("relation", r, limits[1]))
        degree = self.counts.degree[e]
        position = find(self.counts.pair_keys, pair_keys(e, r, self.counts.num_relations))
        absent = position < 0
        if not self.counts.complete:
            _refuse_unknown(absent & (degree > 0), e, r)
        count = np.zeros(len(position), dtype=np.int64)
        count[~absent] = self.counts.pair_counts[position[~absent]]
        share: npt.NDArray[np.float64] = (count / np.maximum(degree, 1)).reshape(shape)
        return share


def _refuse(problems: list[str]) -> None:
    if problems:
        raise DataError("cannot look up the popularity of ids outside the graph", problems)


def _refuse_unknown(unknown: npt.NDArray[np.bool_], entities: AnyInts, relations: AnyInts) -> None:
    if not unknown.any():
        return
    pairs = np.unique(np.column_stack((entities[unknown], relations[unknown])), axis=0)
    some = ", ".join(f"({e}, {r})" for e, r in pairs[:5].tolist())
    raise DataError(
        f"the training counts do not cover {len(pairs):,} of the (entity, relation) pairs",
        [f"for example {some}"],
        "add them to the counts, or use a graph that has its training triples",
    )
