"""Two quick models of modest quality: CP and RESCAL by alternating least squares.

F. L. Hitchcock: The expression of a tensor or a polyadic as a sum of products. J. Math. Phys. 6, 1927.

M. Nickel, V. Tresp, H.-P. Kriegel: A three-way model for collective learning on multi-relational data. ICML 2011.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray
from scipy import sparse

import kgprobe as kp
from kgprobe.arrays import pair_keys
from kgprobe.predict.scorers import Dot, Side
from kgprobe.resources import single_blas_thread

Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Bilinear:
    """score(h, r, t) = a_h^T R_r b_t; R_r is the diagonal of a matrix where it has one axis only."""

    heads: Any
    relations: Any
    tails: Any
    similarity = Dot()

    def encode_queries(self, side: Side, given: Any, relation: Any) -> Any:
        own, matrices = (self.heads if side == "tail" else self.tails)[given], self.relations[relation]
        if matrices.ndim == 2:
            return own * matrices
        return np.einsum("bi,bij->bj" if side == "tail" else "bj,bij->bi", own, matrices)

    def candidates(self, side: Side) -> Any:
        return self.tails if side == "tail" else self.heads


def fit_cp(graph: kp.KnowledgeGraph, dimension: int, seed: int = 0) -> Bilinear:
    """Two rounds of alternating least squares, from random factors."""
    slices, rng = _slices(graph), np.random.default_rng(seed)
    tails: Matrix = rng.standard_normal((graph.num_entities, dimension))
    relations: Matrix = rng.standard_normal((graph.num_relations, dimension))
    with single_blas_thread():
        for _ in range(2):
            sums = sum(own @ tails * relation for own, relation in zip(slices, relations, strict=True))
            heads = _ridge((tails.T @ tails) * (relations.T @ relations), sums)
            sums = sum(own.T @ heads * relation for own, relation in zip(slices, relations, strict=True))
            tails = _ridge((heads.T @ heads) * (relations.T @ relations), sums)
            sums = np.array([np.einsum("ij,ij->j", heads, own @ tails) for own in slices])
            relations = _ridge((heads.T @ heads) * (tails.T @ tails), sums)
    return Bilinear(*(factor.astype(np.float32) for factor in (heads, relations, tails)))


def fit_rescal(graph: kp.KnowledgeGraph, dimension: int, seed: int = 0) -> Bilinear:
    """One round of alternating least squares, from a random sketch of the space that all slices span."""
    slices, rng = _slices(graph), np.random.default_rng(seed)
    sketch = np.zeros((graph.num_entities, dimension))
    with single_blas_thread():
        for own in [*slices, *(own.T.tocsr() for own in slices)]:
            used = np.unique(own.indices)
            sketch += own[:, used] @ rng.standard_normal((len(used), dimension))
        entities = np.linalg.qr(sketch)[0]
        entities = _rescal_entities(slices, entities, _rescal_relations(slices, entities))
        relations = _rescal_relations(slices, entities).astype(np.float32)
    entities = entities.astype(np.float32)
    return Bilinear(entities, relations, entities)


def _rescal_relations(slices: list[Any], entities: Matrix) -> Matrix:
    """The best R_k for given A: G R_k G + 0.1 R_k = A^T X_k A with G = A^T A, in the basis of G's eigenvectors."""
    spectrum, basis = np.linalg.eigh(entities.T @ entities)
    rotated = entities @ basis
    weight = 1 / (np.outer(spectrum, spectrum) + 0.1)
    return np.array([basis @ (rotated.T @ (own @ rotated) * weight) @ basis.T for own in slices])


def _rescal_entities(slices: list[Any], entities: Matrix, relations: Matrix) -> Matrix:
    """A better A for given R_k: the update of the RESCAL paper, as far as the loss falls along its direction.

    sum_k ||X_k - A R_k A^T||^2 = ||X||^2 - <A, pull(A)> + <G, spread(G)> / 2 with G = A^T A.
    """

    def pull(a: Matrix) -> Matrix:
        return sum(x @ a @ r.T + x.T @ a @ r for x, r in zip(slices, relations, strict=True))  # type: ignore[return-value]

    def spread(gram: Matrix) -> Matrix:
        return sum(r @ gram @ r.T + r.T @ gram @ r for r in relations)  # type: ignore[return-value]

    def loss(a: Matrix) -> float:
        gram = a.T @ a
        return float(np.vdot(gram, spread(gram)) / 2 - np.vdot(a, pull(a)) + 0.1 * np.trace(gram))

    step = _ridge(spread(entities.T @ entities), pull(entities), 0.1) - entities
    lengths = np.linspace(0, 1, 5)  # they determine the loss, a polynomial of degree 4
    along = Polynomial.fit(lengths, [loss(entities + length * step) for length in lengths], 4)
    lengths = np.append(along.deriv().roots().real, 0)
    moved: Matrix = entities + lengths[along(lengths).argmin()] * step
    return moved


def _slices(graph: kp.KnowledgeGraph) -> list[Any]:
    """The training triples of each relation as a matrix [heads, tails]; those of queries with many answers weigh less.

    The entry of (h, r, t) is proportional to (n(h, r, ?) n(?, r, t))^-0.3, where n is how many answers a query has.
    """
    known = graph.known_answers("train")
    query, tail = known.tails.pairs()
    head, relation = np.divmod(query, graph.num_relations)
    answers = known.tails.count(query) * known.heads.count(pair_keys(tail, relation, graph.num_relations))
    value = answers.astype(np.float64) ** -0.3
    value /= np.sqrt(np.mean(value**2))
    own = [relation == number for number in range(graph.num_relations)]
    shape = graph.num_entities, graph.num_entities
    return [sparse.csr_array((value[rows], (head[rows], tail[rows])), shape=shape) for rows in own]


def _ridge(gram: Matrix, sums: Matrix, regularisation: float = 0.001) -> Matrix:
    """The matrix F that minimises ||X - F Q^T||^2 + regularisation ||F||^2, by Q^T Q and X Q."""
    spectrum, basis = np.linalg.eigh(gram)
    spectrum = np.maximum(spectrum, 1e-12 * spectrum[-1])  # no smaller than rounding errors
    factor: Matrix = sums @ basis / (spectrum + regularisation) @ basis.T
    return factor
