"""RESCAL and CP fitted by alternating least squares.

F. L. Hitchcock: The expression of a tensor or a polyadic as a sum of products. J. Math. Phys. 6, 1927.

M. Nickel, V. Tresp, H.-P. Kriegel: A three-way model for collective learning on multi-relational data. ICML 2011.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from numbers import Integral, Real
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray
from scipy import sparse

from kgprobe.arrays import AnyInts, pair_keys, run_starts
from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.adapters.interactions import INTERACTIONS, ComposedScorer
from kgprobe.predict.scorers import Dot, Side, Singles
from kgprobe.resources import single_blas_thread

Matrix: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Slice:
    """The facts of one relation: X_k without the rows and columns that are all 0.

    Attributes:
        relation: The relation k.
        heads: The distinct heads of its facts: the rows that are here.
        tails: The distinct tails: the columns that are here.
        values: The entries of these rows and columns.
    """

    relation: int
    heads: AnyInts
    tails: AnyInts
    values: sparse.csr_array

    @classmethod
    def build(cls, relation: int, head: AnyInts, tail: AnyInts, value: Matrix) -> Slice:
        """The slice with these entries."""
        heads, row = np.unique(head, return_inverse=True)
        tails, column = np.unique(tail, return_inverse=True)
        values = sparse.csr_array((value, (row, column)), shape=(len(heads), len(tails)))
        return cls(relation, heads, tails, values)

    def times(self, matrix: Matrix) -> Matrix:
        """The rows ``heads`` of X_k M; its other rows are 0."""
        product: Matrix = self.values @ matrix[self.tails]
        return product

    @property
    def transposed(self) -> Slice:
        """X_k^T: heads and tails change places."""
        return Slice(self.relation, self.tails, self.heads, self.values.T.tocsr())


@dataclass(frozen=True, eq=False)
class FactTensor:
    """The tensor X with an entry for each distinct training fact; all others are 0, and not stored.

    Attributes:
        num_entities: Length of its first and last axis.
        num_relations: Length of the axis between them.
        slices: X_k for each relation k that has facts.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [0, 0, 2], [0, 0, 1], [1, 1, 1]])
        >>> facts = FactTensor.build(graph, damping=0)
        >>> [(part.relation, part.heads.tolist(), part.tails.tolist()) for part in facts.slices]
        [(0, [0], [1, 2]), (1, [1], [1])]
    """

    num_entities: int
    num_relations: int
    slices: tuple[Slice, ...]

    @classmethod
    def build(cls, graph: KnowledgeGraph, damping: float) -> FactTensor:
        """The tensor of the training facts of a graph.

        The entry of a fact (h, r, t) is proportional to (n(h, r, ?) n(?, r, t))^-damping, where n is how many answers
        a query has in training. Otherwise the few queries with many answers would decide what is fitted. The mean
        square of the entries is 1, so that regularisation means the same whatever the damping.
        """
        if not len(graph.triples("train")):
            raise DataError(f"{graph.name}: no training triples, so there is nothing to fit a model to")
        known = graph.known_answers("train")
        query, tail = known.tails.pairs()
        head, relation = np.divmod(query, graph.num_relations)
        answers = known.tails.count(query) * known.heads.count(pair_keys(tail, relation, graph.num_relations))
        value = answers.astype(np.float64) ** -damping
        value /= np.sqrt(np.mean(value**2))
        order = np.argsort(relation, kind="stable")
        bounds = pairwise([*run_starts(relation[order]).tolist(), len(order)])
        parts = [order[start:stop] for start, stop in bounds]
        slices = (Slice.build(int(relation[rows[0]]), head[rows], tail[rows], value[rows]) for rows in parts)
        return cls(graph.num_entities, graph.num_relations, tuple(slices))

    @cached_property
    def transposed(self) -> FactTensor:
        """The tensor whose heads are the tails of this one."""
        return FactTensor(self.num_entities, self.num_relations, tuple(part.transposed for part in self.slices))


_NEGLIGIBLE = 1e-12


def ridge(gram: Matrix, sums: Matrix, regularisation: float) -> Matrix:
    """The matrix F that minimises ||X - F Q^T||^2 + regularisation ||F||^2, by Q^T Q and X Q alone.

    So neither X nor Q, which has a row for every pair of an entity and a relation, is ever made:
    F = X Q (Q^T Q + regularisation I)^-1.

    Example:
        >>> ridge(gram=np.diag([1.0, 3.0]), sums=np.array([[4.0, 4.0]]), regularisation=1.0).tolist()
        [[2.0, 1.0]]
    """
    spectrum, basis = eigen(gram)
    factor: Matrix = sums @ basis / (spectrum + regularisation) @ basis.T
    return factor


def eigen(gram: Matrix) -> tuple[Matrix, Matrix]:
    """Eigenvalues and eigenvectors (columns) of a gram matrix.

    What is left of an eigenvalue 0 after rounding may be negative, or so small that dividing by it makes rounding
    errors large, whatever the regularisation: none is less than a negligible part of the largest.

    Example:
        >>> eigen(np.diag([4.0, 0.0]))[0].tolist()
        [4e-12, 4.0]
    """
    spectrum, basis = np.linalg.eigh(gram)
    return np.maximum(spectrum, _NEGLIGIBLE * spectrum[-1]), basis


def check_request(dimension: int, iterations: int, regularisation: float, damping: float, seed: int) -> None:
    """Refuse what cannot be fitted, all of it at once."""
    whole = (("dimension", dimension, 1), ("iterations", iterations, 1), ("seed", seed, 0))
    problems = [
        f"{name} is {value!r}, expected a whole number of at least {least}"
        for name, value, least in whole
        if not isinstance(value, Integral) or isinstance(value, bool) or value < least
    ]
    if not isinstance(regularisation, Real) or not 0 < regularisation < math.inf:
        problems.append(f"regularisation is {regularisation!r}, expected a number above 0")
    if not isinstance(damping, Real) or not 0 <= damping <= 1:
        problems.append(f"damping is {damping!r}, expected a number from 0 to 1")
    if problems:
        raise UsageError("no model can be fitted as asked", problems)


@dataclass(frozen=True, eq=False)
class Factors:
    """An embedding scorer whose fields are the arrays that an embedding file of the model has.

    Attributes:
        name: What the literature, and an embedding file, calls the model.
        similarity: How a query is compared with a candidate.
        relation: What the relations have, in the order of their ids.
    """

    name: ClassVar[str]
    similarity: ClassVar[Dot] = Dot()
    relation: Singles

    def encode_queries(self, side: Side, given: AnyInts, relation: AnyInts) -> Singles:
        """The vectors of the queries that ask for the ``side`` of (given[i], relation[i])."""
        return self._scorer.encode_queries(side, given, relation)

    def candidates(self, side: Side) -> Singles:
        """The vectors of all entities as answers on the ``side``."""
        return self._scorer.candidates(side)

    def to_arrays(self) -> tuple[dict[str, str], dict[str, Singles]]:
        """Header and arrays of an embedding file of this model."""
        return {"model": self.name}, {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def _scorer(self) -> ComposedScorer:
        interaction = INTERACTIONS[self.name]
        heads, tails = (getattr(self, table) for table in interaction.tables)
        return ComposedScorer(interaction, self.similarity, heads.shape[1], heads, tails, self.relation)


@dataclass(frozen=True, eq=False)
class CP(Factors):
    """score(h, r, t) = sum_i a_hi c_ri b_ti.

    Attributes:
        head_entity: The vectors a_e of the entities as heads [entities, dimension].
        tail_entity: The vectors b_e of the entities as tails [entities, dimension].
        relation: The vectors c_r [relations, dimension].
    """

    name: ClassVar[str] = "CP"
    head_entity: Singles
    tail_entity: Singles


def fit_cp(
    graph: KnowledgeGraph,
    dimension: int = 500,
    iterations: int = 2,
    regularisation: float = 0.001,
    damping: float = 0.3,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
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
        progress: Called with how many iterations have been finished since the last call.

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
    with single_blas_thread():
        for _ in range(iterations):
            head = update_cp_entities(facts, tail, relation, regularisation)
            tail = update_cp_entities(facts.transposed, head, relation, regularisation)
            relation = update_cp_relations(facts, head, tail, regularisation)
            if progress:
                progress(1)
    return CP(*(factor.astype(np.float32) for factor in (relation, head, tail)))


def update_cp_entities(facts: FactTensor, tail: Matrix, relation: Matrix, regularisation: float) -> Matrix:
    """The best A for given B and C; of the transposed facts, the best B for given A and C.

    Row (k, t) of the regressors is c_k * b_t, so that their products with each other are (B^T B) * (C^T C).
    """
    sums = np.zeros((facts.num_entities, tail.shape[1]))
    for part in facts.slices:
        sums[part.heads] += part.times(tail) * relation[part.relation]
    return ridge((tail.T @ tail) * (relation.T @ relation), sums, regularisation)


def update_cp_relations(facts: FactTensor, head: Matrix, tail: Matrix, regularisation: float) -> Matrix:
    """The best C for given A and B."""
    sums = np.zeros((facts.num_relations, tail.shape[1]))
    for part in facts.slices:
        sums[part.relation] = np.einsum("ij,ij->j", head[part.heads], part.times(tail))
    return ridge((head.T @ head) * (tail.T @ tail), sums, regularisation)


@dataclass(frozen=True, eq=False)
class Rescal(Factors):
    """score(h, r, t) = a_h^T R_r a_t.

    Attributes:
        entity: The vectors a_e [entities, dimension].
        relation: The matrices R_r [relations, dimension, dimension].
    """

    name: ClassVar[str] = "RESCAL"
    entity: Singles


def fit_rescal(
    graph: KnowledgeGraph,
    dimension: int = 300,
    iterations: int = 1,
    regularisation: float = 0.1,
    damping: float = 0.3,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
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
        progress: Called with how many iterations have been finished since the last call.

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
    with single_blas_thread():
        entity = _start(facts, dimension, seed)
        relation = update_rescal_relations(facts, entity, regularisation)
        for _ in range(iterations):
            entity = update_rescal_entities(facts, entity, relation, regularisation)
            relation = update_rescal_relations(facts, entity, regularisation)
            if progress:
                progress(1)
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


def update_rescal_relations(facts: FactTensor, entity: Matrix, regularisation: float) -> Matrix:
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


def update_rescal_entities(facts: FactTensor, entity: Matrix, relation: Matrix, regularisation: float) -> Matrix:
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
