"""How many pairs of entities a body joins and along how many paths, whether they are facts of something or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.graph.sorted_keys import Ints
from kgprobe.models.rules.adjacency import Adjacency
from kgprobe.models.rules.matrices import Matrix
from kgprobe.models.rules.ragged import slices
from kgprobe.models.rules.rule import Floats
from kgprobe.models.rules.trie import backwards, walk, walk_beginnings

_BYTES = 24
"""What the end of a path takes at most."""


class Totals:
    """Counts pairs and paths of bodies of the same length.

    Args:
        adjacency: The graph.
        memory: How many bytes may be in use.

    Example:
        >>> facts = np.array([[0, 0, 1], [0, 0, 2], [1, 0, 3], [2, 0, 3]])
        >>> totals, bodies = Totals(Adjacency(facts, entities=4, relations=1)), np.array([[0, 0], [0, 1]])
        >>> totals.pairs(bodies).tolist(), totals.paths(bodies).tolist()
        ([1.0, 5.0], [2.0, 6.0])
    """

    def __init__(self, adjacency: Adjacency, memory: int = 1 << 30) -> None:
        self.adjacency = adjacency
        self.memory = memory

    def pairs(self, body: Ints) -> Floats:
        """Distinct pairs that each body [n, L] joins, L at least 2."""
        # Read from its other end a body joins as many pairs along as many paths: only one of the two is followed.
        turned = (backwards(body) + self.adjacency.relations) % (2 * self.adjacency.relations)
        either = np.where(_before(turned, body)[:, None], turned, body)
        distinct, which = np.unique(either, axis=0, return_inverse=True)
        paths = self.paths(distinct)
        pairs = paths.copy()
        for rows, reached in walk_beginnings(distinct, None, self._step):
            for row in rows:
                pairs[row] = self._pairs(reached, int(distinct[row, -1]), paths[row])
        return pairs[which.reshape(-1)]

    def paths(self, body: Ints) -> Floats:
        """Paths of each body [n, L], which are quickly counted."""
        paths = np.zeros(len(body))
        every: Any = np.ones(self.adjacency.entities)
        for rows, ends in walk_beginnings(body, every, lambda ends, atom: self.adjacency.of(atom).T @ ends):
            paths[rows] = [self._degree(atom) @ ends for atom in body[rows, -1]]
        return paths

    def _step(self, reached: Any, atom: int) -> Any:
        """Paths from all entities where a body begins, after one more relation."""
        matrix = self.adjacency.of(atom)
        return matrix[np.flatnonzero(self._degree(atom))] if reached is None else reached @ matrix

    def _pairs(self, reached: Matrix, atom: int, paths: float) -> float:
        """Pairs after a last relation, given the number of paths."""
        one_way_back = self._degree(self.adjacency.reverse(atom)).max(initial=0) <= 1
        one_way_here = np.diff(reached.indptr).max(initial=0) <= 1
        if (one_way_back or one_way_here) and reached.data.max(initial=0) <= 1:
            return paths
        most = reached @ self._degree(atom)
        parts = slices(most * _BYTES, self.memory)
        chunks = [reached] if len(parts) == 1 else [reached[rows] for rows in parts]
        return float(sum((chunk @ self.adjacency.of(atom)).nnz for chunk in chunks))

    def _degree(self, atom: int) -> Ints:
        return np.diff(self.adjacency.of(atom).indptr)


def paths_from(adjacency: Adjacency, body: Ints) -> Iterator[tuple[int, Floats]]:
    """The row of each body and how many of its paths begin at each entity, in any order.

    Example:
        >>> graph = Adjacency(np.array([[0, 0, 1], [1, 0, 2]]), entities=3, relations=1)
        >>> [(row, paths.tolist()) for row, paths in paths_from(graph, np.array([[0, 0]]))]
        [(0, [1.0, 0.0, 0.0])]
    """
    every: Any = np.ones(adjacency.entities)
    yield from walk(backwards(body), every, lambda at, atom: adjacency.of(atom) @ at)


def _before(one: Ints, other: Ints) -> NDArray[np.bool_]:
    """Whether a row comes before the other in the order of their elements."""
    differs = one != other
    first = np.argmax(differs, axis=1)[:, None]
    return np.take_along_axis(one < other, first, axis=1)[:, 0]
