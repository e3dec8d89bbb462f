from pathlib import Path

import pytest

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph, write_graph
from kgprobe.graph.readers import labelled, openke, parquet
from kgprobe.graph.readers.detect import find_reader, read_directory


@pytest.mark.parametrize(
    ("file", "module"),
    [
        ("test.parquet", parquet),
        ("train2id.txt", openke),
        ("valid2id.txt", openke),
        ("train.txt", labelled),
        ("train.tsv", labelled),
        ("train.txt.gz", labelled),
        ("test.tsv.gz", labelled),
    ],
)
def test_one_file_of_triples_tells_the_format(tmp_path: Path, file: str, module: object) -> None:
    (tmp_path / file).touch()
    reader = find_reader(tmp_path)
    assert reader is not None
    assert reader.read is module.read  # type: ignore[attr-defined]


@pytest.mark.parametrize("file", ["entities.parquet", "entity2id.txt", "entities.dict", "train.csv", "xtrain.txt"])
def test_other_files_do_not(tmp_path: Path, file: str) -> None:
    (tmp_path / file).touch()
    assert find_reader(tmp_path) is None
    with pytest.raises(DataError) as caught:
        read_directory(tmp_path, "x")
    assert caught.value.problems[0] == f"files found: {file}"


def test_parquet_comes_first(tmp_path: Path) -> None:
    write_graph(KnowledgeGraph.from_triples(train=[[0, 0, 1]], entity_labels=["p", "q"]), tmp_path)
    (tmp_path / "train.txt").write_text("a\tr\tb\n")
    assert read_directory(tmp_path, "x").entity_label([0, 1]) == ["p", "q"]


def test_long_listings_are_cut(tmp_path: Path) -> None:
    for i in range(13):
        (tmp_path / f"{i:02}.md").touch()
    with pytest.raises(DataError) as caught:
        read_directory(tmp_path, "x")
    assert caught.value.problems[0].endswith("09.md and 3 more")
