import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.predict.queries import KnownFilter, Queries, RankedTriples
from kgprobe.predict.scorers import SIDES, Side

Triple = tuple[int, int, int]

triples = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 3)), max_size=25)


def graph_of(train: list[Triple], test: list[Triple]) -> KnowledgeGraph:
    splits = {"train": train, "test": test}
    arrays = {name: np.array(split, dtype=np.int32).reshape(-1, 3) for name, split in splits.items()}
    return KnowledgeGraph("tiny", 4, 3, arrays)


def rows_of(offsets: np.ndarray, entities: np.ndarray) -> list[list[int]]:
    return [entities[a:b].tolist() for a, b in itertools.pairwise(offsets)]


@given(triples)
def test_triples_are_distinct_and_in_order(given_triples: list[Triple]) -> None:
    ranked = RankedTriples.build(graph_of([], []), triples=np.array(given_triples, dtype=np.int16).reshape(-1, 3))
    distinct = list(dict.fromkeys(given_triples))
    assert ranked.triples.tolist() == [list(triple) for triple in distinct]
    assert ranked.triples.dtype == np.int64
    assert ranked.rows.tolist() == [given_triples.index(triple) for triple in distinct]
    assert ranked.given.tolist() == [list(triple) for triple in given_triples]
    assert ranked.repeated == len(given_triples) - len(distinct)


@given(triples.filter(bool))
def test_queries_are_those_of_a_loop(test: list[Triple]) -> None:
    ranked = RankedTriples.build(graph_of([], test))
    distinct = list(dict.fromkeys(test))
    for side in SIDES:
        queries = ranked.queries(side)
        asked = [(r, h if side == "tail" else t) for h, r, t in distinct]
        assert list(zip(queries.relation.tolist(), queries.given.tolist(), strict=True)) == sorted(set(asked))
        assert len(queries) == len(set(asked))
        assert sorted(queries.triple.tolist()) == list(range(len(distinct)))
        assert queries.query.tolist() == sorted(queries.query.tolist())
        for query, target, triple in zip(queries.query, queries.target, queries.triple, strict=True):
            h, _r, t = distinct[triple]
            assert asked[triple] == (queries.relation[query], queries.given[query])
            assert target == (t if side == "tail" else h)


def test_triples_of_a_query_keep_their_order() -> None:
    rng = np.random.default_rng(0)
    shuffled = rng.permutation(3000)
    graph = KnowledgeGraph.from_triples(test=np.column_stack([shuffled % 5, shuffled % 2, shuffled]))
    queries = RankedTriples.build(graph).queries("tail")
    assert len(queries) == 10
    for query in range(10):
        assert (np.diff(queries.triple[queries.query == query]) > 0).all()


@given(triples, triples.filter(bool))
def test_known_answers_are_those_of_a_search(train: list[Triple], test: list[Triple]) -> None:
    graph = graph_of(train, test)
    for wanted in ("all", "train", "none"):
        known = {"all": {*train, *test}, "train": {*train}, "none": set()}[wanted]
        filtered = KnownFilter.build(graph, wanted)
        for side in SIDES:
            queries = RankedTriples.build(graph).queries(side)
            expected = [
                answers(known, side, int(g), int(r)) for g, r in zip(queries.given, queries.relation, strict=True)
            ]
            assert rows_of(*queries.known_rows(filtered, 0, len(queries))) == expected
            middle = len(queries) // 2
            for start, stop in ((0, middle), (middle, len(queries)), (middle, middle)):
                assert rows_of(*queries.known_rows(filtered, start, stop)) == expected[start:stop]


def answers(known: set[Triple], side: Side, asked: int, relation: int) -> list[int]:
    found = {t if side == "tail" else h for h, r, t in known if r == relation and (h if side == "tail" else t) == asked}
    return sorted(found)


@pytest.mark.parametrize(("sides", "expected"), [("both", ("tail", "head")), ("head", ("head",)), ("tail", ("tail",))])
def test_sides(sides: str, expected: tuple[str, ...]) -> None:
    assert RankedTriples.build(graph_of([], [(0, 0, 1)]), sides=sides).sides == expected


def test_no_triples_are_no_queries() -> None:
    ranked = RankedTriples.build(graph_of([], []), triples=[])
    queries = ranked.queries("head")
    assert (len(ranked.triples), ranked.repeated, len(queries), len(queries.triple)) == (0, 0, 0, 0)
    assert queries.known_rows(KnownFilter.build(graph_of([], [])), 0, 0).offsets.tolist() == [0]


