"""Tables of logical rules: heads, bodies, support and confidence, and rules as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kgprobe.arrays import AnyInts, Floats

if TYPE_CHECKING:
    from torch import Tensor


State = TypeVar("State")


def walk(body: AnyInts, start: State, step: Callable[[State, int], State]) -> Iterator[tuple[int, State]]:
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
    body: AnyInts, start: State, step: Callable[[State, int], State]
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


def backwards(body: AnyInts) -> AnyInts:
    """The relations of each body from its last to its first.

    Example:
        >>> backwards(np.array([[1, 2, 3], [4, 5, -1]])).tolist()
        [[3, 2, 1], [5, 4, -1]]
    """
    turned = body[:, ::-1]
    return np.take_along_axis(turned, np.argsort(turned < 0, axis=1, kind="stable"), axis=1)


def _onward(
    body: AnyInts, members: AnyInts, depth: int, state: State, step: Callable[[State, int], State]
) -> Iterator[tuple[int, State]]:
    atoms = body[members, depth] if depth < body.shape[1] else np.full(len(members), -1)
    yield from ((int(row), state) for row in members[atoms < 0])
    order = np.argsort(atoms, kind="stable")
    first = np.flatnonzero(np.diff(atoms[order], prepend=-1))
    for same in np.split(members[order], first)[1:]:
        yield from _onward(body, same, depth + 1, step(state, int(body[same[0], depth])), step)


NO_ATOM = -1

"""Fills the bodies of rules that are shorter than others."""


@dataclass(frozen=True, eq=False)
class Rules:
    """Rules head(x, y) <- body[0](x, z), body[1](z, w), ..., each with its statistics in the training facts.

    A relation is 0..R-1 as in the graph, or r + R for the reverse of r.

    Attributes:
        relations: Number of relations of the graph, R.
        head: What each rule concludes: int32 [n].
        body: The relations of its path from x to y, filled with -1 behind the last: int32 [n, L].
        support: Facts of the head with at least one path of the body that does not pass through the fact itself.
        pairs: Distinct pairs (x, y) with at least one path of the body.
        path_support: Such paths of all facts of the head.
        paths: All paths of the body.

    Example:
        >>> rules = Rules.from_bodies(2, [0, 0], [[1, -1], [1, 3]])
        >>> len(rules), rules.length.tolist(), rules.at([1]).reversed().body.tolist()
        (2, [1, 2], [[1, 3]])
    """

    relations: int
    head: NDArray[np.int32]
    body: NDArray[np.int32]
    support: Floats
    pairs: Floats
    path_support: Floats
    paths: Floats

    @classmethod
    def from_bodies(cls, relations: int, head: ArrayLike, body: ArrayLike) -> Rules:
        """Rules of which no statistics are known: all are 0."""
        heads = np.asarray(head, dtype=np.int32)
        nothing = np.zeros(len(heads))
        bodies = np.asarray(body, dtype=np.int32).reshape(len(heads), -1 if len(heads) else 1)
        return cls(relations, heads, bodies, nothing, nothing, nothing, nothing)

    @classmethod
    def empty(cls, relations: int, length: int = 1) -> Rules:
        """No rules, of at most this length."""
        return cls.from_bodies(relations, np.empty(0, np.int32), np.empty((0, length), np.int32))

    def __len__(self) -> int:
        return len(self.head)

    @property
    def length(self) -> NDArray[np.int64]:
        """The number of relations in each body."""
        length: NDArray[np.int64] = np.sum(self.body != NO_ATOM, axis=1, dtype=np.int64)
        return length

    @property
    def confidence(self) -> Floats:
        """Which share of the pairs that a body joins are facts of the head: support / pairs, or 0 without pairs."""
        return _share(self.support, self.pairs)

    @property
    def precision(self) -> Floats:
        """Which share of the paths of a body join facts of the head: path_support / paths, or 0 without paths."""
        return _share(self.path_support, self.paths)

    def at(self, index: Any) -> Rules:
        """Some of the rules: by their positions, in that order, or by a mask."""
        chosen = np.asarray(index)
        chosen = chosen if chosen.dtype == bool else chosen.astype(np.int64)
        return Rules(self.relations, *(getattr(self, name)[chosen] for name in _COLUMNS))

    def of(self, head: int) -> Rules:
        """The rules that conclude this relation."""
        return self.at(self.head == head)

    def joined(self, *others: Rules) -> Rules:
        """These rules and the others, each once: the statistics of its first place are kept.

        Example:
            >>> one = Rules.from_bodies(2, [0], [[1]])
            >>> one.joined(one, Rules.from_bodies(2, [1], [[0, 0]])).body.tolist()
            [[1, -1], [0, 0]]
        """
        tables = (self, *others)
        longest = max(table.body.shape[1] for table in tables)
        columns = {
            name: np.concatenate([getattr(table, name) for table in tables]) for name in _COLUMNS if name != "body"
        }
        columns["body"] = np.concatenate([_filled(table.body, longest) for table in tables])
        every = Rules(self.relations, **columns)
        _, first = np.unique(np.column_stack([every.head, every.body]), axis=0, return_index=True)
        return every.at(np.sort(first))

    def reversed(self) -> Rules:
        """The same rules read from y to x: they conclude the reverse relation and their statistics stay."""
        body = backwards(self.body)
        flipped = np.where(body == NO_ATOM, NO_ATOM, self._reverse(body)).astype(np.int32)
        statistics = (getattr(self, name) for name in _STATISTICS)
        return Rules(self.relations, self._reverse(self.head).astype(np.int32), flipped, *statistics)

    def tensors(self) -> dict[str, Tensor]:
        """Everything as tensors, for a checkpoint.

        Example:
            >>> kept = Rules.from_bodies(2, [0], [[1, 3]]).tensors()
            >>> Rules.from_tensors(kept).body.tolist()
            [[1, 3]]
        """
        import torch

        columns = {name: torch.from_numpy(np.array(getattr(self, name), order="C")) for name in _COLUMNS}
        return {"relations": torch.tensor(self.relations), **columns}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Rules:
        """The rules of a checkpoint."""
        return cls(int(tensors["relations"]), *(tensors[name].cpu().numpy() for name in _COLUMNS))

    def _reverse(self, relation: AnyInts) -> AnyInts:
        return (relation + self.relations) % max(2 * self.relations, 1)


_COLUMNS = tuple(field.name for field in fields(Rules) if field.name != "relations")

_STATISTICS = tuple(name for name in _COLUMNS if name not in ("head", "body"))


def _share(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0)


def _filled(body: NDArray[np.int32], length: int) -> NDArray[np.int32]:
    return np.pad(body, ((0, 0), (0, length - body.shape[1])), constant_values=NO_ATOM)


_End = TypeVar("_End")

_BETWEEN = "zwvutsrqponmlkjihgfedcba"


def rule_text(rules: Rules, i: int, label: Callable[[int], str]) -> str:
    """One rule, its head and all its relations the right way round.

    Args:
        rules: Any rules.
        i: Which of them.
        label: The name of a relation of the graph.

    Example:
        >>> name = ["grandparent", "parent"].__getitem__
        >>> rule_text(Rules.from_bodies(2, [0], [[1, 1]]), 0, name)
        'grandparent(x, y) <- parent(x, z), parent(z, y)'
        >>> rule_text(Rules.from_bodies(2, [2], [[1, 3]]), 0, name)
        'grandparent(x, y) <- parent(x, z), parent(y, z)'
    """
    upright = _upright(rules.at([i]))
    between = [_variable(place) for place in range(int(upright.length[0]) - 1)]
    body = (f"{label(relation)}({x}, {y})" for x, relation, y in _atoms(upright, ["x", *between, "y"]))
    return f"{label(int(upright.head[0]))}(x, y) <- {', '.join(body)}"


def path_facts(rules: Rules, i: int, path: Sequence[int]) -> list[tuple[int, int, int]]:
    """The facts (head, relation, tail) along one path of a rule, in the order in which `rule_text` has their relations.

    Args:
        rules: Any rules.
        i: Which of them.
        path: The entities on the path, from the one that its body begins with.

    Example:
        >>> path_facts(Rules.from_bodies(2, [0], [[1, 1]]), 0, [7, 8, 9])
        [(7, 1, 8), (8, 1, 9)]
        >>> path_facts(Rules.from_bodies(2, [2], [[3, 3]]), 0, [9, 8, 7])
        [(7, 1, 8), (8, 1, 9)]
    """
    rule = rules.at([i])
    return list(_atoms(_upright(rule), path if _is_upright(rule) else path[::-1]))


def _is_upright(rule: Rules) -> bool:
    return bool(rule.head[0] < rule.relations)


def _upright(rule: Rules) -> Rules:
    return rule if _is_upright(rule) else rule.reversed()


def _atoms(rule: Rules, ends: Sequence[_End]) -> Iterator[tuple[_End, int, _End]]:
    """The relations of a body with what stands at their ends, all the right way round."""
    body = [int(atom) for atom in rule.body[0] if atom != NO_ATOM]
    for at, atom, to in zip(ends[:-1], body, ends[1:], strict=True):
        yield (at, atom, to) if atom < rule.relations else (to, atom - rule.relations, at)


def _variable(place: int) -> str:
    rounds, letter = divmod(place, len(_BETWEEN))
    return _BETWEEN[letter] + (str(rounds) if rounds else "")
