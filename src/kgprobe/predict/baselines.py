"""The baselines that every model should beat: chance, and how often an entity occurs in training."""

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
    """Scores that are drawn at random, the same for the same question whenever and wherever it is asked.

    A score is a hash of (seed, side, given, relation, entity) and depends on nothing else: the score of entity e is
    number e of the SplitMix64 generator (Steele, Lea and Flood, 2014) that starts at a hash of the rest, as a number in
    [0, 1) with 53 bits.

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
        """A matrix [queries, entities] of numbers in [0, 1)."""
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
    """The words after the output function of SplitMix64; their memory is used."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words ^= words >> np.uint64(shift)
        words *= np.uint64(factor)
    words ^= words >> np.uint64(31)
    return words


class EntityFrequency:
    """Every query is answered alike: by how often an entity occurs in training, on either side.

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
        """A matrix [queries, entities] of counts."""
        return np.repeat(self._degrees[None], len(given), axis=0)


class RelationFrequency:
    """A query is answered by how often an entity stands on the asked side of its relation in training.

    The given entity is not looked at, so what this reaches is what popularity alone explains.

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
        """A matrix [queries, entities] of counts."""
        asked, row = np.unique(relation, return_inverse=True)
        scores: Scores = self._counts[side][asked].toarray()[row]
        return scores


def _counted(graph: KnowledgeGraph, column: int) -> sparse.csr_array:
    """How often each entity stands in that column, by relation."""
    from scipy import sparse  # slow to load, and only this baseline needs it

    train = _train(graph)
    shape = (graph.num_relations, graph.num_entities)
    ones = np.ones(len(train), dtype=np.int64)
    counts = sparse.coo_array((ones, (train[:, _RELATION], train[:, column])), shape=shape).tocsr()
    return counts.astype(_exact(counts.data))


def _exact(counts: AnyInts) -> type[np.float32] | type[np.float64]:
    """The smaller floating-point type that holds these counts exactly."""
    return np.float32 if counts.max(initial=0) <= 2**24 else np.float64


def _train(graph: KnowledgeGraph) -> AnyInts:
    if not len(graph.triples("train")):
        counts = "only their counts are here" if graph.train_counts is not None else "the graph has none"
        raise DataError(
            f"{graph.name}: this baseline counts training triples",
            [counts],
            "use a graph that has its training triples, or the baseline 'random'",
        )
    return graph.triples("train")


Baseline: TypeAlias = Callable[[KnowledgeGraph, int], tuple[str, Scorer]]

"""Makes a name for reports and a scorer, from a graph and a seed."""

BASELINES: Mapping[str, Baseline] = {
    "random": lambda graph, seed: ("random", RandomScores(graph.num_entities, seed)),
    "entity-frequency": lambda graph, _seed: ("entity frequency", EntityFrequency(graph)),
    "relation-frequency": lambda graph, _seed: ("relation frequency", RelationFrequency(graph)),
}

"""The baselines by name."""
