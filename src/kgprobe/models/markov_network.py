"""Markov logic networks: weighted rules, the pairs of entities that they join, and the likelihood of triples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import expit
from torch import Tensor

from kgprobe.arrays import AnyInts, Floats, find, pair_keys
from kgprobe.models.rules.groundings import Grounder
from kgprobe.models.rules.paths import Matrix
from kgprobe.models.rules.rule_table import Rules
from kgprobe.predict.scorers import Side

Features: TypeAlias = Callable[[Matrix], Matrix]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs (given[i], y) with at least one path, in the order of (i, y).

    Attributes:
        starts: Where the pairs of each given entity begin: int64 [given + 1].
        target: Their y, ascending for each given entity: int32 [pairs].
        counts: Numbers of paths by pair and rule: float64 [pairs, rules]. A pair that is itself a fact of the graph
            is without the paths through this fact, which may leave it none.
    """

    starts: NDArray[np.int64]
    target: NDArray[np.int32]
    counts: Matrix

    def __len__(self) -> int:
        return len(self.target)

    @property
    def row(self) -> NDArray[np.int64]:
        """Which of the given entities each pair begins with."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def at(self, row: AnyInts, target: AnyInts, entities: int) -> NDArray[np.int64]:
        """The position of pairs, -1 where no rule joins them."""
        return find(pair_keys(self.row, self.target, entities), pair_keys(row, target, entities))


def joined_pairs(grounder: Grounder, rules: Rules, given: AnyInts) -> Pairs:
    """The pairs that rules join.

    Args:
        grounder: Follows paths through a graph.
        rules: Rules that conclude the same relation.
        given: Where their paths begin, distinct and ascending.

    Example:
        >>> from kgprobe.models.rules.paths import Adjacency
        >>> graph = Adjacency(np.array([[0, 0, 1], [1, 0, 2], [0, 1, 2]]), entities=3, relations=2)
        >>> pairs = joined_pairs(Grounder(graph), Rules.from_bodies(2, [1], [[0, 0]]), np.arange(3))
        >>> pairs.row.tolist(), pairs.target.tolist(), pairs.counts.toarray().tolist()
        ([0], [2], [[1.0]])
    """
    found = grounder.paths(rules, given)
    shape = len(found.candidate), len(rules)
    counts: Matrix = csr_array((found.count.astype(np.float64), found.rule, found.rules_at), shape=shape)
    pairs = Pairs(found.candidates_at, found.candidate, counts)
    if not len(pairs):
        return pairs
    used = _through_themselves(grounder, rules, given, pairs)
    return Pairs(pairs.starts, pairs.target, _without_zeros(pairs.counts - used)) if used.nnz else pairs


def _through_themselves(grounder: Grounder, rules: Rules, given: AnyInts, pairs: Pairs) -> Matrix:
    """The numbers of paths of pairs that are facts through these facts themselves: [pairs, rules]."""
    x, y = grounder.adjacency.pairs(int(rules.head[0]))
    row = np.minimum(np.searchsorted(given, x), len(given) - 1)
    asked = given[row] == x
    x, y, row = x[asked], y[asked], row[asked]
    found = grounder.through(rules, x, y)
    fact = np.repeat(np.arange(len(x)), np.diff(found.candidates_at))
    own = found.candidate == y[fact]
    number = np.diff(found.rules_at)
    place = pairs.at(row[fact[own]], y[fact[own]], grounder.adjacency.entities)
    entries = np.repeat(own, number)
    rows = np.repeat(place, number[own])
    return csr_array((found.count[entries].astype(np.float64), (rows, found.rule[entries])), shape=pairs.counts.shape)


def _without_zeros(matrix: Matrix) -> Matrix:
    matrix.eliminate_zeros()
    return matrix


def _with(matrix: Matrix, values: NDArray[np.float64]) -> Matrix:
    return csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def _mean(counts: Matrix) -> Matrix:
    total = np.asarray(counts.sum(axis=1)).ravel()
    return _with(counts, counts.data / np.repeat(total, np.diff(counts.indptr)))


COMBINATIONS: Mapping[str, Features] = {
    "any": lambda counts: _with(counts, np.ones_like(counts.data)),
    "log": lambda counts: _with(counts, np.log1p(counts.data)),
    "count": lambda counts: counts,
    "mean": _mean,
}

"""What the weight of a rule is multiplied with, from its number of paths: 1, log(1 + paths), paths, or its share."""


@dataclass(frozen=True)
class Others:
    """The pairs that no rule joins, which are all alike.

    Attributes:
        number: How many there are.
        facts: How many of them are facts.
    """

    number: float
    facts: float


@dataclass(frozen=True)
class WeightPrior:
    """What is believed of weights before facts are seen, and for how long better ones are looked for.

    Attributes:
        strength: One over the variance of a normal distribution around 0.
        steps: Most steps of the search.
    """

    strength: float
    steps: int


def most_likely(features: Matrix, truth: Floats, others: Others, prior: WeightPrior) -> tuple[Floats, float]:
    """Weights and bias of the largest pseudo-likelihood, with the prior.

    The log odds of a pair are bias + features @ weights; those of a pair that no rule joins are the bias.

    Args:
        features: What weights are multiplied with: [pairs, rules].
        truth: How true each pair is held: [pairs].
        others: The pairs that no rule joins.
        prior: What is believed of the weights beforehand.

    Example:
        >>> from scipy.sparse import csr_array
        >>> features = csr_array(np.ones((4, 1)))
        >>> weights, bias = most_likely(features, np.array([1.0, 1, 1, 0]), Others(8, 2), WeightPrior(1e-9, 100))
        >>> bool(np.allclose(bias, np.log(2 / 6), atol=1e-4)), bool(np.allclose(bias + weights, np.log(3), atol=1e-4))
        (True, True)
    """
    rules = features.shape[1]
    backwards = features.T.tocsr()

    def cost(at: Floats) -> tuple[float, Floats]:
        weights, bias = at[:rules], at[rules]
        odds = features @ weights + bias
        unlikely = np.logaddexp(0, odds).sum() - truth @ odds
        unlikely += others.number * np.logaddexp(0, bias) - others.facts * bias
        too_much = expit(odds) - truth
        slope = backwards @ too_much + prior.strength * weights
        of_bias = too_much.sum() + others.number * expit(bias) - others.facts
        return float(unlikely + prior.strength / 2 * weights @ weights), np.append(slope, of_bias)

    start = np.zeros(rules + 1)
    start[rules] = _base_odds(float(truth.sum()) + others.facts, len(truth) + others.number)
    found = minimize(cost, start, jac=True, method="L-BFGS-B", options={"maxiter": prior.steps}).x
    return found[:rules], float(found[rules])


def _base_odds(facts: float, pairs: float) -> float:
    """The log odds of a pair of which nothing is known, one fact and one that is none added."""
    return float(np.log(facts + 1) - np.log(pairs - facts + 1))


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
        >>> from kgprobe.models.rules.paths import Adjacency
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

    def rows(self, side: Side, given: AnyInts, relation: AnyInts) -> tuple[AnyInts, AnyInts, NDArray[np.float32]]:
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


def conclusions(values: Floats, target: AnyInts, starts: AnyInts) -> Matrix:
    """By how much the log odds of pairs rise, as a matrix of all entities, which begin at ``starts``."""
    entities = len(starts) - 1
    return csr_array((values.astype(np.float32), target, starts), shape=(entities, entities))
