from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.graph import KnowledgeGraph, TrainCounts
from kgprobe.ranks.importers.column_mapping import (
    SYNONYMS,
    Naming,
    agrees,
    apply_recipe,
    choose_recipe,
    find_columns,
    label_name,
    mapping_problems,
    read_candidates,
)
from kgprobe.ranks.importers.drafts import Draft, ImportOptions
from kgprobe.ranks.importers.triple_columns import read_side, read_triples
from kgprobe.ranks.metadata import Basis, CandidatesInfo
from kgprobe.ranks.schema import COLUMNS, SAMPLE, SIDE_NAMES


def _read(
    options: ImportOptions, columns: dict[str, list[Any]] | None = None, **triples: list[Any]
) -> tuple[list[Any] | None, Draft, str]:
    """The numbers of candidates, the draft, and the column that they were read from."""
    queries: dict[str, list[Any]] = {"head": [0, 0], "relation": [0, 0], "tail": [3, 3], "side": ["tail", "head"]}
    queries |= triples
    draft = Draft(Path("x.csv"), rows=len(queries["side"]))
    arrays = {name: pa.array(queries[name], pa.int64()) for name in ("head", "relation", "tail")}
    file_columns = {name: pa.array(values) for name, values in (columns or {}).items()}
    source = read_candidates(draft, file_columns, arrays, pa.array(queries["side"], pa.string()), options)
    values = draft.columns.get("candidates")
    return None if values is None else values.to_pylist(), draft, source


def test_a_column_of_candidates_is_taken_before_all_else(graph: KnowledgeGraph) -> None:
    values, draft, source = _read(ImportOptions(graph=graph), {"candidates": ["3", "4"], "filtered": ["9", "9"]})
    assert (values, draft.filtered, source) == ([3, 4], None, "candidates")


def test_filtered_entities_are_taken_from_all() -> None:
    values, draft, source = _read(ImportOptions(num_entities=9), {"filtered": [2, 0]})
    assert (values, draft.candidates.counted, source) == ([7, 9], "entities minus filtered", "filtered")


def test_unreadable_filtered_counts_are_named_once() -> None:
    _, draft, _ = _read(ImportOptions(num_entities=9), {"filtered": ["2", "x"]})
    assert draft.problems == ["filtered is not a whole number, for example 'x': 1 row (row 2)"]
    assert "candidates" in draft.malformed


def test_without_a_filter_all_entities_are_candidates(graph: KnowledgeGraph) -> None:
    for options in (ImportOptions(num_entities=4, raw=True), ImportOptions(graph=graph, raw=True)):
        values, draft, _ = _read(options)
        assert (values, draft.filtered) == ([4, 4], ())


def test_known_answers_except_the_target_are_taken_from_all(graph: KnowledgeGraph) -> None:
    values, draft, _ = _read(ImportOptions(graph=graph))
    assert values == [4 - 2, 4]
    assert draft.filtered == ("train", "test")
    assert draft.candidates == CandidatesInfo(Basis.assumed, counted="entities minus known answers of train, test")
    assert draft.problems == []


TRIPLES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(0, 4)), min_size=1, max_size=30)


@given(TRIPLES, TRIPLES)
def test_known_answers_are_those_that_a_set_finds(train: list[tuple[int, ...]], queries: list[tuple[int, ...]]) -> None:
    graph = KnowledgeGraph.from_triples(train=np.array(train), num_entities=5, num_relations=2)
    head, relation, tail = map(list, zip(*queries, strict=True))
    side = ["tail" if i % 2 else "head" for i in range(len(queries))]
    values, *_ = _read(ImportOptions(graph=graph), head=head, relation=relation, tail=tail, side=side)
    known = set(train)
    expected = []
    for (h, r, t), s in zip(queries, side, strict=True):
        others = [(h, r, e) if s == "tail" else (e, r, t) for e in range(5) if e != (t if s == "tail" else h)]
        expected.append(5 - len(known.intersection(others)))
    assert values == expected


