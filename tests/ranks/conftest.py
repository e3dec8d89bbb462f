from collections.abc import Callable
from typing import Any

import pytest

from kgprobe.graph import KnowledgeGraph
from kgprobe.ranks import Ranks

Make = Callable[..., Ranks]


@pytest.fixture(scope="session")
def make() -> Make:
    """A valid table of four queries, some columns replaced."""

    def build(**changes: Any) -> Ranks:
        columns: dict[str, Any] = {
            "head": [0, 0, 1, 1],
            "relation": [0, 0, 1, 1],
            "tail": [1, 1, 2, 2],
            "side": ["head", "tail", "head", "tail"],
            "rank": [1, 2.5, 3, 4],
            "candidates": [9, 8, 7, 6],
        }
        return Ranks.from_columns(**(columns | changes))

    return build


@pytest.fixture(scope="session")
def graph() -> KnowledgeGraph:
    """Four people, two relations; (0, 0, ?) has three known answers."""
    return KnowledgeGraph.from_triples(
        train=[[0, 0, 1], [0, 0, 2], [1, 1, 2], [3, 1, 2]],
        test=[[0, 0, 3]],
        name="people",
        entity_labels=["Ada", "Bob", "Cy", "Di"],
        relation_labels=["knows", "likes"],
    )
