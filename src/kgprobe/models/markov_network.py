"""Markov logic networks: weighted rules, the pairs of entities that they connect, and the likelihood of triples."""

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
from kgprobe.errors import DataError
from kgprobe.models.rules.groundings import Grounder
from kgprobe.models.rules.paths import Matrix
from kgprobe.models.rules.rule_table import Rules
from kgprobe.predict.scorers import Side


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs (given[i], y) that are connected by at least one path, in the order of (i, y).

    Attributes:
        starts: Offsets of the pairs of each given entity: int64 [given + 1].
        target: Their y, ascending for each given entity: int32 [pairs].
        counts: Number of paths by pair and rule: float64 [pairs, rules]. If the pair is a triple of the graph itself,
            paths through that triple are not counted, which may leave none.
    """

    starts: NDArray[np.int64]
    target: NDArray[np.int32]
    counts: Matrix

    def __len__(self) -> int:
        return len(self.target)

    @property
    def row(self) -> NDArray[np.int64]:
        """The index i of the given entity of each pair."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def at(self, row: AnyInts, target: AnyInts, entities: int) -> NDArray[np.int64]:
        """Positions of pairs; -1 for pairs that no rule connects."""
        return find(pair_keys(self.row, self.target, entities), pair_keys(row, target, entities))


def connected_pairs(grounder: Grounder, rules: Rules, given: AnyInts) -> Pairs:
    """The pairs of entities that the bodies of rules connect.

    Args:
        grounder: Counts paths in a graph.
        rules: Rules with the same head.
        given: Start entities, distinct and ascending.
    """
    paths = grounder.paths(rules, given)
    shape = len(paths.candidate), len(rules)
    counts: Matrix = csr_array((paths.count.astype(np.float64), paths.rule, paths.rules_at), shape=shape)
    pairs = Pairs(paths.candidates_at, paths.candidate, counts)
    if not len(pairs):
        return pairs
    through = _through_themselves(grounder, rules, given, pairs)
    if not through.nnz:
        return pairs
    remaining: Matrix = counts - through
    remaining.eliminate_zeros()
    return Pairs(pairs.starts, pairs.target, remaining)


def _through_themselves(grounder: Grounder, rules: Rules, given: AnyInts, pairs: Pairs) -> Matrix:
    """For pairs that are triples of the graph, the number of paths through that triple: [pairs, rules]."""
    x, y = grounder.adjacency.pairs(int(rules.head[0]))
    row = np.minimum(np.searchsorted(given, x), len(given) - 1)
    is_given = given[row] == x
    x, y, row = x[is_given], y[is_given], row[is_given]
    paths = grounder.through(rules, x, y)
    triple = np.repeat(np.arange(len(x)), np.diff(paths.candidates_at))
    own = paths.candidate == y[triple]
    number = np.diff(paths.rules_at)
    pair = pairs.at(row[triple[own]], y[triple[own]], grounder.adjacency.entities)
    entries = np.repeat(own, number)
    rows = np.repeat(pair, number[own])
    return csr_array((paths.count[entries].astype(np.float64), (rows, paths.rule[entries])), shape=pairs.counts.shape)


def _with(matrix: Matrix, values: NDArray[np.float64]) -> Matrix:
    return csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def _mean(counts: Matrix) -> Matrix:
    total = np.asarray(counts.sum(axis=1)).ravel()
    return _with(counts, counts.data / np.repeat(total, np.diff(counts.indptr)))


# Features of a pair from its numbers of paths [pairs, rules]: 1, log(1 + paths), paths, or the rule's share of paths.
Features: TypeAlias = Callable[[Matrix], Matrix]
COMBINATIONS: Mapping[str, Features] = {
    "any": lambda counts: _with(counts, np.ones_like(counts.data)),
    "log": lambda counts: _with(counts, np.log1p(counts.data)),
    "count": lambda counts: counts,
    "mean": _mean,
}


@dataclass(frozen=True)
class Others:
    """The pairs that no rule connects: how many there are, and how many of them are triples of the graph."""

    number: float
    triples: float


@dataclass(frozen=True)
class WeightPrior:
    """Gaussian prior of rule weights, and the length of the optimisation.

    Attributes:
        strength: Inverse variance of the prior around 0.
        steps: Maximum number of L-BFGS iterations.
    """

    strength: float
    steps: int


