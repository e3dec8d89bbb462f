"""Support and confidence of rules of any length, exactly or from a sample."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts, Floats, slices
from kgprobe.models.rules.paths import Adjacency, Matrix, elements, one_hot, single
from kgprobe.models.rules.rule_table import NO_ATOM, Rules, backwards, group_rows, walk, walk_prefixes

_PAIR_BYTES = 24  # memory of a pair in `Totals`
_SAMPLE_BYTES = 48  # memory of a pair in `Measure`


class Totals:
    """Numbers of pairs and paths of bodies of the same length.

    Args:
        adjacency: The graph.
        memory: Working memory in bytes.

    Example:
        >>> triples = np.array([[0, 0, 1], [0, 0, 2], [1, 0, 3], [2, 0, 3]])
        >>> totals, bodies = Totals(Adjacency(triples, entities=4, relations=1)), np.array([[0, 0], [0, 1]])
        >>> totals.pairs(bodies).tolist(), totals.paths(bodies).tolist()
        ([1.0, 5.0], [2.0, 6.0])
    """

    def __init__(self, adjacency: Adjacency, memory: int = 1 << 30) -> None:
        self.adjacency, self.memory = adjacency, memory

    def pairs(self, body: AnyInts) -> Floats:
        """Distinct pairs that each body [n, L] connects, L at least 2."""
        # A body and its reverse have the same numbers of pairs and paths: only one of the two is computed.
        flipped = (backwards(body) + self.adjacency.relations) % (2 * self.adjacency.relations)
        canonical = np.where(_before(flipped, body)[:, None], flipped, body)
        distinct, which = np.unique(canonical, axis=0, return_inverse=True)
        paths = self.paths(distinct)
        pairs = paths.copy()
        for rows, reached in walk_prefixes(distinct, None, self._step):
            for row in rows:
                pairs[row] = self._pairs(reached, int(distinct[row, -1]), paths[row])
        return pairs[which.reshape(-1)]

    def paths(self, body: AnyInts) -> Floats:
        """Number of paths of each body [n, L]."""
        paths = np.zeros(len(body))
        every: Any = np.ones(self.adjacency.entities)
        for rows, ends in walk_prefixes(body, every, lambda ends, atom: self.adjacency.of(atom).T @ ends):
            paths[rows] = [self._degree(atom) @ ends for atom in body[rows, -1]]
        return paths

    def _step(self, reached: Any, atom: int) -> Any:
        """Numbers of paths [starts, entities] after one more relation."""
        matrix = self.adjacency.of(atom)
        return matrix[np.flatnonzero(self._degree(atom))] if reached is None else reached @ matrix

    def _pairs(self, reached: Matrix, atom: int, paths: float) -> float:
        """Number of pairs after the last relation, given the number of paths."""
        functional = self._degree(self.adjacency.reverse(atom)).max(initial=0) <= 1
        single_end = np.diff(reached.indptr).max(initial=0) <= 1
        if (functional or single_end) and reached.data.max(initial=0) <= 1:
            return paths  # every pair has one path
        most = reached @ self._degree(atom)
        parts = slices(most * _PAIR_BYTES, self.memory)
        chunks = [reached] if len(parts) == 1 else [reached[rows] for rows in parts]
        return float(sum((chunk @ self.adjacency.of(atom)).nnz for chunk in chunks))

    def _degree(self, atom: int) -> AnyInts:
        return np.diff(self.adjacency.of(atom).indptr)


def paths_from(adjacency: Adjacency, body: AnyInts) -> Iterator[tuple[int, Floats]]:
    """The row of each body and the number of its paths from each entity, in any order."""
    every: Any = np.ones(adjacency.entities)
    yield from walk(backwards(body), every, lambda at, atom: adjacency.of(atom) @ at)


def _before(one: AnyInts, other: AnyInts) -> NDArray[np.bool_]:
    """Whether a row precedes the other row in lexicographic order."""
    first = np.argmax(one != other, axis=1)[:, None]
    return np.take_along_axis(one < other, first, axis=1)[:, 0]


class Measure:
    """Statistics of rules, by following their bodies from all start entities or a sample of these.

    Args:
        adjacency: The graph.
        starts: Maximum number of start entities of a body. With more of them, a sample is scaled up to the number of
            all paths, which is exact.
        seed: Seed of the sample.
        memory: Working memory in bytes; a single entity may exceed it.

    Example:
        >>> graph = Adjacency(np.array([[0, 0, 1], [1, 0, 2], [0, 1, 2], [0, 1, 1]]), entities=3, relations=2)
        >>> rules = Measure(graph).of(Rules.from_bodies(2, [1, 1], [[0, 0], [1, 0]]))
        >>> rules.support.tolist(), rules.pairs.tolist()
        ([1.0, 1.0], [1.0, 1.0])
    """

    def __init__(self, adjacency: Adjacency, starts: float = np.inf, seed: int = 0, memory: int = 1 << 30) -> None:
        self.adjacency, self.starts, self.seed, self.memory = adjacency, starts, seed, memory

    def of(self, rules: Rules) -> Rules:
        """The same rules with their statistics."""
        body, which = np.unique(rules.body, axis=0, return_inverse=True)
        members = group_rows(which.reshape(-1), len(body))
        statistics = np.zeros((len(rules), 4))
        for row, paths in paths_from(self.adjacency, body):
            own = members[row]
            statistics[own] = self._body(body[row][body[row] != NO_ATOM], rules.head[own], paths)
        support, pairs, path_support, paths = statistics.T
        return replace(rules, support=support, pairs=pairs, path_support=path_support, paths=paths)

    def _body(self, body: AnyInts, heads: AnyInts, paths: Floats) -> Floats:
        """The statistics [heads, 4] of one body, given the number of its paths from each entity."""
        starts = np.flatnonzero(paths)
        if len(starts) > self.starts:
            starts = np.random.default_rng([self.seed, *body]).choice(starts, int(self.starts), replace=False)
        sums = np.zeros((len(heads), 3))
        for rows in slices(paths[starts] * _SAMPLE_BYTES, self.memory):
            sums += self._from_starts(body, heads, starts[rows])
        total = paths.sum()
        return np.column_stack([sums * (total / max(paths[starts].sum(), 1)), np.full(len(heads), total)])

    def _from_starts(self, body: AnyInts, heads: AnyInts, starts: AnyInts) -> Floats:
        """Support, pairs and path support [heads, 3] of the paths from some entities."""
        ends = self.adjacency.of(int(body[0]))[starts]
        for atom in body[1:]:
            ends = ends @ self.adjacency.of(int(atom))
        supporting = [self._supporting(body, int(head), starts, ends) for head in heads]
        return np.array([[np.count_nonzero(paths), ends.nnz, paths.sum(dtype=np.float64)] for paths in supporting])

    def _supporting(self, body: AnyInts, head: int, starts: AnyInts, ends: Matrix) -> Any:
        """For each triple of the head that is reached, the number of paths that do not use it."""
        reached = ends.multiply(self.adjacency.of(head)[starts]).tocoo()
        if head not in body and self.adjacency.reverse(head) not in body:
            return reached.data
        return self._avoiding(body, head, starts[reached.row], reached.col.astype(np.int64))

    def _avoiding(self, body: AnyInts, head: int, x: AnyInts, y: AnyInts) -> Any:
        """For each triple (x, head, y), the number of paths of a body from x to y that do not use it."""
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
