"""Ground rules: the candidates that rules reach from each query, and the number of paths of each rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from kgprobe.arrays import AnyInts, slices
from kgprobe.errors import UsageError
from kgprobe.models.rules.paths import Adjacency, Matrix, elements, one_hot
from kgprobe.models.rules.rule_statistics import paths_from
from kgprobe.models.rules.rule_table import Rules, walk


@dataclass(frozen=True, eq=False)
class Grounding:
    """Groundings of rules for several queries (rows), in compressed sparse form.

    Row i has the pairs candidates_at[i] to candidates_at[i + 1] - 1, one for each candidate. Pair j is reached by the
    rules ``rule[rules_at[j]:rules_at[j + 1]]``, along ``count`` paths each.

    Attributes:
        candidates_at: Offsets of the pairs of each row: int64 [rows + 1].
        candidate: Entities, ascending within a row: int32 [pairs].
        rules_at: Offsets of the rules of each pair: int64 [pairs + 1].
        rule: Index of the rule, ascending within a pair: int32 [nnz].
        count: Number of paths, at least 1: float32 [nnz].
    """

    candidates_at: NDArray[np.int64]
    candidate: NDArray[np.int32]
    rules_at: NDArray[np.int64]
    rule: NDArray[np.int32]
    count: NDArray[np.float32]

    @property
    def rows(self) -> int:
        return len(self.candidates_at) - 1

    @classmethod
    def from_rules(cls, ends: Iterable[tuple[int, Matrix]], rows: int, entities: int) -> Grounding:
        """Build from pairs of a rule and its numbers of paths [rows, entities], in any order."""
        by_rule = sorted(ends, key=lambda end: end[0])
        if not by_rule or not rows:
            return replace(_EMPTY, candidates_at=np.zeros(rows + 1, np.int64))
        # Two stable counting sorts, by candidate and then by row, keep the order of the rules.
        number = np.array([rule for rule, _ in by_rule])
        by_candidate = vstack([matrix for _, matrix in by_rule], format="csr").tocsc()
        position, row = np.divmod(by_candidate.indices, rows)
        packed = np.empty(len(row), dtype=[("rule", np.int32), ("count", np.float32)])
        packed["rule"], packed["count"] = number[position], by_candidate.data
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
        """Concatenate the rows of all parts."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            candidates_at=_joined_offsets([part.candidates_at for part in parts]),
            candidate=np.concatenate([part.candidate for part in parts]),
            rules_at=_joined_offsets([part.rules_at for part in parts]),
            rule=np.concatenate([part.rule for part in parts]),
            count=np.concatenate([part.count for part in parts]),
        )


_EMPTY = Grounding(
    np.zeros(1, np.int64), np.empty(0, np.int32), np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32)
)