def test_rows_that_are_refused_anyway_get_no_candidates(graph: KnowledgeGraph) -> None:
    values, draft, _ = _read(
        ImportOptions(graph=graph),
        head=[0, 9, 0, None, 0],
        relation=[0, 0, 7, 0, 0],
        tail=[3, 3, 3, 3, -1],
        side=["tail", "tail", "tail", "tail", "tail"],
    )
    assert values == [2, None, None, None, None]
    assert "candidates" in draft.malformed
    values, *_ = _read(ImportOptions(graph=graph), side=[None, None])
    assert values == [None, None]


def _counted() -> KnowledgeGraph:
    counts = TrainCounts.from_triples(np.array([[0, 0, 1]]), num_entities=4, num_relations=1)
    return KnowledgeGraph("counted", 4, 1, {"test": np.array([[0, 0, 3]])}, train_counts=counts)


@pytest.mark.parametrize(
    ("options", "columns", "said"),
    [
        (ImportOptions(), {}, "give `graph`"),
        (ImportOptions(num_entities=4), {}, "`raw=True`"),
        (ImportOptions(raw=True), {}, "not the number of entities: give `graph` or `num_entities`"),
        (ImportOptions(), {"filtered": [0, 0]}, "filtered entities is known, but not the number of entities"),
        (ImportOptions(num_entities=4, raw=True), {"filtered": [0, 0]}, "there is a column of filtered"),
        (ImportOptions(num_entities=4, raw=True), {"candidates": [4, 4]}, "there is a column of candidates"),
        (ImportOptions(graph=_counted()), {}, "counted has no training triples"),
    ],
)
def test_where_there_is_no_way_the_ways_are_said(
    options: ImportOptions, columns: dict[str, list[Any]], said: str
) -> None:
    values, draft, _ = _read(options, columns)
    assert values is None
    (need,) = draft.needs
    assert said in need
    assert "candidates" in draft.malformed


@pytest.mark.parametrize(("column", "name"), [(column, name) for column, names in SYNONYMS.items() for name in names])
def test_every_usual_name_is_found_in_any_spelling(column: str, name: str) -> None:
    for spelling in (name, name.upper(), name.replace("_", " "), name.replace("_", "-")):
        assert find_columns([spelling], {}).found == {column: spelling}


def test_no_usual_name_stands_for_two_columns() -> None:
    names = [name for column, synonyms in SYNONYMS.items() for name in (column, *synonyms)]
    assert len(set(names)) == len(names)
    assert set(COLUMNS) - set(SAMPLE) == set(SYNONYMS) & set(COLUMNS)  # counts of samples are not imported


def test_its_own_name_comes_before_a_usual_one() -> None:
    naming = find_columns(["subject", "head"], {})
    assert (naming.found, naming.problems) == ({"head": "head"}, [])


def test_what_the_user_names_comes_before_everything() -> None:
    naming = find_columns(["rank", "position", "ties"], {"rank": "position"})
    assert (naming.found, naming.chosen) == ({"rank": "position", "ties": "ties"}, frozenset({"rank"}))


def test_a_column_that_the_user_took_is_not_taken_again() -> None:
    assert find_columns(["ties"], {"equal": "ties"}).found == {"equal": "ties"}


def test_two_usual_names_need_a_decision() -> None:
    assert find_columns(["subject", "h"], {}).problems == [
        "'subject' and 'h' may both be head: choose one with `columns`"
    ]
    assert find_columns(["subject", "h"], {"head": "h"}).problems == []


def test_everything_wrong_with_the_names_is_said_at_once() -> None:
    naming = find_columns(["Position", "x", "x"], {"rnak": "x", "rank": "positon", "side": "x"})
    assert naming.problems == [
        "'rnak' is not a column of a rank table; nearest: rank",
        "column 'x' is named for several columns: rnak, side",
        "there is no column 'positon' to take as rank; nearest: Position",
        "column 'x' occurs twice",
    ]


