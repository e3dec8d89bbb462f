from pathlib import Path

import numpy as np
import pytest

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.candidate_sets import QueryCandidates, RelationCandidates
from kgprobe.predict.setting import Setting

TRAIN, VALID, TEST = [[0, 0, 1], [1, 1, 2]], [[2, 0, 0]], [[3, 1, 0], [0, 0, 2], [3, 1, 0]]


@pytest.fixture
def graph() -> KnowledgeGraph:
    return KnowledgeGraph.from_triples(train=TRAIN, valid=VALID, test=TEST, name="tiny")


def test_rows_are_the_facts_for_one_side_then_for_the_other(graph: KnowledgeGraph) -> None:
    columns = Setting.build(graph).columns()
    assert {name: values.tolist() for name, values in columns.items()} == {
        "head": [3, 0, 3, 0],
        "relation": [1, 0, 1, 0],
        "tail": [0, 2, 0, 2],
        "side": ["tail", "tail", "head", "head"],
    }


@pytest.mark.parametrize(("sides", "queries"), [("both", 4), ("head", 2), ("tail", 2)])
def test_sides(graph: KnowledgeGraph, sides: str, queries: int) -> None:
    setting = Setting.build(graph, sides=sides)
    assert setting.queries == queries
    columns = setting.columns()
    assert [len(values) for values in columns.values()] == [queries] * 4
    assert set(columns["side"]) == ({"head", "tail"} if sides == "both" else {sides})


@pytest.mark.parametrize(
    ("split", "filtered"), [("train", ("train",)), ("valid", ("train", "valid")), ("test", ("train", "valid", "test"))]
)
def test_what_a_file_says_about_itself(graph: KnowledgeGraph, split: str, filtered: tuple[str, ...]) -> None:
    setting = Setting.build(graph, split=split)
    info = setting.info("mine", {"dimension": 8})
    assert (info.model, info.graph, info.graph_hash, info.split) == ("mine", "tiny", graph.content_hash, split)
    assert (info.filtered, info.filter_hash) == (filtered, setting.known.hash)
    assert info.filter_hash is not None
    repeated = {"repeated": 1} if split == "test" else {}
    assert info.settings == {"dimension": 8, "sides": ["tail", "head"]} | repeated


def test_nothing_is_filtered(graph: KnowledgeGraph) -> None:
    info = Setting.build(graph, filter="none").info("mine", {})
    assert (info.filtered, info.filter_hash) == ((), None)


def test_other_facts_have_no_split(graph: KnowledgeGraph, tmp_path: Path) -> None:
    path = tmp_path / "facts2id.txt"
    path.write_text("1\n1 3 0\n", encoding="utf-8")
    for triples in ([[1, 0, 3]], np.array([[1, 0, 3]]), path, str(path)):
        setting = Setting.build(graph, triples=triples, sides="head")
        assert setting.split is None
        assert setting.info("mine", {}).split is None
        assert setting.columns()["tail"].tolist() == [3]
        assert setting.known.names == ("train", "valid", "test")


def test_candidates_are_described(graph: KnowledgeGraph, tmp_path: Path) -> None:
    assert Setting.build(graph).sets is None
    setting = Setting.build(graph, candidates="train")
    assert isinstance(setting.sets, RelationCandidates)
    assert setting.info("mine", {}).settings["candidates"] == "train"
    path = tmp_path / "types.tsv"
    path.write_text("0\ttail\t3\n0\thead\t3\n", encoding="utf-8")
    for given in (path, str(path)):
        settings = Setting.build(graph, candidates=given).info("mine", {}).settings
        assert settings["candidates"] == "types.tsv"
        assert len(settings["candidates_hash"]) == 64
    drawn = QueryCandidates("drawn", {"tail": np.zeros((3, 1), int), "head": np.zeros((3, 1), int)}, np.array([0, 1]))
    setting = Setting.build(graph, candidates=drawn)
    assert setting.sets is drawn
    assert setting.info("mine", {}).settings["candidates"] == "drawn"


def test_tasks_cover_the_ranges(graph: KnowledgeGraph) -> None:
    setting = Setting.build(graph, candidates="train")
    queries = setting.facts.queries("tail")
    tasks = setting.tasks(queries, [range(2), range(2, 4)])
    assert [task.entities for task in tasks] == [range(2), range(2, 4)]
    assert all(
        (task.queries, task.known, task.sets, task.graph) == (queries, setting.known, setting.sets, graph)
        for task in tasks
    )


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"split": "tests"}, UsageError, "no split is called 'tests'"),
        ({"sides": "left"}, UsageError, "no side is called 'left'"),
        ({"filter": "tran"}, UsageError, "'tran' is neither a split nor a file"),
        ({"candidates": "trian"}, UsageError, "'trian' is neither a kind of candidates nor a file"),
        ({"triples": [[0, 0, 9]]}, DataError, "these are not triples of tiny"),
    ],
    ids=["split", "sides", "filter", "candidates", "triples"],
)
def test_what_cannot_be_asked(
    graph: KnowledgeGraph, asked: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as raised:
        Setting.build(graph, **asked)  # type: ignore[arg-type]
    assert message in str(raised.value)
