"""The statistics of rules of any length, from all entities or from a sample of those where their bodies begin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kgprobe.graph.sorted_keys import Ints
from kgprobe.models.rules.adjacency import Adjacency
from kgprobe.models.rules.matrices import Matrix, elements, one_hot, single
from kgprobe.models.rules.ragged import slices
from kgprobe.models.rules.rule import NO_ATOM, Floats, Rules
from kgprobe.models.rules.totals import paths_from

_BYTES = 48
"""What the end of a path takes at most."""


class Measure:
    """Measures rules by following their bodies.

    Args:
        adjacency: The graph.
        starts: From how many entities a body is followed at most. Where it begins at more of them, what is seen of it
            is scaled up to the number of all its paths, which is exact.
        seed: Which entities.
        memory: How many bytes may be in use; a single entity that needs more gets it.

    Example:
        >>> graph = Adjacency(np.array([[0, 0, 1], [1, 0, 2], [0, 1, 2], [0, 1, 1]]), entities=3, relations=2)
        >>> rules = Measure(graph).of(Rules.from_bodies(2, [1, 1], [[0, 0], [1, 0]]))
        >>> rules.support.tolist(), rules.pairs.tolist()
        ([1.0, 1.0], [1.0, 1.0])
    """

    def __init__(self, adjacency: Adjacency, starts: float = np.inf, seed: int = 0, memory: int = 1 << 30) -> None:
        self.adjacency = adjacency
        self.starts = starts
        self.seed = seed
        self.memory = memory

    def of(self, rules: Rules) -> Rules:
        """The same rules with their statistics."""
        body, which = np.unique(rules.body, axis=0, return_inverse=True)
        order = np.argsort(which.reshape(-1), kind="stable")
        bounds = np.searchsorted(which.reshape(-1)[order], np.arange(len(body) + 1))
        found = np.zeros((len(rules), 4))
        for row, paths in paths_from(self.adjacency, body):
            members = order[bounds[row] : bounds[row + 1]]
            found[members] = self._body(body[row][body[row] != NO_ATOM], rules.head[members], paths)
        support, pairs, path_support, paths = found.T
        return replace(rules, support=support, pairs=pairs, path_support=path_support, paths=paths)

    def _body(self, body: Ints, heads: Ints, paths: Floats) -> Floats:
        """The statistics [heads, 4] of one body, of which so many paths begin at each entity."""
        starts = np.flatnonzero(paths)
        if len(starts) > self.starts:
            starts = np.random.default_rng([self.seed, *body]).choice(starts, int(self.starts), replace=False)
        seen = np.zeros((len(heads), 3))
        for rows in slices(paths[starts] * _BYTES, self.memory):
            seen += self._seen(body, heads, starts[rows])
        total = paths.sum()
        return np.column_stack([seen * (total / max(paths[starts].sum(), 1)), np.full(len(heads), total)])

    def _seen(self, body: Ints, heads: Ints, starts: Ints) -> Floats:
        """Support, pairs and path support [heads, 3] from some entities."""
        ends = self.adjacency.of(int(body[0]))[starts]
        for atom in body[1:]:
            ends = ends @ self.adjacency.of(int(atom))
        closed = [self._closed(body, int(head), starts, ends) for head in heads]
        return np.array([[np.count_nonzero(paths), ends.nnz, paths.sum(dtype=np.float64)] for paths in closed])

    def _closed(self, body: Ints, head: int, starts: Ints, ends: Matrix) -> Any:
        """Of each fact of the head that is reached from the starts, the paths that avoid it."""
        reached = ends.multiply(self.adjacency.of(head)[starts]).tocoo()
        if head not in body and self.adjacency.reverse(head) not in body:
            return reached.data
        return self._avoiding(body, head, starts[reached.row], reached.col.astype(np.int64))

    def _avoiding(self, body: Ints, head: int, x: Ints, y: Ints) -> Any:
        """Of each fact (x, head, y), the paths of a body from x to y that do not pass through it."""
        own = {head: (x, y), self.adjacency.reverse(head): (y, x)}
        rows = np.arange(len(x))
        at = one_hot(x, self.adjacency.entities)
        for atom in body.tolist():
            onward = at @ self.adjacency.of(atom)
            if atom in own:
                start, end = own[atom]
                onward = onward - single(elements(at, rows, start), end, self.adjacency.entities)
            at = onward
        return elements(at, rows, y)
