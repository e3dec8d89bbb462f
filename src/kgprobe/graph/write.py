"""Write a graph as a directory of Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kgprobe.errors import DataError
from kgprobe.files import replacing
from kgprobe.graph.graph import SPLITS
from kgprobe.graph.readers.parquet_counts import DEGREES, PAIRS, RELATIONS

if TYPE_CHECKING:
    import os

    import pyarrow as pa

    from kgprobe.graph.graph import KnowledgeGraph
    from kgprobe.graph.labels import Labels

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
