"""Walks along many bodies at once: what they begin with in common is walked once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kgprobe.graph.sorted_keys import Ints

State = TypeVar("State")


def walk(body: Ints, start: State, step: Callable[[State, int], State]) -> Iterator[tuple[int, State]]:
    """The row of each body and where it leads.

    Args:
        body: Relations [n, L], filled with -1 behind the last.
        start: Where all of them begin.
        step: Where a relation leads from somewhere.

    Example:
        >>> sorted(walk(np.array([[7, 1], [7, -1], [7, 2]]), "", lambda at, atom: f"{at}/{atom}"))
        [(0, '/7/1'), (1, '/7'), (2, '/7/2')]
    """
    yield from _onward(body, np.arange(len(body)), 0, start, step)


def walk_beginnings(
    body: Ints, start: State, step: Callable[[State, int], State]
) -> Iterator[tuple[NDArray[np.int64], State]]:
    """The rows of the bodies [n, L] that differ in their last relation alone, and where what is before it leads.

    Example:
        >>> for rows, at in walk_beginnings(np.array([[7, 1], [4, 1], [7, 2]]), "", lambda at, atom: f"{at}/{atom}"):
        ...     print(rows, at)
        [1] /4
        [0 2] /7
    """
    beginning, which = np.unique(body[:, :-1], axis=0, return_inverse=True)
    order = np.argsort(which.reshape(-1), kind="stable")
    bounds = np.searchsorted(which.reshape(-1)[order], np.arange(len(beginning) + 1))
    for row, state in walk(beginning, start, step):
        yield order[bounds[row] : bounds[row + 1]], state


def backwards(body: Ints) -> Ints:
    """The relations of each body from its last to its first.

    Example:
        >>> backwards(np.array([[1, 2, 3], [4, 5, -1]])).tolist()
        [[3, 2, 1], [5, 4, -1]]
    """
    turned = body[:, ::-1]
    return np.take_along_axis(turned, np.argsort(turned < 0, axis=1, kind="stable"), axis=1)


def _onward(
    body: Ints, members: Ints, depth: int, state: State, step: Callable[[State, int], State]
) -> Iterator[tuple[int, State]]:
    atoms = body[members, depth] if depth < body.shape[1] else np.full(len(members), -1)
    yield from ((int(row), state) for row in members[atoms < 0])
    order = np.argsort(atoms, kind="stable")
    first = np.flatnonzero(np.diff(atoms[order], prepend=-1))
    for same in np.split(members[order], first)[1:]:
        yield from _onward(body, same, depth + 1, step(state, int(body[same[0], depth])), step)