def test_a_sound_mapping_has_no_problems() -> None:
    assert mapping_problems({name: f"column {name}" for name in SYNONYMS}) == []


def test_labels_do_not_take_the_names_of_other_columns() -> None:
    assert [label_name(name) for name in ("rank", "Rank", "filtered")] == ["source_rank", "Rank", "filtered"]


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
    assert problem.startswith("the side is 'up', 'left', expected one of head, h, ")
    assert problem.endswith(": 3 rows (rows 2, 5-6)")


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
        "head is not a known entity: 'Eve': 2 rows (rows 2-3)",
        "tail is not a known entity: 'NA': 1 row (row 1)",
        "relation is not a known relation: 'hates': 3 rows (rows 1-3)",
    ]
    many = [f"x{i}" for i in range(25)]
    assert "'x19' and 5 more: 25 rows" in _triples(many, [0] * 25, ["Ada"] * 25, graph)[1].problems[0]


def test_a_label_that_two_ids_share_is_refused() -> None:
    graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], entity_labels=["Ada", "Bob", "Ada", None, None])
    _, draft = _triples(["Bob", "Ada"], [0, 0], ["Bob", "Bob"], graph)
    assert draft.problems == ["head is a label of several ids: 'Ada': 1 row (row 2)"]


def test_labels_need_a_graph_that_has_them() -> None:
    found, draft = _triples(["Ada"], ["knows"], ["1"], None)
    assert found == {}
    assert draft.needs == [
        "labels in head and tail, for example 'Ada': give the `graph` that has them",
        "labels in relation, for example 'knows': give the `graph` that has them",
    ]
    assert draft.malformed == {"head", "relation", "tail"}
    bare = KnowledgeGraph.from_triples(train=[[0, 0, 1]], name="bare")
    assert "bare has no such labels" in _triples(["Ada"], [0], ["Bob"], bare)[1].needs[0]


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
    assert draft.notes == ["head and tail were read as labels: they are not ids of the graph"]


def test_numbers_that_may_be_both_are_ids_unless_the_user_says_labels(numbered: KnowledgeGraph) -> None:
    found, draft = _triples(["1"], [0], ["0"], numbered)
    assert (found["head"], found["tail"]) == ([1], [0])
    assert draft.notes == [
        "head and tail were read as ids, though they are also labels; `labels=True` reads them as labels"
    ]
    for values in (["1"], [1]):
        found, draft = _triples(values, [0], ["0"], numbered, labels=True)
        assert (found["head"], found["tail"], draft.notes) == ([0], [1], [])


def test_labels_that_are_the_ids_need_no_remark() -> None:
    graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], entity_labels=["0", "1", "x"])
    assert _triples(["1"], [0], ["0"], graph)[1].notes == []


def _choose(*columns: str, chosen: frozenset[str] = frozenset()) -> tuple[str, ...] | None:
    return choose_recipe(Naming({name: name for name in columns}, chosen))


def _ranks_of(**columns: list[Any]) -> tuple[dict[str, list[Any]], Draft]:
    recipe = _choose(*columns)
    assert recipe is not None
    draft = Draft(Path("x.csv"))
    found = apply_recipe(draft, {name: pa.array(values) for name, values in columns.items()}, recipe, ImportOptions())
    return {name: column.to_pylist() for name, column in found.items()}, draft


