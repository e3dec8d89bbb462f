"""Embedding models by name: how each composes a query, and the JSON header that declares one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts, Floats, run_starts
from kgprobe.errors import nearest
from kgprobe.graph.names import as_labels
from kgprobe.predict.scorers import Dot, GroupNorm, Side, Similarity, Singles
from kgprobe.predict.stored_arrays import StoredTable, stored_bytes

if TYPE_CHECKING:
    from kgprobe.graph.names import Labels

T = TypeVar("T")
Settings: TypeAlias = Mapping[str, Any]

Arrange: TypeAlias = Callable[[NDArray[Any]], NDArray[Any]]
"""Rows as stored in a file -> rows in the layout in which they are compared."""

Compose: TypeAlias = Callable[[Side, Floats, Singles, AnyInts], Floats]
"""(side, embeddings of the given entities, table of the relations, their ids) -> embeddings of the queries."""

_BLOCK_NUMBERS = 1 << 20
_SHOWN = 10
_SMALLEST_LENGTH = 1e-15
_LARGEST = float(np.finfo(np.float32).max)


def unchanged(rows: NDArray[Any]) -> NDArray[Any]:
    return rows


@dataclass(frozen=True)
class Interaction:
    """An embedding model: how its queries are composed and compared.

    Attributes:
        name: The name of the model in the literature.
        compose: Composes queries in float64; each depends on its own embeddings alone.
        similarity: The similarity of a query and a candidate, for the settings of the model.
        needs: Required settings.
        takes: Optional settings.
        tables: Names of the arrays of the entities as heads and as tails.
        parts: Parts of a number, each of which has a section of the coordinates: 2 for complex numbers (all real parts
            before all imaginary parts), 4 for quaternions.
        relation_shape: Shape of a relation's parameters, for the dimension of an entity.
        arrange_entity: Brings entity embeddings to the layout in which they are compared.
        arrange_relation: Brings relation parameters to the layout in which queries are composed.

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
    parts: int = 1
    relation_shape: Callable[[int], tuple[int, ...]] = lambda dimension: (dimension,)
    arrange_entity: Arrange = unchanged
    arrange_relation: Arrange = unchanged


