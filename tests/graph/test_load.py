import os
from pathlib import Path

import pytest

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.graph.load import find_reader, graph_files, read_directory
from kgprobe.graph.parquet_graph import read_parquet_graph
from kgprobe.graph.triple_files import read_labelled, read_openke


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory with one graph directly and one under graphs/, apart from where we are."""
    for name in ("direct", "graphs/wordnet", "graphs/empty"):
        (tmp_path / "shelf" / name).mkdir(parents=True)
    for name in ("direct", "graphs/wordnet"):
        (tmp_path / "shelf" / name / "train.txt").write_text("a\tr\tb\n")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("KGPROBE_DATA", os.pathsep.join(["", str(tmp_path / "nowhere"), str(tmp_path / "shelf")]))
    return tmp_path / "shelf"


@pytest.mark.parametrize("name", ["direct", "wordnet"])
def test_a_name_is_found_through_the_path_list(shelf: Path, name: str) -> None:
    assert load_graph(name).name == name


def test_a_directory_comes_before_a_name(shelf: Path) -> None:
    Path("direct").mkdir()
    Path("direct/train.txt").write_text("a\tr\tb\nb\tr\tc\n")
    assert len(load_graph("direct").triples()) == 2
    assert len(load_graph(shelf / "direct").triples()) == 1


def test_the_name_is_that_of_the_directory(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shelf / "direct")
    assert load_graph(".").name == "direct"
    assert load_graph(f"{shelf}/graphs/wordnet/").name == "wordnet"


def test_an_unknown_name_gets_places_neighbours_and_a_remedy(shelf: Path) -> None:
    with pytest.raises(DataError) as caught:
        load_graph("wordnett")
    text = str(caught.value)
    for part in (
        f"{shelf}/wordnett",
        f"{shelf}/graphs/wordnett",
        "nearest known graphs: wordnet",
        "KGPROBE_DATA",
    ):
        assert part in text
    with pytest.raises(DataError) as caught:
        load_graph("zzz")
    assert "known graphs: direct, family-tree, wordnet" in str(caught.value)


def test_without_data_directories_that_is_said(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KGPROBE_DATA")
    with pytest.raises(DataError) as caught:
        load_graph("wordnet")
    assert "KGPROBE_DATA is not set" in str(caught.value)


def test_a_file_is_not_a_directory(shelf: Path) -> None:
    with pytest.raises(DataError) as caught:
        load_graph(shelf / "direct" / "train.txt")
    assert "train.txt is a file" in str(caught.value)


def test_a_name_that_no_directory_can_have() -> None:
    with pytest.raises(DataError, match="cannot be read"):
        load_graph("x" * 5000)
    with pytest.raises(DataError, match="no such graph"):
        load_graph("~nobody-of-that-name")


def test_a_directory_without_a_graph(shelf: Path) -> None:
    (shelf / "graphs" / "notes.md").write_text("none")
    with pytest.raises(DataError) as caught:
        load_graph(shelf / "graphs")
    text = str(caught.value)
    for part in (
        "files found: notes.md",
        "graphs one directory below: wordnet",
        "train.tsv",
        "OpenKE",
        ".parquet",
    ):
        assert part in text


def test_the_built_in_graph_needs_no_file(shelf: Path) -> None:
    pytest.importorskip("kgprobe.graph.family_tree")
    assert load_graph("family-tree").num_relations == 23


@pytest.mark.parametrize(
    ("file", "reader"),
    [
        ("test.parquet", read_parquet_graph),
        ("train2id.txt", read_openke),
        ("valid2id.txt", read_openke),
        ("train.txt", read_labelled),
        ("train.tsv", read_labelled),
        ("train.txt.gz", read_labelled),
        ("test.tsv.gz", read_labelled),
        ("train.csv", read_labelled),
        ("dev.txt", read_labelled),
        ("validation.csv.gz", read_labelled),
    ],
)
def test_one_file_of_triples_tells_the_format(tmp_path: Path, file: str, reader: object) -> None:
    (tmp_path / file).touch()
    found = find_reader(tmp_path)
    assert found is not None
    assert found.read is reader


@pytest.mark.parametrize("file", ["entities.parquet", "entity2id.txt", "entities.dict", "train.md", "xtrain.txt"])
def test_other_files_do_not(tmp_path: Path, file: str) -> None:
    (tmp_path / file).touch()
    assert find_reader(tmp_path) is None
    with pytest.raises(DataError) as caught:
        read_directory(tmp_path, "x")
    assert caught.value.problems[0] == f"files found: {file}"


def test_parquet_comes_first(tmp_path: Path) -> None:
    KnowledgeGraph.from_triples(train=[[0, 0, 1]], entity_labels=["p", "q"]).write(tmp_path)
    (tmp_path / "train.txt").write_text("a\tr\tb\n")
    assert read_directory(tmp_path, "x").entity_label([0, 1]) == ["p", "q"]


def test_long_listings_are_cut(tmp_path: Path) -> None:
    for i in range(13):
        (tmp_path / f"{i:02}.md").touch()
    with pytest.raises(DataError) as caught:
        read_directory(tmp_path, "x")
    assert caught.value.problems[0].endswith("09.md and 3 more")


FORMATS = {
    "Parquet": ["train.parquet", "valid.parquet", "test.parquet", "entities.parquet", "relations.parquet"],
    "Parquet with counts": ["test.parquet", "entity_train_degree.parquet", "test_entity_relation_train_count.parquet"],
    "arrays": ["train.npy", "test_negatives.npy", "graph.json", "entities.parquet", "relations.parquet"],
    "labels": ["train.txt", "valid.tsv", "test.txt.gz", "valid.tsv.gz", "entities.dict", "relations.dict"],
    "other labels": ["train.csv", "dev.txt", "test_negatives.txt", "entity2id.txt", "relations.txt"],
    "OpenKE": ["train2id.txt", "valid2id.txt", "test2id.txt", "entity2id.txt", "relation2id.txt"],
}


@pytest.mark.parametrize("names", FORMATS.values(), ids=FORMATS)
def test_the_files_of_a_graph_are_known_before_they_exist(tmp_path: Path, names: list[str]) -> None:
    files = [tmp_path / name for name in names]
    assert set(files) <= set(graph_files(tmp_path))
    assert tmp_path / "ranks.parquet" not in graph_files(tmp_path)
    assert graph_files(tmp_path / "absent") == []


def test_shared_names_of_entities_belong_to_the_graph(tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    (tmp_path / "entities.parquet").write_bytes(b"")
    assert tmp_path / "entities.parquet" in graph_files(tmp_path / "half")