def _joined_offsets(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    before = np.cumsum([0, *(int(part[-1]) for part in parts)])
    tails = [part[1:] + shift for part, shift in zip(parts, before[:-1], strict=True)]
    return np.concatenate([np.zeros(1, np.int64), *tails])


_BYTES = 64  # working memory of a (query, candidate, rule) entry

_Paths: TypeAlias = tuple[Callable[[], Matrix], Matrix]


class Grounder:
    """Grounds rules in the training triples by products of sparse matrices; common prefixes of bodies are shared.

    Numbers of paths are float32: exact up to 2^24.

    Args:
        adjacency: The training triples.
        memory: Working memory in bytes, beside the result; a single query may exceed it.

    Example:
        >>> triples = np.array([[0, 0, 1], [1, 0, 2], [1, 0, 3], [0, 1, 2]])
        >>> grounder = Grounder(Adjacency(triples, entities=4, relations=2))
        >>> grandparent = Rules.from_bodies(2, [1], [[0, 0]])
        >>> grounding = grounder.paths(grandparent, np.array([0, 1]))
        >>> grounding.candidates_at.tolist(), grounding.candidate.tolist(), grounding.count.tolist()
        ([0, 2, 2], [2, 3], [1.0, 1.0])
        >>> grounder.witness([0, 0], 0, 3)
        [0, 1, 3]
    """

    def __init__(self, adjacency: Adjacency, memory: int = 1 << 30) -> None:
        self.adjacency, self.memory = adjacency, memory

    def paths(self, rules: Rules, given: AnyInts) -> Grounding:
        """All groundings of rules with the same head; each given entity, where paths start, is a row of the result."""
        _common_head(rules)
        starts = np.asarray(given, dtype=np.int64)
        parts = [
            Grounding.from_rules(self._ends(rules, starts[rows]), len(starts[rows]), self.adjacency.entities)
            for rows in self._chunks(rules, starts)
        ]
        return Grounding.stacked(parts)

    def through(self, rules: Rules, given: AnyInts, target: AnyInts) -> Grounding:
        """The groundings that use the triple (given, head, target) of the row itself, in either direction.

        ``paths(rules, given)`` without these are the groundings after the triple is removed from the graph. A row that
        is not a training triple has none.

        Args:
            rules: Rules with the same head.
            given: The x of each triple (x, head, y).
            target: The y of each triple.
        """
        head = _common_head(rules)
        x, y = np.asarray(given, dtype=np.int64), np.asarray(target, dtype=np.int64)
        atoms = rules.body
        involved = np.flatnonzero(((atoms == head) | (atoms == self.adjacency.reverse(head))).any(axis=1))
        own = rules.at(involved)
        parts = []
        for rows in self._chunks(own, x):
            through = _Through(self.adjacency, head, x[rows], y[rows])
            ends = ((int(involved[rule]), state[1]) for rule, state in walk(own.body, through.start, through.step))
            parts.append(Grounding.from_rules(ends, len(x[rows]), self.adjacency.entities))
        return Grounding.stacked(parts)

    def witness(self, body: Sequence[int], x: int, y: int) -> list[int] | None:
        """The entities of one path of a body from x to y, both included; None if there is no path."""
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
        """Consecutive slices of rows that fit into memory; one empty slice if there are no rows."""
        entities = self.adjacency.entities
        if len(rules) * len(given) * entities * _BYTES <= self.memory:
            return [slice(0, len(given))]
        ends = [np.minimum(paths[given], entities) for _, paths in paths_from(self.adjacency, rules.body)]
        return slices(np.sum(ends, axis=0) * _BYTES, self.memory)


class _Through:
    """Counts the paths from the x of triples (x, head, y): all of them, and those that use the triple itself."""

    def __init__(self, adjacency: Adjacency, head: int, x: AnyInts, y: AnyInts) -> None:
        self.adjacency, self.head, self.x, self.y = adjacency, head, x, y
        distinct, self.row = np.unique(x, return_inverse=True)
        self.present = elements(adjacency.of(head), x, y)
        none: Any = csr_array((len(x), adjacency.entities), dtype=np.float32)
        self.start: _Paths = (lambda: one_hot(distinct, adjacency.entities), none)

    def step(self, state: _Paths, atom: int) -> _Paths:
        """The state after one more relation: all paths by distinct x, and the paths through the triple by triple."""
        paths, used = state
        matrix = self.adjacency.of(atom)
        onward: Matrix = used @ matrix
        if atom == self.head:
            onward = onward + self._first_use(paths(), used, self.x, self.y)
        elif atom == self.adjacency.reverse(self.head):
            onward = onward + self._first_use(paths(), used, self.y, self.x)
        # All paths are needed only before an atom that the triple can ground, so they are computed on demand.
        return cache(lambda: paths() @ matrix), onward

    def _first_use(self, paths: Matrix, used: Matrix, at: AnyInts, to: AnyInts) -> Matrix:
        """The paths that use the triple for the first time in this step, from ``at`` to ``to``."""
        rows = np.arange(len(at))
        unused = (elements(paths, self.row, at) - elements(used, rows, at)) * self.present
        some = np.flatnonzero(unused)
        return csr_array((unused[some], (some, to[some])), shape=used.shape)


def _common_head(rules: Rules) -> int:
    heads = np.unique(rules.head)
    if len(heads) > 1:
        raise UsageError("the rules have different heads", remedy="ground the rules of one relation at a time")
    return int(heads[0]) if len(heads) else 0
