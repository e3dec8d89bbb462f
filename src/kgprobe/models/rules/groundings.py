"""Ground rules: the candidates that each query reaches, by which rules and along how many paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kgprobe.arrays import AnyInts, slices
from kgprobe.errors import UsageError
from kgprobe.models.rules.paths import Adjacency, Matrix, elements, one_hot
from kgprobe.models.rules.rule_statistics import paths_from
from kgprobe.models.rules.rule_table import Rules, walk


@dataclass(frozen=True, eq=False)
class Grounding:
    """Row i has the candidates ``candidate[candidates_at[i]:candidates_at[i + 1]]``, each one a pair of its own.

    Pair j is reached by the rules ``rule[rules_at[j]:rules_at[j + 1]]``, along ``count`` paths each.

    Attributes:
        candidates_at: Where the candidates of each row begin: int64 [rows + 1].
        candidate: Entities, ascending within a row: int32 [pairs].
        rules_at: Where the rules of each pair begin: int64 [pairs + 1].
        rule: Index among the rules that were grounded, ascending within a pair: int32 [nnz].
        count: Number of paths, never 0: float32 [nnz].

    Example:
        >>> nothing = Grounding.stacked([])
        >>> nothing.rows, len(nothing.candidate)
        (0, 0)
    """

    candidates_at: NDArray[np.int64]
    candidate: NDArray[np.int32]
    rules_at: NDArray[np.int64]
    rule: NDArray[np.int32]
    count: NDArray[np.float32]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.candidates_at) - 1

    @classmethod
    def sorted_in(cls, rules: int, ends: Iterable[tuple[int, Matrix]], rows: int, entities: int) -> Grounding:
        """Turn matrices by rule around: numbers of paths [rows, entities] of some of so many rules, in any order."""
        by_rule = sorted(ends, key=lambda end: end[0])
        if not by_rule or not rows:
            return cls(*(np.zeros(size, kind) for size, kind in _sizes(rows)))
        # Two counting sorts, by candidate and then by row, both keep the order of what is equal: that of the rules.
        number = np.array([rule for rule, _ in by_rule])
        by_candidate = _on_top([matrix for _, matrix in by_rule]).tocsc()
        place, row = np.divmod(by_candidate.indices, rows)
        packed = np.empty(len(row), dtype=[("rule", np.int32), ("count", np.float32)])
        packed["rule"], packed["count"] = number[place], by_candidate.data
        by_row = csr_array((packed.view(np.int64), row, by_candidate.indptr), shape=(entities, rows)).tocsc()
        packed = by_row.data.view(packed.dtype)
        row = np.repeat(np.arange(rows), np.diff(by_row.indptr))
        new = np.ones(len(row), dtype=bool)
        new[1:] = (row[1:] != row[:-1]) | (by_row.indices[1:] != by_row.indices[:-1])
        first = np.flatnonzero(new)
        return cls(
            candidates_at=np.searchsorted(first, by_row.indptr).astype(np.int64),
            candidate=by_row.indices[first].astype(np.int32),
            rules_at=np.append(first, len(row)).astype(np.int64),
            rule=packed["rule"].copy(),
            count=packed["count"].copy(),
        )

    @classmethod
    def stacked(cls, parts: Sequence[Grounding]) -> Grounding:
        """The rows of all parts, one part below the other."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            candidates_at=_joined_ends([part.candidates_at for part in parts]),
            candidate=np.concatenate([np.empty(0, np.int32), *(part.candidate for part in parts)]),
            rules_at=_joined_ends([part.rules_at for part in parts]),
            rule=np.concatenate([np.empty(0, np.int32), *(part.rule for part in parts)]),
            count=np.concatenate([np.empty(0, np.float32), *(part.count for part in parts)]),
        )


def _sizes(rows: int) -> list[tuple[int, type]]:
    return [(rows + 1, np.int64), (0, np.int32), (1, np.int64), (0, np.int32), (0, np.float32)]