@dataclass(eq=False)
class ComposedScorer:
    """The embedding scorer of an interaction. Columns of the candidates beyond the dimension are their bias.

    Attributes:
        interaction: The model.
        similarity: How queries are compared with candidates.
        dimension: Dimension of an entity without its bias.
        heads: The entities as heads [entities, dimension or dimension + 1], in memory or in files.
        tails: The entities as tails; for most models the same table.
        relations: The parameters of the relations.
    """

    interaction: Interaction
    similarity: Similarity
    dimension: int
    heads: Singles | StoredTable
    tails: Singles | StoredTable
    relations: Singles

    @property
    def stored_bytes(self) -> int:
        """Bytes of embeddings that stay in files."""
        return stored_bytes(self.heads, self.tails)

    def encode_queries(self, side: Side, given: AnyInts, relation: AnyInts) -> Singles:
        table = self.heads if side == "tail" else self.tails
        queries = np.ones((len(given), table.shape[1]), dtype=np.float32)
        step = max(1, _BLOCK_NUMBERS // self.dimension)
        for start in range(0, len(given), step):
            block = slice(start, start + step)
            embeddings = table[given[block]][:, : self.dimension].astype(np.float64)
            composed = self.interaction.compose(side, embeddings, self.relations, relation[block])
            with np.errstate(over="ignore"):  # infinite scores are allowed, and NaN is found later
                queries[block, : self.dimension] = composed
        return queries

    def candidates(self, side: Side) -> Singles | StoredTable:
        return self.tails if side == "tail" else self.heads


def neighbours(rows: NDArray[Any]) -> NDArray[Any]:
    """Reorder complex numbers from all real parts before all imaginary parts to both parts side by side."""
    real, imaginary = np.split(rows, 2, axis=1)
    return np.stack([real, imaginary], axis=2).reshape(rows.shape)


def unit_circle(phases: NDArray[Any]) -> Floats:
    """Angles as complex numbers of modulus 1, real and imaginary part side by side."""
    exact = phases.astype(np.float64)
    return np.stack([np.cos(exact), np.sin(exact)], axis=2).reshape(len(phases), 2 * phases.shape[1])


def unit_quaternions(rows: NDArray[Any]) -> Floats:
    """Quaternions of length 1; a quarter of the coordinates are real parts, and so on."""
    parts = rows.astype(np.float64).reshape(len(rows), 4, rows.shape[1] // 4)
    length = np.sqrt(np.square(parts).sum(axis=1, keepdims=True)) + _SMALLEST_LENGTH
    units: Floats = (parts / length).reshape(rows.shape)
    return units


def row_by_row(compose: Callable[[Side, Floats, Floats], Floats]) -> Compose:
    """Compose every query from its own entity and relation embedding."""
    return lambda side, given, relations, ids: compose(side, given, relations[ids].astype(np.float64))


def _translated(side: Side, given: Floats, relation: Floats) -> Floats:
    return given + relation if side == "tail" else given - relation


def _multiplied(_side: Side, given: Floats, relation: Floats) -> Floats:
    return given * relation


def _complex_multiplied(side: Side, given: Floats, relation: Floats) -> Floats:
    """For the tail h r; for the head t conj(r), since Re(h r conj(t)) = Re(conj(h) conj(r) t)."""
    # In parts: whether NumPy multiplies complex numbers with fused operations depends on the machine.
    a, b = given[:, 0::2], given[:, 1::2]
    c, d = relation[:, 0::2], relation[:, 1::2] if side == "tail" else -relation[:, 1::2]
    product = np.empty_like(given)
    product[:, 0::2] = a * c - b * d
    product[:, 1::2] = a * d + b * c
    return product


def _quaternion_multiplied(side: Side, given: Floats, relation: Floats) -> Floats:
    """The Hamilton product: for the tail h r; for the head t conj(r), since h r . t = h . t conj(r)."""
    a, b, c, d = np.split(given, 4, axis=1)
    e, f, g, h = np.split(relation, 4, axis=1)
    if side == "head":
        f, g, h = -f, -g, -h
    return np.concatenate(
        [
            a * e - b * f - c * g - d * h,
            a * f + b * e + c * h - d * g,
            a * g - b * h + c * e + d * f,
            a * h + b * g - c * f + d * e,
        ],
        axis=1,
    )


def _transformed(side: Side, given: Floats, relations: Singles, ids: AnyInts) -> Floats:
    """For the tail h W, for the head W t."""
    return relation_product(given, relations if side == "tail" else relations.swapaxes(1, 2), ids)


def relation_product(rows: NDArray[Any], matrices: NDArray[Any], relation: AnyInts) -> Floats:
    """Each row times the matrix of its relation, in float64.

    NumPy's own loops add in the order of the coordinates. The order of BLAS depends on the number of rows.
    """
    product = np.empty((len(rows), matrices.shape[2]))
    wide, order = rows.astype(np.float64, copy=False), np.argsort(relation, kind="stable")
    for start, stop in pairwise([*run_starts(relation[order].astype(np.int64)).tolist(), len(order)]):
        some = order[start:stop]
        matrix = np.ascontiguousarray(matrices[relation[some[0]]], dtype=np.float64)
        product[some] = np.einsum("ni,ik->nk", wide[some], matrix, optimize=False)
    return product


def _dot(_settings: Settings) -> Similarity:
    return Dot()


def _distance(settings: Settings) -> Similarity:
    return GroupNorm(size=1 if settings["p"] == 1 else None, gamma=float(settings.get("gamma", 0)))


def _moduli(settings: Settings) -> Similarity:
    return GroupNorm(size=2, gamma=float(settings.get("gamma", 0)))


INTERACTIONS: dict[str, Interaction] = {
    interaction.name: interaction
    for interaction in (
        Interaction("TransE", row_by_row(_translated), _distance, needs=("p",), takes=("gamma",)),
        Interaction("DistMult", row_by_row(_multiplied), _dot),
        Interaction("CP", row_by_row(_multiplied), _dot, tables=("head_entity", "tail_entity")),
        Interaction(
            "ComplEx",
            row_by_row(_complex_multiplied),
            _dot,
            parts=2,
            arrange_entity=neighbours,
            arrange_relation=neighbours,
        ),
        Interaction(
            "RotatE",
            row_by_row(_complex_multiplied),
            _moduli,
            takes=("gamma",),
            parts=2,
            relation_shape=lambda dimension: (dimension // 2,),
            arrange_entity=neighbours,
            arrange_relation=unit_circle,
        ),
        Interaction("RESCAL", _transformed, _dot, relation_shape=lambda dimension: (dimension, dimension)),
        Interaction("QuatE", row_by_row(_quaternion_multiplied), _dot, parts=4, arrange_relation=unit_quaternions),
    )
}


@dataclass(frozen=True)
class Header:
    """The header of an embedding file.

    Attributes:
        interaction: The model that composes its queries; None if the file has computed queries.
        similarity: How queries are compared with candidates.
        settings: The declared settings, without names.
        name: The model's name in reports, if declared.
        entities: Names of the entities in the order of the rows, if that is not the order of the ids.
        relations: Names of the relations in the order of the rows.

    Example:
        >>> parse_header('{"model": "rotate", "gamma": 9}', []).similarity
        GroupNorm(size=2, gamma=9.0)
        >>> parse_header('{"model": "RotateE", "gama": 9}', problems := [])
        >>> problems
        ["header: no model is called 'RotateE'; nearest: RotatE, QuatE", ...]
    """

    interaction: Interaction | None
    similarity: Similarity
    settings: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    entities: Labels | None = None
    relations: Labels | None = None


@dataclass(frozen=True)
class _Comparison:
    """A similarity that a header declares for computed queries."""

    name: str
    similarity: Callable[[Settings], Similarity]
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


def _group_norm(settings: Settings) -> Similarity:
    return GroupNorm(settings["group_size"], float(settings.get("gamma", 0)))


_COMPARISONS = {
    "dot": _Comparison("dot", _dot),
    "group_norm": _Comparison("group_norm", _group_norm, needs=("group_size",), takes=("gamma",)),
}


def is_number(value: Any) -> bool:
    """Whether a JSON value is a finite number in the range of float32."""
    return type(value) in (int, float) and bool(abs(value) <= _LARGEST)


def _is_text(value: Any) -> bool:
    # JSON can hold lone surrogates, which UTF-8 cannot.
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


_VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "p": (lambda value: is_number(value) and value in (1, 2), "1 or 2"),
    "gamma": (is_number, "a finite number"),
    "group_size": (
        lambda value: value is None or (type(value) is int and value >= 1),
        "a positive integer, or null for one group of all coordinates",
    ),
    "name": (_is_text, "a text"),
    "entities": (_are_names, "a list of names in the order of the rows"),
    "relations": (_are_names, "a list of names in the order of the rows"),
}
"""The validator and the description of each entry besides "model" and "similarity"."""


def parse_header(text: str | None, problems: list[str]) -> Header | None:
    """Parse a JSON header; or None, with all problems appended to ``problems``."""
    if text is None:
        problems.append("there is no header: an array 'header' of one text (.npz), metadata 'kgprobe' (.safetensors)")
        return None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        problems.append(f"header: not JSON ({error}): {text[:60]!r}")
        return None
    if not isinstance(content, dict):
        problems.append(f"header: JSON of type {type(content).__name__}, expected an object")
        return None
    return read_header(content, problems)


def read_header(content: Mapping[str, Any], problems: list[str]) -> Header | None:
    """Validate the content of a header; or None, with all problems appended to ``problems``."""
    interaction = _named(content, "model", INTERACTIONS, problems)
    comparison = _named(content, "similarity", _COMPARISONS, problems)
    declared = interaction or comparison
    wrong = _entry_problems(content, declared, names_relations=comparison is None)
    problems += wrong
    if wrong or declared is None:
        return None
    return Header(
        interaction,
        declared.similarity(content),
        {"model" if interaction else "similarity": declared.name}
        | {entry: content[entry] for entry in (*declared.needs, *declared.takes) if entry in content},
        content.get("name"),
        as_labels(content.get("entities")),
        as_labels(content.get("relations")),
    )


def _named(content: Mapping[str, Any], entry: str, known: Mapping[str, T], problems: list[str]) -> T | None:
    """The value that an entry of the header names, ignoring case."""
    if entry not in content:
        return None
    name = str(content[entry])
    found = next((value for key, value in known.items() if key.lower() == name.lower()), None)
    if found is None:
        problems.append(f"header: no {entry} is called {name[:60]!r}{nearest(name, known)}")
    return found


def _entry_problems(
    content: Mapping[str, Any], declared: Interaction | _Comparison | None, *, names_relations: bool
) -> list[str]:
    needs, takes = (declared.needs, declared.takes) if declared else ((), tuple(_VALUES))
    allowed = {"model", "similarity", "name", "entities", *needs, *takes, *(["relations"] if names_relations else [])}
    either = ("model" in content) != ("similarity" in content)
    return [
        *([] if either else ['header: expected either a "model" or a "similarity"']),
        *(
            f"header: {entry[:60]!r} is not expected{nearest(entry, sorted(allowed))}"
            for entry in islice((entry for entry in content if entry not in allowed), _SHOWN)
        ),
        *(f"header: {entry!r} is missing, expected {_VALUES[entry][1]}" for entry in needs if entry not in content),
        *(
            f"header: {entry!r} is {repr(content[entry])[:60]}, expected {expected}"
            for entry, (fits, expected) in _VALUES.items()
            if entry in content and entry in allowed and not fits(content[entry])
        ),
    ]
