"""Graph directories in text: labelled triples (TSV), and OpenKE's files of ids."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from kgprobe.errors import DataError
from kgprobe.graph.knowledge_graph import SPLITS, KnowledgeGraph
from kgprobe.graph.text_files import Columns, Layout, read_dictionary, read_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

    from kgprobe.arrays import AnyInts
    from kgprobe.graph.knowledge_graph import Labels


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
    """Read train, valid and test (.txt or .tsv, perhaps .gz), with entities.dict and relations.dict if there.

    Without a dictionary the ids follow the sorted labels of all splits.
    """
    problems: list[str] = []
    labels = {
        kind: read_dictionary(path, _DICTIONARY, problems)
        for kind in ("entities", "relations")
        if (path := directory / f"{kind}.dict").exists()
    }
    files = split_files(directory)
    if not files["train"]:
        problems.append(f"no {' or '.join('train' + ending for ending in ENDINGS)}")
    splits: dict[str, Columns] = {}
    rule = _KnownLabels(labels.get("entities"), labels.get("relations"))
    for split, paths in files.items():
        if len(paths) > 1:
            problems.append(f"several files for one split: {', '.join(path.name for path in paths)}")
        for path in paths[:1]:
            columns = read_text(path, _TRIPLES, rule, problems)
            if columns is not None:
                splits[split] = columns
    if problems:
        raise DataError(
            f"{directory}: not a graph of labelled triples",
            problems,
            f"each line must be {_TRIPLES.described}; entities.dict and relations.dict (lines of "
            f"{_DICTIONARY.described}), where they are there, must name all labels",
        )
    entities, relations = (labels.get(kind) for kind in ("entities", "relations"))
    entities = _sorted_labels(splits, "head", "tail") if entities is None else entities
    relations = _sorted_labels(splits, "relation") if relations is None else relations
    return KnowledgeGraph(
        name=name,
        num_entities=len(entities),
        num_relations=len(relations),
        splits={split: _ids(columns, entities, relations) for split, columns in splits.items()},
        entity_labels=entities,
        relation_labels=relations,
    )


def _sorted_labels(splits: Mapping[str, Columns], *columns: str) -> Labels:
    import pyarrow as pa
    import pyarrow.compute as pc

    used = pa.chunked_array([table[column].dictionary for table in splits.values() for column in columns]).unique()
    return used.take(pc.array_sort_indices(used))


def _ids(columns: Columns, entities: Labels, relations: Labels) -> AnyInts:
    triples = np.empty((len(columns["head"]), 3), dtype=np.int32)
    for i, (name, labels) in enumerate((("head", entities), ("relation", relations), ("tail", entities))):
        triples[:, i] = _positions(columns[name].dictionary, labels)[columns[name].indices.to_numpy()]
    return triples


def _positions(values: pa.Array, labels: Labels) -> AnyInts:
    """The id of each value, -1 where it has none."""
    import pyarrow.compute as pc

    positions: AnyInts = pc.index_in(values, value_set=labels).fill_null(-1).to_numpy()
    return positions


@dataclass
class _KnownLabels:
    """Every label is in its dictionary, where there is one."""

    entities: Labels | None
    relations: Labels | None

    def holds(self, columns: Columns) -> bool:
        return all(
            _positions(columns[name].dictionary, labels).min(initial=0) >= 0
            for name, labels in (
                ("head", self.entities),
                ("relation", self.relations),
                ("tail", self.entities),
            )
            if labels is not None
        )

    def judge(self, _number: int, fields: list[str]) -> str | None:
        named = zip(fields, self._known, ("entities.dict", "relations.dict", "entities.dict"), strict=True)
        unknown = [
            f"{text[:40]!r} is not in {file}" for text, known, file in named if known is not None and text not in known
        ]
        return ", ".join(unknown) or None

    @cached_property
    def _known(self) -> list[frozenset[str] | None]:
        entities, relations = (None if x is None else frozenset(x.to_pylist()) for x in (self.entities, self.relations))
        return [entities, relations, entities]


def _at_last_gap(line: str) -> list[str]:
    """Label and id; only the last gap parts them, since a label may hold spaces."""
    return line.rsplit("\t" if "\t" in line else None, 1)


# The relation comes last in these files, not in the middle.
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
    rule = _IdsWithin(
        entities=None if entities is None else len(entities),
        relations=None if relations is None else len(relations),
    )
    splits: dict[str, AnyInts] = {}
    for split in SPLITS:
        path = directory / f"{split}2id.txt"
        columns = read_text(path, _OPENKE_TRIPLES, rule, problems) if path.exists() else None
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


@dataclass
class _IdsWithin:
    """Every id is in its dictionary, where that could be read."""

    entities: int | None
    relations: int | None

    def holds(self, columns: Columns) -> bool:
        limits = zip(columns.values(), self._limits(), strict=True)
        return all(limit is None or column.to_numpy().max(initial=-1) < limit for column, (_, limit) in limits)

    def judge(self, _number: int, fields: list[str]) -> str | None:
        outside = [
            f"{what} {text} is outside 0..{limit - 1}"
            for text, (what, limit) in zip(fields, self._limits(), strict=True)
            if limit is not None and int(text) >= limit
        ]
        return ", ".join(outside) or None

    def _limits(self) -> list[tuple[str, int | None]]:
        return [("head", self.entities), ("tail", self.entities), ("relation", self.relations)]
