"""OpenKE's files: ids in text, each file led by the number of its lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgprobe.errors import DataError
from kgprobe.graph.graph import SPLITS, KnowledgeGraph
from kgprobe.graph.readers.dictionary import read_dictionary
from kgprobe.graph.readers.text import Columns, Layout, read_text

if TYPE_CHECKING:
    from pathlib import Path

    from kgprobe.graph.sorted_keys import Ints


def _at_last_gap(line: str) -> list[str]:
    """Label and id; only the last gap parts them, since a label may hold spaces."""
    return line.rsplit("\t" if "\t" in line else None, 1)


# The relation comes last in these files, not in the middle.
_TRIPLES = Layout(
    {"head": True, "tail": True, "relation": True}, "head tail relation (ids)", " \t", str.split, counted=True
)
_DICTIONARY = Layout({"label": False, "id": True}, "label<TAB>id", "\t", _at_last_gap, counted=True)


def recognises(directory: Path) -> bool:
    """Whether a directory has OpenKE's files."""
    return any((directory / f"{split}2id.txt").exists() for split in SPLITS)


def read(directory: Path, name: str) -> KnowledgeGraph:
    """Read train2id.txt, valid2id.txt, test2id.txt, entity2id.txt and relation2id.txt."""
    needed = ("train2id.txt", "entity2id.txt", "relation2id.txt")
    problems = [f"no {file}" for file in needed if not (directory / file).exists()]
    entities, relations = (
        read_dictionary(path, _DICTIONARY, problems) if path.exists() else None
        for path in (directory / "entity2id.txt", directory / "relation2id.txt")
    )
    rule = _IdsWithin(
        entities=None if entities is None else len(entities),
        relations=None if relations is None else len(relations),
    )
    splits: dict[str, Ints] = {}
    for split in SPLITS:
        path = directory / f"{split}2id.txt"
        columns = read_text(path, _TRIPLES, rule, problems) if path.exists() else None
        if columns is not None:
            splits[split] = np.column_stack([columns[c].to_numpy() for c in ("head", "relation", "tail")])
    if problems or entities is None or relations is None:
        raise DataError(
            f"{directory}: not a graph in OpenKE's format",
            problems,
            f"each file starts with its number of lines; triples are {_TRIPLES.described}, "
            f"dictionaries {_DICTIONARY.described}",
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