@given(st.lists(st.lists(st.integers(0, 5), min_size=1), min_size=1))
def test_all_recipes_say_what_counting_says(scores: list[list[int]]) -> None:
    better = [sum(s > row[0] for s in row[1:]) for row in scores]
    equal = [sum(s == row[0] for s in row[1:]) for row in scores]
    # The mean place of the target over all orders of those that tie with it.
    rank = [float(np.mean([b + 1 + place for place in range(e + 1)])) for b, e in zip(better, equal, strict=True)]
    best, worst = [b + 1 for b in better], [b + 1 + e for b, e in zip(better, equal, strict=True)]
    expected = {"rank": rank, "ties": equal}
    assert _ranks_of(greater=better, equal=equal)[0] == expected
    assert _ranks_of(greater=better, ties=equal)[0] == expected
    assert _ranks_of(optimistic=best, pessimistic=worst)[0] == expected
    assert _ranks_of(optimistic=list(map(str, best)), pessimistic=list(map(str, worst)))[0] == expected
    assert _ranks_of(rank=rank, ties=equal)[0] == expected
    assert _ranks_of(optimistic=best, ties=equal)[0] == expected
    assert _ranks_of(optimistic=best, equal=equal)[0] == expected
    assert _ranks_of(pessimistic=worst, ties=equal)[0] == expected
    assert _ranks_of(pessimistic=worst, equal=equal)[0] == expected
    assert _ranks_of(rank=rank)[0] == {"rank": rank}


def test_more_information_is_preferred_unless_the_user_names_a_column() -> None:
    everything = ("rank", "ties", "optimistic", "pessimistic", "greater", "equal")
    assert _choose(*everything) == ("optimistic", "pessimistic")
    assert _choose(*everything, chosen=frozenset({"rank"})) == ("rank", "ties")
    assert _choose(*everything, chosen=frozenset({"greater"})) == ("greater", "equal")
    assert _choose("rank", "optimistic") == ("rank",)


@pytest.mark.parametrize("columns", [(), ("ties",), ("greater",), ("equal",), ("optimistic",), ("pessimistic",)])
def test_half_a_recipe_is_none(columns: tuple[str, ...]) -> None:
    assert _choose(*columns) is None


def test_missing_and_nan_ranks_stay_apart() -> None:
    found, draft = _ranks_of(rank=["", "nan", "1"])
    assert found["rank"][0] is None
    assert np.isnan(found["rank"][1])
    assert draft.problems == []


def test_unreadable_columns_make_the_rank_unreadable() -> None:
    found, draft = _ranks_of(optimistic=["x", "1"], pessimistic=["2", "2"])
    assert found["rank"] == [None, 1.5]
    assert draft.problems == ["optimistic is not a number, for example 'x': 1 row (row 1)"]
    assert "rank" in draft.malformed


def test_ties_that_are_not_whole_are_refused() -> None:
    found, draft = _ranks_of(optimistic=[1.0, 1.0, 1.0], pessimistic=[2.5, 2.0, np.inf])
    assert found["ties"] == [None, 1, None]
    assert draft.problems == [
        "optimistic and pessimistic give a fractional number of ties: 1 row (row 1)",
        "optimistic and pessimistic give more ties than any graph has entities: 1 row (row 3)",
    ]


def test_ties_need_not_be_recorded_in_every_row() -> None:
    assert _ranks_of(rank=[1, 2], ties=[None, 2])[0] == {"rank": [1, 2], "ties": [None, 2]}


def test_a_count_that_seems_to_include_the_target_is_remarked() -> None:
    assert _ranks_of(greater=[0, 1], equal=[1, 2])[1].notes == [
        "equal is at least 1 in every row: it must not count the target itself"
    ]
    assert _ranks_of(greater=[0, 1], equal=[0, 2])[1].notes == []


def test_a_superfluous_column_either_agrees_or_is_remarked() -> None:
    draft = Draft(Path("x.csv"))
    derived = pa.array([1.5, 2.0, 3.0])
    assert agrees(draft, "rank", pa.array(["1.5", "2", "3.0"]), derived)
    assert draft.notes == []
    assert not agrees(draft, "rank", pa.array(["1.5", "2.5", "x"]), derived)
    assert draft.notes == ["column 'rank' differs in 2 rows; kept as 'source_rank'"]
    assert draft.problems == []
    assert not agrees(draft, "ties", pa.array([0, 0, 0]), None)
