"""One wrong bit in a file of a graph is noticed, or changes nothing."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from flipping import outcomes
from kgprobe.graph import KnowledgeGraph, load_graph


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    ids = [rng.integers(0, size, 1200) for size in (300, 12, 300)]
    train, valid, test = np.split(np.unique(np.column_stack(ids), axis=0), [800, 900])
    graph = KnowledgeGraph.from_triples(
        train=train,
        valid=valid,
        test=test,
        num_entities=300,
        num_relations=12,
        entity_labels=[f"entity {i * i}" for i in range(300)],
        relation_labels=[f"relation {i}" for i in range(12)],
    )
    graph.write(tmp_path / "g")
    return tmp_path / "g"


@pytest.mark.parametrize(
    ("number", "seed"), [(60, 0), pytest.param(2_000, 1, marks=pytest.mark.campaign)], ids=["300", "10,000"]
)
def test_a_flipped_bit_is_refused_or_changes_nothing(folder: Path, number: int, seed: int) -> None:
    def read() -> object:
        graph = load_graph(folder)
        return graph.content_hash, graph.entity_label(range(300)), graph.relation_label(range(12))

    files = sorted(folder.iterdir())
    counts = sum((outcomes(file, number, seed, read) for file in files), Counter[str]())
    assert len(files) == 5
    assert counts["other"] == 0
    assert counts["refused"] > 0.9 * number * len(files)
