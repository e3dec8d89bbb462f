"""Match the entities and relations of a PyTorch-BigGraph model with a graph, and make its tables and candidates."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts, Flags, Floats, Grouped, Ints
from kgprobe.bounded_files import BLOCK, open_bytes, parse_json
from kgprobe.errors import DataError, spans
from kgprobe.predict.adapters.embedding_files import fill_table, ids_by_name, listed_names
from kgprobe.predict.adapters.pbg_config import Config
from kgprobe.predict.adapters.pbg_scorers import End, Operators, Parameters, PbgModel, TypeTable, blocks_of
from kgprobe.predict.scorers import SIDES, AnyScorer, Side, Singles
from kgprobe.predict.stored_arrays import StoredArray, StoredTable
from kgprobe.predict.tasks import RelationCandidates
from kgprobe.resources import require_unpackable

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.graph.names import Labels

CANDIDATES = "entities of the type that the relation has on that side"
_EPSILON = 1e-7
"""What torch adds to a norm before it divides by it."""


@dataclass(frozen=True, eq=False)
class PbgFiles:
    """What the files of a model hold.

    Attributes:
        path: The folder or the file.
        config: The configuration.
        arrays: The embeddings of each entity type, one array for each partition.
        names: The names of the entities of each type, over all partitions.
        relations: The names of the relations, in the order of the rows of their parameters; None if any relation is
            meant, because their operator has no parameters.
        parameters: On each side the operators of the model, each with the parameters of its relations: of all if they
            are dynamic, else of those that have it, in the order of the configuration.
        global_embeddings: The embedding that is added to all entities of a type.
        settings: Metadata for the rank file.
    """

    path: Path
    config: Config
    arrays: Mapping[str, Sequence[StoredArray]]
    names: Mapping[str, Labels]
    relations: Labels | None
    parameters: Mapping[End, Mapping[str, Parameters]]
    global_embeddings: Mapping[str, Singles] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


def open_files(
    files: PbgFiles, graph: KnowledgeGraph, triples: AnyInts
) -> tuple[str, AnyScorer, dict[str, Any], RelationCandidates | None]:
    """The model in files, for the ranked triples of a graph.

    Returns:
        Its name, its scorer, its metadata, and the candidates of each relation if there are several entity types.

    Raises:
        DataError: The model does not fit the graph or the triples, or has rows that are not finite.
    """
    problems: list[str] = []
    config = files.config
    used = {kind for relation in config.relations for kind in (relation.lhs, relation.rhs)}
    kinds = [kind for kind in config.partitions if kind in used]
    ids = {kind: _entity_ids(kind, files.names[kind], graph, len(kinds) == 1, problems) for kind in kinds}
    relation_ids = _relation_ids(files, graph, problems)
    if not problems and len(kinds) > 1:
        problems += _left_out(graph, [some for some in ids.values() if some is not None])
    if not problems and relation_ids is not None:
        types = _types(config, kinds, relation_ids)
        problems += _untyped(graph, triples, kinds, [ids[kind] for kind in kinds], types)
    if not problems:
        tables = [_table(files, kind, ids[kind], graph.num_entities, problems) for kind in kinds]
    if problems or relation_ids is None:
        title = f"{files.path}: cannot be ranked with {graph.name}"
        raise DataError(title, problems, "use the graph that the model was trained on, with the same names")
    model = PbgModel(config.comparator, config.bias, tables, types, _operators(files, relation_ids))
    settings = {"source": files.path.name, **config.settings, **files.settings}
    sets = _candidates(graph, tables, types) if len(tables) > 1 else None
    return f"PBG({config.operators}, {config.comparator})", model.scorer(), settings, sets


def _entity_ids(kind: str, names: Labels, graph: KnowledgeGraph, alone: bool, problems: list[str]) -> AnyInts | None:
    what = "entities" if alone else f"entities of type {kind!r}"
    return ids_by_name(what, names, graph.entity_index(), problems, complete=alone)


def _relation_ids(files: PbgFiles, graph: KnowledgeGraph, problems: list[str]) -> AnyInts | None:
    """For each relation of the model its id in the graph."""
    if files.relations is None:
        return np.arange(graph.num_relations)
    return ids_by_name("relations", files.relations, graph.relation_index(), problems)


def _left_out(graph: KnowledgeGraph, ids: Sequence[AnyInts]) -> list[str]:
    """Entities of the graph that are of no type."""
    found = np.zeros(graph.num_entities, dtype=bool)
    for some in ids:
        found[some] = True
    missing = np.flatnonzero(~found)
    if not len(missing):
        return []
    return [
        f"entities: {listed_names(graph.entity_index().names.take(missing), 'names of the graph that no type has')}"
    ]


def _types(config: Config, kinds: Sequence[str], relation_ids: AnyInts) -> dict[Side, Ints]:
    """For each side, the place of the type of each relation of the graph in ``kinds``."""
    types: dict[Side, Ints] = {}
    for side in SIDES:
        own = [relation.lhs if side == "head" else relation.rhs for relation in config.relations]
        places = np.array([kinds.index(kind) for kind in own])
        types[side] = np.empty(len(relation_ids), dtype=np.int64)
        types[side][relation_ids] = places[0] if config.dynamic else places
    return types


def _untyped(
    graph: KnowledgeGraph,
    triples: AnyInts,
    kinds: Sequence[str],
    ids: Sequence[AnyInts | None],
    types: Mapping[Side, Ints],
) -> list[str]:
    """Ranked triples whose head or tail is not of the type that their relation has there."""
    if len(kinds) == 1:
        return []
    there = np.zeros((len(kinds), graph.num_entities), dtype=bool)
    for row, some in zip(there, ids, strict=True):
        row[some] = True
    found = []
    for side in SIDES:
        rows = np.flatnonzero(~there[types[side][triples[:, 1]], triples[:, 0 if side == "head" else 2]])
        if len(rows):
            found.append(
                f"{len(rows):,} ranked triples have a {side} that is not of the type of their relation: "
                f"rows {spans(rows.tolist(), most=10)} (counted from 0)"
            )
    return found


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of all partitions of a type, adjusted as the model adjusts them.

    Attributes:
        parts: The partitions.
        max_norm: The largest norm of a row; None for any.
        added: The embedding that is added to all; None for none.
    """

    parts: Sequence[StoredArray]
    max_norm: float | None
    added: Singles | None

    @property
    def starts(self) -> Ints:
        return np.cumsum([0, *(part.shape[0] for part in self.parts)])

    def adjusted(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Rows with a norm of at most ``max_norm``, and what is added; in float64 unless there is nothing to do."""
        if self.max_norm is None and self.added is None:
            return rows
        wide: Floats = rows.astype(np.float64)
        if self.max_norm is not None:
            norms = np.sqrt(np.cumsum(np.square(wide), axis=1)[:, -1:])
            wide = np.where(norms > self.max_norm, wide * (self.max_norm / (norms + _EPSILON)), wide)
        return wide if self.added is None else wide + self.added

    def read(self, index: slice | AnyInts, stored: Ints) -> Singles:
        """The rows at an index of the graph's entities; ``stored`` has the row of each entity, -1 for none."""
        wanted = stored[index]
        order = np.argsort(wanted, kind="stable")  # files are read from their beginning to their end
        ordered = wanted[order]
        ends = np.searchsorted(ordered, self.starts)
        rows = np.zeros((len(wanted), self.parts[0].shape[1]), dtype=np.float32)
        for number, part in enumerate(self.parts):
            own, places = ordered[ends[number] : ends[number + 1]], order[ends[number] : ends[number + 1]]
            for block in blocks_of(rows[: len(own)]):
                rows[places[block]] = self.adjusted(part.rows(own[block] - self.starts[number]))
        return rows


def _table(files: PbgFiles, kind: str, ids: AnyInts | None, size: int, problems: list[str]) -> TypeTable:
    """The entities of a type in the order of the graph: in memory, or in files if they are large."""
    assert ids is not None
    rows = _Rows(files.arrays[kind], files.config.max_norm, files.global_embeddings.get(kind))
    absent: Flags | None = None
    if len(ids) < size:
        absent = np.ones(size, dtype=bool)
        absent[ids] = False
    if _stay_in_files(rows.parts):
        stored = np.full(size, -1, dtype=np.int64)
        stored[ids] = np.arange(len(ids))
        what = f"embeddings of {kind!r} in the order of the graph"
        table = StoredTable(files.path, what, (size, rows.parts[0].shape[1]), partial(rows.read, stored=stored))
        return TypeTable(files.path, kind, table, absent)
    return TypeTable(files.path, kind, _in_memory(rows, ids, size, problems), absent)


def _stay_in_files(parts: Sequence[StoredArray]) -> bool:
    """Whether all partitions together are large, as `StoredArray.is_large` is for one."""
    from kgprobe.predict import stored_arrays

    return sum(part.nbytes for part in parts if part.offset is not None) > stored_arrays.LARGE_BYTES


def _in_memory(rows: _Rows, ids: AnyInts, size: int, problems: list[str]) -> Singles:
    table = np.zeros((size, rows.parts[0].shape[1]), dtype=np.float32)
    for start, part in zip(rows.starts, rows.parts, strict=False):
        fill_table(table, part, problems, ids=ids[start : start + part.shape[0]], arrange=rows.adjusted)
    return table


def _operators(files: PbgFiles, relation_ids: AnyInts) -> dict[End, Operators]:
    """The operators of the graph's relations on each side."""
    config, size = files.config, len(relation_ids)
    if config.dynamic:
        names = np.full(size, config.relations[0].operator)
        own = np.arange(size)
    else:
        names = np.array([relation.operator for relation in config.relations])
        own = np.empty(size, dtype=np.int64)
        for name in np.unique(names):  # the parameters of one operator after the other
            own[names == name] = np.arange(np.count_nonzero(names == name))
    back = np.argsort(relation_ids)
    return {end: Operators(names[back].tolist(), parameters, own[back]) for end, parameters in files.parameters.items()}


def _candidates(graph: KnowledgeGraph, tables: Sequence[TypeTable], types: Mapping[Side, Ints]) -> RelationCandidates:
    """The candidates of each side of each relation: the entities of its type."""
    digest = hashlib.sha256()
    kinds, entities = [], []
    for number, table in enumerate(tables):
        ids = np.arange(graph.num_entities) if table.absent is None else np.flatnonzero(~table.absent)
        kinds.append(np.full(len(ids), number))
        entities.append(ids)
    groups = Grouped.build(np.concatenate(kinds), np.concatenate(entities), len(tables), graph.num_entities)
    for array in (groups.offsets, groups.values, types["head"], types["tail"]):
        digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes() + b"|")
    return RelationCandidates(CANDIDATES, {"head": groups, "tail": groups}, digest.hexdigest(), types)


