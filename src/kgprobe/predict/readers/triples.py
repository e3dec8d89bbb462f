"""Triples of a graph that stand in a file of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgprobe.graph.check import triple_problems
from kgprobe.graph.readers.columns import id_columns, read_parquet
from kgprobe.graph.readers.text import Layout, read_text
from kgprobe.predict.readers.names import KnownNames, Names

if TYPE_CHECKING:
    from pathlib import Path

    from kgprobe.graph import KnowledgeGraph
    from kgprobe.graph.sorted_keys import Ints

COLUMNS = ("head", "relation", "tail")
HOW = (
    "a file of triples has lines of head<TAB>relation<TAB>tail by the graph's labels (perhaps .gz), or integer "
    "columns head, relation, tail (.parquet), or OpenKE's lines of ids (...2id.txt)"
)
"""What a file of triples looks like, for a person."""


_LABELLED = Layout(dict.fromkeys(COLUMNS, False), "head<TAB>relation<TAB>tail", "\t", lambda line: line.split("\t"))
_OPENKE = Layout(
    dict.fromkeys(("head", "tail", "relation"), False), "head tail relation (ids)", " \t", str.split, counted=True
)
_OPENKE_ENDINGS = ("2id.txt", "2id.txt.gz")


def read_triples(path: Path, graph: KnowledgeGraph, problems: list[str]) -> Ints | None:
    r"""The triples in a file, as ids of the graph; or None, with everything that is wrong added to ``problems``.

    Example:
        >>> import tempfile, pathlib
        >>> from kgprobe.graph import KnowledgeGraph
        >>> graph = KnowledgeGraph.from_triples(entity_labels=["Ada", "Bob"], relation_labels=["knows"])
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "more.tsv"
        >>> _ = path.write_text("Bob\tknows\tAda\n")
        >>> read_triples(path, graph, []).tolist()
        [[1, 0, 0]]
        >>> _ = path.write_text("Bob\tknows\tAda\nAda\tlikes\tEve\n")
        >>> problems = []
        >>> read_triples(path, graph, problems)
        >>> problems[0]
        "more.tsv, line 2: 'likes' is no known relation, 'Eve' is no known entity: 'Ada\\tlikes\\tEve'"
    """
    if path.suffix == ".parquet":
        return _read_ids(path, graph, problems)
    by_ids = path.name.endswith(_OPENKE_ENDINGS)
    return _read_names(path, _OPENKE if by_ids else _LABELLED, graph, problems, labels=not by_ids)


def _read_ids(path: Path, graph: KnowledgeGraph, problems: list[str]) -> Ints | None:
    table = read_parquet(path, problems)
    columns = None if table is None else id_columns(path, table, COLUMNS, problems)
    if columns is None:
        return None
    triples = np.column_stack(columns).astype(np.int64, copy=False)
    found = triple_problems(path.name, triples, graph.num_entities, graph.num_relations)
    problems += found
    return None if found else triples


def _read_names(path: Path, layout: Layout, graph: KnowledgeGraph, problems: list[str], *, labels: bool) -> Ints | None:
    entities, relations = Names.entities(graph, labels=labels), Names.relations(graph, labels=labels)
    rule = KnownNames({"head": entities, "relation": relations, "tail": entities}, tuple(layout.columns))
    columns = read_text(path, layout, rule, problems)
    return None if columns is None else np.column_stack([rule.ids(columns, name) for name in COLUMNS])
