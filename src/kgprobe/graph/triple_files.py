"""Graph directories of text files: labelled triples (TSV), and OpenKE's files of ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from kgprobe.arrays import AnyInts
from kgprobe.errors import DataError
from kgprobe.graph.knowledge_graph import SPLITS, KnowledgeGraph
from kgprobe.graph.names import Labels, Names
from kgprobe.graph.text_files import Columns, KnownNames, Layout, read_dictionary, read_text

ENDINGS = (".txt", ".tsv", ".txt.gz", ".tsv.gz")


def _at_tabs(line: str) -> list[str]:
    return line.split("\t")


_TRIPLES = Layout({"head": False, "relation": False, "tail": False}, "head<TAB>relation<TAB>tail", "\t", _at_tabs)
_DICTIONARY = Layout({"id": True, "label": False}, "id<TAB>label", "\t", _at_tabs)


def split_files(directory: Path) -> dict[str, list[Path]]:
    """The files that may hold each split."""
    named = {split: [directory / (split + ending) for ending in ENDINGS] for split in SPLITS}
    return {split: [path for path in paths if path.exists()] for split, paths in named.items()}


def is_labelled(directory: Path) -> bool:
    """Whether a directory has labelled triples."""
    return any(split_files(directory).values())


def read_labelled(directory: Path, name: str) -> KnowledgeGraph:
    """Read train, valid and test (.txt or .tsv, optionally .gz), and entities.dict and relations.dict if they exist.

    Without a dictionary, ids follow the sorted labels of all splits.
    """
    problems: list[str] = []
    labels = {
        kind: read_dictionary(path, _DICTIONARY, problems) if path.exists() else None
        for kind in ("entities", "relations")
        for path in (directory / f"{kind}.dict",)
    }
    known = {
        column: Names(f"label of {kind}.dict", values)
        for column, kind in (("head", "entities"), ("relation", "relations"), ("tail", "entities"))
        if (values := labels[kind]) is not None
    }
    files = split_files(directory)
    if not files["train"]:
        problems.append(f"no {' or '.join('train' + ending for ending in ENDINGS)}")
    splits: dict[str, Columns] = {}
    for split, paths in files.items():
        if len(paths) > 1:
            problems.append(f"several files for one split: {', '.join(path.name for path in paths)}")
        for path in paths[:1]:
            columns = read_text(path, _TRIPLES, KnownNames(known, tuple(_TRIPLES.columns)), problems)
            if columns is not None:
                splits[split] = columns
    if problems:
        raise DataError(
            f"{directory}: not a graph of labelled triples",
            problems,
            f"each line must be {_TRIPLES.described}; entities.dict and relations.dict (lines of "
            f"{_DICTIONARY.described}), if they exist, must list all labels",
        )
    entities, relations = labels["entities"], labels["relations"]
    entities = _sorted_labels(splits, "head", "tail") if entities is None else entities
    relations = _sorted_labels(splits, "relation") if relations is None else relations
    names = {"head": Names("entity", entities), "relation": Names("relation", relations)}
    names["tail"] = names["head"]
    return KnowledgeGraph(
        name=name,
        num_entities=len(entities),
        num_relations=len(relations),
        splits={split: _ids(columns, names) for split, columns in splits.items()},
        entity_labels=entities,
        relation_labels=relations,
    )


def _sorted_labels(splits: Mapping[str, Columns], *columns: str) -> Labels:
    used = pa.chunked_array([table[column].dictionary for table in splits.values() for column in columns]).unique()
    return used.sort()


def _ids(columns: Columns, names: Mapping[str, Names]) -> AnyInts:
    triples = np.empty((len(columns["head"]), 3), dtype=np.int32)
    for i, name in enumerate(("head", "relation", "tail")):
        triples[:, i] = names[name].ids(columns[name].dictionary)[columns[name].indices.to_numpy()]
    return triples


def _at_last_gap(line: str) -> list[str]:
    """Label and id; only the last gap separates them, since a label may contain spaces."""
    return line.rsplit("\t" if "\t" in line else None, 1)


# The relation is the last column of these files, not the middle one.
_OPENKE_TRIPLES = Layout(
    {"head": True, "tail": True, "relation": True}, "head tail relation (ids)", " \t", str.split, counted=True
)

_OPENKE_DICTIONARY = Layout({"label": False, "id": True}, "label<TAB>id", "\t", _at_last_gap, counted=True)


def is_openke(directory: Path) -> bool:
    """Whether a directory has OpenKE's files."""
    return any((directory / f"{split}2id.txt").exists() for split in SPLITS)


def read_openke(directory: Path, name: str) -> KnowledgeGraph:
    """Read train2id.txt, valid2id.txt, test2id.txt, entity2id.txt and relation2id.txt."""
    needed = ("train2id.txt", "entity2id.txt", "relation2id.txt")
    problems = [f"no {file}" for file in needed if not (directory / file).exists()]
    entities, relations = (
        read_dictionary(path, _OPENKE_DICTIONARY, problems) if path.exists() else None
        for path in (directory / "entity2id.txt", directory / "relation2id.txt")
    )
    known = {"head": entities, "tail": entities, "relation": relations}
    limits = {column: len(labels) for column, labels in known.items() if labels is not None}
    splits: dict[str, AnyInts] = {}
    for split in SPLITS:
        path = directory / f"{split}2id.txt"
        columns = read_text(path, replace(_OPENKE_TRIPLES, limits=limits), None, problems) if path.exists() else None
        if columns is not None:
            splits[split] = np.column_stack([columns[c].to_numpy() for c in ("head", "relation", "tail")])
    if problems or entities is None or relations is None:
        raise DataError(
            f"{directory}: not a graph in OpenKE's format",
            problems,
            f"each file starts with its number of lines; triples are {_OPENKE_TRIPLES.described}, "
            f"dictionaries {_OPENKE_DICTIONARY.described}",
        )
    return KnowledgeGraph(
        name=name,
        num_entities=len(entities),
        num_relations=len(relations),
        splits=splits,
        entity_labels=entities,
        relation_labels=relations,
    )
