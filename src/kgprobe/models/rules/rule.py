"""A table of logical rules: what follows from which path of relations, and how often that is so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kgprobe.graph.sorted_keys import Ints
from kgprobe.models.rules.trie import backwards

if TYPE_CHECKING:
    from torch import Tensor

Floats: TypeAlias = NDArray[np.float64]

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

    def _reverse(self, relation: Ints) -> Ints:
        return (relation + self.relations) % max(2 * self.relations, 1)


_COLUMNS = tuple(field.name for field in fields(Rules) if field.name != "relations")
_STATISTICS = tuple(name for name in _COLUMNS if name not in ("head", "body"))


def _share(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0)


def _filled(body: NDArray[np.int32], length: int) -> NDArray[np.int32]:
    return np.pad(body, ((0, 0), (0, length - body.shape[1])), constant_values=NO_ATOM)
