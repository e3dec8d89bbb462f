"""Training queries on the device, their known answers, and their weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kgprobe.arrays import AnyInts
from kgprobe.models.embedding_model import AskedSide, by_side
from kgprobe.predict.scorers import SIDES, Side


class TrueAnswers:
    """The known answers of every pair of a given entity and a relation.

    Attributes:
        pairs: Number of distinct pairs.
        pair_of: The pair of each query: [queries].

    Example:
        >>> given, relation, target = np.array([0, 0, 2]), np.array([0, 0, 0]), np.array([1, 3, 1])
        >>> known = TrueAnswers(given, relation, target, entities=4, device=torch.device("cpu"))
        >>> known.contain(known.pair_of[None], torch.tensor([[[0, 3], [1, 2], [1, 3]]])).tolist()
        [[[False, True], [True, False], [True, False]]]
        >>> known.count(known.pair_of).tolist()
        [2, 2, 1]
        >>> known.rows(known.pair_of[None, :1]).int().tolist()
        [[[0, 1, 0, 1]]]
    """

    def __init__(self, given: AnyInts, relation: AnyInts, target: AnyInts, entities: int, device: torch.device) -> None:
        keys = given.astype(np.int64) * (int(relation.max(initial=0)) + 1) + relation
        distinct, pair = np.unique(keys, return_inverse=True)
        self.pairs, self.entities = len(distinct), entities
        self.pair_of = torch.from_numpy(pair.astype(np.int64)).to(device)
        answers = np.unique(pair.astype(np.int64) * entities + target)
        self._keys = torch.from_numpy(answers).to(device)
        self._counts = torch.from_numpy(np.bincount(answers // entities, minlength=self.pairs)).to(device)

    def count(self, pair: Tensor) -> Tensor:
        """Number of answers of the pairs, of any shape."""
        return self._counts[pair]

    def contain(self, pair: Tensor, entities: Tensor) -> Tensor:
        """Whether the entities [S, B, K] are answers of the pairs [S, B]."""
        keys = pair[..., None] * self.entities + entities
        place = torch.searchsorted(self._keys, keys).clamp_(max=len(self._keys) - 1)
        return self._keys[place] == keys

    def rows(self, pair: Tensor) -> Tensor:
        """Whether each entity is an answer of the pairs [S, B]: [S, B, N]."""
        packed = self._bits[pair]
        places = torch.arange(8, device=packed.device, dtype=torch.uint8)
        unpacked = (packed[..., None] >> places) & 1
        return unpacked.reshape(*pair.shape, -1)[..., : self.entities].bool()

    @cached_property
    def _bits(self) -> Tensor:
        """One bit for each pair and entity."""
        width = -(-self.entities // 8)
        pair, entity = self._keys // self.entities, self._keys % self.entities
        bits = torch.zeros(self.pairs * width, dtype=torch.uint8, device=self._keys.device)
        # Every bit is set once, so that adding sets it.
        return bits.index_add_(0, pair * width + entity // 8, (1 << (entity % 8)).to(torch.uint8)).reshape(-1, width)


Columns: TypeAlias = tuple[AnyInts, AnyInts, AnyInts]
"""Given entity, relation and target of queries."""

Weigh: TypeAlias = Callable[[Columns], NDArray[Any]]
"""Computes the weights of queries of one side from their columns."""

COLUMNS = ("given", "relation", "target", "pair", "weight")


@dataclass(frozen=True, eq=False)
class TrainingQueries:
    """Queries on the device: all of one side, or a batch [S, B].

    Attributes:
        side: The predicted side; "both" where the first half are tail queries and the second half head queries.
        known: The known answers, by pair.
        given: The given entities.
        relation: The relations.
        target: The target entities.
        pair: The index in ``known`` of the pair of given entity and relation.
        weight: The weights of the queries in the loss.
    """

    side: AskedSide
    known: TrueAnswers
    given: Tensor
    relation: Tensor
    target: Tensor
    pair: Tensor
    weight: Tensor

    def __len__(self) -> int:
        return len(self.given)

    def at(self, index: Tensor) -> TrainingQueries:
        """The queries at an index of any shape."""
        return replace(self, **{name: getattr(self, name)[index] for name in COLUMNS})

    def once(self) -> TrainingQueries:
        """One query for each distinct pair, for training on all its answers at once."""
        _, first = np.unique(self.pair.cpu().numpy(), return_index=True)
        return self.at(torch.from_numpy(first).to(self.pair.device))

    @property
    def triples(self) -> tuple[Tensor, Tensor, Tensor]:
        """Head, relation and tail of each query."""
        head = by_side(_head, self.side, self.given, self.target)
        tail = by_side(_head, self.side, self.target, self.given)
        return head, self.relation, tail


def joined(parts: Sequence[TrainingQueries]) -> TrainingQueries:
    """The tail queries of a batch, and as many head queries where there are any, as one batch."""
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, Any] = {name: torch.cat([getattr(part, name) for part in parts], 1) for name in COLUMNS}
    return replace(parts[0], side="both", **columns)


def _head(side: Side, given: Tensor, target: Tensor) -> Tensor:
    """The head of triples; the tail, if given entity and target are exchanged."""
    return given if side == "tail" else target


def alike(columns: Columns) -> NDArray[Any]:
    """Equal weights."""
    return np.ones(len(columns[0]))


def training_queries(
    triples: AnyInts, entities: int, reciprocals: int | None, weigh: Weigh, device: torch.device
) -> list[TrainingQueries]:
    """The queries of an epoch: the tail query and the head query of every training triple.

    Args:
        triples: The training triples.
        entities: Number of entities.
        reciprocals: Number of relations if head queries are tail queries of reciprocal relations; otherwise None.
        weigh: Computes the weights of queries.
        device: Where the queries are stored.

    Example:
        >>> triples, cpu = np.array([[0, 0, 1], [2, 0, 1]]), torch.device("cpu")
        >>> [(queries.side, len(queries)) for queries in training_queries(triples, 3, None, alike, cpu)]
        [('tail', 2), ('head', 2)]
        >>> [(queries.side, len(queries)) for queries in training_queries(triples, 3, 1, alike, cpu)]
        [('tail', 4)]
    """
    head, relation, tail = triples.T.astype(np.int64)
    reverse = relation + (int(relation.max(initial=0)) + 1 if reciprocals is None else reciprocals)
    given, target = np.concatenate([head, tail]), np.concatenate([tail, head])
    columns = given, np.concatenate([relation, reverse]), target
    known = TrueAnswers(*columns, entities, device)
    asked = columns if reciprocals is not None else (given, np.concatenate([relation, relation]), target)
    weights = np.concatenate([weigh((head, relation, tail)), weigh((tail, relation, head))])
    weight = torch.from_numpy(weights.astype(np.float32)).to(device)
    first, second, third = (torch.from_numpy(column).to(device) for column in asked)
    every = TrainingQueries("tail", known, first, second, third, known.pair_of, weight)
    if reciprocals is not None:
        return [every]
    halves = torch.arange(2 * len(triples), device=device).chunk(2)
    return [replace(every.at(half), side=side) for side, half in zip(SIDES, halves, strict=True)]


def rarity(columns: Columns) -> NDArray[Any]:
    """Subsampling weights: lower for frequent pairs of head or tail and relation (Mikolov et al. 2013)."""
    given, relation, target = (column.astype(np.int64) for column in columns)
    relations = int(relation.max(initial=0)) + 1
    counts = [_occurrences(end * relations + relation) + 3 for end in (given, target)]
    weights: NDArray[Any] = 1 / np.sqrt(counts[0] + counts[1])
    return weights


def _occurrences(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    _, place, count = np.unique(keys, return_inverse=True, return_counts=True)
    occurrences: NDArray[np.int64] = count[place]
    return occurrences
