"""The facts of a graph as one sparse matrix for each relation and each reverse relation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kgprobe.graph.sorted_keys import Ints
from kgprobe.models.rules.matrices import Matrix


class Adjacency:
    """Which entities a relation leads to, from each entity; relation r + R leads back along r.

    Args:
        triples: Facts (head, relation, tail) [n, 3]; repeated ones count once.
        entities: Number of entities.
        relations: Number of relations, R.

    Example:
        >>> adjacency = Adjacency(np.array([[0, 0, 1], [2, 0, 1]]), entities=3, relations=1)
        >>> adjacency.of(1).toarray().tolist()
        [[0.0, 0.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """

    def __init__(self, triples: Ints, entities: int, relations: int) -> None:
        self.entities = entities
        self.relations = relations
        facts = np.asarray(triples, dtype=np.int32).reshape(-1, 3)
        order = np.lexsort((facts[:, 2], facts[:, 0], facts[:, 1]))
        ordered = facts[order]
        new = np.ones(len(ordered), dtype=bool)
        new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
        self.triples: NDArray[np.int32] = ordered[new]
        """The distinct facts, in the order of (relation, head, tail)."""
        self._starts = np.searchsorted(self.triples[:, 1], np.arange(relations + 1))
        self._matrices: dict[int, Matrix] = {}

    def facts(self, relation: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The distinct facts (x, relation, y), as x and y; those of a reverse relation in the order of the relation."""
        first, last = self._starts[relation % self.relations : relation % self.relations + 2]
        head, tail = self.triples[first:last, 0], self.triples[first:last, 2]
        return (head, tail) if relation < self.relations else (tail, head)

    def of(self, relation: int) -> Matrix:
        """The matrix of a relation or of a reverse relation: float32 [N, N], 1 where there is a fact."""
        if relation not in self._matrices:
            x, y = self.facts(relation)
            ones = np.ones(len(x), dtype=np.float32)
            matrix: Matrix = csr_array((ones, (x, y)), shape=(self.entities, self.entities))
            matrix.sort_indices()
            self._matrices[relation] = matrix
        return self._matrices[relation]

    def degree(self, relation: int) -> NDArray[np.int64]:
        """How many entities the relation leads to from each entity: int64 [N]."""
        return np.bincount(self.facts(relation)[0], minlength=self.entities)

    def reverse(self, relation: int) -> int:
        """The relation that leads back."""
        return (relation + self.relations) % (2 * self.relations)
