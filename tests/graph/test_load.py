import os
from pathlib import Path

import pytest

from kgprobe.errors import DataError
from kgprobe.graph import load_graph


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
