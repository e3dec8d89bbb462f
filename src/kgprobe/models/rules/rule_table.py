"""Tables of logical rules: heads, bodies, support, confidence; rules as text; prefix walks over rule bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kgprobe.arrays import AnyInts, Floats
from kgprobe.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

_State = TypeVar("_State")
_End = TypeVar("_End")

NO_ATOM = -1  # pads short bodies
_VARIABLES = "zwvutsrqponmlkjihgfedcba"


@dataclass(frozen=True, eq=False)
class Rules:
    """Chain rules head(x, y) <- body[0](x, z), body[1](z, w), ..., with their statistics in the training triples.

    A relation is 0..R-1 as in the graph, or r + R for the reverse of r.

    Attributes:
        relations: Number of relations of the graph, R.
        head: Relation of the head: int32 [n].
        body: Relations of the body's path from x to y, padded with -1: int32 [n, L].
        support: Triples of the head with at least one path of the body that does not use the triple itself.
        pairs: Distinct pairs (x, y) with at least one path of the body.
        path_support: Number of such paths, over all triples of the head.
        paths: Number of all paths of the body.

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
        """Rules without statistics: all are 0."""
        heads = np.asarray(head, dtype=np.int32)
        zeros = np.zeros(len(heads))
        bodies = np.asarray(body, dtype=np.int32).reshape(len(heads), -1 if len(heads) else 1)
        return cls(relations, heads, bodies, zeros, zeros, zeros, zeros)

    @classmethod
    def empty(cls, relations: int, length: int = 1) -> Rules:
        return cls.from_bodies(relations, np.empty(0, np.int32), np.empty((0, length), np.int32))

    def __len__(self) -> int:
        return len(self.head)

    @property
    def length(self) -> NDArray[np.int64]:
        """The number of atoms of each body."""
        length: NDArray[np.int64] = np.count_nonzero(self.body != NO_ATOM, axis=1)
        return length

    @property
    def confidence(self) -> Floats:
        """The share of the pairs of a body that are triples of the head: support / pairs, or 0 without pairs."""
        return _share(self.support, self.pairs)

    @property
    def precision(self) -> Floats:
        """The share of the paths of a body whose ends are triples of the head: path_support / paths, or 0."""
        return _share(self.path_support, self.paths)

    def at(self, index: Any) -> Rules:
        """Select rules by indices or by a mask."""
        chosen = np.asarray(index)
        chosen = chosen if chosen.dtype == bool else chosen.astype(np.int64)
        return Rules(self.relations, *(getattr(self, name)[chosen] for name in _COLUMNS))

    def of(self, head: int) -> Rules:
        """The rules with this head."""
        return self.at(self.head == head)

    def joined(self, *others: Rules) -> Rules:
        """Concatenate rules; of duplicates, the first is kept with its statistics.

        Example:
            >>> one = Rules.from_bodies(2, [0], [[1]])
            >>> one.joined(one, Rules.from_bodies(2, [1], [[0, 0]])).body.tolist()
            [[1, -1], [0, 0]]
        """
        tables = (self, *others)
        longest = max(table.body.shape[1] for table in tables)
        padded = [replace(table, body=_padded(table.body, longest)) for table in tables]
        every = Rules(
            self.relations, *(np.concatenate([getattr(table, name) for table in padded]) for name in _COLUMNS)
        )
        _, first = np.unique(np.column_stack([every.head, every.body]), axis=0, return_index=True)
        return every.at(np.sort(first))

    def reversed(self) -> Rules:
        """The same rules read from y to x: their heads are the reverse relations; statistics do not change."""
        body = backwards(self.body)
        flipped = np.where(body == NO_ATOM, NO_ATOM, self._reverse(body)).astype(np.int32)
        return replace(self, head=self._reverse(self.head).astype(np.int32), body=flipped)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of a checkpoint."""
        import torch

        columns = {name: torch.from_numpy(np.array(getattr(self, name), order="C")) for name in _COLUMNS}
        return {"relations": torch.tensor(self.relations), **columns}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Rules:
        """The rules of a checkpoint.

        Raises:
            DataError: Tensors are missing, or are not those of rules; all problems are listed.
        """
        problems = [f"{name} is missing" for name in ("relations", *_COLUMNS) if name not in tensors]
        if not problems and tensors["relations"].numel() != 1:
            problems = ["relations is not a number"]
        if not problems:
            columns = {name: tensors[name].cpu().numpy() for name in _COLUMNS}
            rules = cls(int(tensors["relations"]), **columns)
            problems = list(rules._problems())
        if problems:
            raise DataError("these are not the rules of a model", problems, "use the checkpoint as it was written")
        return rules

    def _problems(self) -> Iterator[str]:
        """Columns of another shape or type, and relations that there are not."""
        for name in _COLUMNS:
            column = getattr(self, name)
            kind, dimensions = "i" if name in ("head", "body") else "f", 2 if name == "body" else 1
            if column.dtype.kind != kind or column.ndim != dimensions or len(column) != len(self.head):
                yield f"{name} holds {column.dtype} values of shape {column.shape}"
                return
            if not np.isfinite(column).all():
                yield f"{name} holds NaN or infinity"
        for name, least in (("head", 0), ("body", NO_ATOM)):
            column = getattr(self, name)
            wrong = (column < least) | (column >= 2 * self.relations)
            if wrong.any():
                yield f"{name} names relations outside 0..{2 * self.relations - 1}, such as {column[wrong][0]}"

    def _reverse(self, relation: AnyInts) -> AnyInts:
        return (relation + self.relations) % max(2 * self.relations, 1)


_COLUMNS = tuple(field.name for field in fields(Rules) if field.name != "relations")


def _share(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0)


def _padded(body: NDArray[np.int32], length: int) -> NDArray[np.int32]:
    return np.pad(body, ((0, 0), (0, length - body.shape[1])), constant_values=NO_ATOM)


def rule_text(rules: Rules, i: int, label: Callable[[int], str]) -> str:
    """Rule i as text, without reverse relations.

    Args:
        rules: A table of rules.
        i: Index of the rule.
        label: The name of a relation of the graph.

    Example:
        >>> name = ["grandparent", "parent"].__getitem__
        >>> rule_text(Rules.from_bodies(2, [0], [[1, 1]]), 0, name)
        'grandparent(x, y) <- parent(x, z), parent(z, y)'
        >>> rule_text(Rules.from_bodies(2, [2], [[1, 3]]), 0, name)
        'grandparent(x, y) <- parent(x, z), parent(y, z)'
    """
    upright = _upright(rules.at([i]))
    between = [_variable(number) for number in range(int(upright.length[0]) - 1)]
    body = (f"{label(relation)}({x}, {y})" for x, relation, y in _atoms(upright, ["x", *between, "y"]))
    return f"{label(int(upright.head[0]))}(x, y) <- {', '.join(body)}"


def path_triples(rules: Rules, i: int, path: Sequence[int]) -> list[tuple[int, int, int]]:
    """The triples (head, relation, tail) of one grounding of rule i, in the order of the atoms in `rule_text`.

    Args:
        rules: A table of rules.
        i: Index of the rule.
        path: The entities of the path, from the start of the body.

    Example:
        >>> path_triples(Rules.from_bodies(2, [0], [[1, 1]]), 0, [7, 8, 9])
        [(7, 1, 8), (8, 1, 9)]
        >>> path_triples(Rules.from_bodies(2, [2], [[3, 3]]), 0, [9, 8, 7])
        [(7, 1, 8), (8, 1, 9)]
    """
    rule = rules.at([i])
    return list(_atoms(_upright(rule), path if _is_upright(rule) else path[::-1]))


def _is_upright(rule: Rules) -> bool:
    return bool(rule.head[0] < rule.relations)


def _upright(rule: Rules) -> Rules:
    return rule if _is_upright(rule) else rule.reversed()


def _atoms(rule: Rules, ends: Sequence[_End]) -> Iterator[tuple[_End, int, _End]]:
    """The atoms (x, relation, y) of a body, without reverse relations; ``ends`` are variables or entities."""
    body = [int(atom) for atom in rule.body[0] if atom != NO_ATOM]
    for at, atom, to in zip(ends[:-1], body, ends[1:], strict=True):
        yield (at, atom, to) if atom < rule.relations else (to, atom - rule.relations, at)


def _variable(number: int) -> str:
    rounds, letter = divmod(number, len(_VARIABLES))
    return _VARIABLES[letter] + (str(rounds) if rounds else "")


def walk(body: AnyInts, start: _State, step: Callable[[_State, int], _State]) -> Iterator[tuple[int, _State]]:
    """Fold each body over its relations; common prefixes are computed once.

    Args:
        body: Relations [n, L], padded with -1.
        start: Initial state.
        step: The state after one more relation.

    Yields:
        The row of a body and its final state, in any order.

    Example:
        >>> sorted(walk(np.array([[7, 1], [7, -1], [7, 2]]), "", lambda at, atom: f"{at}/{atom}"))
        [(0, '/7/1'), (1, '/7'), (2, '/7/2')]
    """
    yield from _onward(body, np.arange(len(body)), 0, start, step)


def walk_prefixes(
    body: AnyInts, start: _State, step: Callable[[_State, int], _State]
) -> Iterator[tuple[NDArray[np.int64], _State]]:
    """Group bodies [n, L] by all but their last relation; yield the rows of each group and the state of its prefix.

    Example:
        >>> for rows, at in walk_prefixes(np.array([[7, 1], [4, 1], [7, 2]]), "", lambda at, atom: f"{at}/{atom}"):
        ...     print(rows, at)
        [1] /4
        [0 2] /7
    """
    prefix, which = np.unique(body[:, :-1], axis=0, return_inverse=True)
    members = group_rows(which.reshape(-1), len(prefix))
    for row, state in walk(prefix, start, step):
        yield members[row], state


def group_rows(group: NDArray[np.int64], groups: int) -> list[NDArray[np.int64]]:
    """The rows of each group, in ascending order."""
    bounds = np.cumsum(np.bincount(group, minlength=groups))
    return np.split(np.argsort(group, kind="stable"), bounds[:-1])


def backwards(body: AnyInts) -> AnyInts:
    """Reverse the order of the relations of each body; padding stays last.

    Example:
        >>> backwards(np.array([[1, 2, 3], [4, 5, -1]])).tolist()
        [[3, 2, 1], [5, 4, -1]]
    """
    flipped = body[:, ::-1]
    return np.take_along_axis(flipped, np.argsort(flipped < 0, axis=1, kind="stable"), axis=1)


def _onward(
    body: AnyInts, members: AnyInts, depth: int, state: _State, step: Callable[[_State, int], _State]
) -> Iterator[tuple[int, _State]]:
    atoms = body[members, depth] if depth < body.shape[1] else np.full(len(members), -1)
    yield from ((int(row), state) for row in members[atoms < 0])
    order = np.argsort(atoms, kind="stable")
    first = np.flatnonzero(np.diff(atoms[order], prepend=-1))
    for same in np.split(members[order], first)[1:]:
        yield from _onward(body, same, depth + 1, step(state, int(body[same[0], depth])), step)
