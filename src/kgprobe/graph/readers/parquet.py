"""Graphs in Parquet: ids in train, valid and test, names in entities and relations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgprobe.errors import DataError
from kgprobe.graph.check import triple_problems
from kgprobe.graph.graph import SPLITS, KnowledgeGraph
from kgprobe.graph.labels import as_labels
from kgprobe.graph.readers.columns import id_columns, in_order, read_parquet
from kgprobe.graph.readers.parquet_counts import counts_stand_in, read_counts

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from kgprobe.graph.labels import Labels
    from kgprobe.graph.sorted_keys import Ints


def recognises(directory: Path) -> bool:
    """Whether a directory has triples in Parquet."""
    return any((directory / f"{split}.parquet").exists() for split in SPLITS)


def read(directory: Path, name: str) -> KnowledgeGraph:
    """Read whichever of train, valid and test.parquet are there (integers head, relation, tail).

    entities.parquet and relations.parquet (id from 0 in order, perhaps label) lie beside them or, shared by
    several graphs, one directory above. Where train.parquet is absent, counts may stand in for it.
    """
    problems: list[str] = []
    num_entities, entity_labels = _read_names(directory, "entities", problems)
    num_relations, relation_labels = _read_names(directory, "relations", problems)
    splits: dict[str, Ints] = {}
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


def _read_triples(path: Path, problems: list[str]) -> Ints | None:
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
