"""The steps that a path can take, by the two entities that they join."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kgprobe.graph.sorted_keys import Ints, find, pair_keys, run_starts
from kgprobe.models.rules.ragged import spread

_SPARSE = 16
"""Places of a table of hashes for each pair."""


@dataclass(frozen=True, eq=False)
class Steps:
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
    def build(cls, start: Ints, atom: Ints, end: Ints, entities: int) -> Steps:
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

    def degree(self, start: Ints) -> NDArray[np.int64]:
        """How many entities are one step away from each start."""
        return self.pairs_at[start + 1] - self.pairs_at[start]

    def width(self, place: Ints) -> NDArray[np.int64]:
        """How many relations each pair at this place has."""
        return self.atoms_at[place + 1] - self.atoms_at[place]

    def place(self, start: Ints, end: Ints) -> NDArray[np.int64]:
        """Where a pair is, -1 if there is no step."""
        wanted = pair_keys(start, end, self.entities)
        likely = np.flatnonzero(self.hint[_hash(wanted, self.hint)])
        place = np.full(len(wanted), -1)
        place[likely] = find(self.pair, wanted[likely])
        return place

    def ends(self, start: Ints) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The row and the pair of every entity that is one step away from the start of a row."""
        row, offset = spread(self.degree(start))
        return row, self.pairs_at[start[row]] + offset

    def random(self, start: Ints, random: np.random.Generator) -> tuple[Ints, Ints, Ints]:
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
