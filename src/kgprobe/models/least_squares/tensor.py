"""The training facts as a sparse tensor: a matrix of heads and tails for each relation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.sorted_keys import Ints, pair_keys, run_starts

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
    heads: Ints
    tails: Ints
    values: sparse.csr_array

    @classmethod
    def build(cls, relation: int, head: Ints, tail: Ints, value: Matrix) -> Slice:
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
