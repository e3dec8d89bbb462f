"""The files of a graph directory: their names, and how a graph is written to them: Parquet, arrays or labelled text."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
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
from kgprobe.json_files import write_json
from kgprobe.npy_files import write_npy
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

SIZES, CONTENT_HASH = "graph.json", "content_hash"
"""The file with the sizes of a graph in .npy files, and its entry with the hash of the triples."""

ARRAY_FILES = (
    *(f"{split}{end}.npy" for split in SPLITS for end in ("", NEGATIVES)),
    *(SIZES, "entities.parquet", "relations.parquet"),
)

GRAPH_FILES = (
    *dict.fromkeys((*PARQUET_FILES, *ARRAY_FILES)),
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
    @property
    def content_hash(self) -> str: ...


def write_directory(graph: GraphContent, folder: Path, form: str) -> None:
    """Write a graph in a format of `FORMATS`; see `KnowledgeGraph.write`."""
    if form not in FORMATS:
        raise UsageError(f"no format of graphs is called {form!r}{nearest(form, FORMATS)}")
    FORMATS[form](graph, folder)


def _refuse_stale(graph: GraphContent, folder: Path, files: Collection[str], read: tuple[str, ...]) -> None:
    stale = [file for file in read if file not in files and (folder / file).exists()]
    if stale:
        raise DataError(
            f"{folder}: {graph.name} cannot be written here",
            [f"{file} exists and would be read as a part of it" for file in stale],
            "choose an empty directory",
        )


def _triples(graph: GraphContent) -> dict[str, AnyInts]:
    """The triples and negatives of all splits, by the name of their file without its ending."""
    named = {split: graph.splits.get(split) for split in SPLITS}
    named |= {split + NEGATIVES: graph.negative_splits.get(split) for split in SPLITS}
    return {stem: triples for stem, triples in named.items() if triples is not None}


def _names(graph: GraphContent) -> dict[str, tuple[int, dict[str, Labels]]]:
    """The numbers of entities and relations, with their labels and names, by the names of their files."""
    columns = {
        "entities.parquet": (graph.num_entities, {"label": graph.entity_labels, "name": graph.entity_names}),
        "relations.parquet": (graph.num_relations, {"label": graph.relation_labels, "name": graph.relation_names}),
    }
    return {
        file: (size, {name: texts for name, texts in own.items() if texts is not None})
        for file, (size, own) in columns.items()
    }


def _name_table(size: int, texts: Mapping[str, Labels]) -> pa.Table:
    return pa.table({"id": np.arange(size, dtype=np.int64), **texts})


def _write_parquet(graph: GraphContent, folder: Path) -> None:
    # The tables are made when they are written, one after the other: each may take much memory.
    tables: dict[str, Callable[[], pa.Table]] = {
        f"{stem}.parquet": partial(_triple_table, triples) for stem, triples in _triples(graph).items()
    }
    tables |= {file: partial(_name_table, *own) for file, own in _names(graph).items()}
    counts = graph.train_counts
    if counts is not None:
        entity, relation = np.divmod(counts.pair_keys, max(counts.num_relations, 1))
        degrees = {"id": np.arange(len(counts.degree)), "train_degree": counts.degree}
        tables[DEGREES] = partial(pa.table, degrees)
        tables[PAIRS] = partial(pa.table, {"entity": entity, "relation": relation, "train_count": counts.pair_counts})
    _refuse_stale(graph, folder, tables, PARQUET_FILES)
    for file, table in tables.items():
        write_parquet(table(), folder / file)


def _triple_table(triples: AnyInts) -> pa.Table:
    return pa.table(dict(zip(TRIPLE, triples.T.copy(), strict=True)))


def _write_arrays(graph: GraphContent, folder: Path) -> None:
    """Triples as .npy files, sizes and content hash in graph.json, labels and names, if there are any, in Parquet."""
    if graph.train_counts is not None:
        problem = "it has counts of its training triples, not the triples"
        raise DataError(f"{graph.name}: cannot be written as NumPy arrays", [problem], "write it as Parquet")
    arrays = {f"{stem}.npy": triples for stem, triples in _triples(graph).items()}
    names = {file: own for file, own in _names(graph).items() if own[1]}
    _refuse_stale(graph, folder, {*arrays, *names, SIZES}, tuple(dict.fromkeys((*PARQUET_FILES, *ARRAY_FILES))))
    for file, triples in arrays.items():
        write_npy(folder / file, triples)
    for file, own in names.items():
        write_parquet(_name_table(*own), folder / file)
    sizes = {"num_entities": graph.num_entities, "num_relations": graph.num_relations}
    write_json(folder / SIZES, sizes | {CONTENT_HASH: graph.content_hash})


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


FORMATS: Mapping[str, Callable[[GraphContent, Path], None]] = {
    "parquet": _write_parquet,
    "tsv": _write_text,
    "npy": _write_arrays,
}
"""How a graph is written in each format."""
