"""Learn a Markov logic network from a graph: rule selection, rule weights, hidden triples and their probabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, logit
from torch import Tensor

from kgprobe.arrays import AnyInts, Floats, find, pair_keys
from kgprobe.graph import KnowledgeGraph
from kgprobe.models.markov_network import (
    COMBINATIONS,
    Conclusions,
    Network,
    Others,
    Pairs,
    WeightPrior,
    connected_pairs,
    most_likely,
    pair_matrix,
)
from kgprobe.models.rules.groundings import Grounder
from kgprobe.models.rules.paths import Adjacency, Matrix
from kgprobe.models.rules.rule_table import Rules

_HALVINGS = 40

# Probability that pairs (x, y) of a relation are true, for pairs that are not triples of the graph.
Annotate: TypeAlias = Callable[[int, AnyInts, AnyInts], Floats]


def probabilities(scores: Floats, triples: float) -> Floats:
    """Probabilities expit(scores + c), with c such that their sum is ``triples``.

    Args:
        scores: Scores of an embedding model, which order pairs but are not calibrated.
        triples: Expected number of true triples; if it is the number of scores or more, all probabilities are 1.

    Example:
        >>> likely = probabilities(np.array([5.0, 4.0, 1.0]), triples=1.5)
        >>> round(float(likely.sum()), 6), bool((np.diff(likely) < 0).all())
        (1.5, True)
    """
    if not 0 < triples < len(scores):
        return np.full(len(scores), float(triples > 0))
    spread = np.log(len(scores) / min(triples, len(scores) - triples)) + 1
    low, high = -scores.max() - spread, -scores.min() + spread
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if expit(scores + middle).sum() > triples else (middle, high)
    likely: Floats = expit(scores + high)
    return likely


@dataclass(frozen=True)
class Learning:
    """How rule weights are learned: the features of a pair (see `COMBINATIONS`), and the prior of the weights."""

    combine: str
    prior: WeightPrior


def select_rules(rules: Rules, least: float, groundings: int) -> Rules:
    """Rules of the graph's own relations with a minimum precision, ordered by head.

    Args:
        rules: Rules with their statistics.
        least: Minimum precision of a rule.
        groundings: Maximum number of pairs that all rules together connect; the most precise rules are taken first.
    """
    precise = np.flatnonzero((rules.head < rules.relations) & (rules.precision >= least))
    best_first = precise[np.argsort(-rules.precision[precise], kind="stable")]
    kept = np.sort(best_first[np.cumsum(rules.pairs[best_first]) <= groundings])
    return rules.at(kept[np.argsort(rules.head[kept], kind="stable")])


def learn(
    rules: Rules, grounder: Grounder, learning: Learning, annotate: Annotate, progress: Callable[[], None]
) -> tuple[Network, Conclusions]:
    """Learn the weights of rules, one relation after the other, and apply them to all pairs.

    Args:
        rules: Rules of the graph's own relations, ordered by head.
        grounder: Counts paths in the graph, whose triples are taken as true.
        learning: How weights are learned.
        annotate: Probability of pairs that are not triples of the graph.
        progress: Called after every relation.
    """
    graph = grounder.adjacency
    weights, bias, matrices = [np.empty(0)], np.zeros(graph.relations), []
    for relation in range(graph.relations):
        pairs = connected_pairs(grounder, rules.of(relation), np.arange(graph.entities))
        features = COMBINATIONS[learning.combine](pairs.counts)
        truth, others = _truth(graph, relation, pairs, annotate)
        own, bias[relation] = most_likely(features, truth, others, learning.prior)
        weights.append(own)
        matrices.append(pair_matrix(features @ own, pairs))
        progress()
    return Network(rules, np.concatenate(weights), bias), Conclusions(tuple(matrices))


def _truth(graph: Adjacency, relation: int, pairs: Pairs, annotate: Annotate) -> tuple[Floats, Others]:
    """Probabilities of the connected pairs, and counts of all other pairs."""
    x, y = graph.pairs(relation)
    position = pairs.at(x, y, graph.entities)
    connected = position[position >= 0]
    truth = annotate(relation, pairs.row, pairs.target)
    truth[connected] = 1
    return truth, Others(float(graph.entities) ** 2 - len(pairs), len(x) - len(connected))


def hidden_triples(network: Network, conclusions: Conclusions, known: Adjacency, least: float) -> NDArray[np.int32]:
    """Triples [n, 3] that are likely by the rules and not known.

    Args:
        network: The rules and their weights.
        conclusions: The log odds of pairs by these rules.
        known: The known triples.
        least: Minimum probability.
    """
    parts = [
        _likely(matrix, relation, float(logit(least) - network.bias[relation]), known)
        for relation, matrix in enumerate(conclusions.by_relation)
    ]
    return np.concatenate([np.empty((0, 3), np.int32), *parts])


def _likely(matrix: Matrix, relation: int, least: float, known: Adjacency) -> NDArray[np.int32]:
    likely = np.flatnonzero(matrix.data >= least)
    x, y = np.searchsorted(matrix.indptr, likely, side="right") - 1, matrix.indices[likely]
    known_pairs = np.sort(pair_keys(*known.pairs(relation), known.entities))
    new = find(known_pairs, pair_keys(x, y, known.entities)) < 0
    return np.column_stack([x[new], np.full(int(new.sum()), relation), y[new]]).astype(np.int32)


@dataclass(frozen=True, eq=False)
class Logic:
    """A learned network and the triples that its rules are applied to.

    Attributes:
        hidden: Triples [n, 3] that are taken as true in addition to the training triples.
        grounder: Counts paths in both.
        network: The rules and their weights.
        conclusions: The log odds of pairs by these rules.
    """

    hidden: NDArray[np.int32]
    grounder: Grounder
    network: Network
    conclusions: Conclusions

    @classmethod
    def nothing(cls, graph: KnowledgeGraph) -> Logic:
        """The state before learning: no rules, no hidden triples."""
        return cls._of(graph, np.empty((0, 3), np.int32), Network.empty(graph.num_relations), "any")

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], graph: KnowledgeGraph, combine: str) -> Logic:
        """The state in a checkpoint."""
        return cls._of(graph, tensors["hidden"].cpu().numpy(), Network.from_tensors(tensors), combine)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of a checkpoint; the conclusions are computed again."""
        return {"hidden": torch.from_numpy(self.hidden), **self.network.tensors()}

    @classmethod
    def _of(cls, graph: KnowledgeGraph, hidden: NDArray[np.int32], network: Network, combine: str) -> Logic:
        grounder = Grounder(adjacency_with(graph, hidden))
        return cls(hidden, grounder, network, Conclusions.of(network, grounder, combine))


def adjacency_with(graph: KnowledgeGraph, hidden: AnyInts) -> Adjacency:
    """The adjacency of the training triples and the hidden triples."""
    triples = np.concatenate([graph.triples("train"), hidden])
    return Adjacency(triples, graph.num_entities, graph.num_relations)
