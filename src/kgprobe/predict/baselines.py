"""Baselines: random scores, and the frequencies of entities in training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts
from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.popularity import entity_degrees
from kgprobe.predict.scorers import Scorer, Side

if TYPE_CHECKING:
    from scipy import sparse


Scores: TypeAlias = NDArray[np.float32] | NDArray[np.float64]
Words: TypeAlias = NDArray[np.uint64]
_HEAD, _RELATION, _TAIL = range(3)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_BLOCK_CELLS = 1 << 15


class RandomScores:
    """Random scores, which are reproducible: they depend on (seed, side, given, relation, entity) alone.

    The score of entity e is number e of the SplitMix64 generator (Steele, Lea and Flood, 2014) that is seeded by a hash
    of the rest, as a number in [0, 1) with 53 bits.

    Example:
        >>> scorer = RandomScores(num_entities=4, seed=1)
        >>> both = scorer.score("tail", np.array([0, 3]), np.array([0, 0]))
        >>> bool((scorer.score("tail", np.array([3]), np.array([0]))[0] == both[1]).all())
        True
    """

    def __init__(self, num_entities: int, seed: int = 0) -> None:
        self.seed = seed
        self._steps = np.arange(1, num_entities + 1, dtype=np.uint64) * _STEP

    def score(self, side: Side, given: AnyInts, relation: AnyInts) -> NDArray[np.float64]:
        """Scores [queries, entities] in [0, 1)."""
        start = np.full(len(given), self.seed % 2**64, dtype=np.uint64)
        for part in (np.full(len(given), side == "tail"), given, relation):
            start = _mixed((start ^ part.astype(np.uint64)) + _STEP)
        scores = np.empty((len(given), len(self._steps)))
        rows = max(1, _BLOCK_CELLS // max(1, len(self._steps)))
        for first in range(0, len(given), rows):
            words = _mixed(start[first : first + rows, None] + self._steps)
            words >>= np.uint64(11)
            np.multiply(words, 2.0**-53, out=scores[first : first + rows])
        return scores


def _mixed(words: Words) -> Words:
    """The output function of SplitMix64, in place."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words ^= words >> np.uint64(shift)
        words *= np.uint64(factor)
    words ^= words >> np.uint64(31)
    return words


class EntityFrequency:
    """Scores an entity by its frequency in training on either side, for every query alike.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [2, 1, 1]])
        >>> EntityFrequency(graph).score("tail", np.array([0]), np.array([0])).tolist()
        [[1.0, 2.0, 1.0]]
    """

    def __init__(self, graph: KnowledgeGraph) -> None:
        counts = graph.train_counts
        degrees = entity_degrees(_train(graph), graph.num_entities) if counts is None else counts.degree
        self._degrees = degrees.astype(_exact(degrees))

    def score(self, side: Side, given: AnyInts, relation: AnyInts) -> Scores:
        return np.repeat(self._degrees[None], len(given), axis=0)


class RelationFrequency:
    """Scores an entity by its frequency in training on the predicted side of the relation.

    The given entity is ignored, so its metrics are those that popularity alone explains.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [2, 0, 1], [0, 1, 2]])
        >>> RelationFrequency(graph).score("tail", np.array([2, 2]), np.array([0, 1])).tolist()
        [[0.0, 2.0, 0.0], [0.0, 0.0, 1.0]]
    """

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._counts: Mapping[Side, sparse.csr_array] = {
            "head": _counted(graph, _HEAD),
            "tail": _counted(graph, _TAIL),
        }

    def score(self, side: Side, given: AnyInts, relation: AnyInts) -> Scores:
        distinct, row = np.unique(relation, return_inverse=True)
        scores: Scores = self._counts[side][distinct].toarray()[row]
        return scores


def _counted(graph: KnowledgeGraph, column: int) -> sparse.csr_array:
    """The frequency of each entity in that column, by relation."""
    from scipy import sparse

    train = _train(graph)
    shape = (graph.num_relations, graph.num_entities)
    ones = np.ones(len(train), dtype=np.int64)
    counts = sparse.coo_array((ones, (train[:, _RELATION], train[:, column])), shape=shape).tocsr()
    return counts.astype(_exact(counts.data))


def _exact(counts: AnyInts) -> type[np.float32] | type[np.float64]:
    """The smallest floating-point type that represents these counts exactly."""
    return np.float32 if counts.max(initial=0) <= 2**24 else np.float64


def _train(graph: KnowledgeGraph) -> AnyInts:
    if not len(graph.triples("train")):
        problem = "the graph has only their counts" if graph.train_counts is not None else "the graph has none"
        raise DataError(
            f"{graph.name}: this baseline needs training triples",
            [problem],
            "use a graph with training triples, or the baseline 'random'",
        )
    return graph.triples("train")


Baseline: TypeAlias = Callable[[KnowledgeGraph, int], tuple[str, Scorer]]
"""Returns the name for reports and the scorer, for a graph and a seed."""

BASELINES: Mapping[str, Baseline] = {
    "random": lambda graph, seed: ("random", RandomScores(graph.num_entities, seed)),
    "entity-frequency": lambda graph, _seed: ("entity frequency", EntityFrequency(graph)),
    "relation-frequency": lambda graph, _seed: ("relation frequency", RelationFrequency(graph)),
}
