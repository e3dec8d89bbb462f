"""Dictionaries of labels: text files that give each entity or relation its id."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kgprobe.errors import spans
from kgprobe.graph.labels import as_labels
from kgprobe.graph.readers.text import Columns, Layout, read_text

if TYPE_CHECKING:
    from pathlib import Path

    from kgprobe.graph.labels import Labels


def read_dictionary(path: Path, layout: Layout, problems: list[str]) -> Labels | None:
    """The labels of a dictionary in id order; or None, with everything that is wrong added to ``problems``.

    Args:
        path: The file.
        layout: Layout of its lines, with columns "id" and "label".
        problems: Takes what is wrong.
    """
    columns = read_text(path, layout, _Distinct(list(layout.columns)), problems)
    if columns is None:
        return None
    ids = columns["id"].to_numpy()
    order = np.argsort(ids)
    if len(ids) and ids[order[-1]] != len(ids) - 1:
        missing = np.setdiff1d(np.arange(len(ids)), ids)
        listed = spans(missing.tolist(), most=10)
        problems.append(f"{path.name}: ids must run from 0 to {len(ids) - 1} without gaps; missing: {listed}")
        return None
    return as_labels(columns["label"].dictionary_decode().take(order))


@dataclass
class _Distinct:
    """No id and no label is given twice."""

    names: list[str]
    seen: dict[tuple[str, str], int] = field(default_factory=dict)

    def holds(self, columns: Columns) -> bool:
        ids = columns["id"].to_numpy()
        return len(np.unique(ids)) == len(ids) == len(columns["label"].dictionary)

    def judge(self, number: int, fields: list[str]) -> str | None:
        for entry in zip(self.names, fields, strict=True):
            first = self.seen.setdefault(entry, number)
            if first != number:
                return f"{entry[0]} {entry[1][:40]!r} is already on line {first}"
        return None
