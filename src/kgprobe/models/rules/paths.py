"""The triples of a graph as sparse adjacency matrices, and the steps of paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kgprobe.arrays import AnyInts, find, pair_keys, run_starts, spread

Matrix: TypeAlias = "csr_array[Any, tuple[int, int]]"


def single(value: NDArray[np.float32], column: AnyInts, columns: int) -> Matrix:
    """One element in each row.

    Example:
        >>> single(np.float32([5, 7]), np.array([1, 0]), columns=3).toarray().tolist()
        [[0.0, 5.0, 0.0], [7.0, 0.0, 0.0]]
    """
    return csr_array((value, column, np.arange(len(column) + 1)), shape=(len(column), columns))


def one_hot(column: AnyInts, columns: int) -> Matrix:
    """A 1 in each row.

    Example:
        >>> one_hot(np.array([1, 0]), columns=3).toarray().tolist()
        [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """
    return single(np.ones(len(column), dtype=np.float32), column, columns)


def elements(matrix: Matrix, row: AnyInts, column: AnyInts) -> NDArray[np.float32]:
    """Elements of a matrix, 0 where nothing is stored. The matrix is put in order.

    Example:
        >>> elements(one_hot(np.array([1, 0]), columns=3), np.array([1, 1]), np.array([2, 0])).tolist()
        [0.0, 1.0]
    """
    matrix.sort_indices()
    rows, columns = matrix.shape
    stored = pair_keys(np.repeat(np.arange(rows), np.diff(matrix.indptr)), matrix.indices, columns)
    place = find(stored, pair_keys(row, column, columns))
    return np.where(place >= 0, np.append(matrix.data, np.float32(0))[place], np.float32(0))


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

    def __init__(self, triples: AnyInts, entities: int, relations: int) -> None:
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


@dataclass(frozen=True, eq=False)
class HeadTriples:
    """Facts (x, relation, y) that paths are to close.

    Example:
        >>> facts = HeadTriples(np.array([0, 0]), np.array([1, 1]), np.array([2, 3]), relations=2)
        >>> facts.are(start=np.array([2, 2]), atom=np.array([3, 3]), end=np.array([0, 0])).tolist()
        [True, False]
    """

    x: AnyInts
    relation: AnyInts
    y: AnyInts
    relations: int

    @classmethod
    def of(cls, adjacency: Adjacency) -> HeadTriples:
        """All facts of a graph."""
        x, relation, y = adjacency.triples.T.astype(np.int64)
        return cls(x, relation, y, adjacency.relations)

    @classmethod
    def some(cls, adjacency: Adjacency, most: int, random: np.random.Generator) -> HeadTriples:
        """A sample of the facts: so many of each relation at most."""
        every = cls.of(adjacency)
        order = np.lexsort((random.random(len(every)), every.relation))
        place = spread(np.bincount(every.relation, minlength=adjacency.relations))[1]
        return every.at(np.sort(order[place < most]))

    def __len__(self) -> int:
        return len(self.x)

    def at(self, rows: AnyInts | slice) -> HeadTriples:
        """Some of the facts."""
        return HeadTriples(self.x[rows], self.relation[rows], self.y[rows], self.relations)

    def are(self, start: AnyInts, atom: AnyInts, end: AnyInts) -> NDArray[np.bool_]:
        """Whether a step along a relation passes through the fact of its row, in either direction."""
        along = (atom == self.relation) & (start == self.x) & (end == self.y)
        back = (atom == self.relation + self.relations) & (start == self.y) & (end == self.x)
        either: NDArray[np.bool_] = along | back
        return either


_SPARSE = 16

"""Places of a table of hashes for each pair."""


@dataclass(frozen=True, eq=False)
class PathSteps:
    """The relations between two entities, by pair of entities.

    Attributes:
        pair: Distinct pairs (start, end) in order, as keys: int64 [pairs].
        atoms_at: Where the relations of each pair begin: int64 [pairs + 1].
        atom: These relations.
        pairs_at: Where the pairs of each start begin: int64 [N + 1].
        end: The end of each pair.
        hint: Whether there may be a pair with this hash: most pairs that are not there need not be searched for.
    """

    pair: NDArray[np.int64]
    atoms_at: NDArray[np.int64]
    atom: NDArray[np.int32]
    pairs_at: NDArray[np.int64]
    end: NDArray[np.int64]
    hint: NDArray[np.bool_]

    @classmethod
    def build(cls, start: AnyInts, atom: AnyInts, end: AnyInts, entities: int) -> PathSteps:
        """Group steps by their two entities."""
        keys = pair_keys(start, end, entities)
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        first = run_starts(ordered)
        pair = ordered[first]
        hint = np.zeros(1 << (_SPARSE * len(pair)).bit_length(), dtype=bool)
        hint[_hash(pair, hint)] = True
        return cls(
            pair=pair,
            atoms_at=np.append(first, len(ordered)),
            atom=np.asarray(atom, dtype=np.int32)[order],
            pairs_at=np.searchsorted(pair, np.arange(entities + 1) * entities),
            end=pair % max(entities, 1),
            hint=hint,
        )

    @property
    def entities(self) -> int:
        """Number of entities."""
        return len(self.pairs_at) - 1

    def degree(self, start: AnyInts) -> NDArray[np.int64]:
        """How many entities are one step away from each start."""
        return self.pairs_at[start + 1] - self.pairs_at[start]

    def width(self, place: AnyInts) -> NDArray[np.int64]:
        """How many relations each pair at this place has."""
        return self.atoms_at[place + 1] - self.atoms_at[place]

    def place(self, start: AnyInts, end: AnyInts) -> NDArray[np.int64]:
        """Where a pair is, -1 if there is no step."""
        wanted = pair_keys(start, end, self.entities)
        likely = np.flatnonzero(self.hint[_hash(wanted, self.hint)])
        place = np.full(len(wanted), -1)
        place[likely] = find(self.pair, wanted[likely])
        return place

    def ends(self, start: AnyInts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The row and the pair of every entity that is one step away from the start of a row."""
        row, offset = spread(self.degree(start))
        return row, self.pairs_at[start[row]] + offset

    def random(self, start: AnyInts, random: np.random.Generator) -> tuple[AnyInts, AnyInts, AnyInts]:
        """A random step from each start that has any: its row, its relation and its end."""
        first = self.atoms_at[self.pairs_at[start]]
        size = self.atoms_at[self.pairs_at[start + 1]] - first
        row = np.flatnonzero(size)
        step = first[row] + np.floor(random.random(len(row)) * size[row]).astype(np.int64)
        pair = np.searchsorted(self.atoms_at, step, side="right") - 1
        return row, self.atom[step], self.end[pair]


def _hash(keys: NDArray[np.int64], table: NDArray[np.bool_]) -> NDArray[np.int64]:
    """A place in a table whose size is a power of two."""
    mixed = keys * np.int64(0x2545F4914F6CDD1D)
    return (mixed >> 32) & (len(table) - 1)
