"""Paths that lead from one end of a fact to the other without passing through the fact itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kgprobe.graph.sorted_keys import Ints
from kgprobe.models.rules.adjacency import Adjacency
from kgprobe.models.rules.facts import Facts
from kgprobe.models.rules.ragged import slices, spread
from kgprobe.models.rules.steps import Steps

_BYTES = 200
"""What one path takes at most while it is looked for."""


class Closing:
    """Finds all paths of one or two relations that close facts.

    Args:
        adjacency: The graph.
        reverse: Whether paths of two relations may go against relations.
        memory: How many bytes may be in use.
    """

    def __init__(self, adjacency: Adjacency, reverse: bool, memory: int) -> None:
        x, r, y = adjacency.triples.T.astype(np.int64)
        start, atom, end = np.append(x, y), np.append(r, r + adjacency.relations), np.append(y, x)
        allowed = slice(None) if reverse else slice(len(x))
        self.most = memory / _BYTES
        self.every = Steps.build(start, atom, end, adjacency.entities)
        self.onward = Steps.build(start[allowed], atom[allowed], end[allowed], adjacency.entities)
        self.backward = Steps.build(end[allowed], atom[allowed], start[allowed], adjacency.entities)

    def one_step(self, facts: Facts) -> Iterator[tuple[Ints, Ints]]:
        """The row of a fact and a path [1] that closes it, for every such path; all those of a fact at once."""
        place = self.every.place(facts.x, facts.y)
        row, offset = spread(self.every.width(place))
        atom = self.every.atom[self.every.atoms_at[place[row]] + offset]
        own = facts.at(row)
        kept = ~own.are(own.x, atom, own.y)
        yield row[kept], atom[kept, None]

    def two_steps(self, facts: Facts, start: Ints) -> Iterator[tuple[Ints, Ints]]:
        """The row of a fact and a path [2] from a start to its y, for every such path; all those of a row at once.

        Args:
            facts: The facts, whose own step is not taken.
            start: Where the paths of each row begin; x for paths that close the fact.
        """
        lookups = np.minimum(self.onward.degree(start), self.backward.degree(facts.y))
        for rows in slices(lookups, self.most):
            row, there, back = self._meetings(start[rows], facts.y[rows])
            paths = self.onward.width(there) * self.backward.width(back)
            every = np.bincount(row, paths, minlength=rows.stop - rows.start)
            for part in slices(every, self.most):
                first, last = np.searchsorted(row, [part.start, part.stop])
                some = slice(first, last)
                yield self._labelled(facts, start, row[some] + rows.start, there[some], back[some])

    def _meetings(self, start: Ints, y: Ints) -> tuple[Ints, Ints, Ints]:
        """Every entity between start and y, by row: its pair with start and its pair with y."""
        near = np.flatnonzero(self.onward.degree(start) <= self.backward.degree(y))
        far = np.flatnonzero(self.onward.degree(start) > self.backward.degree(y))
        row_near, there = self.onward.ends(start[near])
        row_far, back = self.backward.ends(y[far])
        row = np.append(near[row_near], far[row_far])
        there = np.append(there, self.onward.place(start[far][row_far], self.backward.end[back]))
        back = np.append(self.backward.place(y[near][row_near], self.onward.end[there[: len(row_near)]]), back)
        met = np.flatnonzero((there >= 0) & (back >= 0))
        met = met[np.argsort(row[met], kind="stable")]
        return row[met], there[met], back[met]

    def _labelled(self, facts: Facts, start: Ints, row: Ints, there: Ints, back: Ints) -> tuple[Ints, Ints]:
        """Every choice of two relations at every meeting."""
        # Only next to an end of the fact can a step be the fact itself, and few steps are: loops at x or at y.
        near = (self.onward.end[there] == facts.x[row]) | (self.onward.end[there] == facts.y[row])
        meeting, offset = spread(self.onward.width(there) * self.backward.width(back))
        first, second = np.divmod(offset, self.backward.width(back)[meeting])
        atoms = np.empty((len(meeting), 2), dtype=np.int32)
        atoms[:, 0] = self.onward.atom[self.onward.atoms_at[there][meeting] + first]
        atoms[:, 1] = self.backward.atom[self.backward.atoms_at[back][meeting] + second]
        kept = np.ones(len(meeting), dtype=bool)
        doubtful = np.flatnonzero(near[meeting])
        between, rows = self.onward.end[there][meeting[doubtful]], row[meeting[doubtful]]
        own, (before, after) = facts.at(rows), atoms[doubtful].T
        kept[doubtful] = ~(own.are(start[rows], before, between) | own.are(between, after, own.y))
        return row[meeting[kept]], atoms[kept]
