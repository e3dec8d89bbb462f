from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kgprobe.graph import KnowledgeGraph
from kgprobe.ranks.importers.draft import Draft
from kgprobe.ranks.importers.identify import read_side, read_triples
from kgprobe.ranks.schema import SIDE_NAMES


def _triples(
    head: list[Any], relation: list[Any], tail: list[Any], graph: KnowledgeGraph | None, *, labels: bool = False
) -> tuple[dict[str, list[Any]], Draft]:
    draft = Draft(Path("x.csv"), rows=len(head))
    columns = {"head": pa.array(head), "relation": pa.array(relation), "tail": pa.array(tail)}
    found = read_triples(draft, columns, graph, labels=labels)
    return {name: column.to_pylist() for name, column in found.items()}, draft


@pytest.mark.parametrize(("name", "side"), SIDE_NAMES.items())
def test_sides_of_other_programs_are_known_in_any_case(name: str, side: str) -> None:
    draft = Draft(Path("x.csv"))
    assert read_side(draft, pa.array([name, name.upper()])).to_pylist() == [side, side]
    assert draft.problems == []


def test_unknown_sides_are_all_named_and_empty_ones_are_missing() -> None:
    draft = Draft(Path("x.csv"))
    assert read_side(draft, pa.array(["head", "up", "", None, "left", "up"])).to_pylist() == ["head"] + [None] * 5
    (problem,) = draft.problems
    assert problem.endswith("but 'up', 'left': 3 rows (rows 2, 5-6)")


def test_ids_are_taken_as_they_are(graph: KnowledgeGraph) -> None:
    expected = {"head": [0, 3], "tail": [1, 2], "relation": [1, 0]}
    assert _triples([0, 3], [1, 0], [1, 2], graph)[0] == expected
    assert _triples(["0", "3"], ["1", "0"], ["1", "2"], graph)[0] == expected
    assert _triples(["0", "3"], ["1", "0"], ["1", "2"], None)[0] == expected


def test_labels_are_looked_up(graph: KnowledgeGraph) -> None:
    found, draft = _triples(["Ada", "Di"], ["likes", "knows"], ["Bob", "Cy"], graph)
    assert found == {"head": [0, 3], "tail": [1, 2], "relation": [1, 0]}
    assert (draft.problems, draft.needs, draft.notes) == ([], [], [])


def test_unknown_labels_are_all_named(graph: KnowledgeGraph) -> None:
    found, draft = _triples(["Ada", "Eve", "Eve"], ["hates"] * 3, ["NA", "Bob", ""], graph)
    assert found == {"head": [0, None, None], "tail": [None, 1, None], "relation": [None] * 3}
    assert draft.problems == [
        "head is no entity of the graph: 'Eve': 2 rows (rows 2-3)",
        "tail is no entity of the graph: 'NA': 1 row (row 1)",
        "relation is no relation of the graph: 'hates': 3 rows (rows 1-3)",
    ]
    many = [f"x{i}" for i in range(25)]
    assert "'x19' and 5 more: 25 rows" in _triples(many, [0] * 25, ["Ada"] * 25, graph)[1].problems[0]


def test_a_label_that_two_ids_share_is_refused() -> None:
    graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], entity_labels=["Ada", "Bob", "Ada", None, None])
    _, draft = _triples(["Bob", "Ada"], [0, 0], ["Bob", "Bob"], graph)
    assert draft.problems == ["head has a label that several ids share: 'Ada': 1 row (row 2)"]


def test_labels_need_a_graph_that_has_them() -> None:
    found, draft = _triples(["Ada"], ["knows"], ["1"], None)
    assert found == {}
    assert draft.needs == [
        "labels in head and tail, for example 'Ada': give the graph that has these labels",
        "labels in relation, for example 'knows': give the graph that has these labels",
    ]
    assert draft.malformed == {"head", "relation", "tail"}
    bare = KnowledgeGraph.from_triples(train=[[0, 0, 1]], name="bare")
    assert "bare has no labels of that kind" in _triples(["Ada"], [0], ["Bob"], bare)[1].needs[0]


def test_ids_that_are_no_numbers_are_named_without_a_graph_too() -> None:
    _, draft = _triples([0.5, 1.0], [0, 0], [1, 1], None)
    assert draft.problems == ["head is not a whole number, for example 0.5: 1 row (row 1)"]


@pytest.fixture
def numbered() -> KnowledgeGraph:
    """A graph whose labels are numbers, but not those of the ids."""
    return KnowledgeGraph.from_triples(train=[[0, 0, 1]], entity_labels=["1", "0", "00260881", "14"])


def test_head_and_tail_are_read_alike(numbered: KnowledgeGraph) -> None:
    # "00260881" is a label, so that the 1 beside it is one too.
    assert _triples(["1"], [0], ["00260881"], numbered)[0] == {"head": [0], "tail": [2], "relation": [0]}


def test_numbers_that_are_no_ids_but_labels_are_labels(numbered: KnowledgeGraph) -> None:
    found, draft = _triples(["14"], [0], ["1"], numbered)
    assert (found["head"], found["tail"]) == ([3], [0])
    assert draft.notes == ["head and tail were read as labels: they are no ids of the graph"]


def test_numbers_that_may_be_both_are_ids_unless_the_user_says_labels(numbered: KnowledgeGraph) -> None:
    found, draft = _triples(["1"], [0], ["0"], numbered)
    assert (found["head"], found["tail"]) == ([1], [0])
    assert draft.notes == ["head and tail were read as ids, though they are also labels; --labels reads them as labels"]
    for values in (["1"], [1]):
        found, draft = _triples(values, [0], ["0"], numbered, labels=True)
        assert (found["head"], found["tail"], draft.notes) == ([0], [1], [])


def test_labels_that_are_the_ids_need_no_remark() -> None:
    graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], entity_labels=["0", "1", "x"])
    assert _triples(["1"], [0], ["0"], graph)[1].notes == []
