"""Names that are found beside the triples of a graph directory."""

import warnings
from pathlib import Path

import pytest

import kgprobe as kp
from kgprobe.errors import DataError
from kgprobe.graph.load import graph_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "graphs" / "wiki"
    folder.mkdir(parents=True)
    (folder / "train.txt").write_text("Q1\tP1\tQ2\n")
    return folder


def test_names_beside_the_triples_are_used(folder: Path) -> None:
    (folder / "entities.json").write_text('{"Q1": {"label": "Ada"}, "Q2": {"label": "Bob"}}')
    (folder / "relations.json").write_text('{"P1": {"label": "knows", "description": "..."}}')
    graph = kp.load_graph(folder)
    assert (graph.entity_name([0, 1]), graph.relation_name([0])) == (["Ada", "Bob"], ["knows"])
    assert graph.entity_label([0, 1]) == ["Q1", "Q2"]
    assert {folder / "entities.json", folder / "relations.json"} <= set(graph_files(folder))


def test_kg20c_is_recognised(folder: Path) -> None:
    (folder / "all_entity_info.txt").write_text("id\tname\ttype\nQ1\tAda Lovelace\tauthor\nX\tother\tpaper\n")
    (folder / "all_relation_info.txt").write_text("id\nP1\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kp.load_graph(folder).entity_name([0, 1]) == ["Ada Lovelace", "Q2"]


def test_names_in_a_directory_beside_graphs_are_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = folder.parent.parent / "names" / "wiki"
    names.mkdir(parents=True)
    (names / "names.tsv").write_text("Q1\tAda\n")
    monkeypatch.setenv("KGPROBE_DATA", str(folder.parent.parent))
    assert kp.load_graph("wiki").entity_name([0]) == ["Ada"]
    assert names / "names.tsv" in graph_files("wiki")
    (folder / "names.tsv").write_text("Q1\tAda Lovelace\n")
    assert kp.load_graph("wiki").entity_name([0]) == ["Ada Lovelace"]


@pytest.mark.parametrize("content", ["{", '["Q1"]', '{"Q1": 0, "Q2": 1}', '{"X": "nobody"}'])
def test_a_recognised_file_that_cannot_be_used_gives_a_warning_and_a_graph(folder: Path, content: str) -> None:
    (folder / "entities.json").write_text(content)
    with pytest.warns(UserWarning, match=r"entities\.json: .*; names are left out"):
        graph = kp.load_graph(folder)
    assert graph.entity_names is None
    with pytest.raises(DataError), pytest.warns(UserWarning, match="left out"):
        kp.load_graph(folder, names=folder / "entities.json")


def test_names_are_given_when_a_graph_is_loaded(folder: Path) -> None:
    assert kp.load_graph(folder, names={"Q1": "Ada"}).entity_name([0]) == ["Ada"]
    assert kp.load_graph(folder, names=[{"Q1": "Ada"}, {"P1": "knows"}]).relation_name([0]) == ["knows"]
    assert kp.load_graph("family-tree", names={"0": "Ada"}).entity_name([0]) == ["Ada"]


def test_worlds_of_a_graph_keep_its_names(data: Path) -> None:
    graph = kp.load_graph(data / "graphs" / "codex-s")
    world = kp.split_world(graph, seed=0)
    for own in (world.graph, world.complete, world.learned):
        assert own.relation_name([0]) == ["country"]
