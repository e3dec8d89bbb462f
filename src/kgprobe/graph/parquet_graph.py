"""Graph directories in Parquet: reading and writing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kgprobe.arrays import id_problems, triple_problems
from kgprobe.errors import DataError, spans
from kgprobe.files import replacing
from kgprobe.graph.knowledge_graph import SPLITS, KnowledgeGraph, as_labels
from kgprobe.graph.popularity import TrainCounts

if TYPE_CHECKING:
    import os

    import pyarrow as pa

    from kgprobe.arrays import AnyInts
    from kgprobe.graph.knowledge_graph import Labels


def read_parquet(path: Path, problems: list[str]) -> pa.Table | None:
    """The table in a Parquet file; or None, with what is wrong added to ``problems``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if not path.stat().st_size:
            problems.append(f"{path.name}: empty file")
            return None
        with pq.ParquetFile(path) as file:
            return file.read(use_threads=False)
    except (pa.ArrowException, OSError) as error:
        first = str(error).splitlines()[0]
        problems.append(f"{path.name}: not a readable Parquet file ({first[:150]})")
        return None


def id_columns(path: Path, table: pa.Table, names: tuple[str, ...], problems: list[str]) -> list[AnyInts] | None:
    """Integer columns by name; or None, with all that is wrong added to ``problems``."""
    found = [_whole_numbers(path, table, name, problems) for name in names]
    complete = [column for column in found if column is not None]
    return complete if len(complete) == len(names) else None


def _whole_numbers(path: Path, table: pa.Table, name: str, problems: list[str]) -> AnyInts | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if table.column_names.count(name) != 1:
        there = ", ".join(table.column_names) or "none"
        problems.append(f"{path.name}: no single column {name!r}; columns: {there}")
        return None
    column = table.column(name)
    if not pa.types.is_integer(column.type):
        problems.append(f"{path.name}: column {name!r} holds {column.type}, expected whole numbers")
        return None
    if column.null_count:
        rows = np.flatnonzero(pc.is_null(column).to_numpy())
        listed = spans(rows.tolist(), most=10)
        problems.append(f"{path.name}: {len(rows):,} nulls in column {name!r}, rows {listed} (counted from 0)")
        return None
    values: AnyInts = column.to_numpy()
    # Beside int64, NumPy would make floats of uint64. What int64 cannot hold turns negative, and is refused.
    return values.astype(np.int64) if values.dtype == np.uint64 else values


def in_order(path: Path, ids: AnyInts, problems: list[str]) -> bool:
    """Whether ids are 0, 1, 2, ... in the order of the rows; if not, that is added to ``problems``."""
    rows = np.flatnonzero(ids != np.arange(len(ids)))
    if len(rows):
        row = int(rows[0])
        problems.append(
            f"{path.name}: ids must be 0, 1, 2, ... in order, but row {row} (counted from 0) has {ids[row]}"
        )
    return not len(rows)


DEGREES = "entity_train_degree.parquet"

PAIRS = "test_entity_relation_train_count.parquet"

RELATIONS = "relation_train_count.parquet"


def counts_stand_in(directory: Path) -> bool:
    """Whether a directory has counts of its training triples, and not the triples."""
    return (directory / DEGREES).exists() and not (directory / "train.parquet").exists()


def read_counts(directory: Path, num_entities: int, num_relations: int, problems: list[str]) -> TrainCounts | None:
    """Counts of the training triples; or None, with everything that is wrong added to ``problems``.

    Needed are the degree of every entity (id, train_degree) and the counts of (entity, relation) pairs
    (entity, relation, train_count). The counts of the relations (id, train_count), if there, must agree.
    """
    degrees = _columns(directory / DEGREES, ("id", "train_degree"), problems)
    pairs = _columns(directory / PAIRS, ("entity", "relation", "train_count"), problems)
    if degrees is None or pairs is None:
        return None
    ids, degree = degrees
    entity, relation, count = pairs
    found = id_problems(f"{PAIRS} entity", entity, num_entities)
    found += id_problems(f"{PAIRS} relation", relation, num_relations)
    in_order(directory / DEGREES, ids, found)
    if len(ids) != num_entities:
        found.append(f"{DEGREES}: {len(ids):,} rows for {num_entities:,} entities")
    if not found:
        counts = TrainCounts.from_pairs(degree, entity, relation, count, num_relations=num_relations)
        found = _contradictions(counts) + _total_problems(directory / RELATIONS, counts.num_triples)
    problems += found
    return None if found else counts


