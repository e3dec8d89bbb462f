"""Learn a Markov logic network from a graph: rule weights, hidden triples, and their probabilities."""

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
    conclusions,
    joined_pairs,
    most_likely,
)
from kgprobe.models.rules.groundings import Grounder
from kgprobe.models.rules.paths import Adjacency, Matrix
from kgprobe.models.rules.rule_table import Rules

_HALVINGS = 40


def probabilities(scores: Floats, facts: float) -> Floats:
    """Scores, all of them moved alike, as log odds of which so many are expected to be facts.

    Args:
        scores: The scores of an embedding, which tell what is likelier, but not how likely it is.
        facts: How many of them are facts, about; with as many as there are scores or more, all are.

    Example:
        >>> likely = probabilities(np.array([5.0, 4.0, 1.0]), facts=1.5)
        >>> round(float(likely.sum()), 6), bool((np.diff(likely) < 0).all())
        (1.5, True)
    """
    if not 0 < facts < len(scores):
        return np.full(len(scores), float(facts > 0))
    spread = np.log(len(scores) / min(facts, len(scores) - facts)) + 1
    low, high = -scores.max() - spread, -scores.min() + spread
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if expit(scores + middle).sum() > facts else (middle, high)
    likely: Floats = expit(scores + high)
    return likely


Annotate: TypeAlias = Callable[[int, AnyInts, AnyInts], Floats]

"""How likely facts of a relation are, from their x and their y, where the graph does not say."""


@dataclass(frozen=True)
class Learning:
    """How a network learns.

    Attributes:
        combine: What the weight of a rule is multiplied with.
        prior: What is believed of the weights beforehand.
    """

    combine: str
    prior: WeightPrior


def select_rules(rules: Rules, least: float, groundings: int) -> Rules:
    """The rules of the graph's own relations that are precise enough, in the order of these relations.

    Args:
        rules: Rules with their statistics.
        least: The lowest precision of a rule.
        groundings: How many pairs all rules together may join at most; the most precise rules come first.

    Example:
        >>> from dataclasses import replace
        >>> rules = replace(Rules.from_bodies(2, [1, 0, 3], [[0], [1], [0]]), pairs=np.full(3, 9.0))
        >>> rules = replace(rules, path_support=np.array([1.0, 2, 2]), paths=np.full(3, 2.0))
        >>> select_rules(rules, 0.1, 100).head.tolist(), select_rules(rules, 0.1, 10).head.tolist()
        ([0, 1], [0])
    """
    precise = np.flatnonzero((rules.head < rules.relations) & (rules.precision >= least))
    best_first = precise[np.argsort(-rules.precision[precise], kind="stable")]
    fit = best_first[np.cumsum(rules.pairs[best_first]) <= groundings]
    kept = np.sort(fit)
    return rules.at(kept[np.argsort(rules.head[kept], kind="stable")])


def learn(
    rules: Rules, grounder: Grounder, learning: Learning, annotate: Annotate, progress: Callable[[], None]
) -> tuple[Network, Conclusions]:
    """Learn the weights of rules, one relation after the other, and draw the conclusions.

    Args:
        rules: Rules of the graph's own relations, in the order of these.
        grounder: Follows paths through the graph, whose facts are held true.
        learning: How it learns.
        annotate: How likely pairs are that are no facts of the graph.
        progress: Called after every relation.

    Example:
        >>> graph = Adjacency(np.array([[0, 0, 1], [1, 0, 2], [3, 0, 4], [4, 0, 5], [0, 1, 2]]), 6, 2)
        >>> rules, how = Rules.from_bodies(2, [1], [[0, 0]]), Learning("any", WeightPrior(0.1, 50))
        >>> _, found = learn(rules, Grounder(graph), how, lambda relation, x, y: np.zeros(len(x)), lambda: None)
        >>> int(found.by_relation[1].toarray()[3].argmax())
        5
    """
    graph = grounder.adjacency
    weights, bias, matrices = [np.empty(0)], np.zeros(graph.relations), []
    for relation in range(graph.relations):
        pairs = joined_pairs(grounder, rules.of(relation), np.arange(graph.entities))
        features = COMBINATIONS[learning.combine](pairs.counts)
        truth, others = _truth(graph, relation, pairs, annotate)
        own, bias[relation] = most_likely(features, truth, others, learning.prior)
        weights.append(own)
        matrices.append(conclusions(features @ own, pairs.target, pairs.starts))
        progress()
    return Network(rules, np.concatenate(weights), bias), Conclusions(tuple(matrices))


