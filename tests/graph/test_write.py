from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph, load_graph, write_graph


@pytest.mark.parametrize("labels", [None, ["NA", "", None]], ids=["ids only", "labels"])
def test_what_is_written_is_read_again(tmp_path: Path, labels: list[str | None] | None) -> None:
    graph = KnowledgeGraph.from_triples(
        train=[[0, 0, 1], [2, 1, 2]],
        valid=[],
        test=[[1, 1, 0]],
        num_entities=3,
        entity_labels=labels,
        name="g",
    )
    write_graph(graph, tmp_path / "deep" / "g")
    again = load_graph(tmp_path / "deep" / "g")
    assert (again.name, again.content_hash) == ("g", graph.content_hash)
    assert list(again.splits) == ["train", "valid", "test"]
    assert again.entity_label([0, 1, 2]) == graph.entity_label([0, 1, 2])
    assert (again.entity_labels is None) == (labels is None)


def test_files_have_the_published_layout(tmp_path: Path) -> None:
    write_graph(KnowledgeGraph.from_triples(train=[[0, 1, 2]], relation_labels=["r", "s"]), tmp_path)
    assert pq.read_table(tmp_path / "train.parquet").to_pylist() == [{"head": 0, "relation": 1, "tail": 2}]
    assert pq.read_table(tmp_path / "relations.parquet").to_pylist() == [
        {"id": 0, "label": "r"},
        {"id": 1, "label": "s"},
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "entities.parquet",
        "relations.parquet",
        "train.parquet",
    ]


def test_left_over_splits_are_not_mixed_in(tmp_path: Path) -> None:
    write_graph(KnowledgeGraph.from_triples(train=[[0, 0, 1]], valid=[[0, 0, 1]]), tmp_path)
    smaller = KnowledgeGraph.from_triples(train=[[1, 0, 1]])
    with pytest.raises(DataError) as caught:
        write_graph(smaller, tmp_path)
    assert "valid.parquet" in caught.value.problems[0]
    assert load_graph(tmp_path).triples("train").tolist() == [[0, 0, 1]]


def test_counts_are_written_too(tmp_path: Path, data: Path) -> None:
    graph = load_graph(data / "graphs" / "yago3-10")
    write_graph(graph, tmp_path / "yago")
    again = load_graph(tmp_path / "yago")
    assert again.content_hash == graph.content_hash
    head, relation, _ = graph.triples("test").T
    np.testing.assert_array_equal(again.popularity.relation(relation, head), graph.popularity.relation(relation, head))
