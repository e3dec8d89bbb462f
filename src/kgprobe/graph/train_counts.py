"""How often each entity, and each entity with each relation, occurs in the training triples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kgprobe.graph.sorted_keys import Ints, pair_keys, run_starts


def entity_degrees(triples: Ints, num_entities: int) -> npt.NDArray[np.int64]:
    """How often each entity is head or tail; a self-loop counts twice.

    Example:
        >>> entity_degrees(np.array([[0, 0, 1], [1, 0, 1]]), num_entities=3).tolist()
        [1, 3, 0]
    """
    degrees: npt.NDArray[np.int64] = np.bincount(triples[:, 0], minlength=num_entities)
    degrees += np.bincount(triples[:, 2], minlength=num_entities)
    return degrees


@dataclass(frozen=True, eq=False)
class TrainCounts:
    """Occurrences in the training triples, which they replace wherever only popularity is asked for.

    Attributes:
        num_triples: Number of training triples.
        num_relations: Number of relations of the graph.
        degree: For each entity, how often it is head or tail; a self-loop counts twice.
        pair_keys: Sorted ``entity * num_relations + relation``, one for each pair that was counted.
        pair_counts: How often the entity of a pair occurs, on either side, in triples of its relation.
        complete: Whether a pair that is not listed does not occur. False where only some pairs were counted.

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
    pair_counts: Ints
    complete: bool = True

    @classmethod
    def from_triples(cls, train: Ints, num_entities: int, num_relations: int) -> TrainCounts:
        """Count all pairs of the training triples: one sort in place, no table of entities by relations."""
        n = len(train)
        keys = np.empty(2 * n, dtype=np.int64)
        for side, part in ((0, keys[:n]), (2, keys[n:])):
            np.multiply(train[:, side], num_relations, out=part, dtype=np.int64)
            part += train[:, 1]
        keys.sort()
        starts = run_starts(keys)
        counts = np.diff(starts, append=2 * n)
        return cls(
            num_triples=n,
            num_relations=num_relations,
            degree=entity_degrees(train, num_entities),
            pair_keys=keys[starts],
            pair_counts=counts.astype(np.int32) if 2 * n < 2**31 else counts,
        )

    @classmethod
    def from_pairs(cls, degree: Ints, entity: Ints, relation: Ints, count: Ints, *, num_relations: int) -> TrainCounts:
        """Take over counts that somebody else made, of some of the (entity, relation) pairs.

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
