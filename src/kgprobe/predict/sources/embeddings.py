"""Embedding files: tables of vectors with a small header that says which model they are, or with computed queries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kgprobe.errors import DataError
from kgprobe.graph.sorted_keys import Ints
from kgprobe.predict.arrays import as_array
from kgprobe.predict.readers.names import Names
from kgprobe.predict.scorer import AnyScorer, Floats, Side
from kgprobe.predict.similarity import Similarity
from kgprobe.predict.sources.arrays import WRITERS, ArrayFile, open_arrays, write_arrays
from kgprobe.predict.sources.files.fit import BIAS, ENTITY, QUERIES, RELATION, Sizes, fit_problems
from kgprobe.predict.sources.files.header import Header, parse_header, read_header
from kgprobe.predict.sources.files.names import ids_by_name
from kgprobe.predict.sources.files.query_rows import TRIPLES, QueryRows, RowReader, other_triples
from kgprobe.predict.sources.files.stored import StoredArray
from kgprobe.predict.sources.files.tables import Arrange, read_table, unchanged
from kgprobe.predict.sources.interactions import ComposedScorer, Interaction
from kgprobe.predict.sources.scores import is_scores

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.graph.labels import Labels


@dataclass(eq=False)
class QueryVectors:
    """An embedding scorer whose queries were computed elsewhere."""

    similarity: Similarity
    entities: Floats
    rows: QueryRows

    def encode_queries(self, side: Side, given: Ints, relation: Ints) -> Floats:
        """The vectors of the queries that ask for the ``side`` of (given[i], relation[i])."""
        return self.rows.find(side, given, relation)

    def candidates(self, side: Side) -> Floats:
        """The vectors of all entities, which are the same on either ``side``."""
        return self.entities


def is_embeddings(path: str | PathLike[str]) -> bool:
    """Whether a file is, by its name and content, one of embeddings: of arrays, but not of scores."""
    return Path(path).suffix in WRITERS and Path(path).is_file() and not is_scores(path)


def write_embeddings(path: str | PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write a model that can be ranked; the ending of the name, .npz or .safetensors, says in which format.

    Args:
        path: The file.
        header: ``{"model": "ComplEx"}`` with the settings of the model; or ``{"similarity": "dot"}`` (or
            "group_norm" with "group_size", perhaps "gamma") where the queries are computed. It may have a "name",
            and the names "entities" and "relations" in the order of the rows, where these are not in that of the ids.
        arrays: Of NumPy or torch. "entity" and "relation" (CP: "head_entity" and "tail_entity"); with a similarity,
            "entity" and "tail_query", "head_query" or both, row by row with the triples that will be ranked (perhaps
            also there, as "triples"). Where vectors are compared by their dot product, perhaps "entity_bias".

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
            read, {name: (array.shape, array.dtype.name) for name, array in values.items()}, Sizes()
        )
    if problems:
        raise DataError(f"{path}: not a model that can be ranked", problems, "nothing was written")
    write_arrays(path, json.dumps(dict(header)), values)


def open_embeddings(
    path: str | PathLike[str], graph: KnowledgeGraph, triples: Ints
) -> tuple[str, AnyScorer, dict[str, Any]]:
    """Open a file of embeddings for the triples of a graph that are to be ranked.

    Raises:
        DataError: The file is damaged, does not say what it is, or does not fit the graph or the triples.
    """
    file = open_arrays(path)
    problems: list[str] = []
    header = parse_header(file.header, problems)
    if header is None:
        raise DataError(f"{path}: not a model that can be ranked", problems, _REMEDY)
    return read_model(file, header, graph, triples)


_REMEDY = (
    "write the file by kgprobe.predict.sources.embeddings.write_embeddings, with a header; if it has scores, not "
    "vectors, call its arrays 'tail' and 'head'"
)


def read_model(
    file: ArrayFile, header: Header, graph: KnowledgeGraph, triples: Ints
) -> tuple[str, AnyScorer, dict[str, Any]]:
    """Read the arrays that a header describes, for the triples of a graph that are to be ranked."""
    problems = fit_problems(header, file.shapes, Sizes(graph.num_entities, graph.num_relations, len(triples)))
    entities = _ids("entities", header.entities, Names.entities(graph), problems)
    relations = _ids("relations", header.relations, Names.relations(graph), problems)
    _refuse(file, graph, problems)
    scorer: AnyScorer = (
        _composed(file, header.interaction, header.similarity, entities, relations, problems)
        if header.interaction
        else _compared(file, header.similarity, entities, graph, triples, problems)
    )
    _refuse(file, graph, problems)
    named = [what for what, ids in (("entities", entities), ("relations", relations)) if ids is not None]
    settings = {"source": file.path.name, **header.settings} | ({"matched by name": named} if named else {})
    return header.name or (header.interaction.name if header.interaction else file.path.stem), scorer, settings


def _refuse(file: ArrayFile, graph: KnowledgeGraph, problems: list[str]) -> None:
    if problems:
        title = f"{file.path}: cannot be ranked with {graph.name}"
        raise DataError(title, problems, "give the graph, and the triples, that the file was made for")


def _ids(what: str, given: Labels | None, names: Names, problems: list[str]) -> Ints | None:
    return None if given is None else ids_by_name(what, given, names, problems)


def _composed(
    file: ArrayFile,
    interaction: Interaction,
    similarity: Similarity,
    entities: Ints | None,
    relations: Ints | None,
    problems: list[str],
) -> ComposedScorer:
    """The scorer of a model that is known by name."""
    bias = _bias(file, entities, problems)
    tables = {
        name: _candidates(file.arrays[name], bias, interaction.arrange_entity, entities, problems)
        for name in dict.fromkeys(interaction.tables)
    }
    heads, tails = (tables[name] for name in interaction.tables)
    table = read_table(file.arrays[RELATION], problems, ids=relations, arrange=interaction.arrange_relation)
    return ComposedScorer(interaction, similarity, file.arrays[interaction.tables[0]].shape[1], heads, tails, table)


def _compared(
    file: ArrayFile,
    similarity: Similarity,
    entities: Ints | None,
    graph: KnowledgeGraph,
    triples: Ints,
    problems: list[str],
) -> QueryVectors:
    """The scorer of queries that were computed elsewhere."""
    if TRIPLES in file.arrays:
        problems += other_triples(file.arrays[TRIPLES].whole(), triples)
    bias = _bias(file, entities, problems)
    readers = {}
    for side, name in QUERIES.items():
        if name in file.arrays:
            queries = read_table(file.arrays[name], problems, spare=bias.shape[1])
            queries[:, queries.shape[1] - bias.shape[1] :] = 1
            readers[side] = RowReader(name, queries.shape[1], queries.__getitem__)
    rows = QueryRows.of_triples(file.path, triples, graph.num_relations, readers, problems)
    return QueryVectors(similarity, _candidates(file.arrays[ENTITY], bias, unchanged, entities, problems), rows)


def _bias(file: ArrayFile, ids: Ints | None, problems: list[str]) -> Floats:
    """The bias of the entities as a column, or no column."""
    if BIAS not in file.arrays:
        return np.empty((1, 0), dtype=np.float32)
    return read_table(file.arrays[BIAS], problems, ids=ids, arrange=lambda rows: rows[:, None])


def _candidates(array: StoredArray, bias: Floats, arrange: Arrange, ids: Ints | None, problems: list[str]) -> Floats:
    table = read_table(array, problems, ids=ids, arrange=arrange, spare=bias.shape[1])
    table[:, table.shape[1] - bias.shape[1] :] = bias
    return table
