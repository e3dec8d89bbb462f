"""Popularity of an entity, and of a relation at an entity, in the training triples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kgprobe.errors import DataError
from kgprobe.graph.check import id_problems
from kgprobe.graph.sorted_keys import Ints, find, pair_keys
from kgprobe.graph.train_counts import TrainCounts


@dataclass(frozen=True, eq=False)
class Popularity:
    """delta(e) and delta(r|e), looked up for any number of queries at once.

    delta(e) is (times e is head + times e is tail) / (2 x training triples). delta(r|e) is the share of the
    occurrences of e that are in triples of r. A self-loop counts twice in both. Both are 0 for an entity that
    the training triples do not contain.

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
    def from_triples(cls, train: Ints, num_entities: int, num_relations: int) -> Popularity:
        """Popularity in the given training triples ([n, 3]: head, relation, tail)."""
        return cls(TrainCounts.from_triples(train, num_entities, num_relations))

    @classmethod
    def from_counts(cls, counts: TrainCounts) -> Popularity:
        """Popularity from counts alone, where the training triples are not at hand."""
        return cls(counts)

    def entity(self, entities: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """delta(e) of each entity."""
        ids = np.asarray(entities, dtype=np.int64)
        _refuse(id_problems("entity", ids.ravel(), len(self.counts.degree)))
        # Without triples every degree is 0, so any other divisor gives the 0 that is due.
        share: npt.NDArray[np.float64] = self.counts.degree[ids] / max(2 * self.counts.num_triples, 1)
        return share

    def relation(self, relations: npt.ArrayLike, entities: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """delta(r|e) of each pair.

        Raises:
            DataError: The counts cover only some pairs, and a pair is asked for that is not among them though
                its entity occurs in the training triples: its share is then unknown, not 0.
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
        raise DataError("popularity of ids that the graph does not have", problems)


def _refuse_unknown(unknown: npt.NDArray[np.bool_], entities: Ints, relations: Ints) -> None:
    if not unknown.any():
        return
    pairs = np.unique(np.column_stack((entities[unknown], relations[unknown])), axis=0)
    some = ", ".join(f"({e}, {r})" for e, r in pairs[:5].tolist())
    raise DataError(
        f"the training counts do not cover {len(pairs):,} of the (entity, relation) pairs asked for",
        [f"for example {some}"],
        "add them to the counts, or use a graph that has its training triples",
    )
