"""Embedding files: tables of embeddings with a header that names the model, or with computed queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kgprobe.arrays import AnyInts
from kgprobe.errors import DataError, spans
from kgprobe.graph.names import Names
from kgprobe.predict.adapters.interactions import (
    Arrange,
    ComposedScorer,
    Header,
    Interaction,
    parse_header,
    read_header,
    unchanged,
)
from kgprobe.predict.adapters.score_files import (
    INTEGERS,
    TRIPLES,
    ArraySpec,
    QueryRows,
    RowReader,
    is_scores,
    spec_problems,
    triple_mismatch,
)
from kgprobe.predict.array_files import WRITERS, open_arrays, write_arrays
from kgprobe.predict.scorers import AnyScorer, Dot, Side, Similarity, Singles, as_array
from kgprobe.predict.stored_arrays import ArrayFile, Shapes, StoredArray, StoredTable, stored_bytes

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.graph.names import Labels

ENTITY, RELATION, BIAS = "entity", "relation", "entity_bias"
QUERIES: dict[Side, str] = {"tail": "tail_query", "head": "head_query"}
_SHOWN = 10
_WIDEST = 80

_REMEDY = (
    "write the file with kgprobe.predict.adapters.embedding_files.write_embeddings, which adds a header; if it has "
    "scores, not embeddings, call its arrays 'tail' and 'head'"
)


def is_embeddings(path: str | PathLike[str]) -> bool:
    """Whether a file is an embedding file: one of arrays, but not of scores."""
    return Path(path).suffix in WRITERS and Path(path).is_file() and not is_scores(path)


def write_embeddings(path: str | PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write a model to an embedding file, .npz or .safetensors by the extension.

    Args:
        path: The file.
        header: ``{"model": "ComplEx"}`` with the settings of the model; or ``{"similarity": "dot"}`` (or
            "group_norm" with "group_size" and optionally "gamma") for computed queries. Optionally a "name", and the
            names "entities" and "relations" in the order of the rows, if that is not the order of the ids.
        arrays: NumPy arrays or torch tensors: "entity" and "relation" (CP: "head_entity" and "tail_entity"). With a
            similarity: "entity" and "tail_query", "head_query" or both, one row for each triple that will be ranked,
            and optionally "triples". With the dot product optionally "entity_bias".

    Example:
        >>> import tempfile
        >>> from kgprobe.graph import KnowledgeGraph
        >>> path = Path(tempfile.mkdtemp()) / "mine.npz"
        >>> write_embeddings(path, {"model": "DistMult"}, {"entity": np.eye(2), "relation": np.ones((1, 2))})
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]])
        >>> name, scorer, settings = open_embeddings(path, graph, graph.triples("test"))
        >>> name, scorer.candidates("tail").tolist()
        ('DistMult', [[1.0, 0.0], [0.0, 1.0]])
    """
    values = {name: as_array(array) for name, array in arrays.items()}
    problems: list[str] = []
    read = read_header(header, problems)
    if read is not None:
        problems += fit_problems(
            read, {name: (array.shape, array.dtype.name) for name, array in values.items()}, FileSizes()
        )
    if problems:
        raise DataError(f"{path}: not a valid model", problems, "nothing was written")
    write_arrays(path, header, values)


def open_embeddings(
    path: str | PathLike[str], graph: KnowledgeGraph, triples: AnyInts
) -> tuple[str, AnyScorer, dict[str, Any]]:
    """Open an embedding file for the ranked triples of a graph.

    Returns:
        The name of the model, its scorer, and its metadata.

    Raises:
        DataError: The file is damaged, has no valid header, or does not fit the graph or the triples.
    """
    file = open_arrays(path)
    problems: list[str] = []
    header = parse_header(file.header, problems)
    if header is None:
        raise DataError(f"{path}: not a valid model", problems, _REMEDY)
    return read_model(file, header, graph, triples)


def read_model(
    file: ArrayFile, header: Header, graph: KnowledgeGraph, triples: AnyInts
) -> tuple[str, AnyScorer, dict[str, Any]]:
    """Read the arrays that a header describes; see `open_embeddings`."""
    problems = fit_problems(header, file.shapes, FileSizes(graph.num_entities, graph.num_relations, len(triples)))
    ids = RowIds.of(header.entities, header.relations, graph, problems)
    refuse_misfit(file.path, graph, problems)
    scorer: AnyScorer = (
        _composed(file, header.interaction, header.similarity, ids, problems)
        if header.interaction
        else _compared(file, header.similarity, ids.entities, graph, triples, problems)
    )
    refuse_misfit(file.path, graph, problems)
    settings = {"source": file.path.name, **header.settings, **ids.settings}
    return header.name or (header.interaction.name if header.interaction else file.path.stem), scorer, settings


