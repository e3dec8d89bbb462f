from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from kgprobe.graph import KnowledgeGraph
from kgprobe.models.least_squares.tensor import FactTensor

Dense = Callable[[FactTensor], NDArray[np.float64]]


@pytest.fixture
def graph() -> KnowledgeGraph:
    """Self-loops, repeated facts, relation 2 and entity 8 without facts."""
    rng = np.random.default_rng(5)
    train = np.column_stack([rng.integers(0, size, 40) for size in (8, 2, 8)])
    train[:, 1] *= 3
    train[0, 2] = train[0, 0]
    return KnowledgeGraph.from_triples(train=np.concatenate([train, train[:5]]), num_entities=9, num_relations=4)


@pytest.fixture
def dense() -> Dense:
    """What makes the whole tensor [heads, relations, tails] of facts, entry by entry."""

    def fill(facts: FactTensor) -> NDArray[np.float64]:
        tensor = np.zeros((facts.num_entities, facts.num_relations, facts.num_entities))
        for part in facts.slices:
            values = part.values.toarray()
            for i, head in enumerate(part.heads):
                for j, tail in enumerate(part.tails):
                    tensor[head, part.relation, tail] = values[i, j]
        return tensor

    return fill
