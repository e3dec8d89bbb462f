"""How LibKGE's models compute scores from their tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts, Floats
from kgprobe.predict.adapters.interactions import INTERACTIONS, Arrange, ComposedScorer, unchanged
from kgprobe.predict.scorers import GroupNorm, Side, Similarity, Singles
from kgprobe.predict.stored_arrays import StoredTable

ArrangeFor: TypeAlias = Callable[[NDArray[Any], int], NDArray[Any]]
"""(rows of relations as stored, dimension of an entity) -> rows in the layout in which queries are composed."""

_BLOCK_NUMBERS = 1 << 20
_SMALLEST_NORM = 1e-12


@dataclass(frozen=True)
class ModelForm:
    """How the scores of a model are computed.

    Attributes:
        class_name: The class in LibKGE.
        interaction: Composes the queries.
        has_norm: Whether the model has the option ``l_norm``.
        halves: Whether an entity has two halves.
        heads: Brings entity embeddings to the layout of heads.
        tails: Brings entity embeddings to the layout of tails.
        relations: Brings relation embeddings to the layout of the interaction.
        width: Coordinates of a relation, for the dimension of an entity.
    """

    class_name: str
    interaction: str
    has_norm: bool = False
    halves: bool = False
    heads: Arrange = unchanged
    tails: Arrange = unchanged
    relations: ArrangeFor = lambda rows, _: rows
    width: Callable[[int], int] = lambda dimension: dimension

    def similarity(self, norm: float) -> Similarity:
        """How queries and candidates are compared, for the option ``l_norm``."""
        if self.class_name == "RotatE":  # the norm of moduli; the 2-norm is that of all coordinates
            return GroupNorm(size=2 if norm == 1 else None)
        return INTERACTIONS[self.interaction].similarity({"p": norm})


def _first_half(rows: NDArray[Any]) -> NDArray[Any]:
    return rows[:, : rows.shape[1] // 2]


def _second_half(rows: NDArray[Any]) -> NDArray[Any]:
    return rows[:, rows.shape[1] // 2 :]


def _halves_swapped(rows: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([_second_half(rows), _first_half(rows)], axis=1)


def _matrices(rows: NDArray[Any], dimension: int) -> NDArray[Any]:
    return rows.reshape(len(rows), dimension, dimension)


def _half(dimension: int) -> int:
    return dimension // 2


_COMPLEX, _ROTATE = INTERACTIONS["ComplEx"], INTERACTIONS["RotatE"]

MODELS = {
    "complex": ModelForm(
        "ComplEx",
        "ComplEx",
        halves=True,
        heads=_COMPLEX.arrange_entity,
        tails=_COMPLEX.arrange_entity,
        relations=lambda rows, _: _COMPLEX.arrange_relation(rows),
    ),
    "distmult": ModelForm("DistMult", "DistMult"),
    "transe": ModelForm("TransE", "TransE", has_norm=True),
    "rotate": ModelForm(
        "RotatE",
        "RotatE",
        has_norm=True,
        halves=True,
        heads=_ROTATE.arrange_entity,
        tails=_ROTATE.arrange_entity,
        relations=lambda rows, _: _ROTATE.arrange_relation(rows),
        width=_half,
    ),
    "cp": ModelForm("CP", "CP", halves=True, heads=_first_half, tails=_second_half, width=_half),
    "simple": ModelForm(
        "SimplE", "CP", halves=True, tails=_halves_swapped, relations=lambda rows, _: rows.astype(np.float64) / 2
    ),
    "rescal": ModelForm("Rescal", "RESCAL", relations=_matrices, width=lambda dimension: dimension**2),
    "relational_tucker3": ModelForm(
        "RelationalTucker3", "RESCAL", relations=_matrices, width=lambda dimension: dimension**2
    ),
    "transh": ModelForm("TransH", "TransE", has_norm=True, width=lambda dimension: 2 * dimension),
}
"""The models that are read, by their name in the options."""


def projected(rows: NDArray[Any], matrix: NDArray[Any]) -> Floats:
    """Each row times a matrix [out, in], in float64 and in an order that does not depend on the number of rows."""
    product: Floats = np.einsum("ni,ki->nk", rows.astype(np.float64), matrix.astype(np.float64), optimize=False)
    return product


class ReciprocalScorer(ComposedScorer):
    """A model that answers the query (?, r, t) as the query (t, r', ?), where r' is a relation of its own."""

    def encode_queries(self, side: Side, given: AnyInts, relation: AnyInts) -> Singles:
        return super().encode_queries(
            "tail", given, relation if side == "tail" else relation + len(self.relations) // 2
        )

    def candidates(self, side: Side) -> Singles | StoredTable:
        return self.tails


@dataclass(eq=False)
class HyperplaneScorer:
    """TransH: entities are projected on the hyperplane of the relation, and compared there as in TransE.

    Attributes:
        similarity: How queries are compared with candidates.
        entities: The entities [entities, dimension].
        relations: The translation and the normal vector of each relation [relations, 2 x dimension].
        reciprocal: Whether the query (?, r, t) is answered as (t, r', ?).
    """

    similarity: Similarity
    entities: Singles
    relations: Singles
    reciprocal: bool = False

    def encode_queries(self, side: Side, given: AnyInts, relation: AnyInts) -> Singles:
        translation, normal = np.split(self.relations[self._own(side, relation)].astype(np.float64), 2, axis=1)
        on_plane, forward = _on_hyperplane(self.entities[given], normal), side == "tail" or self.reciprocal
        with np.errstate(over="ignore"):  # infinite scores are allowed
            queries: Singles = (on_plane + translation if forward else on_plane - translation).astype(np.float32)
        return queries

    def candidates_for(self, side: Side, relation: int) -> Singles:
        normal = self.relations[self._own(side, relation), self.entities.shape[1] :].astype(np.float64)[None]
        table = np.empty_like(self.entities)
        step = max(1, _BLOCK_NUMBERS // self.entities.shape[1])
        for start in range(0, len(table), step):
            block = slice(start, start + step)
            with np.errstate(over="ignore"):
                table[block] = _on_hyperplane(self.entities[block], normal)
        return table

    def _own(self, side: Side, relation: Any) -> Any:
        return relation + len(self.relations) // 2 if self.reciprocal and side == "head" else relation


def _on_hyperplane(rows: NDArray[Any], normal: Floats) -> Floats:
    unit = normal / np.maximum(np.sqrt(np.square(normal).sum(axis=1, keepdims=True)), _SMALLEST_NORM)
    wide = rows.astype(np.float64)
    flat: Floats = wide - (wide * unit).sum(axis=1, keepdims=True) * unit
    return flat