def _truth(graph: Adjacency, relation: int, pairs: Pairs, annotate: Annotate) -> tuple[Floats, Others]:
    """How true the pairs are held, and what is known of all others."""
    x, y = graph.facts(relation)
    place = pairs.at(x, y, graph.entities)
    joined = place[place >= 0]
    truth = annotate(relation, pairs.row, pairs.target)
    truth[joined] = 1
    return truth, Others(float(graph.entities) ** 2 - len(pairs), len(x) - len(joined))


def hidden_triples(network: Network, found: Conclusions, known: Adjacency, least: float) -> NDArray[np.int32]:
    """The facts that are likely and not known.

    Args:
        network: What was learned.
        found: What follows from it.
        known: The facts that are known.
        least: How likely they are at least.

    Example:
        >>> graph = Adjacency(np.array([[0, 0, 1], [1, 0, 2]]), entities=3, relations=1)
        >>> network = Network(Rules.from_bodies(1, [0], [[0, 0]]), np.array([3.0]), np.array([-1.0]))
        >>> hidden_triples(network, Conclusions.of(network, Grounder(graph), "any"), graph, least=0.5).tolist()
        [[0, 0, 2]]
    """
    parts = [
        _likely(matrix, relation, float(logit(least) - network.bias[relation]), known)
        for relation, matrix in enumerate(found.by_relation)
    ]
    return np.concatenate([np.empty((0, 3), np.int32), *parts])


def _likely(matrix: Matrix, relation: int, least: float, known: Adjacency) -> NDArray[np.int32]:
    some = np.flatnonzero(matrix.data >= least)
    x, y = np.searchsorted(matrix.indptr, some, side="right") - 1, matrix.indices[some]
    stated = np.sort(pair_keys(*known.facts(relation), known.entities))
    new = find(stated, pair_keys(x, y, known.entities)) < 0
    return np.column_stack([x[new], np.full(int(new.sum()), relation), y[new]]).astype(np.int32)


@dataclass(frozen=True, eq=False)
class Logic:
    """Rules, and the facts that they are followed through.

    Attributes:
        hidden: Facts [n, 3] that are held true beside the training facts.
        grounder: Follows rules through both.
        network: The rules and their weights.
        found: What follows.

    Example:
        >>> nothing = Logic.nothing(KnowledgeGraph.from_triples(train=[[0, 0, 1]]))
        >>> len(nothing.hidden), len(nothing.network.rules), nothing.found.by_relation[0].nnz
        (0, 0, 0)
    """

    hidden: NDArray[np.int32]
    grounder: Grounder
    network: Network
    found: Conclusions

    @classmethod
    def nothing(cls, graph: KnowledgeGraph) -> Logic:
        """What is believed before anything is learned."""
        return cls._of(graph, np.empty((0, 3), np.int32), Network.empty(graph.num_relations), "any")

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], graph: KnowledgeGraph, combine: str) -> Logic:
        """What a checkpoint believes."""
        return cls._of(graph, tensors["hidden"].cpu().numpy(), Network.from_tensors(tensors), combine)

    def tensors(self) -> dict[str, Tensor]:
        """All that cannot be concluded again, for a checkpoint."""
        return {"hidden": torch.from_numpy(self.hidden), **self.network.tensors()}

    @classmethod
    def _of(cls, graph: KnowledgeGraph, hidden: NDArray[np.int32], network: Network, combine: str) -> Logic:
        grounder = Grounder(believed(graph, hidden))
        return cls(hidden, grounder, network, Conclusions.of(network, grounder, combine))


def believed(graph: KnowledgeGraph, hidden: AnyInts) -> Adjacency:
    """The training facts and the hidden ones.

    Example:
        >>> believed(KnowledgeGraph.from_triples(train=[[0, 0, 1]]), np.array([[1, 0, 0]])).degree(0).tolist()
        [1, 1]
    """
    facts = np.concatenate([graph.triples("train"), hidden])
    return Adjacency(facts, graph.num_entities, graph.num_relations)
