from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.graph.graph_directory import FORMATS
from kgprobe.graph.names import as_labels

SPLITS = {"train": [[0, 0, 1], [2, 1, 2]], "valid": [[1, 0, 0]], "test": [[2, 0, 1]]}
NEGATIVES = {"valid": [[0, 1, 1]], "test": [[1, 1, 1], [2, 1, 0]]}
LABELS = ["Zoë", "h", 'a "b" c']


def _graph(**changes: Any) -> KnowledgeGraph:
    content: dict[str, Any] = {
        "name": "g",
        "num_entities": 3,
        "num_relations": 2,
        "splits": SPLITS,
        "entity_labels": as_labels(LABELS),
        "relation_labels": as_labels(["r", "x y"]),
        "negative_splits": NEGATIVES,
    }
    return KnowledgeGraph(**content | changes)


def _texts(labels: Any) -> list[Any] | None:
    return None if labels is None else labels.to_pylist()


def _content(graph: KnowledgeGraph) -> dict[str, Any]:
    return {
        "hash": graph.content_hash,
        "negatives": {split: graph.negatives(split).tolist() for split in ("train", "valid", "test")},
        "labels": [_texts(graph.entity_labels), _texts(graph.relation_labels)],
        "names": [_texts(graph.entity_names), _texts(graph.relation_names)],
    }


@pytest.mark.parametrize("format", FORMATS)
def test_a_graph_is_read_as_it_was_written(tmp_path: Path, format: str) -> None:  # noqa: A002
    graph = _graph()
    graph.write(tmp_path / "deep" / "g", format=format)
    assert _content(load_graph(tmp_path / "deep" / "g")) == _content(graph)
    graph.write(tmp_path / "deep" / "g", format=format)  # the same files, written again


def test_names_are_a_column_of_parquet(tmp_path: Path) -> None:
    graph = _graph(entity_names=as_labels(["Zoë", None, "Zoë"]))
    graph.write(tmp_path)
    assert pq.read_table(tmp_path / "entities.parquet").column("name").to_pylist() == ["Zoë", None, "Zoë"]
    assert pq.read_table(tmp_path / "relations.parquet").column_names == ["id", "label"]
    assert _content(load_graph(tmp_path)) == _content(graph)


def test_text_says_that_it_has_no_names(tmp_path: Path) -> None:
    graph = _graph(entity_names=as_labels(["Zoë", None, "Zoë"]))
    with pytest.warns(UserWarning, match="names are not written"):
        graph.write(tmp_path, format="tsv")
    assert load_graph(tmp_path).entity_names is None


def test_text_of_a_graph_without_labels(tmp_path: Path) -> None:
    graph = KnowledgeGraph.from_triples(train=[[0, 0, 11]], test=[], num_entities=12)
    graph.write(tmp_path, format="tsv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["entities.dict", "relations.dict", "train.tsv"]
    assert load_graph(tmp_path).content_hash == graph.content_hash


def test_negatives_are_not_in_the_hash_nor_among_the_triples() -> None:
    with_them, without = _graph(), _graph(negative_splits={})
    assert with_them.content_hash == without.content_hash
    assert with_them.learned_hash == without.learned_hash
    assert with_them.triples("test").tolist() == SPLITS["test"]
    assert with_them.negatives("test").dtype == np.int32
    assert not with_them.negatives("test").flags.writeable
    assert without.negatives("valid").shape == (0, 3)
    with pytest.raises(UsageError, match="unknown split"):
        without.negatives("dev")
    with pytest.raises(DataError, match="negatives of test"):
        _graph(negative_splits={"test": [[0, 0, 9]]})


def test_the_negatives_of_codex(data: Path, tmp_path: Path) -> None:
    graph = replace(load_graph(data / "graphs" / "codex-s"), relation_names=None)  # TSV files hold no names
    for split in ("valid", "test"):
        table = pq.read_table(data / "graphs" / "codex-s" / f"{split}_negatives.parquet")
        assert graph.negatives(split).tolist() == [list(row.values()) for row in table.to_pylist()]
        true = set(map(tuple, graph.triples().tolist()))
        assert true.isdisjoint(map(tuple, graph.negatives(split).tolist()))
    for format in FORMATS:  # noqa: A001
        graph.write(tmp_path / format, format=format)
        assert _content(load_graph(tmp_path / format)) == _content(graph)


@pytest.mark.parametrize(
    ("format", "file", "refused"),
    [
        ("parquet", "valid.parquet", True),
        ("parquet", "test_negatives.parquet", True),
        ("parquet", "train.txt", False),
        ("parquet", "train.npy", False),
        ("npy", "valid.npy", True),
        ("npy", "valid.parquet", True),
        ("npy", "train.txt", False),
        ("tsv", "train.npy", True),
        ("tsv", "graph.json", True),
        ("tsv", "train.parquet", True),
        ("tsv", "train.txt", True),
        ("tsv", "dev.csv.gz", True),
        ("tsv", "notes.md", False),
    ],
)
def test_files_that_would_be_read_too_are_refused(tmp_path: Path, format: str, file: str, refused: bool) -> None:  # noqa: A002
    graph = KnowledgeGraph.from_labels(train=[("a", "r", "b")])
    (tmp_path / file).touch()
    if refused:
        with pytest.raises(DataError, match=f"{file} exists"):
            graph.write(tmp_path, format=format)
        assert len(list(tmp_path.iterdir())) == 1
    else:
        graph.write(tmp_path, format=format)
        assert load_graph(tmp_path).content_hash == graph.content_hash


def test_what_cannot_be_text(tmp_path: Path) -> None:
    graph = KnowledgeGraph.from_triples(
        test=[[0, 0, 1]], entity_labels=["a\tb", "c\n", "", "d"], relation_labels=["r", "r"]
    )
    with pytest.raises(DataError) as caught:
        graph.write(tmp_path / "g", format="tsv")
    assert caught.value.problems == [
        "the label 'a\\tb' of 3 entity labels is empty, or holds a tab or a line break",
        "the label 'r' of 1 relation labels is that of several ids",
        "labelled text needs training triples",
    ]
    assert not (tmp_path / "g").exists()
    with pytest.raises(UsageError, match="parquet"):
        graph.write(tmp_path, format="parket")
