"""Scorers of PyTorch-BigGraph models: operators of relations, comparators, and tables of entities by type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts, Flags, Floats, Ints
from kgprobe.predict.adapters.interactions import relation_product
from kgprobe.predict.scorers import AnyScorer, Dot, GroupNorm, Side, Similarity, Singles
from kgprobe.predict.stored_arrays import StoredTable, stored_bytes

End: TypeAlias = Literal["lhs", "rhs"]
"""A side of an edge: its source is on the left-hand side, its destination on the right-hand side."""

Parameters: TypeAlias = Mapping[str, Singles]
"""The parameters of an operator by name, each with one row for each relation."""

Table: TypeAlias = Singles | StoredTable
_Change: TypeAlias = Callable[[Floats], Floats]

_BLOCK_NUMBERS = 1 << 20
COMPARATORS = ("dot", "cos", "l2", "squared_l2")


@dataclass(frozen=True)
class Operator:
    """How a relation changes the embeddings of one side.

    Attributes:
        shapes: The parameters of one relation by name, with their shapes for a dimension.
        apply: The changed rows, for rows, parameters, and the row of the parameters for each.
        transposed: What the other side of a dot product is multiplied by instead, up to a constant of the query.

    Example:
        >>> rows, parameters = np.array([[1.0, 2.0]]), {"translation": np.float32([[10, 20]])}
        >>> OPERATORS["translation"].apply(rows, parameters, np.array([0])).tolist()
        [[11.0, 22.0]]
    """

    shapes: Callable[[int], Mapping[str, tuple[int, ...]]]
    apply: Callable[[Floats, Parameters, AnyInts], Floats]
    transposed: Callable[[Floats, Parameters, AnyInts], Floats]


def _unchanged(rows: Floats, _parameters: Parameters, _which: AnyInts) -> Floats:
    return rows


def _scaled(rows: Floats, parameters: Parameters, which: AnyInts) -> Floats:
    return rows * parameters["diagonal"][which]


def _translated(rows: Floats, parameters: Parameters, which: AnyInts) -> Floats:
    return rows + parameters["translation"][which]


def _transformed(rows: Floats, parameters: Parameters, which: AnyInts) -> Floats:
    """A x for each row x."""
    return relation_product(rows, parameters["linear_transformation"].swapaxes(1, 2), which)


def _transformed_back(rows: Floats, parameters: Parameters, which: AnyInts) -> Floats:
    """The transpose of A, times x."""
    return relation_product(rows, parameters["linear_transformation"], which)


def _affine(rows: Floats, parameters: Parameters, which: AnyInts) -> Floats:
    return _translated(_transformed(rows, parameters, which), parameters, which)


def _complex(rows: Floats, parameters: Parameters, which: AnyInts, sign: float = 1.0) -> Floats:
    """Complex products; the first half of the coordinates are real, the second half imaginary parts."""
    half = rows.shape[1] // 2
    a, b = rows[:, :half], rows[:, half:]
    c, d = parameters["real"][which].astype(np.float64), sign * parameters["imag"][which].astype(np.float64)
    return np.concatenate([a * c - b * d, a * d + b * c], axis=1)


def _conjugate(rows: Floats, parameters: Parameters, which: AnyInts) -> Floats:
    return _complex(rows, parameters, which, -1.0)


OPERATORS: Mapping[str, Operator] = {
    "none": Operator(lambda d: {}, _unchanged, _unchanged),
    "diagonal": Operator(lambda d: {"diagonal": (d,)}, _scaled, _scaled),
    "translation": Operator(lambda d: {"translation": (d,)}, _translated, _unchanged),
    "linear": Operator(lambda d: {"linear_transformation": (d, d)}, _transformed, _transformed_back),
    "affine": Operator(lambda d: {"linear_transformation": (d, d), "translation": (d,)}, _affine, _transformed_back),
    "complex_diagonal": Operator(lambda d: {"real": (d // 2,), "imag": (d // 2,)}, _complex, _conjugate),
}


@dataclass(frozen=True, eq=False)
class Operators:
    """The operators of all relations on one side.

    Attributes:
        names: For each relation of the graph, its operator.
        parameters: For each operator in use, the parameters of its relations.
        rows: For each relation of the graph, its row in the parameters of its operator.
    """

    names: Sequence[str]
    parameters: Mapping[str, Parameters]
    rows: Ints

    def change(self, rows: Floats, relation: AnyInts, *, transposed: bool = False) -> Floats:
        """Each row as the operator of its relation changes it."""
        if len(self.parameters) == 1:
            ((name, parameters),) = self.parameters.items()
            function = OPERATORS[name].transposed if transposed else OPERATORS[name].apply
            return function(rows, parameters, self.rows[relation])
        changed = np.array(rows, dtype=np.float64)
        kinds, kind = np.unique(np.array(self.names)[relation], return_inverse=True)
        for number, name in enumerate(kinds.tolist()):
            some, operator = np.flatnonzero(kind == number), OPERATORS[name]
            function = operator.transposed if transposed else operator.apply
            changed[some] = function(changed[some], self.parameters[name], self.rows[relation[some]])
        return changed


@dataclass(frozen=True, eq=False)
class TypeTable:
    """The entities of one type, in the order of the graph's ids.

    Attributes:
        path: The folder of the model, for messages.
        name: The type.
        rows: [entities of the graph, dimension], in memory or in files; rows of other types are 0.
        absent: Which entities of the graph are not of this type; None for none.
    """

    path: Path
    name: str
    rows: Table
    absent: Flags | None = None

    def changed(self, change: _Change) -> Table:
        """The rows after a change in float64, rounded to float32; computed when they are read if they are in files.

        Raises:
            DataError: Rows are not finite; for rows in files, when they are read.
        """
        what = f"embeddings of {self.name!r} in the order of the graph"
        table = StoredTable(self.path, what, self.rows.shape, lambda index: self._changed(change, index))
        return table if isinstance(self.rows, StoredTable) else in_memory(table)

    def _changed(self, change: _Change, index: slice | AnyInts) -> Singles:
        rows = np.array(self.rows[index], dtype=np.float32)
        for block in blocks_of(rows):
            # The change of zeros, which other types have here, may not be defined.
            with np.errstate(all="ignore"):
                rows[block] = change(rows[block].astype(np.float64))
        if self.absent is not None:
            rows[self.absent[index]] = 0
        return rows


def in_memory(table: StoredTable) -> Singles:
    """All rows of a table, read in blocks."""
    rows = np.empty(table.shape, dtype=np.float32)
    for block in blocks_of(rows):
        rows[block] = table[block]
    return rows


def blocks_of(rows: Singles) -> Iterator[slice]:
    """Blocks of rows, whose numbers in float64 take little memory."""
    step = max(1, _BLOCK_NUMBERS // max(rows.shape[1], 1))
    return (slice(start, min(start + step, len(rows))) for start in range(0, len(rows), step))


@dataclass(frozen=True, eq=False)
class PbgModel:
    """A model of PyTorch-BigGraph: score = comparator(left-hand side, right-hand side).

    With dynamic relations, the given entity is changed by the operator of its side: the tails t' of a query (h, r, ?)
    are scored by c(op_lhs(h), t'), and the heads h' of (?, r, t) by c(h', op_rhs(t)). Otherwise tails are scored by
    c(h, op_rhs(t')).

    Attributes:
        comparator: One of `COMPARATORS`.
        bias: Whether the first coordinate of both sides, after the operators, is taken out and added to the score.
        tables: The entities of each type.
        types: For each side of a query, the type of the answers of each relation, by its place in ``tables``.
        operators: The operators on the right-hand side; with dynamic relations also on the left-hand side.
    """

    comparator: str
    bias: bool
    tables: Sequence[TypeTable]
    types: Mapping[Side, Ints]
    operators: Mapping[End, Operators]

    @property
    def by_product(self) -> bool:
        """Whether the comparator is a dot product, else a distance."""
        return self.comparator in ("dot", "cos")

    @property
    def similarity(self) -> Similarity:
        return Dot() if self.by_product else GroupNorm(size=None)

    @property
    def stored_bytes(self) -> int:
        """Bytes of embeddings that stay in files."""
        return stored_bytes(*(table.rows for table in self.tables))

    @cached_property
    def dynamic(self) -> bool:
        return "lhs" in self.operators

    @cached_property
    def on_candidates(self) -> bool:
        """Whether tail candidates are changed by the operator of the relation.

        They are compared as they are if the query can be changed instead: with dynamic relations; where the operator is
        transposed to the other side of a dot product; where a translation is subtracted from the other side of a
        distance.
        """
        moves = {"dot": set(OPERATORS), "cos": {"none"}}.get(self.comparator, {"none", "translation"})
        return not self.dynamic and not set(self.operators["rhs"].names) <= moves

    def given(self, side: Side, given: AnyInts, relation: AnyInts) -> Floats:
        """The embeddings of the given entities, each as an entity of its type."""
        kinds = self.types["head" if side == "tail" else "tail"][relation]
        rows = np.empty((len(given), self.tables[0].rows.shape[1]))
        for kind in np.unique(kinds).tolist():
            rows[kinds == kind] = self.tables[kind].rows[given[kinds == kind]]
        return rows

    def query(self, side: Side, given: AnyInts, relation: AnyInts) -> Floats:
        """What the comparator compares with candidates, for each query."""
        rows = self.given(side, given, relation)
        if self.dynamic or side == "head":
            rows = self.operators["lhs" if side == "tail" else "rhs"].change(rows, relation)
        rows = self.prepared(rows)
        if self.bias and self.by_product:
            # The bias of the candidate is added as it is. That of the query is the same for all candidates.
            rows[:, 0] = 1
        if self.dynamic or side == "head" or self.on_candidates:
            return rows
        if self.by_product:
            return self.operators["rhs"].change(rows, relation, transposed=True)
        # For a translation by p, h - p. That of the bias is subtracted too, which changes no order.
        return 2 * rows - self.operators["rhs"].change(rows, relation)

    def prepared(self, rows: Floats) -> Floats:
        """Rows as they are compared: for "cos" of length 1, without their bias."""
        if self.comparator != "cos":
            return rows
        first = int(self.bias)
        vectors = rows[:, first:]
        with np.errstate(invalid="ignore", divide="ignore"):  # NaN, where all coordinates are 0
            lengths = np.sqrt(np.cumsum(np.square(vectors), axis=1)[:, -1:])
            return np.concatenate([rows[:, :first], vectors / lengths], axis=1)

    def answers(self, side: Side, relation: int) -> Table:
        """The candidates on a side of a relation, as they are compared."""
        kind = int(self.types[side][relation])
        if side == "tail" and self.on_candidates:
            operators = self.operators["rhs"]
            return self.tables[kind].changed(
                lambda rows: self.prepared(operators.change(rows, np.full(len(rows), relation)))
            )
        if self.comparator != "cos":
            return self.tables[kind].rows
        if kind not in self._normalised:
            self._normalised[kind] = self.tables[kind].changed(self.prepared)
        return self._normalised[kind]

    @cached_property
    def _normalised(self) -> dict[int, Table]:
        return {}

    def scorer(self) -> AnyScorer:
        """The scorer of this model."""
        if self.bias and self.comparator in ("l2", "squared_l2"):
            return BiasedDistances(self)
        if self.on_candidates or len(self.tables) > 1:
            return PbgByRelation(self)
        return PbgEmbeddings(self)


@dataclass(eq=False)
class _Comparing:
    """What the embedding scorers share."""

    model: PbgModel
    similarity: Similarity = field(init=False)

    def __post_init__(self) -> None:
        self.similarity = self.model.similarity

    @property
    def stored_bytes(self) -> int:
        """Bytes of embeddings that stay in files."""
        return self.model.stored_bytes

    def encode_queries(self, side: Side, given: AnyInts, relation: AnyInts) -> Singles:
        queries = np.empty((len(given), self.model.tables[0].rows.shape[1]), dtype=np.float32)
        for block in blocks_of(queries):
            with np.errstate(over="ignore"):  # infinite scores are allowed, and NaN is found later
                queries[block] = self.model.query(side, given[block], relation[block])
        return queries


class PbgEmbeddings(_Comparing):
    """The embedding scorer of a model with one entity type, whose candidates do not depend on the relation."""

    def candidates(self, side: Side) -> Table:
        return self.model.answers(side, 0)


class PbgByRelation(_Comparing):
    """The embedding scorer of a model with several entity types, or whose operators change the candidates."""

    def candidates_for(self, side: Side, relation: int) -> Table:
        return self.model.answers(side, relation)


@dataclass(eq=False)
class BiasedDistances:
    """The scorer of a model that adds biases to distances: no embedding has them as a dot product or a distance.

    Scores are computed in float64, one block of entities after the other.
    """

    model: PbgModel

    @property
    def bytes_per_query(self) -> int:
        """Bytes of memory that a query needs besides its scores."""
        return 24 * int(self.model.tables[0].rows.shape[1])

    def score(self, side: Side, given: AnyInts, relation: AnyInts) -> Floats:
        """The scores of all entities; -inf for those of other types."""
        queries = self.model.query(side, given, relation)
        scores = np.empty((len(given), len(self.model.tables[0].rows)))
        changed = side == "tail" and self.model.on_candidates
        _, first, group = np.unique(
            relation if changed else self.model.types[side][relation], return_index=True, return_inverse=True
        )
        for number, place in enumerate(first.tolist()):  # queries with the same candidates
            some = np.flatnonzero(group == number)
            scores[some] = self._scored(side, queries[some], int(relation[place]))
        return scores

    def _scored(self, side: Side, queries: Floats, relation: int) -> Floats:
        table = self.model.answers(side, relation)
        step = max(1, 4 * _BLOCK_NUMBERS // max(1, queries.size))
        scores = np.empty((len(queries), len(table)))
        for start in range(0, len(table), step):
            block = slice(start, min(start + step, len(table)))
            rows: NDArray[Any] = table[block].astype(np.float64)
            squared = np.cumsum(np.square(queries[:, None, 1:] - rows[None, :, 1:]), axis=2)[:, :, -1]
            distance = np.sqrt(squared) if self.model.comparator == "l2" else squared
            scores[:, block] = queries[:, None, 0] + rows[None, :, 0] - distance
        absent = self.model.tables[int(self.model.types[side][relation])].absent
        if absent is not None:
            scores[:, absent] = -np.inf
        return scores
