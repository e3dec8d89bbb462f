import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from kgprobe.graph import KnowledgeGraph

Write = Callable[[Iterable[Any]], Path]


@pytest.fixture
def people() -> KnowledgeGraph:
    """Five people and two relations; two of the people have the same name."""
    return KnowledgeGraph.from_triples(
        train=[[0, 0, 1], [0, 0, 2]],
        test=[[0, 0, 3], [1, 1, 0]],
        name="people",
        entity_labels=["Ada", "Bob", "Cy", "Di", "Eve", "Eve"],
        relation_labels=["knows", "likes"],
    )


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A file of lines, each an object or the text itself."""

    def lines(entries: Iterable[Any]) -> Path:
        path = tmp_path / "answers.jsonl"
        texts = (entry if isinstance(entry, str) else json.dumps(entry) for entry in entries)
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        return path

    return lines
