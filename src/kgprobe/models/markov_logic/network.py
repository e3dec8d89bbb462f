"""Rules with weights, and what follows from them in a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from kgprobe.graph.sorted_keys import Ints
from kgprobe.models.markov_logic.likelihood import Floats
from kgprobe.models.markov_logic.pairs import COMBINATIONS, joined_pairs
from kgprobe.models.rules.ground import Grounder
from kgprobe.models.rules.matrices import Matrix
from kgprobe.models.rules.rule import Rules
from kgprobe.predict.scorer import Side

_RULES = "rules."


@dataclass(frozen=True, eq=False)
class Network:
    """Rules of the relations of a graph, none of which is reverse, with what was learned about them.

    Attributes:
        rules: The rules, in the order of the relations that they conclude.
        weights: The weight of each rule.
        bias: The log odds of a pair that no rule joins, by relation.

    Example:
        >>> network = Network(Rules.from_bodies(2, [1], [[0, 0]]), np.ones(1), np.zeros(2))
        >>> Network.from_tensors(network.tensors()).of(1)[1].tolist()
        [1.0]
    """

    rules: Rules
    weights: Floats
    bias: Floats

    @classmethod
    def empty(cls, relations: int) -> Network:
        """No rules at all."""
        return cls(Rules.empty(relations), np.empty(0), np.zeros(relations))

    def of(self, relation: int) -> tuple[Rules, Floats]:
        """The rules of a relation, or of a reverse relation, and their weights."""
        chosen = self.rules.head == relation % self.rules.relations
        rules = self.rules.at(chosen)
        return rules if relation < self.rules.relations else rules.reversed(), self.weights[chosen]

    def tensors(self) -> dict[str, Tensor]:
        """Everything as tensors, for a checkpoint."""
        rules = {f"{_RULES}{name}": own for name, own in self.rules.tensors().items()}
        return rules | {"weights": torch.from_numpy(self.weights), "bias": torch.from_numpy(self.bias)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Network:
        """The network of a checkpoint."""
        rules = {name.removeprefix(_RULES): own for name, own in tensors.items() if name.startswith(_RULES)}
        return cls(Rules.from_tensors(rules), tensors["weights"].cpu().numpy(), tensors["bias"].cpu().numpy())


@dataclass(frozen=True, eq=False)
class Conclusions:
    """By how much the rules of each relation raise the log odds of the pairs that they join.

    Attributes:
        by_relation: Matrices [entities, entities], from what is given to the answer, as float32.

    Example:
        >>> from kgprobe.models.rules.adjacency import Adjacency
        >>> grounder = Grounder(Adjacency(np.array([[0, 0, 1], [1, 0, 2]]), entities=3, relations=2))
        >>> network = Network(Rules.from_bodies(2, [1], [[0, 0]]), np.array([3.0]), np.zeros(2))
        >>> found = Conclusions.of(network, grounder, "any")
        >>> [column.tolist() for column in found.rows("head", np.array([2, 1]), np.array([1, 1]))]
        [[0], [0], [3.0]]
    """

    by_relation: tuple[Matrix, ...]

    @classmethod
    def of(cls, network: Network, grounder: Grounder, combine: str) -> Conclusions:
        """What follows from a network in a graph."""
        graph = grounder.adjacency
        return cls(tuple(_concluded(*network.of(relation), grounder, combine) for relation in range(graph.relations)))

    def rows(self, side: Side, given: Ints, relation: Ints) -> tuple[Ints, Ints, NDArray[np.float32]]:
        """What follows about queries: which query, which entity, and by how much its log odds rise."""
        parts = []
        for asked in np.unique(relation):
            queries = np.flatnonzero(relation == asked)
            found = self._towards(side)[int(asked)][given[queries]]
            parts.append((np.repeat(queries, np.diff(found.indptr)), found.indices, found.data))
        query, entity, value = (np.concatenate(column) for column in zip(*parts, strict=True)) if parts else _NOTHING
        return query, entity, value

    def _towards(self, side: Side) -> tuple[Matrix, ...]:
        return self.by_relation if side == "tail" else self._backwards

    @cached_property
    def _backwards(self) -> tuple[Matrix, ...]:
        return tuple(matrix.T.tocsr() for matrix in self.by_relation)


_NOTHING = (np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))


def _concluded(rules: Rules, weights: Floats, grounder: Grounder, combine: str) -> Matrix:
    entities = grounder.adjacency.entities
    pairs = joined_pairs(grounder, rules, np.arange(entities))
    return conclusions(COMBINATIONS[combine](pairs.counts) @ weights, pairs.target, pairs.starts)


def conclusions(values: Floats, target: Ints, starts: Ints) -> Matrix:
    """By how much the log odds of pairs rise, as a matrix of all entities, which begin at ``starts``."""
    entities = len(starts) - 1
    return csr_array((values.astype(np.float32), target, starts), shape=(entities, entities))