def _joined_ends(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    before = np.cumsum([0, *(int(part[-1]) for part in parts)])
    tails = [part[1:] + shift for part, shift in zip(parts, before[:-1], strict=True)]
    return np.concatenate([np.zeros(1, np.int64), *tails])


def _on_top(matrices: Sequence[Matrix]) -> Matrix:
    """Matrices of the same shape, one below the other."""
    ends = _joined_ends([matrix.indptr.astype(np.int64) for matrix in matrices])
    indices = np.concatenate([matrix.indices for matrix in matrices])
    data = np.concatenate([matrix.data for matrix in matrices])
    return csr_array((data, indices, ends), shape=(len(ends) - 1, matrices[0].shape[1]))


_BYTES = 64

"""What a path's end takes at most while it is being sorted in."""

_Paths: TypeAlias = tuple[Callable[[], Matrix], Matrix]


class Grounder:
    """Follows the bodies of rules through the training facts, with sparse matrices, common beginnings once.

    Numbers of paths are float32: exact up to 2^24.

    Args:
        adjacency: The training facts.
        memory: How many bytes may be in use beside the result. A single query that needs more gets it.

    Example:
        >>> facts = np.array([[0, 0, 1], [1, 0, 2], [1, 0, 3], [0, 1, 2]])
        >>> grounder = Grounder(Adjacency(facts, entities=4, relations=2))
        >>> grandparent = Rules.from_bodies(2, [1], [[0, 0]])
        >>> found = grounder.paths(grandparent, np.array([0, 1]))
        >>> found.candidates_at.tolist(), found.candidate.tolist(), found.count.tolist()
        ([0, 2, 2], [2, 3], [1.0, 1.0])
        >>> grounder.witness([0, 0], 0, 3)
        [0, 1, 3]
    """

    def __init__(self, adjacency: Adjacency, memory: int = 1 << 30) -> None:
        self.adjacency = adjacency
        self.memory = memory

    def paths(self, rules: Rules, given: AnyInts) -> Grounding:
        """All paths of the rules from given entities.

        Args:
            rules: Rules that conclude the same relation.
            given: Where they begin; each is a row of the result.
        """
        _head(rules)
        starts = np.asarray(given, dtype=np.int64)
        parts = [
            Grounding.sorted_in(len(rules), self._ends(rules, starts[rows]), len(starts[rows]), self.adjacency.entities)
            for rows in self._chunks(rules, starts)
        ]
        return Grounding.stacked(parts)

    def through(self, rules: Rules, given: AnyInts, target: AnyInts) -> Grounding:
        """The paths of the rules that pass through the fact of the row itself, in either direction.

        This is what a fact must lose when it is the query: paths(rules, given) without these are those that are left
        when the fact is taken out of the graph. A row that is no training fact has none.

        Args:
            rules: Rules that conclude the same relation.
            given: The x of each fact (x, relation, y).
            target: The y of each fact.
        """
        head = _head(rules)
        x, y = np.asarray(given, dtype=np.int64), np.asarray(target, dtype=np.int64)
        atoms = rules.body
        involved = np.flatnonzero(((atoms == head) | (atoms == self.adjacency.reverse(head))).any(axis=1))
        own = rules.at(involved)
        parts = []
        for rows in self._chunks(own, x):
            used = _Used(self.adjacency, head, x[rows], y[rows])
            ends = ((int(involved[rule]), state[1]) for rule, state in walk(own.body, used.start, used.step))
            parts.append(Grounding.sorted_in(len(rules), ends, len(x[rows]), self.adjacency.entities))
        return Grounding.stacked(parts)

    def witness(self, body: Sequence[int], x: int, y: int) -> list[int] | None:
        """The entities of one path from x to y, both included, if there is one."""
        reached = [np.array([x])]
        for atom in body:
            reached.append(np.unique(self.adjacency.of(atom)[reached[-1]].indices))
        if y not in reached[-1]:
            return None
        path = [y]
        for atom, before in zip(reversed(body), reversed(reached[:-1]), strict=True):
            back = self.adjacency.of(self.adjacency.reverse(atom))[[path[-1]]].indices
            path.append(int(np.intersect1d(back, before)[0]))
        return path[::-1]

    def _ends(self, rules: Rules, given: AnyInts) -> Iterator[tuple[int, Matrix]]:
        return walk(rules.body, one_hot(given, self.adjacency.entities), lambda at, atom: at @ self.adjacency.of(atom))

    def _chunks(self, rules: Rules, given: AnyInts) -> list[slice]:
        """Rows that fit the memory together, as consecutive slices; one empty slice if there are no rows."""
        entities = self.adjacency.entities
        if len(rules) * len(given) * entities * _BYTES <= self.memory:
            return [slice(0, len(given))]
        ends = [np.minimum(paths[given], entities) for _, paths in paths_from(self.adjacency, rules.body)]
        return slices(np.sum(ends, axis=0) * _BYTES, self.memory)


class _Used:
    """Follows paths from the x of facts (x, head, y), and apart from them those that passed through the fact itself."""

    def __init__(self, adjacency: Adjacency, head: int, x: AnyInts, y: AnyInts) -> None:
        self.adjacency = adjacency
        self.head = head
        self.x, self.y = x, y
        self.distinct, self.row = np.unique(x, return_inverse=True)
        self.present = elements(adjacency.of(head), x, y)
        nothing: Any = csr_array((len(x), adjacency.entities), dtype=np.float32)
        self.start: _Paths = (lambda: one_hot(self.distinct, adjacency.entities), nothing)

    def step(self, state: _Paths, atom: int) -> _Paths:
        """One more relation: all paths by distinct x, and those through the fact by fact."""
        paths, used = state
        matrix = self.adjacency.of(atom)
        onward: Matrix = used @ matrix
        if atom == self.head:
            onward = onward + self._first_use(paths(), used, self.x, self.y)
        elif atom == self.adjacency.reverse(self.head):
            onward = onward + self._first_use(paths(), used, self.y, self.x)
        # All paths matter only where the fact may come next, so they are followed when they are asked for.
        return cache(lambda: paths() @ matrix), onward

    def _first_use(self, paths: Matrix, used: Matrix, at: AnyInts, to: AnyInts) -> Matrix:
        """Paths that have not passed through the fact and now do, from one end of it to the other."""
        rows = np.arange(len(at))
        unused = (elements(paths, self.row, at) - elements(used, rows, at)) * self.present
        some = np.flatnonzero(unused)
        return csr_array((unused[some], (some, to[some])), shape=used.shape)


def _head(rules: Rules) -> int:
    heads = np.unique(rules.head)
    if len(heads) > 1:
        raise UsageError("these rules conclude several relations", remedy="ground those of one relation at a time")
    return int(heads[0]) if len(heads) else 0