def read_names(path: Path) -> Labels:
    """The names in a JSON list. A file as the library writes it, with a name on each line, is read in blocks.

    Raises:
        ValueError: It is not a JSON list of texts.

    Example:
        >>> import json, tempfile
        >>> path = Path(tempfile.mkdtemp()) / "entity_names_all_0.json"
        >>> _ = path.write_text(json.dumps(["Ada", "Bob, Cy"], indent=4))
        >>> read_names(path).to_pylist()
        ['Ada', 'Bob, Cy']
    """
    chunks: list[Labels] = []
    rest, first = b"", b""
    with open_bytes(path) as file:
        while block := file.read(BLOCK):
            # A line break within a text is written as an escape: this one is between two texts.
            piece, cut, after = (rest + block).rpartition(b",\n")
            rest = after
            if cut:
                chunks.append(_texts(first + piece + b"]", some=True))
                first = b"["
            require_unpackable(len(rest), "a list that is not written line by line")
    chunks.append(_texts(first + rest, some=bool(first)))
    return pa.chunked_array(chunks, pa.string()).combine_chunks()


def _texts(text: bytes, *, some: bool) -> Labels:
    names = parse_json(text)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or (some and not names):
        raise ValueError("expected a JSON list of names")
    return pa.array(names, pa.string())