@dataclass(frozen=True, eq=False)
class RowIds:
    """The id of each row of a model's tables; None where rows are in the order of the ids."""

    entities: AnyInts | None = None
    relations: AnyInts | None = None

    @classmethod
    def of(
        cls, entities: Labels | None, relations: Labels | None, graph: KnowledgeGraph, problems: list[str]
    ) -> RowIds:
        """By the names of the rows, if they are given; all problems are appended to ``problems``."""
        return cls(
            None if entities is None else ids_by_name("entities", entities, graph.entity_index(), problems),
            None if relations is None else ids_by_name("relations", relations, graph.relation_index(), problems),
        )

    @property
    def settings(self) -> dict[str, Any]:
        """Metadata: which rows were matched by name."""
        named = [what for what in ("entities", "relations") if getattr(self, what) is not None]
        return {"matched by name": named} if named else {}


def refuse_misfit(path: Path, graph: KnowledgeGraph, problems: list[str]) -> None:
    """Raise a DataError if there are problems."""
    if problems:
        title = f"{path}: cannot be ranked with {graph.name}"
        raise DataError(title, problems, "use the graph and the triples that the file was made for")


def _composed(
    file: ArrayFile, interaction: Interaction, similarity: Similarity, ids: RowIds, problems: list[str]
) -> ComposedScorer:
    bias = _bias(file, ids.entities, problems)
    tables = {
        name: _candidates(file.arrays[name], bias, interaction.arrange_entity, ids.entities, problems)
        for name in dict.fromkeys(interaction.tables)
    }
    heads, tails = (tables[name] for name in interaction.tables)
    table = read_table(file.arrays[RELATION], problems, ids=ids.relations, arrange=interaction.arrange_relation)
    return ComposedScorer(interaction, similarity, file.arrays[interaction.tables[0]].shape[1], heads, tails, table)


def _compared(
    file: ArrayFile,
    similarity: Similarity,
    entities: AnyInts | None,
    graph: KnowledgeGraph,
    triples: AnyInts,
    problems: list[str],
) -> QueryEmbeddings:
    if TRIPLES in file.arrays:
        problems += triple_mismatch(file.arrays[TRIPLES].whole(), triples)
    bias = _bias(file, entities, problems)
    readers = {}
    for side, name in QUERIES.items():
        if name in file.arrays:
            queries = read_table(file.arrays[name], problems, spare=bias.shape[1])
            queries[:, queries.shape[1] - bias.shape[1] :] = 1
            readers[side] = RowReader(name, queries.shape[1], queries.__getitem__)
    rows = QueryRows.of_triples(file.path, triples, graph.num_relations, readers, problems)
    return QueryEmbeddings(similarity, _candidates(file.arrays[ENTITY], bias, unchanged, entities, problems), rows)


@dataclass(eq=False)
class QueryEmbeddings:
    """The embedding scorer of queries that were computed by another program."""

    similarity: Similarity
    entities: Singles | StoredTable
    rows: QueryRows

    @property
    def stored_bytes(self) -> int:
        """Bytes of embeddings that stay in files."""
        return stored_bytes(self.entities)

    def encode_queries(self, side: Side, given: AnyInts, relation: AnyInts) -> Singles:
        return self.rows.find(side, given, relation)

    def candidates(self, side: Side) -> Singles | StoredTable:
        return self.entities


def _bias(file: ArrayFile, ids: AnyInts | None, problems: list[str]) -> Singles:
    """The bias of the entities as a column; no columns if there is none."""
    if BIAS not in file.arrays:
        return np.empty((1, 0), dtype=np.float32)
    return read_table(file.arrays[BIAS], problems, ids=ids, arrange=lambda rows: rows[:, None])


def _candidates(
    array: StoredArray, bias: Singles, arrange: Arrange, ids: AnyInts | None, problems: list[str]
) -> Singles | StoredTable:
    if not bias.shape[1]:
        return candidate_table(array, problems, ids=ids, arrange=arrange)
    table = read_table(array, problems, ids=ids, arrange=arrange, spare=bias.shape[1])
    table[:, table.shape[1] - bias.shape[1] :] = bias
    return table


def candidate_table(
    array: StoredArray, problems: list[str], *, ids: AnyInts | None = None, arrange: Arrange = unchanged
) -> Singles | StoredTable:
    """A table in float32, see `read_table`; one that is large stays in its file."""
    if array.is_large:
        return stored_table(array, arrange, ids)
    return read_table(array, problems, ids=ids, arrange=arrange)


def read_table(
    array: StoredArray,
    problems: list[str],
    *,
    ids: AnyInts | None = None,
    arrange: Arrange = unchanged,
    spare: int = 0,
) -> Singles:
    """Read a table in float32, block by block, so that it takes little more memory than itself.

    Args:
        array: The stored array.
        problems: Rows that are not finite are appended to it.
        ids: The table row of each stored row, if they are not in order.
        arrange: Brings rows to the layout in which they are compared.
        spare: Number of zero columns to add.
    """
    *inner, last = arrange(np.empty((0, *array.shape[1:]))).shape[1:]
    table = np.zeros((array.shape[0], *inner, last + spare), dtype=np.float32)
    fill_table(table[..., :last], array, problems, ids=ids, arrange=arrange)
    return table


