"""The triples of a graph as sparse adjacency matrices, and the one-step paths between entities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kgprobe.arrays import AnyInts, find, pair_keys, run_starts, spread

Matrix: TypeAlias = "csr_array[Any, tuple[int, int]]"


def single(value: NDArray[np.float32], column: AnyInts, columns: int) -> Matrix:
    """A matrix with one element in each row."""
    return csr_array((value, column, np.arange(len(column) + 1)), shape=(len(column), columns))


def one_hot(column: AnyInts, columns: int) -> Matrix:
    """A matrix with a 1 in each row."""
    return single(np.ones(len(column), dtype=np.float32), column, columns)


def elements(matrix: Matrix, row: AnyInts, column: AnyInts) -> NDArray[np.float32]:
    """Elements of a matrix, whose indices are sorted in place."""
    matrix.sort_indices()
    rows, columns = matrix.shape
    stored = pair_keys(np.repeat(np.arange(rows), np.diff(matrix.indptr)), matrix.indices, columns)
    index = find(stored, pair_keys(row, column, columns))
    return np.where(index >= 0, np.append(matrix.data, np.float32(0))[index], np.float32(0))


class Adjacency:
    """Adjacency matrices of the relations of a graph; relation r + R is the reverse of r.

    Args:
        triples: Triples (head, relation, tail) [n, 3]; duplicates count once.
        entities: Number of entities.
        relations: Number of relations, R.

    Attributes:
        triples: The distinct triples, in the order of (relation, head, tail).

    Example:
        >>> adjacency = Adjacency(np.array([[0, 0, 1], [2, 0, 1]]), entities=3, relations=1)
        >>> adjacency.of(1).toarray().tolist()
        [[0.0, 0.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """

    def __init__(self, triples: AnyInts, entities: int, relations: int) -> None:
        self.entities, self.relations = entities, relations
        every = np.asarray(triples, dtype=np.int32).reshape(-1, 3)
        ordered = every[np.lexsort((every[:, 2], every[:, 0], every[:, 1]))]  # faster than np.unique
        new = np.ones(len(ordered), dtype=bool)
        new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
        self.triples: NDArray[np.int32] = ordered[new]
        self._starts = np.searchsorted(self.triples[:, 1], np.arange(relations + 1))
        self._matrices: dict[int, Matrix] = {}

    def pairs(self, relation: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The x and the y of the distinct triples (x, relation, y); those of r + R have the order of r."""
        first, last = self._starts[relation % self.relations : relation % self.relations + 2]
        head, tail = self.triples[first:last, 0], self.triples[first:last, 2]
        return (head, tail) if relation < self.relations else (tail, head)

    def of(self, relation: int) -> Matrix:
        """The matrix [N, N] of a relation or a reverse relation: float32, 1 for each triple."""
        if relation not in self._matrices:
            x, y = self.pairs(relation)
            ones = np.ones(len(x), dtype=np.float32)
            matrix: Matrix = csr_array((ones, (x, y)), shape=(self.entities, self.entities))
            matrix.sort_indices()
            self._matrices[relation] = matrix
        return self._matrices[relation]

    def reverse(self, relation: int) -> int:
        return (relation + self.relations) % (2 * self.relations)


@dataclass(frozen=True, eq=False)
class HeadTriples:
    """Triples (x, relation, y) that instantiate rule heads."""

    x: AnyInts
    relation: AnyInts
    y: AnyInts
    relations: int

    @classmethod
    def of(cls, adjacency: Adjacency) -> HeadTriples:
        """All triples of a graph."""
        x, relation, y = adjacency.triples.T.astype(np.int64)
        return cls(x, relation, y, adjacency.relations)

    @classmethod
    def some(cls, adjacency: Adjacency, most: int, random: np.random.Generator) -> HeadTriples:
        """A sample of at most ``most`` triples of each relation."""
        every = cls.of(adjacency)
        order = np.lexsort((random.random(len(every)), every.relation))
        number = spread(np.bincount(every.relation, minlength=adjacency.relations))[1]
        return every.at(np.sort(order[number < most]))

    def __len__(self) -> int:
        return len(self.x)

    def at(self, rows: AnyInts | slice) -> HeadTriples:
        return HeadTriples(self.x[rows], self.relation[rows], self.y[rows], self.relations)

    def are(self, start: AnyInts, atom: AnyInts, end: AnyInts) -> NDArray[np.bool_]:
        """Whether a step along a relation uses the triple of its row, in either direction."""
        along = (atom == self.relation) & (start == self.x) & (end == self.y)
        back = (atom == self.relation + self.relations) & (start == self.y) & (end == self.x)
        either: NDArray[np.bool_] = along | back
        return either


_HASH_SLOTS = 16  # slots of the hash table per pair


@dataclass(frozen=True, eq=False)
class PathSteps:
    """The relations between two entities, by pair of entities.

    Attributes:
        pair: Distinct pairs (start, end), sorted, as keys: int64 [pairs].
        atoms_at: Offsets of the relations of each pair: int64 [pairs + 1].
        atom: These relations.
        pairs_at: Offsets of the pairs of each start: int64 [N + 1].
        end: The end of each pair.
        hint: Hash table of the pairs: most lookups of missing pairs need no binary search.
    """

    pair: NDArray[np.int64]
    atoms_at: NDArray[np.int64]
    atom: NDArray[np.int32]
    pairs_at: NDArray[np.int64]
    end: NDArray[np.int64]
    hint: NDArray[np.bool_]

    @classmethod
    def build(cls, start: AnyInts, atom: AnyInts, end: AnyInts, entities: int) -> PathSteps:
        """Group steps by their start and end."""
        keys = pair_keys(start, end, entities)
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        first = run_starts(ordered)
        pair = ordered[first]
        hint = np.zeros(1 << (_HASH_SLOTS * len(pair)).bit_length(), dtype=bool)
        hint[_hash(pair, hint)] = True
        return cls(
            pair=pair,
            atoms_at=np.append(first, len(ordered)),
            atom=np.asarray(atom, dtype=np.int32)[order],
            pairs_at=np.searchsorted(pair, np.arange(entities + 1) * entities),
            end=pair % max(entities, 1),
            hint=hint,
        )

    def degree(self, start: AnyInts) -> NDArray[np.int64]:
        """Number of entities one step away from each start."""
        return self.pairs_at[start + 1] - self.pairs_at[start]

    def width(self, index: AnyInts) -> NDArray[np.int64]:
        """Number of relations of each pair."""
        return self.atoms_at[index + 1] - self.atoms_at[index]

    def index(self, start: AnyInts, end: AnyInts) -> NDArray[np.int64]:
        """The index of each pair, -1 if there is no step."""
        keys = pair_keys(start, end, len(self.pairs_at) - 1)
        likely = np.flatnonzero(self.hint[_hash(keys, self.hint)])
        index = np.full(len(keys), -1)
        index[likely] = find(self.pair, keys[likely])
        return index

    def ends(self, start: AnyInts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """All steps from the start of each row: their rows and the indices of their pairs."""
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
    """A slot of a table whose size is a power of two."""
    mixed = keys * np.int64(0x2545F4914F6CDD1D)
    return (mixed >> 32) & (len(table) - 1)
