from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.graph import KnowledgeGraph, TrainCounts
from kgprobe.ranks.importers.candidates import Candidates, read_candidates
from kgprobe.ranks.importers.draft import Draft
from kgprobe.ranks.importers.given import Given


def _read(
    given: Given, columns: dict[str, list[Any]] | None = None, *, raw: bool = False, **triples: list[Any]
) -> tuple[Candidates, Draft]:
    queries: dict[str, list[Any]] = {"head": [0, 0], "relation": [0, 0], "tail": [3, 3], "side": ["tail", "head"]}
    queries |= triples
    draft = Draft(Path("x.csv"), rows=len(queries["side"]))
    arrays = {name: pa.array(queries[name], pa.int64()) for name in ("head", "relation", "tail")}
    given_columns = {name: pa.array(values) for name, values in (columns or {}).items()}
    side = pa.array(queries["side"], pa.string())
    return read_candidates(draft, given_columns, arrays, side, given, raw=raw), draft


def _values(found: Candidates) -> list[Any] | None:
    return None if found.values is None else found.values.to_pylist()


def test_a_column_of_candidates_is_taken_before_all_else(graph: KnowledgeGraph) -> None:
    found, _ = _read(Given(graph=graph), {"candidates": ["3", "4"], "filtered": ["9", "9"]})
    assert (_values(found), found.filtered, found.column) == ([3, 4], None, "candidates")


def test_filtered_entities_are_taken_from_all() -> None:
    found, _ = _read(Given(entities=9), {"filtered": [2, 0]})
    assert (_values(found), found.origin, found.column) == ([7, 9], "entities minus filtered", "filtered")


def test_unreadable_filtered_counts_are_named_once() -> None:
    _, draft = _read(Given(entities=9), {"filtered": ["2", "x"]})
    assert draft.problems == ["filtered is not a whole number, for example 'x': 1 row (row 2)"]
    assert "candidates" in draft.malformed


def test_without_a_filter_all_entities_are_candidates(graph: KnowledgeGraph) -> None:
    for size in (Given(entities=4), Given(graph=graph)):
        found, _ = _read(size, raw=True)
        assert (_values(found), found.filtered) == ([4, 4], ())


def test_known_answers_except_the_target_are_taken_from_all(graph: KnowledgeGraph) -> None:
    found, draft = _read(Given(graph=graph))
    assert _values(found) == [4 - 2, 4]
    assert found.filtered == ("train", "test")
    assert found.origin == "entities minus known answers of train, test"
    assert draft.problems == []


TRIPLES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(0, 4)), min_size=1, max_size=30)


@given(TRIPLES, TRIPLES)
def test_known_answers_are_those_that_a_set_finds(train: list[tuple[int, ...]], queries: list[tuple[int, ...]]) -> None:
    graph = KnowledgeGraph.from_triples(train=np.array(train), num_entities=5, num_relations=2)
    head, relation, tail = map(list, zip(*queries, strict=True))
    side = ["tail" if i % 2 else "head" for i in range(len(queries))]
    found, _ = _read(Given(graph=graph), head=head, relation=relation, tail=tail, side=side)
    known = set(train)
    expected = []
    for (h, r, t), s in zip(queries, side, strict=True):
        others = [(h, r, e) if s == "tail" else (e, r, t) for e in range(5) if e != (t if s == "tail" else h)]
        expected.append(5 - len(known.intersection(others)))
    assert _values(found) == expected


def test_rows_that_are_refused_anyway_get_no_candidates(graph: KnowledgeGraph) -> None:
    found, draft = _read(
        Given(graph=graph),
        head=[0, 9, 0, None, 0],
        relation=[0, 0, 7, 0, 0],
        tail=[3, 3, 3, 3, -1],
        side=["tail", "tail", "tail", "tail", "tail"],
    )
    assert _values(found) == [2, None, None, None, None]
    assert "candidates" in draft.malformed
    found, _ = _read(Given(graph=graph), side=[None, None])
    assert _values(found) == [None, None]


def _counted() -> KnowledgeGraph:
    counts = TrainCounts.from_triples(np.array([[0, 0, 1]]), num_entities=4, num_relations=1)
    return KnowledgeGraph("counted", 4, 1, {"test": np.array([[0, 0, 3]])}, train_counts=counts)


@pytest.mark.parametrize(
    ("given", "columns", "raw", "said"),
    [
        (Given(), {}, False, "--graph"),
        (Given(entities=4), {}, False, "--raw"),
        (Given(), {}, True, "of how many entities"),
        (Given(), {"filtered": [0, 0]}, False, "filtered is known, but not of how many"),
        (Given(entities=4), {"filtered": [0, 0]}, True, "there is a column of filtered"),
        (Given(entities=4), {"candidates": [4, 4]}, True, "there is a column of candidates"),
        (Given(graph=_counted()), {}, False, "counted has no training triples to filter by"),
    ],
)
def test_where_there_is_no_way_the_ways_are_said(
    given: Given, columns: dict[str, list[Any]], raw: bool, said: str
) -> None:
    found, draft = _read(given, columns, raw=raw)
    assert found.values is None
    (need,) = draft.needs
    assert said in need
    assert "candidates" in draft.malformed
