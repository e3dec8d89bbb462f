"""CP, the canonical polyadic decomposition: X ~ sum_i a_i o c_i o b_i, two vectors for each entity, one a relation.

F. L. Hitchcock: The expression of a tensor or a polyadic as a sum of products. J. Math. Phys. 6, 1927.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kgprobe.graph import KnowledgeGraph
from kgprobe.models.least_squares.factors import Factors
from kgprobe.models.least_squares.ridge import check_request, ridge
from kgprobe.models.least_squares.tensor import FactTensor, Matrix
from kgprobe.predict.scorer import Floats
from kgprobe.predict.threads import one_thread_of_blas


@dataclass(frozen=True, eq=False)
class CP(Factors):
    """score(h, r, t) = sum_i a_hi c_ri b_ti.

    Attributes:
        head_entity: The vectors a_e of the entities as heads [entities, dimension].
        tail_entity: The vectors b_e of the entities as tails [entities, dimension].
        relation: The vectors c_r [relations, dimension].
    """

    name: ClassVar[str] = "CP"
    head_entity: Floats
    tail_entity: Floats


def fit_cp(
    graph: KnowledgeGraph,
    dimension: int = 500,
    iterations: int = 2,
    regularisation: float = 0.001,
    damping: float = 0.3,
    seed: int = 0,
    watch: Callable[[int], None] | None = None,
) -> CP:
    """Fit CP to the training facts by alternating least squares.

    Minimises ||X - sum_i a_i o c_i o b_i||^2 + regularisation (||A||^2 + ||B||^2 + ||C||^2): each factor in turn is
    the best one for the others. It runs in one thread, so that the number of threads changes neither the model nor,
    where they are busy, the time.

    Args:
        graph: The graph; only its training facts are looked at.
        dimension: Coordinates of an entity.
        iterations: How often all factors are fitted. More fit the training facts better, but often rank other
            facts worse.
        regularisation: The weight of the squares of the factors.
        damping: How much less facts weigh whose queries have many answers; see `FactTensor.build`. 0 for not at all.
        seed: Seed of the factors to start from.
        watch: Called with how many iterations have been finished since the last call.

    Raises:
        UsageError: The numbers make no sense.
        DataError: The graph has no training facts.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 2], [1, 0, 2], [1, 0, 3]])
        >>> model = fit_cp(graph, dimension=2)
        >>> query = model.encode_queries("head", given=np.array([3]), relation=np.array([0]))
        >>> (query @ model.candidates("head").T).argmax()
        np.int64(1)
    """
    check_request(dimension, iterations, regularisation, damping, seed)
    facts = FactTensor.build(graph, damping)
    rng = np.random.default_rng(seed)
    tail: Matrix = rng.standard_normal((graph.num_entities, dimension))
    relation: Matrix = rng.standard_normal((graph.num_relations, dimension))
    with one_thread_of_blas():
        for _ in range(iterations):
            head = update_entities(facts, tail, relation, regularisation)
            tail = update_entities(facts.transposed, head, relation, regularisation)
            relation = update_relations(facts, head, tail, regularisation)
            if watch:
                watch(1)
    return CP(*(factor.astype(np.float32) for factor in (relation, head, tail)))


def update_entities(facts: FactTensor, tail: Matrix, relation: Matrix, regularisation: float) -> Matrix:
    """The best A for given B and C; of the transposed facts, the best B for given A and C.

    Row (k, t) of the regressors is c_k * b_t, so that their products with each other are (B^T B) * (C^T C).
    """
    sums = np.zeros((facts.num_entities, tail.shape[1]))
    for part in facts.slices:
        sums[part.heads] += part.times(tail) * relation[part.relation]
    return ridge((tail.T @ tail) * (relation.T @ relation), sums, regularisation)


def update_relations(facts: FactTensor, head: Matrix, tail: Matrix, regularisation: float) -> Matrix:
    """The best C for given A and B."""
    sums = np.zeros((facts.num_relations, tail.shape[1]))
    for part in facts.slices:
        sums[part.relation] = np.einsum("ij,ij->j", head[part.heads], part.times(tail))
    return ridge((head.T @ head) * (tail.T @ tail), sums, regularisation)
