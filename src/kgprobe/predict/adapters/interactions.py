"""How embedding models compose a query from entity and relation vectors, declared as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts, Floats, run_starts
from kgprobe.errors import spans
from kgprobe.predict.adapters.array_formats import StoredArray
from kgprobe.predict.scorers import Dot, GroupNorm, Side, Similarity, Singles

Arrange = Callable[[NDArray[Any]], NDArray[Any]]

"""Rows as they are in a file -> rows as they are compared."""


def unchanged(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows that are already as they are compared."""
    return rows


def read_table(
    array: StoredArray,
    problems: list[str],
    *,
    ids: AnyInts | None = None,
    arrange: Arrange = unchanged,
    spare: int = 0,
) -> Singles:
    """A table in float32, taking no more memory than itself and a small block.

    Args:
        array: Where it is stored.
        problems: Takes what is wrong with its numbers.
        ids: The row of the table that each stored row becomes, where they are not in order.
        arrange: Brings some rows to the layout in which they are compared.
        spare: Columns of zeros to add.

    Example:
        >>> import tempfile
        >>> from kgprobe.predict.adapters.array_files import open_arrays
        >>> path = tempfile.mkdtemp() + "/entity.npy"
        >>> np.save(path, np.array([[1.0, 2.0], [3.0, 4.0]]))
        >>> read_table(open_arrays(path).arrays["entity.npy"], [], ids=np.array([1, 0]), spare=1).tolist()
        [[3.0, 4.0, 0.0], [1.0, 2.0, 0.0]]
    """
    *inner, last = arrange(np.empty((0, *array.shape[1:]))).shape[1:]
    table = np.zeros((array.shape[0], *inner, last + spare), dtype=np.float32)
    bad: list[int] = []
    for part, stored in array.blocks():
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is reported by its row
            rows = arrange(stored).astype(np.float32, copy=False)
        table[part if ids is None else ids[part], ..., :last] = rows
        finite = np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
        bad += (part.start + np.flatnonzero(~finite)).tolist()
    if bad:
        problems.append(
            f"{array.name}: {len(bad):,} rows hold NaN, infinity or what float32 cannot hold: "
            f"{spans(bad, most=10)} (counted from 0)"
        )
    return table


Settings: TypeAlias = Mapping[str, Any]

Compose: TypeAlias = Callable[[Side, Floats, Singles, AnyInts], Floats]

"""(side, vectors of the given entities, table of the relations, their ids) -> vectors of the queries."""

_BLOCK_NUMBERS = 1 << 20


@dataclass(frozen=True)
class Interaction:
    """One model: how its queries are composed, and with what they are compared.

    Attributes:
        name: What the literature calls the model.
        compose: Composes queries in float64; each depends on its own vectors alone.
        similarity: How a query is compared with a candidate, by the settings of the model.
        needs: Settings that must be given.
        takes: Settings that may be given.
        tables: Names of the arrays of the entities as heads and as tails.
        complex_numbers: Whether the first half of the coordinates are real and the second imaginary parts.
        relation_shape: Shape of what a relation has, by the number of coordinates of an entity.
        arrange_entity: Brings vectors of entities to the layout in which they are compared.
        arrange_relation: Brings what relations have to the layout in which queries are composed.

    Example:
        >>> INTERACTIONS["RotatE"].similarity({"gamma": 9.0}), INTERACTIONS["RotatE"].relation_shape(256)
        (GroupNorm(size=2, gamma=9.0), (128,))
    """

    name: str
    compose: Compose
    similarity: Callable[[Settings], Similarity]
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    tables: tuple[str, str] = ("entity", "entity")
    complex_numbers: bool = False
    relation_shape: Callable[[int], tuple[int, ...]] = lambda dimension: (dimension,)
    arrange_entity: Arrange = unchanged
    arrange_relation: Arrange = unchanged


