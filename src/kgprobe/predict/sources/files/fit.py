"""Whether the arrays of an embedding file fit their model, each other and a graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kgprobe.predict.scorer import Side
from kgprobe.predict.similarity import Dot
from kgprobe.predict.sources.files.header import Header
from kgprobe.predict.sources.files.places import WHOLE_NUMBERS, Place, Shapes, place_problems
from kgprobe.predict.sources.files.query_rows import TRIPLES

ENTITY, RELATION, BIAS = "entity", "relation", "entity_bias"
QUERIES: dict[Side, str] = {"tail": "tail_query", "head": "head_query"}


@dataclass(frozen=True)
class Sizes:
    """How many entities, relations and triples to rank there are; None where any number will do."""

    entities: int | None = None
    relations: int | None = None
    triples: int | None = None


def fit_problems(header: Header, shapes: Shapes, sizes: Sizes) -> list[str]:
    """Everything that keeps arrays from being what the header says.

    Example:
        >>> from kgprobe.predict.sources.files.header import parse_header
        >>> header = parse_header('{"model": "DistMult"}', [])
        >>> shapes = {"entity": ((5, 8), "float32"), "relation": ((2, 4), "float32")}
        >>> fit_problems(header, shapes, Sizes(entities=6, relations=2))
        ['entity: 5 rows, but there are 6 entities', 'relation: one row has shape (4,), expected (8,)']
    """
    table = header.interaction.tables[0] if header.interaction else ENTITY
    shape = shapes[table][0] if table in shapes else ()
    dimension = shape[1] if len(shape) == 2 else None
    problems = place_problems(_places(header, sizes, dimension), shapes)
    if not header.interaction and not shapes.keys() & set(QUERIES.values()):
        problems.append(f"no array {' and no array '.join(map(repr, QUERIES.values()))}")
    return problems + (_dimension_problems(header, table, shape) if shape else [])


def _places(header: Header, sizes: Sizes, dimension: int | None) -> Iterator[Place]:
    vector = None if dimension is None else (dimension,)
    tables = header.interaction.tables if header.interaction else (ENTITY,)
    yield from (Place(name, "entities", sizes.entities, vector) for name in dict.fromkeys(tables))
    if isinstance(header.similarity, Dot):
        yield Place(BIAS, "entities", sizes.entities, (), needed=False)
    if header.interaction:
        shape = None if dimension is None else header.interaction.relation_shape(dimension)
        yield Place(RELATION, "relations", sizes.relations, shape)
    else:
        yield from (Place(name, "triples to rank", sizes.triples, vector, needed=False) for name in QUERIES.values())
        yield Place(TRIPLES, "triples to rank", sizes.triples, (3,), WHOLE_NUMBERS, needed=False)


def _dimension_problems(header: Header, table: str, shape: tuple[int, ...]) -> list[str]:
    if len(shape) != 2:
        return [f"{table}: shape {shape}, expected [entities, dimension]"]
    dimension, interaction = shape[1], header.interaction
    if interaction and interaction.complex_numbers and dimension % 2:
        return [f"{table}: {dimension} coordinates, but {interaction.name} has as many imaginary as real parts"]
    problem = header.similarity.problem(dimension)
    return [] if problem is None else [f"{table}: {problem}"]
