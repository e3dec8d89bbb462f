import hashlib
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.predict.candidate_sets import QueryCandidates, RelationCandidates, open_candidates
from kgprobe.predict.facts import Facts
from kgprobe.predict.scorer import SIDES, Side

triples = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=20)


def small_graph() -> KnowledgeGraph:
    return KnowledgeGraph.from_triples(
        train=[[0, 0, 1], [0, 0, 2], [2, 1, 0]],
        test=[[1, 0, 0], [2, 1, 1], [1, 0, 0], [3, 0, 1]],
        num_relations=3,
        name="tiny",
    )


@given(triples)
def test_candidates_of_train_are_those_of_a_search(train: list[tuple[int, int, int]]) -> None:
    graph = KnowledgeGraph.from_triples(train=train, test=train, num_entities=6, num_relations=4)
    candidates = open_candidates("train", graph, Facts.build(graph))
    assert isinstance(candidates, RelationCandidates)
    for side in SIDES:
        for relation in range(4):
            seen = {t if side == "tail" else h for h, r, t in train if r == relation}
            found = candidates.ids(side, relation)
            assert found.tolist() == sorted(seen)
            assert found.dtype == np.int64


@given(st.data(), st.integers(0, 4), st.integers(0, 6))
def test_candidates_of_facts_are_the_distinct_ones_of_their_rows(data: st.DataObject, rows: int, k: int) -> None:
    number = st.integers(0, 5)
    lists = data.draw(st.lists(st.lists(number, min_size=k, max_size=k), min_size=rows, max_size=rows))
    kept = sorted(data.draw(st.sets(st.integers(0, rows - 1)))) if rows else []
    asked = data.draw(st.lists(st.integers(0, len(kept) - 1), max_size=6)) if kept else []
    array = np.array(lists, dtype=np.int32).reshape(rows, k)
    drawn = QueryCandidates("drawn", {"head": array}, rows=np.array(kept, dtype=np.int64))
    offsets, entities = drawn.ids("head", np.array(asked, dtype=np.int64))
    found = [entities[a:b].tolist() for a, b in pairwise(offsets)]
    assert found == [sorted(set(lists[kept[fact]])) for fact in asked]
    assert entities.dtype == np.int64


def test_all_entities_are_no_set() -> None:
    graph = small_graph()
    assert open_candidates("all", graph, Facts.build(graph)) is None


def test_lists_skip_the_rows_of_repeated_facts(tmp_path: Path) -> None:
    graph = small_graph()
    facts = Facts.build(graph)
    path = tmp_path / "negatives.npz"
    np.savez(path, head=[[0], [1], [2], [3]], tail=[[3, 2], [1, 1], [0, 0], [0, 1]])
    candidates = open_candidates(path, graph, facts)
    assert isinstance(candidates, QueryCandidates)
    expected: dict[Side, list[list[int]]] = {"head": [[0], [1], [3]], "tail": [[2, 3], [1], [0, 1]]}
    for side, rows in expected.items():
        offsets, entities = candidates.ids(side, np.array([2, 0, 1]))
        found = [entities[a:b].tolist() for a, b in pairwise(offsets)]
        assert found == [rows[2], rows[0], rows[1]]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("types.tsv", "0\ttail\t3\n0\ttail\t1\n0\ttail\t3\n2\thead\t0\n"),
        ("type_constrain.txt", "2\n0 0\n0 3 3 1 3\n2 1 0\n2 0\n"),
    ],
    ids=["pairs", "OpenKE"],
)
def test_files_of_relations(tmp_path: Path, name: str, content: str) -> None:
    graph = small_graph()
    (tmp_path / name).write_text(content, encoding="utf-8")
    candidates = open_candidates(str(tmp_path / name), graph, Facts.build(graph))
    assert isinstance(candidates, RelationCandidates)
    assert [candidates.ids("tail", r).tolist() for r in range(3)] == [[1, 3], [], []]
    assert [candidates.ids("head", r).tolist() for r in range(3)] == [[], [], [0]]


def test_files_say_which_they_are(tmp_path: Path) -> None:
    graph = small_graph()
    facts = Facts.build(graph, sides="tail")
    np.savez(tmp_path / "negatives.npz", tail=np.zeros((4, 1), dtype=int))
    (tmp_path / "types.tsv").write_text("0\ttail\t3\n", encoding="utf-8")
    for name in ("negatives.npz", "types.tsv"):
        candidates = open_candidates(tmp_path / name, graph, facts)
        assert candidates is not None
        expected = {"candidates": name, "candidates_hash": hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()}
        assert json.loads(json.dumps(candidates.description)) == expected
        assert candidates.name == name


def test_a_word_that_is_none() -> None:
    graph = small_graph()
    with pytest.raises(UsageError, match="'trian' is neither a kind of candidates nor a file; nearest: train"):
        open_candidates("trian", graph, Facts.build(graph))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("types.tsv", "types.tsv, line 1: 1 field"),
        ("type_constrain.txt", "type_constrain.txt, line 1: expected the number"),
        ("negatives.npz", "negatives.npz: is no .npz file"),
    ],
    ids=["pairs", "OpenKE", "arrays"],
)
def test_bad_files_are_named(tmp_path: Path, name: str, problem: str) -> None:
    graph = small_graph()
    (tmp_path / name).write_text("what is this\n", encoding="utf-8")
    with pytest.raises(DataError, match="these are not candidates for tiny") as caught:
        open_candidates(tmp_path / name, graph, Facts.build(graph))
    assert caught.value.problems[0].startswith(problem)


def test_train_must_be_there() -> None:
    graph = KnowledgeGraph.from_triples(test=[[0, 0, 1]])
    with pytest.raises(DataError, match="no candidates by relation"):
        open_candidates("train", graph, Facts.build(graph))


def test_real_graph(data: Path) -> None:
    graph = load_graph(data / "graphs" / "fb15k-237")
    candidates = RelationCandidates.from_train(graph)
    train = graph.triples("train")
    for relation in (0, 100, 236):
        of_relation = train[train[:, 1] == relation]
        assert (candidates.ids("tail", relation) == np.unique(of_relation[:, 2])).all()
        assert (candidates.ids("head", relation) == np.unique(of_relation[:, 0])).all()