def fill_table(
    table: Singles, array: StoredArray, problems: list[str], *, ids: AnyInts | None = None, arrange: Arrange = unchanged
) -> None:
    """Read an array into rows of a table; see `read_table`."""
    bad: list[int] = []
    for part, stored in array.blocks():
        with np.errstate(over="ignore", invalid="ignore"):  # rows that are not finite are reported below
            rows = arrange(stored).astype(np.float32, copy=False)
        table[part if ids is None else ids[part]] = rows
        finite = np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
        bad += (part.start + np.flatnonzero(~finite)).tolist()
    if bad:
        problems.append(
            f"{array.name}: {len(bad):,} rows hold NaN, infinity or numbers beyond float32: "
            f"{spans(bad, most=10)} (counted from 0)"
        )


def stored_table(array: StoredArray, arrange: Arrange = unchanged, ids: AnyInts | None = None) -> StoredTable:
    """The rows of an array as they are compared, read when they are needed.

    Args:
        array: The stored array, which is not compressed.
        arrange: Brings rows to the layout in which they are compared.
        ids: The table row of each stored row, if they are not in order.
    """
    width = arrange(np.empty((0, *array.shape[1:]))).shape[1]
    if ids is None:
        return StoredTable(array.path, array.name, (array.shape[0], width), lambda index: arrange(array.rows(index)))
    stored = np.empty(len(ids), dtype=ids.dtype)
    stored[ids] = np.arange(len(ids))
    return StoredTable(
        array.path, array.name, (array.shape[0], width), lambda index: arrange(array.rows(stored[index]))
    )


def ids_by_name(
    what: str, given: Labels, names: Names, problems: list[str], *, complete: bool = True
) -> AnyInts | None:
    """The id of each given name; or None, with all problems appended to ``problems``.

    Args:
        what: The name of the list in messages.
        given: Names in the order of the rows.
        names: The names of the graph, each of which must be given once.
        problems: The list to append to.
        complete: Whether all names of the graph must be given.
    """
    import pyarrow.compute as pc

    own = given.cast(names.names.type)
    ids, counts = names.ids(own), own.value_counts()
    complaints = {
        "names that the graph does not have, or has more than once": own.filter(ids < 0).unique(),
        "names given more than once": counts.field("values").filter(pc.greater(counts.field("counts"), 1)),
    }
    if complete:
        absent = pc.invert(pc.is_in(names.names, value_set=own))
        complaints["names of the graph that are not given"] = names.names.filter(absent)
    wrong = [f"{what}: {listed_names(some, kind)}" for kind, some in complaints.items() if len(some)]
    problems += wrong
    return None if wrong else ids.astype(np.int64)


def listed_names(names: Labels, kind: str) -> str:
    """The number of names of a kind, and the first ones."""
    shown = ", ".join(repr(name)[:_WIDEST] for name in names.slice(0, _SHOWN).to_pylist())
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{len(names):,} {kind}: {shown}{more}"


@dataclass(frozen=True)
class FileSizes:
    """Expected numbers of entities, relations and ranked triples; None for any."""

    entities: int | None = None
    relations: int | None = None
    triples: int | None = None


def fit_problems(header: Header, shapes: Shapes, sizes: FileSizes) -> list[str]:
    """All mismatches between the arrays and the header."""
    table = header.interaction.tables[0] if header.interaction else ENTITY
    shape = shapes[table][0] if table in shapes else ()
    dimension = shape[1] if len(shape) == 2 else None
    problems = spec_problems(_specs(header, sizes, dimension), shapes)
    if not header.interaction and not shapes.keys() & set(QUERIES.values()):
        problems.append(f"no array {' and no array '.join(map(repr, QUERIES.values()))}")
    return problems + (_dimension_problems(header, table, shape) if shape else [])


def _specs(header: Header, sizes: FileSizes, dimension: int | None) -> Iterator[ArraySpec]:
    embedding = None if dimension is None else (dimension,)
    tables = header.interaction.tables if header.interaction else (ENTITY,)
    yield from (ArraySpec(name, "entities", sizes.entities, embedding) for name in dict.fromkeys(tables))
    if isinstance(header.similarity, Dot):
        yield ArraySpec(BIAS, "entities", sizes.entities, (), needed=False)
    if header.interaction:
        shape = None if dimension is None else header.interaction.relation_shape(dimension)
        yield ArraySpec(RELATION, "relations", sizes.relations, shape)
    else:
        yield from (
            ArraySpec(name, "triples to rank", sizes.triples, embedding, needed=False) for name in QUERIES.values()
        )
        yield ArraySpec(TRIPLES, "triples to rank", sizes.triples, (3,), INTEGERS, needed=False)


def _dimension_problems(header: Header, table: str, shape: tuple[int, ...]) -> list[str]:
    if len(shape) != 2:
        return [f"{table}: shape {shape}, expected [entities, dimension]"]
    dimension, interaction = shape[1], header.interaction
    if interaction and dimension % interaction.parts:
        equal = "as many imaginary as real parts" if interaction.parts == 2 else f"{interaction.parts} equal parts"
        return [f"{table}: {dimension} coordinates, but {interaction.name} has {equal}"]
    problem = header.similarity.problem(dimension)
    return [] if problem is None else [f"{table}: {problem}"]