def _contradictions(counts: TrainCounts) -> list[str]:
    """What no training triples could have given."""
    of_pairs = counts.degree[counts.pair_keys // max(counts.num_relations, 1)]
    checks = {
        f"{DEGREES}: a negative degree": (counts.degree < 0).any(),
        f"{DEGREES}: the degrees add up to an odd number, but every triple adds two": counts.degree.sum() % 2,
        f"{PAIRS}: an (entity, relation) pair is there twice": (np.diff(counts.pair_keys) == 0).any(),
        f"{PAIRS}: a count below 0 or above the degree of its entity": (
            (counts.pair_counts < 0) | (counts.pair_counts > of_pairs)
        ).any(),
    }
    return [problem for problem, wrong in checks.items() if wrong]


def _total_problems(path: Path, num_triples: int) -> list[str]:
    problems: list[str] = []
    columns = _columns(path, ("id", "train_count"), problems) if path.exists() else None
    if columns is not None and columns[1].sum() != num_triples:
        problems.append(f"{path.name}: {columns[1].sum():,} triples, but the degrees of {DEGREES} make {num_triples:,}")
    return problems


def _columns(path: Path, names: tuple[str, ...], problems: list[str]) -> list[AnyInts] | None:
    table = read_parquet(path, problems)
    return None if table is None else id_columns(path, table, names, problems)


def is_parquet_graph(directory: Path) -> bool:
    """Whether a directory has triples in Parquet."""
    return any((directory / f"{split}.parquet").exists() for split in SPLITS)


def read_parquet_graph(directory: Path, name: str) -> KnowledgeGraph:
    """Read whichever of train, valid and test.parquet are there (integers head, relation, tail).

    entities.parquet and relations.parquet (id from 0 in order, perhaps label) lie beside them or, shared by
    several graphs, one directory above. Where train.parquet is absent, counts may stand in for it.
    """
    problems: list[str] = []
    num_entities, entity_labels = _read_names(directory, "entities", problems)
    num_relations, relation_labels = _read_names(directory, "relations", problems)
    splits: dict[str, AnyInts] = {}
    for split in SPLITS:
        path = directory / f"{split}.parquet"
        triples = _read_triples(path, problems) if path.exists() else None
        if triples is not None:
            splits[split] = triples
            problems += triple_problems(path.name, triples, num_entities, num_relations)
    counts = None
    if num_entities is not None and num_relations is not None and counts_stand_in(directory):
        counts = read_counts(directory, num_entities, num_relations, problems)
    if problems or num_entities is None or num_relations is None:
        raise DataError(
            f"{directory}: not a graph in Parquet",
            problems,
            "triples need integer columns head, relation, tail; entities and relations an integer id "
            "(0, 1, 2, ... in order), perhaps label",
        )
    return KnowledgeGraph(name, num_entities, num_relations, splits, entity_labels, relation_labels, counts)


def _read_triples(path: Path, problems: list[str]) -> AnyInts | None:
    table = read_parquet(path, problems)
    columns = None if table is None else id_columns(path, table, ("head", "relation", "tail"), problems)
    return None if columns is None else np.column_stack(columns)


def _read_names(directory: Path, kind: str, problems: list[str]) -> tuple[int | None, Labels | None]:
    """The number of entities or relations, and their labels if they have any; None where it is unknown."""
    places = (directory / f"{kind}.parquet", directory.parent / f"{kind}.parquet")
    path = next((path for path in places if path.exists()), None)
    if path is None:
        problems.append(f"no {kind}.parquet here or one directory above, so the number of {kind} is unknown")
        return None, None
    table = read_parquet(path, problems)
    columns = None if table is None else id_columns(path, table, ("id",), problems)
    if columns is None or not in_order(path, columns[0], problems):
        return None, None
    return len(columns[0]), _labels(path, table, problems)


def _labels(path: Path, table: pa.Table, problems: list[str]) -> Labels | None:
    import pyarrow as pa

    if "label" not in table.column_names:
        return None
    column = table.column("label")
    try:
        return as_labels(column)
    except pa.ArrowException:
        problems.append(f"{path.name}: column 'label' holds {column.type}, expected text")
        return None


_TRIPLES_OR_COUNTS = (*(f"{split}.parquet" for split in SPLITS), DEGREES, PAIRS, RELATIONS)


def write_graph(graph: KnowledgeGraph, directory: str | os.PathLike[str]) -> None:
    """Write train, valid, test, entities and relations.parquet, or those of them that the graph has.

    Raises:
        DataError: The directory has files that would be taken for parts of this graph.

    Example:
        >>> import tempfile
        >>> from kgprobe.graph import KnowledgeGraph, load_graph
        >>> folder = Path(tempfile.mkdtemp()) / "tiny"
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]])
        >>> write_graph(graph, folder)
        >>> load_graph(folder).content_hash == graph.content_hash
        True
    """
    import pyarrow.parquet as pq

    folder = Path(directory)
    tables = _tables(graph)
    stale = [file for file in _TRIPLES_OR_COUNTS if file not in tables and (folder / file).exists()]
    if stale:
        raise DataError(
            f"{folder}: cannot hold {graph.name}",
            [f"{file} is there, and would be taken for a part of it" for file in stale],
            "choose an empty directory",
        )
    for file, table in tables.items():
        with replacing(folder / file) as temporary:
            pq.write_table(table, temporary, compression="zstd")


def _tables(graph: KnowledgeGraph) -> dict[str, pa.Table]:
    import pyarrow as pa

    tables = {
        f"{split}.parquet": pa.table(dict(zip(("head", "relation", "tail"), triples.T.copy(), strict=True)))
        for split, triples in graph.splits.items()
    }
    tables["entities.parquet"] = _names(graph.num_entities, graph.entity_labels)
    tables["relations.parquet"] = _names(graph.num_relations, graph.relation_labels)
    counts = graph.train_counts
    if counts is not None:
        entity, relation = np.divmod(counts.pair_keys, max(counts.num_relations, 1))
        tables[DEGREES] = pa.table({"id": np.arange(len(counts.degree)), "train_degree": counts.degree})
        tables[PAIRS] = pa.table({"entity": entity, "relation": relation, "train_count": counts.pair_counts})
    return tables


def _names(size: int, labels: Labels | None) -> pa.Table:
    import pyarrow as pa

    columns = {"id": np.arange(size, dtype=np.int64)}
    return pa.table(columns if labels is None else columns | {"label": labels})
