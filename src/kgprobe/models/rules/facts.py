"""Facts that are to be explained by other facts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kgprobe.graph.sorted_keys import Ints
from kgprobe.models.rules.adjacency import Adjacency
from kgprobe.models.rules.ragged import spread


@dataclass(frozen=True, eq=False)
class Facts:
    """Facts (x, relation, y) that paths are to close.

    Example:
        >>> facts = Facts(np.array([0, 0]), np.array([1, 1]), np.array([2, 3]), relations=2)
        >>> facts.are(start=np.array([2, 2]), atom=np.array([3, 3]), end=np.array([0, 0])).tolist()
        [True, False]
    """

    x: Ints
    relation: Ints
    y: Ints
    relations: int

    @classmethod
    def of(cls, adjacency: Adjacency) -> Facts:
        """All facts of a graph."""
        x, relation, y = adjacency.triples.T.astype(np.int64)
        return cls(x, relation, y, adjacency.relations)

    @classmethod
    def some(cls, adjacency: Adjacency, most: int, random: np.random.Generator) -> Facts:
        """A sample of the facts: so many of each relation at most."""
        every = cls.of(adjacency)
        order = np.lexsort((random.random(len(every)), every.relation))
        place = spread(np.bincount(every.relation, minlength=adjacency.relations))[1]
        return every.at(np.sort(order[place < most]))

    def __len__(self) -> int:
        return len(self.x)

    def at(self, rows: Ints | slice) -> Facts:
        """Some of the facts."""
        return Facts(self.x[rows], self.relation[rows], self.y[rows], self.relations)

    def are(self, start: Ints, atom: Ints, end: Ints) -> NDArray[np.bool_]:
        """Whether a step along a relation passes through the fact of its row, in either direction."""
        along = (atom == self.relation) & (start == self.x) & (end == self.y)
        back = (atom == self.relation + self.relations) & (start == self.y) & (end == self.x)
        either: NDArray[np.bool_] = along | back
        return either
