import numpy as np
import pyarrow as pa
import pytest

from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.identifiers import (
    KnownNames,
    Names,
    as_labels,
    id_problems,
    label_problems,
    labels_of,
    triple_problems,
)


def test_good_ids_have_no_problem() -> None:
    assert id_problems("x", np.array([0, 4]), 5) == []
    assert id_problems("x", np.array([], dtype=int), 0) == []


def test_rows_of_bad_ids_are_named() -> None:
    (problem,) = id_problems("x", np.array([5, 0, -1, 7]), 5)
    assert "3 ids outside 0..4 in rows 0, 2-3" in problem
    assert "for example 5" in problem


def test_each_column_has_its_own_limit() -> None:
    problems = triple_problems("test", np.array([[9, 0, 1], [0, 1, 0]]), entities=3, relations=1)
    assert [problem.split(":")[0] for problem in problems] == ["test head", "test relation"]


def test_numbers_with_a_fraction_are_refused() -> None:
    assert "whole numbers" in triple_problems("test", np.zeros((1, 3)), 1, 1)[0]


@pytest.mark.parametrize(
    "values",
    [
        ["a", None],
        pa.array(["a", None], pa.large_string()),
        pa.chunked_array([["a"], [None]], pa.string()),
        pa.array(["a", None]).dictionary_encode(),
    ],
    ids=["list", "large strings", "chunks", "dictionary"],
)
def test_labels_become_one_string_array(values: object) -> None:
    labels = as_labels(values)
    assert isinstance(labels, pa.Array)
    assert labels.type == pa.string()
    assert labels.to_pylist() == ["a", None]


def test_no_labels_give_ids() -> None:
    assert as_labels(None) is None
    assert labels_of(None, np.array([3, 1])) == ["3", "1"]


def test_one_id_is_enough() -> None:
    assert labels_of(as_labels(["a", "b"]), 1) == ["b"]


def test_labels_must_be_as_many_as_ids() -> None:
    assert label_problems("x", as_labels(["a"]), 1) == []
    assert label_problems("x", as_labels(["a"]), 2) == ["x: 1 labels for 2 ids"]


def test_labels_and_ids_where_there_is_none() -> None:
    graph = KnowledgeGraph.from_triples(entity_labels=["Ada", None, "2"], num_relations=2)
    texts = pa.array(["2", "1", "0", "Ada", "ada", "01"])
    assert Names.entities(graph).ids(texts).tolist() == [2, 1, -1, 0, -1, -1]
    assert Names.entities(graph, labels=False).ids(texts).tolist() == [2, 1, 0, -1, -1, -1]
    assert Names.relations(graph).ids(pa.array(["0", "1", "2"])).tolist() == [0, 1, -1]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
def test_a_name_that_several_have_is_nobodys(kind: pa.DataType) -> None:
    names = Names.build("entity", 4, pa.array(["Ada", "Bob", "Ada", None], kind))
    assert names.ids(pa.array(["Ada", "Bob", "3"])).tolist() == [-1, 1, 3]
    assert names.problem("Ada") == "'Ada' is the name of more than one entity"
    assert names.problem("Bob") is None
    assert names.problem("Eve") == "'Eve' is no known entity"


def test_an_id_that_is_the_label_of_another_is_nobodys() -> None:
    names = Names.build("relation", 2, pa.array(["1", None]))
    assert names.ids(pa.array(["1"])).tolist() == [-1]
    assert names.problem("1") == "'1' is the name of more than one relation"


def test_everything_wrong_with_a_line_is_said() -> None:
    rule = KnownNames(
        {"entity": Names.build("entity", 1, None), "side": Names("side", pa.array(["left"]))}, ("side", "entity")
    )
    assert rule.judge(1, ["left", "0"]) is None
    assert rule.judge(2, ["up", "7"]) == "'7' is no known entity, 'up' is no known side"