def test_other_splits_and_triples_of_a_file(tmp_path: Path) -> None:
    graph = KnowledgeGraph.from_triples(valid=[[1, 0, 0]], test=[[0, 0, 1]], entity_labels=["Ada", "Bob"])
    assert RankedTriples.build(graph, "valid").triples.tolist() == [[1, 0, 0]]
    file = tmp_path / "some.tsv"
    file.write_text("Bob\t0\tBob\nAda\t0\tBob\nBob\t0\tBob\n", encoding="utf-8")
    ranked = RankedTriples.build(graph, triples=file)
    assert ranked.triples.tolist() == [[1, 0, 1], [0, 0, 1]]
    assert ranked.repeated == 1
    assert RankedTriples.build(graph, triples=str(file)).triples.tolist() == ranked.triples.tolist()


def test_everything_wrong_with_a_request_is_reported() -> None:
    with pytest.raises(UsageError) as caught:
        RankedTriples.build(graph_of([], [(0, 0, 1)]), split="tset", sides="tial")
    assert caught.value.problems == [
        "no side is called 'tial'; nearest: tail",
        "no split is called 'tset'; nearest: test",
    ]


def test_a_split_without_triples() -> None:
    with pytest.raises(DataError, match="no valid triples to rank") as caught:
        RankedTriples.build(graph_of([(0, 0, 1)], [(0, 0, 2)]), "valid")
    assert caught.value.problems == ["splits with triples: train, test"]


def test_ids_that_the_graph_does_not_have() -> None:
    with pytest.raises(DataError) as caught:
        RankedTriples.build(graph_of([], []), triples=[[0, 0, 1], [4, -1, 9]])
    assert caught.value.problems == [
        "triples head: 1 ids outside 0..3 in rows 1 (counted from 0), for example 4",
        "triples relation: 1 ids outside 0..2 in rows 1 (counted from 0), for example -1",
        "triples tail: 1 ids outside 0..3 in rows 1 (counted from 0), for example 9",
    ]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ([0, 0, 1], "shape"),
        ([[0, 0]], "shape"),
        ([[0, 0, 1], [0]], "rows of different lengths"),
        ([[0.5, 0, 1]], "float64 values"),
        ([["a", "b", "c"]], "values"),
    ],
    ids=["one triple", "two columns", "ragged", "fractions", "labels"],
)
def test_arrays_that_are_no_triples(wrong: list[object], problem: str) -> None:
    with pytest.raises(DataError, match="not triples of tiny") as caught:
        RankedTriples.build(graph_of([], []), triples=wrong)
    assert problem in caught.value.problems[0]


def test_a_bad_file_is_named_with_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "some.tsv"
    file.write_text("0\t0\t9\n0\tknows\t1\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"some\.tsv: these triples cannot be ranked") as caught:
        RankedTriples.build(graph_of([], []), triples=file)
    assert caught.value.problems == [
        "some.tsv, line 1: '9' is no known entity: '0\\t0\\t9'",
        "some.tsv, line 2: 'knows' is no known relation: '0\\tknows\\t1'",
    ]


def test_real_graph(data: Path) -> None:
    graph = load_graph(data / "graphs" / "fb15k-237")
    ranked, known = RankedTriples.build(graph), KnownFilter.build(graph)
    sides: list[Queries] = [ranked.queries(side) for side in ranked.sides]
    assert sum(len(queries.triple) for queries in sides) == 40_932
    assert sum(len(queries) for queries in sides) == 22_850
    assert sum(len(queries.known_rows(known, 0, len(queries)).entities) for queries in sides) == 302_690
    head, relation, tail = ranked.triples.T
    for queries in sides:
        sizes = np.diff(queries.known_rows(known, 0, len(queries)).offsets)[queries.query]
        counts = graph.known_answers().count(head, relation, tail, queries.side == "tail")
        assert (sizes == counts[queries.triple]).all()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("more.csv", "subject,predicate,object\nb,r,a\na,r,b\n"),
        ("more.csv", "source,target,edge\nb,a,r\na,b,r\n"),
        ("more.txt", "b r a\na r b\n"),
        ("more.txt", "b\tr\ta\t1\nb\tr\tb\t-1\na\tr\tb\t1\n"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*is a header")
def test_triples_of_files_of_other_programs(tmp_path: Path, name: str, content: str) -> None:
    graph = KnowledgeGraph.from_labels(train=[("a", "r", "b")])
    (tmp_path / name).write_text(content)
    assert RankedTriples.build(graph, triples=tmp_path / name).given.tolist() == [[1, 0, 0], [0, 0, 1]]