@dataclass(eq=False)
class ComposedScorer:
    """An embedding scorer made of tables: what beyond the dimension is in the candidates is their bias.

    Attributes:
        interaction: How queries are composed.
        similarity: How they are compared with candidates.
        dimension: Coordinates of an entity without its bias.
        heads: The entities as heads [entities, dimension or dimension + 1].
        tails: The entities as tails; for most models the same table.
        relations: What the relations have.

    Example:
        >>> entities = np.array([[1, 2], [3, 4]], dtype=np.float32)
        >>> scorer = ComposedScorer(INTERACTIONS["DistMult"], Dot(), 2, entities, entities, entities[:1])
        >>> scorer.encode_queries("tail", given=np.array([1]), relation=np.array([0])).tolist()
        [[3.0, 8.0]]
    """

    interaction: Interaction
    similarity: Similarity
    dimension: int
    heads: Singles
    tails: Singles
    relations: Singles

    def encode_queries(self, side: Side, given: AnyInts, relation: AnyInts) -> Singles:
        """The vectors of the queries that ask for the ``side`` of (given[i], relation[i])."""
        table = self.heads if side == "tail" else self.tails
        queries = np.ones((len(given), table.shape[1]), dtype=np.float32)
        step = max(1, _BLOCK_NUMBERS // self.dimension)
        for start in range(0, len(given), step):
            block = slice(start, start + step)
            vectors = table[given[block], : self.dimension].astype(np.float64)
            composed = self.interaction.compose(side, vectors, self.relations, relation[block])
            with np.errstate(over="ignore"):  # an infinite score is a value, and one that is NaN is found later
                queries[block, : self.dimension] = composed
        return queries

    def candidates(self, side: Side) -> Singles:
        """The vectors of all entities as answers on the ``side``."""
        return self.tails if side == "tail" else self.heads


def neighbours(rows: NDArray[Any]) -> NDArray[Any]:
    """Complex numbers whose real parts come first, then all imaginary parts: both parts of each side by side.

    Example:
        >>> neighbours(np.array([[1, 2, 10, 20]])).tolist()
        [[1, 10, 2, 20]]
    """
    real, imaginary = np.split(rows, 2, axis=1)
    return np.stack([real, imaginary], axis=2).reshape(rows.shape)


def unit_circle(phases: NDArray[Any]) -> Floats:
    """Angles as complex numbers of modulus 1, both parts side by side."""
    exact = phases.astype(np.float64)
    return np.stack([np.cos(exact), np.sin(exact)], axis=2).reshape(len(phases), 2 * phases.shape[1])


def _row_by_row(compose: Callable[[Side, Floats, Floats], Floats]) -> Compose:
    """Every query composed of its own two vectors."""
    return lambda side, given, relations, ids: compose(side, given, relations[ids].astype(np.float64))


def _translated(side: Side, given: Floats, relation: Floats) -> Floats:
    return given + relation if side == "tail" else given - relation


def _multiplied(_side: Side, given: Floats, relation: Floats) -> Floats:
    return given * relation


def _complex_multiplied(side: Side, given: Floats, relation: Floats) -> Floats:
    """For the tail h r; for the head t conj(r), since Re(h r conj(t)) = Re(conj(h) conj(r) t)."""
    # In parts, because NumPy multiplies complex numbers with or without fused operations, by the machine.
    a, b = given[:, 0::2], given[:, 1::2]
    c, d = relation[:, 0::2], relation[:, 1::2] if side == "tail" else -relation[:, 1::2]
    product = np.empty_like(given)
    product[:, 0::2] = a * c - b * d
    product[:, 1::2] = a * d + b * c
    return product


def _transformed(side: Side, given: Floats, relations: Singles, ids: AnyInts) -> Floats:
    """For the tail h W, for the head W t; sums run over the coordinates in order, whatever else is asked."""
    queries = np.zeros_like(given)
    order = np.argsort(ids, kind="stable")
    bounds = [*run_starts(ids[order].astype(np.int64)).tolist(), len(order)]
    for start, stop in pairwise(bounds):
        rows = order[start:stop]
        matrix = relations[ids[rows[0]]].astype(np.float64)
        images = matrix if side == "tail" else matrix.T.copy()
        # Unlike a product by BLAS, this adds up in the order of the coordinates, however many rows there are.
        queries[rows] = np.einsum("ni,ij->nj", given[rows], images, optimize=False)
    return queries


def _dot(_settings: Settings) -> Similarity:
    return Dot()


def _distance(settings: Settings) -> Similarity:
    return GroupNorm(size=1 if settings["p"] == 1 else None, gamma=float(settings.get("gamma", 0)))


def _moduli(settings: Settings) -> Similarity:
    return GroupNorm(size=2, gamma=float(settings.get("gamma", 0)))


INTERACTIONS: dict[str, Interaction] = {
    interaction.name: interaction
    for interaction in (
        Interaction("TransE", _row_by_row(_translated), _distance, needs=("p",), takes=("gamma",)),
        Interaction("DistMult", _row_by_row(_multiplied), _dot),
        Interaction("CP", _row_by_row(_multiplied), _dot, tables=("head_entity", "tail_entity")),
        Interaction(
            "ComplEx",
            _row_by_row(_complex_multiplied),
            _dot,
            complex_numbers=True,
            arrange_entity=neighbours,
            arrange_relation=neighbours,
        ),
        Interaction(
            "RotatE",
            _row_by_row(_complex_multiplied),
            _moduli,
            takes=("gamma",),
            complex_numbers=True,
            relation_shape=lambda dimension: (dimension // 2,),
            arrange_entity=neighbours,
            arrange_relation=unit_circle,
        ),
        Interaction("RESCAL", _transformed, _dot, relation_shape=lambda dimension: (dimension, dimension)),
    )
}

"""The models that are known by name."""