def most_likely(features: Matrix, truth: Floats, others: Others, prior: WeightPrior) -> tuple[Floats, float]:
    """Weights and bias that maximise the pseudo-likelihood with the prior.

    The log odds of a pair are bias + features @ weights; those of a pair that no rule connects are the bias.

    Args:
        features: Features of the connected pairs: [pairs, rules].
        truth: Probability that each pair is true: [pairs].
        others: The pairs that no rule connects.
        prior: Prior of the weights.
    """
    rules = features.shape[1]
    transposed = features.T.tocsr()

    def loss(parameters: Floats) -> tuple[float, Floats]:
        weights, bias = parameters[:rules], parameters[rules]
        odds = features @ weights + bias
        value = np.logaddexp(0, odds).sum() - truth @ odds
        value += others.number * np.logaddexp(0, bias) - others.triples * bias
        error = expit(odds) - truth
        of_weights = transposed @ error + prior.strength * weights
        of_bias = error.sum() + others.number * expit(bias) - others.triples
        return float(value + prior.strength / 2 * weights @ weights), np.append(of_weights, of_bias)

    start = np.zeros(rules + 1)
    # The log odds of any pair, with one true and one false pair added.
    true, number = float(truth.sum()) + others.triples, len(truth) + others.number
    start[rules] = float(np.log(true + 1) - np.log(number - true + 1))
    best = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": prior.steps}).x
    return best[:rules], float(best[rules])


_RULES = "rules."


@dataclass(frozen=True, eq=False)
class Network:
    """A Markov logic network: rules whose heads are relations of the graph, not reverse ones, and their weights.

    Attributes:
        rules: The rules, ordered by head.
        weights: The weight of each rule.
        bias: For each relation, the log odds of a pair that no rule connects.
    """

    rules: Rules
    weights: Floats
    bias: Floats

    @classmethod
    def empty(cls, relations: int) -> Network:
        return cls(Rules.empty(relations), np.empty(0), np.zeros(relations))

    def of(self, relation: int) -> tuple[Rules, Floats]:
        """The rules of a relation or of a reverse relation, and their weights."""
        chosen = self.rules.head == relation % self.rules.relations
        rules = self.rules.at(chosen)
        return rules if relation < self.rules.relations else rules.reversed(), self.weights[chosen]

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of a checkpoint."""
        rules = {f"{_RULES}{name}": own for name, own in self.rules.tensors().items()}
        return rules | {"weights": torch.from_numpy(self.weights), "bias": torch.from_numpy(self.bias)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Network:
        """The network of a checkpoint.

        Raises:
            DataError: Tensors are missing, or are not those of a network.
        """
        rules = Rules.from_tensors(
            {name.removeprefix(_RULES): own for name, own in tensors.items() if name.startswith(_RULES)}
        )
        problems = [
            f"{name} has not one number for each of the {size:,} {what}"
            for name, size, what in (("weights", len(rules), "rules"), ("bias", rules.relations, "relations"))
            if name not in tensors or tensors[name].shape != (size,)
        ]
        if problems:
            raise DataError("these are not the rules of a model", problems, "use the checkpoint as it was written")
        return cls(rules, tensors["weights"].cpu().numpy(), tensors["bias"].cpu().numpy())


@dataclass(frozen=True, eq=False)
class Conclusions:
    """The increase in log odds that the rules of each relation give to the pairs that they connect.

    Attributes:
        by_relation: Matrices [heads, tails] as float32.
    """

    by_relation: tuple[Matrix, ...]

    @classmethod
    def of(cls, network: Network, grounder: Grounder, combine: str) -> Conclusions:
        """Apply a network to all pairs of entities of a graph."""
        entities, matrices = np.arange(grounder.adjacency.entities), []
        for relation in range(grounder.adjacency.relations):
            rules, weights = network.of(relation)
            pairs = connected_pairs(grounder, rules, entities)
            matrices.append(pair_matrix(COMBINATIONS[combine](pairs.counts) @ weights, pairs))
        return cls(tuple(matrices))

    def rows(self, side: Side, given: AnyInts, relation: AnyInts) -> tuple[AnyInts, AnyInts, NDArray[np.float32]]:
        """The query, the candidate and the increase in log odds, for all connected candidates of queries."""
        parts = [(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))]
        matrices = self.by_relation if side == "tail" else self._transposed
        for one in np.unique(relation):
            queries = np.flatnonzero(relation == one)
            own = matrices[int(one)][given[queries]]
            parts.append((np.repeat(queries, np.diff(own.indptr)), own.indices, own.data))
        query, entity, value = (np.concatenate(column) for column in zip(*parts, strict=True))
        return query, entity, value

    @cached_property
    def _transposed(self) -> tuple[Matrix, ...]:
        return tuple(matrix.T.tocsr() for matrix in self.by_relation)


def pair_matrix(values: Floats, pairs: Pairs) -> Matrix:
    """Values of the pairs of all entities as a float32 matrix [entities, entities]."""
    entities = len(pairs.starts) - 1
    return csr_array((values.astype(np.float32), pairs.target, pairs.starts), shape=(entities, entities))
