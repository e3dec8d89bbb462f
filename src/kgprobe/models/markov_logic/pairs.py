"""The pairs of entities that the rules of a relation join, and along how many paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kgprobe.graph.sorted_keys import Ints, find, pair_keys
from kgprobe.models.rules.ground import Grounder
from kgprobe.models.rules.matrices import Matrix
from kgprobe.models.rules.rule import Rules

Features: TypeAlias = Callable[[Matrix], Matrix]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs (given[i], y) with at least one path, in the order of (i, y).

    Attributes:
        starts: Where the pairs of each given entity begin: int64 [given + 1].
        target: Their y, ascending for each given entity: int32 [pairs].
        counts: Numbers of paths by pair and rule: float64 [pairs, rules]. A pair that is itself a fact of the graph
            is without the paths through this fact, which may leave it none.
    """

    starts: NDArray[np.int64]
    target: NDArray[np.int32]
    counts: Matrix

    def __len__(self) -> int:
        return len(self.target)

    @property
    def row(self) -> NDArray[np.int64]:
        """Which of the given entities each pair begins with."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def at(self, row: Ints, target: Ints, entities: int) -> NDArray[np.int64]:
        """The position of pairs, -1 where no rule joins them."""
        return find(pair_keys(self.row, self.target, entities), pair_keys(row, target, entities))


def joined_pairs(grounder: Grounder, rules: Rules, given: Ints) -> Pairs:
    """The pairs that rules join.

    Args:
        grounder: Follows paths through a graph.
        rules: Rules that conclude the same relation.
        given: Where their paths begin, distinct and ascending.

    Example:
        >>> from kgprobe.models.rules.adjacency import Adjacency
        >>> graph = Adjacency(np.array([[0, 0, 1], [1, 0, 2], [0, 1, 2]]), entities=3, relations=2)
        >>> pairs = joined_pairs(Grounder(graph), Rules.from_bodies(2, [1], [[0, 0]]), np.arange(3))
        >>> pairs.row.tolist(), pairs.target.tolist(), pairs.counts.toarray().tolist()
        ([0], [2], [[1.0]])
    """
    found = grounder.paths(rules, given)
    shape = len(found.candidate), len(rules)
    counts: Matrix = csr_array((found.count.astype(np.float64), found.rule, found.rules_at), shape=shape)
    pairs = Pairs(found.candidates_at, found.candidate, counts)
    if not len(pairs):
        return pairs
    used = _through_themselves(grounder, rules, given, pairs)
    return Pairs(pairs.starts, pairs.target, _without_zeros(pairs.counts - used)) if used.nnz else pairs


def _through_themselves(grounder: Grounder, rules: Rules, given: Ints, pairs: Pairs) -> Matrix:
    """The numbers of paths of pairs that are facts through these facts themselves: [pairs, rules]."""
    x, y = grounder.adjacency.facts(int(rules.head[0]))
    row = np.minimum(np.searchsorted(given, x), len(given) - 1)
    asked = given[row] == x
    x, y, row = x[asked], y[asked], row[asked]
    found = grounder.through(rules, x, y)
    fact = np.repeat(np.arange(len(x)), np.diff(found.candidates_at))
    own = found.candidate == y[fact]
    number = np.diff(found.rules_at)
    place = pairs.at(row[fact[own]], y[fact[own]], grounder.adjacency.entities)
    entries = np.repeat(own, number)
    rows = np.repeat(place, number[own])
    return csr_array((found.count[entries].astype(np.float64), (rows, found.rule[entries])), shape=pairs.counts.shape)


def _without_zeros(matrix: Matrix) -> Matrix:
    matrix.eliminate_zeros()
    return matrix


def _with(matrix: Matrix, values: NDArray[np.float64]) -> Matrix:
    return csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def _mean(counts: Matrix) -> Matrix:
    total = np.asarray(counts.sum(axis=1)).ravel()
    return _with(counts, counts.data / np.repeat(total, np.diff(counts.indptr)))


COMBINATIONS: Mapping[str, Features] = {
    "any": lambda counts: _with(counts, np.ones_like(counts.data)),
    "log": lambda counts: _with(counts, np.log1p(counts.data)),
    "count": lambda counts: counts,
    "mean": _mean,
}
"""What the weight of a rule is multiplied with, from its number of paths: 1, log(1 + paths), paths, or its share."""
