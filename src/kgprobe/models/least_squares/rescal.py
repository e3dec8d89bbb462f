"""RESCAL: X_k ~ A R_k A^T, a vector for each entity and a matrix for each relation.

M. Nickel, V. Tresp, H.-P. Kriegel: A three-way model for collective learning on multi-relational data. ICML 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.polynomial import Polynomial

from kgprobe.graph import KnowledgeGraph
from kgprobe.models.least_squares.factors import Factors
from kgprobe.models.least_squares.ridge import check_request, eigen, ridge
from kgprobe.models.least_squares.tensor import FactTensor, Matrix
from kgprobe.predict.scorer import Floats
from kgprobe.predict.threads import one_thread_of_blas


@dataclass(frozen=True, eq=False)
class Rescal(Factors):
    """score(h, r, t) = a_h^T R_r a_t.

    Attributes:
        entity: The vectors a_e [entities, dimension].
        relation: The matrices R_r [relations, dimension, dimension].
    """

    name: ClassVar[str] = "RESCAL"
    entity: Floats


def fit_rescal(
    graph: KnowledgeGraph,
    dimension: int = 300,
    iterations: int = 1,
    regularisation: float = 0.1,
    damping: float = 0.3,
    seed: int = 0,
    watch: Callable[[int], None] | None = None,
) -> Rescal:
    """Fit RESCAL to the training facts by alternating least squares.

    Minimises sum_k ||X_k - A R_k A^T||^2 + regularisation (||A||^2 + sum_k ||R_k||^2). No step makes it larger. It
    runs in one thread, so that the number of threads changes neither the model nor, where they are busy, the time.

    Args:
        graph: The graph; only its training facts are looked at.
        dimension: Coordinates of an entity; not more are used than there are entities.
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
        >>> model = fit_rescal(graph, dimension=2, regularisation=0.01)
        >>> query = model.encode_queries("tail", given=np.array([0]), relation=np.array([0]))
        >>> (query @ model.candidates("tail").T).argmax()
        np.int64(2)
    """
    check_request(dimension, iterations, regularisation, damping, seed)
    facts = FactTensor.build(graph, damping)
    with one_thread_of_blas():
        entity = _start(facts, dimension, seed)
        relation = update_relations(facts, entity, regularisation)
        for _ in range(iterations):
            entity = update_entities(facts, entity, relation, regularisation)
            relation = update_relations(facts, entity, regularisation)
            if watch:
                watch(1)
    return Rescal(relation=relation.astype(np.float32), entity=entity.astype(np.float32))


def _start(facts: FactTensor, dimension: int, seed: int) -> Matrix:
    """An orthonormal basis of a random sketch of the space that all X_k and X_k^T span.

    N. Halko, P. G. Martinsson, J. A. Tropp: Finding structure with randomness. SIAM Review 53, 2011.
    """
    rng = np.random.default_rng(seed)
    sketch = np.zeros((facts.num_entities, dimension))
    for part in facts.slices + facts.transposed.slices:
        sketch[part.heads] += part.values @ rng.standard_normal((len(part.tails), dimension))
    return np.linalg.qr(sketch)[0]


def update_relations(facts: FactTensor, entity: Matrix, regularisation: float) -> Matrix:
    """The best R_k for given A.

    R_k solves G R_k G + regularisation R_k = A^T X_k A with G = A^T A. In the basis of the eigenvectors of G, whose
    eigenvalues are s, entry (i, j) of the left side is (s_i s_j + regularisation) times that of R_k.
    """
    spectrum, basis = eigen(entity.T @ entity)
    rotated = entity @ basis
    weight = 1 / (np.outer(spectrum, spectrum) + regularisation)
    relation = np.zeros((facts.num_relations, *weight.shape))
    for part in facts.slices:
        projected = rotated[part.heads].T @ part.times(rotated)
        relation[part.relation] = basis @ (projected * weight) @ basis.T
    return relation


def update_entities(facts: FactTensor, entity: Matrix, relation: Matrix, regularisation: float) -> Matrix:
    """A better A for given R_k: the update of the RESCAL paper, as far as it is one.

    The update treats the two A of A R_k A^T as different matrices and fits one to the other, which may go too far or
    not far enough. It points downhill, though: the gradients of both problems agree at A. Along its direction the loss
    is a polynomial of degree 4, whose minimum is taken.
    """
    gram = entity.T @ entity
    step = ridge(_spread(relation, gram), _pull(facts, relation, entity), regularisation) - entity
    loss = loss_along(facts, entity, step, relation, regularisation)
    lengths = np.append(loss.deriv().roots().real, 0)  # with 0, rounding cannot make a step that is worse than none
    moved: Matrix = entity + lengths[loss(lengths).argmin()] * step
    return moved


def loss_along(facts: FactTensor, entity: Matrix, step: Matrix, relation: Matrix, regularisation: float) -> Polynomial:
    """The loss at A + t step, less the terms without A, as a polynomial in t.

    sum_k ||X_k - A R_k A^T||^2 = ||X||^2 - <A, pull(A)> + <G, spread(G)> / 2 with G = A^T A, where pull and spread are
    linear and self-adjoint; G is a polynomial G_0 + G_1 t + G_2 t^2.
    """
    grams = entity.T @ entity, entity.T @ step + step.T @ entity, step.T @ step
    spreads = [_spread(relation, gram) for gram in grams]
    pulls = _pull(facts, relation, entity), _pull(facts, relation, step)
    linear = [np.vdot(entity, pulls[0]), 2 * np.vdot(step, pulls[0]), np.vdot(step, pulls[1])]
    quadratic = np.zeros(5)
    for i in range(3):
        for j in range(3):
            quadratic[i + j] += np.vdot(grams[i], spreads[j]) / 2
    squares = [regularisation * np.trace(gram) for gram in grams]
    return Polynomial(quadratic) - Polynomial(linear) + Polynomial(squares)


def _pull(facts: FactTensor, relation: Matrix, entity: Matrix) -> Matrix:
    """sum_k X_k A R_k^T + X_k^T A R_k."""
    sums = np.zeros_like(entity)
    for part in facts.slices:
        sums[part.heads] += part.times(entity) @ relation[part.relation].T
    for part in facts.transposed.slices:
        sums[part.heads] += part.times(entity) @ relation[part.relation]
    return sums


def _spread(relation: Matrix, gram: Matrix) -> Matrix:
    """sum_k R_k G R_k^T + R_k^T G R_k."""
    sums = np.zeros_like(gram)
    for matrix in relation:
        sums += matrix @ gram @ matrix.T + matrix.T @ gram @ matrix
    return sums
