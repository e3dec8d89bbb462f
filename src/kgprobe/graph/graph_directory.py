"""The files of a graph directory: their names, and how a graph is written to them as Parquet or as labelled text."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, product
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from kgprobe.arrays import AnyInts
from kgprobe.errors import DataError, UsageError, nearest, shown
from kgprobe.files import replacing
from kgprobe.graph.names import Labels, Names
from kgprobe.graph.popularity import TrainCounts
from kgprobe.graph.triple_sources import SPLIT_NAMES, SPLITS, TRIPLE
from kgprobe.parquet_files import write_parquet

DEGREES = "entity_train_degree.parquet"
PAIRS = "test_entity_relation_train_count.parquet"
RELATIONS = "relation_train_count.parquet"

NEGATIVES = "_negatives"
"""Ending of the name of a file of negatives, before the ending of its format."""

ENDINGS = tuple(map("".join, product((".txt", ".tsv", ".csv"), ("", ".gz"))))
"""Endings of files of labelled triples."""

DICTIONARIES = {
    "entities": ("entities.dict", "entity2id.txt", "entities.txt"),
    "relations": ("relations.dict", "relation2id.txt", "relations.txt"),
}
"""Names of files that give the ids of labels beside labelled triples, the first that exists is read."""

_STEMS = [stem + end for stem in chain.from_iterable(SPLIT_NAMES.values()) for end in ("", NEGATIVES)]

PARQUET_FILES = (
    *(f"{split}{end}.parquet" for split in SPLITS for end in ("", NEGATIVES)),
    *("entities.parquet", "relations.parquet", DEGREES, PAIRS, RELATIONS),
)

GRAPH_FILES = (
    *PARQUET_FILES,
    *map("".join, product(_STEMS, ENDINGS)),
    *(f"{split}2id.txt" for split in SPLITS),
    *chain.from_iterable(DICTIONARIES.values()),
)
"""Names of the files that are read as parts of a graph, in any format."""

_ROWS = 1 << 18


class GraphContent(Protocol):
    """What is written of a graph; see `KnowledgeGraph`."""

    @property
    def name(self) -> str: ...
    @property
    def num_entities(self) -> int: ...
    @property
    def num_relations(self) -> int: ...
    @property
    def splits(self) -> Mapping[str, AnyInts]: ...
    @property
    def negative_splits(self) -> Mapping[str, AnyInts]: ...
    @property
    def entity_labels(self) -> Labels | None: ...
    @property
    def relation_labels(self) -> Labels | None: ...
    @property
    def entity_names(self) -> Labels | None: ...
    @property
    def relation_names(self) -> Labels | None: ...
    @property
    def train_counts(self) -> TrainCounts | None: ...


def write_directory(graph: GraphContent, folder: Path, form: str) -> None:
    """Write a graph in a format of `FORMATS`; see `KnowledgeGraph.write`."""
    if form not in FORMATS:
        raise UsageError(f"no format of graphs is called {form!r}{nearest(form, FORMATS)}")
    FORMATS[form](graph, folder)


def _refuse_stale(graph: GraphContent, folder: Path, files: Mapping[str, object], read: tuple[str, ...]) -> None:
    stale = [file for file in read if file not in files and (folder / file).exists()]
    if stale:
        raise DataError(
            f"{folder}: {graph.name} cannot be written here",
            [f"{file} exists and would be read as a part of it" for file in stale],
            "choose an empty directory",
        )


def _write_parquet(graph: GraphContent, folder: Path) -> None:
    named = {split: graph.splits.get(split) for split in SPLITS}
    named |= {split + NEGATIVES: graph.negative_splits.get(split) for split in SPLITS}
    tables = {
        f"{stem}.parquet": pa.table(dict(zip(TRIPLE, triples.T.copy(), strict=True)))
        for stem, triples in named.items()
        if triples is not None
    }
    for kind, size, labels, names in (
        ("entities", graph.num_entities, graph.entity_labels, graph.entity_names),
        ("relations", graph.num_relations, graph.relation_labels, graph.relation_names),
    ):
        columns = {"id": np.arange(size, dtype=np.int64), "label": labels, "name": names}
        tables[f"{kind}.parquet"] = pa.table({name: own for name, own in columns.items() if own is not None})
    counts = graph.train_counts
    if counts is not None:
        entity, relation = np.divmod(counts.pair_keys, max(counts.num_relations, 1))
        tables[DEGREES] = pa.table({"id": np.arange(len(counts.degree)), "train_degree": counts.degree})
        tables[PAIRS] = pa.table({"entity": entity, "relation": relation, "train_count": counts.pair_counts})
    _refuse_stale(graph, folder, tables, PARQUET_FILES)
    for file, table in tables.items():
        write_parquet(table, folder / file)


def _write_text(graph: GraphContent, folder: Path) -> None:
    """Labelled triples, one per line, with dictionaries; a fourth column tells positives (1) from negatives (-1)."""
    entities = Names.build("entity", graph.num_entities, graph.entity_labels)
    relations = Names.build("relation", graph.num_relations, graph.relation_labels)
    problems = [*_unwritable(entities), *_unwritable(relations)]
    if graph.train_counts is not None or not len(graph.splits.get("train", ())):
        problems.append("labelled text needs training triples")
    if problems:
        raise DataError(f"{graph.name}: cannot be written as labelled text", problems, "write it as Parquet")
    files = {
        f"{split}.tsv": _lines(graph, split, entities.names, relations.names)
        for split in SPLITS
        if len(graph.splits.get(split, ())) or len(graph.negative_splits.get(split, ()))
    }
    for kind, names in (("entities", entities), ("relations", relations)):
        files[f"{kind}.dict"] = _joined([pa.array(np.arange(len(names.names))).cast(pa.string()), names.names])
    _refuse_stale(graph, folder, files, GRAPH_FILES)
    if graph.entity_names is not None or graph.relation_names is not None:
        warnings.warn(f"{folder}: names are not written to labelled text, but to Parquet", stacklevel=5)
    for file, lines in files.items():
        with replacing(folder / file) as temporary, temporary.open("wb") as out:
            out.writelines(lines)


def _unwritable(names: Names) -> Iterator[str]:
    """Labels that would not be read again from a line of text."""
    import pyarrow.compute as pc

    breaks = names.names.filter(pc.match_substring_regex(names.names, r"[\t\r\n]|^$"))
    for what, labels in (
        ("is empty, or holds a tab or a line break", breaks),
        ("is that of several ids", names.shared),
    ):
        if len(labels):
            yield f"the label {shown(labels[0].as_py())} of {len(labels):,} {names.kind} labels {what}"


def _lines(graph: GraphContent, split: str, entities: Labels, relations: Labels) -> Iterator[bytes]:
    negatives = graph.negative_splits.get(split, np.empty((0, 3), dtype=np.int64))
    for triples, label in ((graph.splits.get(split, negatives[:0]), "1"), (negatives, "-1")):
        for start in range(0, len(triples), _ROWS):
            head, relation, tail = triples[start : start + _ROWS].T
            columns = [entities.take(head), relations.take(relation), entities.take(tail)]
            yield from _joined([*columns, pa.array([label] * len(head))] if len(negatives) else columns)


def _joined(columns: list[Labels]) -> Iterator[bytes]:
    import pyarrow.compute as pc

    large = [column.cast(pa.large_string()) for column in columns]
    lines = pc.binary_join_element_wise(*large, pa.scalar("\t", pa.large_string())).to_pylist()
    yield "".join(f"{line}\n" for line in lines).encode()


FORMATS: Mapping[str, Callable[[GraphContent, Path], None]] = {"parquet": _write_parquet, "tsv": _write_text}
"""How a graph is written in each format."""
