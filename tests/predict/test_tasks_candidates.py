import gzip
import hashlib
import io
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.predict.candidate_files import Listed, read_negatives, read_pairs, read_type_constraints
from kgprobe.predict.queries import RankedTriples
from kgprobe.predict.scorers import SIDES, Side
from kgprobe.predict.tasks import QueryCandidates, RelationCandidates, open_candidates

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
    candidates = open_candidates("train", graph, RankedTriples.build(graph))
    assert isinstance(candidates, RelationCandidates)
    for side in SIDES:
        for relation in range(4):
            seen = {t if side == "tail" else h for h, r, t in train if r == relation}
            found = candidates.ids(side, relation)
            assert found.tolist() == sorted(seen)
            assert found.dtype == np.int64


@given(st.data(), st.integers(0, 4), st.integers(0, 6))
def test_candidates_of_triples_are_the_distinct_ones_of_their_rows(data: st.DataObject, rows: int, k: int) -> None:
    number = st.integers(0, 5)
    lists = data.draw(st.lists(st.lists(number, min_size=k, max_size=k), min_size=rows, max_size=rows))
    kept = sorted(data.draw(st.sets(st.integers(0, rows - 1)))) if rows else []
    asked = data.draw(st.lists(st.integers(0, len(kept) - 1), max_size=6)) if kept else []
    array = np.array(lists, dtype=np.int32).reshape(rows, k)
    drawn = QueryCandidates("drawn", {"head": array}, rows=np.array(kept, dtype=np.int64))
    offsets, entities = drawn.ids("head", np.array(asked, dtype=np.int64))
    found = [entities[a:b].tolist() for a, b in pairwise(offsets)]
    assert found == [sorted(set(lists[kept[triple]])) for triple in asked]
    assert entities.dtype == np.int64


def test_all_entities_are_no_set() -> None:
    graph = small_graph()
    assert open_candidates("all", graph, RankedTriples.build(graph)) is None


def test_lists_skip_the_rows_of_repeated_triples(tmp_path: Path) -> None:
    graph = small_graph()
    ranked = RankedTriples.build(graph)
    path = tmp_path / "negatives.npz"
    np.savez(path, head=[[0], [1], [2], [3]], tail=[[3, 2], [1, 1], [0, 0], [0, 1]])
    candidates = open_candidates(path, graph, ranked)
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
    candidates = open_candidates(str(tmp_path / name), graph, RankedTriples.build(graph))
    assert isinstance(candidates, RelationCandidates)
    assert [candidates.ids("tail", r).tolist() for r in range(3)] == [[1, 3], [], []]
    assert [candidates.ids("head", r).tolist() for r in range(3)] == [[], [], [0]]


def test_files_say_which_they_are(tmp_path: Path) -> None:
    graph = small_graph()
    ranked = RankedTriples.build(graph, sides="tail")
    np.savez(tmp_path / "negatives.npz", tail=np.zeros((4, 1), dtype=int))
    (tmp_path / "types.tsv").write_text("0\ttail\t3\n", encoding="utf-8")
    for name in ("negatives.npz", "types.tsv"):
        candidates = open_candidates(tmp_path / name, graph, ranked)
        assert candidates is not None
        assert candidates.file_hash == hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
        assert candidates.name == name


def test_a_word_that_is_none() -> None:
    graph = small_graph()
    with pytest.raises(UsageError, match="'trian' is neither a set of candidates nor a file; nearest: train"):
        open_candidates("trian", graph, RankedTriples.build(graph))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("types.tsv", "types.tsv, line 1: 1 field"),
        ("type_constrain.txt", "type_constrain.txt, line 1: expected the number"),
        ("negatives.npz", "negatives.npz: not an .npz file"),
    ],
    ids=["pairs", "OpenKE", "arrays"],
)
def test_bad_files_are_named(tmp_path: Path, name: str, problem: str) -> None:
    graph = small_graph()
    (tmp_path / name).write_text("what is this\n", encoding="utf-8")
    with pytest.raises(DataError, match="not candidates for tiny") as caught:
        open_candidates(tmp_path / name, graph, RankedTriples.build(graph))
    assert caught.value.problems[0].startswith(problem)


def test_train_must_be_there() -> None:
    graph = KnowledgeGraph.from_triples(test=[[0, 0, 1]])
    with pytest.raises(DataError, match="no candidates by relation"):
        open_candidates("train", graph, RankedTriples.build(graph))


def test_real_graph(data: Path) -> None:
    graph = load_graph(data / "graphs" / "fb15k-237")
    candidates = RelationCandidates.from_train(graph)
    train = graph.triples("train")
    for relation in (0, 100, 236):
        of_relation = train[train[:, 1] == relation]
        assert (candidates.ids("tail", relation) == np.unique(of_relation[:, 2])).all()
        assert (candidates.ids("head", relation) == np.unique(of_relation[:, 0])).all()


TEST = [[0, 0, 1], [0, 0, 1], [2, 0, 3]]

HEAD, TAIL = np.array([[1, 2], [0, 1], [3, 3]]), np.array([[0], [1], [2]], dtype=np.int32)


@pytest.fixture
def ranked() -> RankedTriples:
    return RankedTriples.build(KnowledgeGraph.from_triples(test=TEST))


def read(path: Path, ranked: RankedTriples, **arrays: Any) -> tuple[dict[Side, Any] | None, list[str]]:
    np.savez(path / "negatives.npz", **arrays)
    problems: list[str] = []
    return read_negatives(path / "negatives.npz", ranked, 4, problems), problems


@pytest.mark.parametrize(
    "arrays",
    [
        {"head": HEAD, "tail": TAIL},
        {"head_neg": HEAD, "tail_neg": TAIL},
        {"head_neg": HEAD, "tail_neg": TAIL, "head": [0, 0, 2], "relation": [0, 0, 0], "tail": [1, 1, 3]},
    ],
    ids=["ours", "OGB", "OGB with its triples"],
)
def test_lists_as_they_are(tmp_path: Path, ranked: RankedTriples, arrays: dict[str, Any]) -> None:
    lists, problems = read(tmp_path, ranked, **arrays)
    assert problems == []
    assert lists is not None
    assert {side: values.tolist() for side, values in lists.items()} == {"head": HEAD.tolist(), "tail": TAIL.tolist()}


def test_only_the_sides_that_are_ranked_are_needed(tmp_path: Path) -> None:
    ranked = RankedTriples.build(KnowledgeGraph.from_triples(test=TEST), sides="tail")
    lists, problems = read(tmp_path, ranked, tail=TAIL)
    assert problems == []
    assert lists is not None
    assert list(lists) == ["tail"]


def test_everything_wrong_is_reported(tmp_path: Path, ranked: RankedTriples) -> None:
    assert read(tmp_path, ranked, head=HEAD + 2) == (
        None,
        [
            "negatives.npz: no array 'tail' or 'tail_neg' for the side tail; arrays: head",
            "negatives.npz: head: ids outside 0..3 in rows 0, 2 (counted from 0)",
        ],
    )
    assert read(tmp_path, ranked, head=HEAD[:2], tail=TAIL / 2) == (
        None,
        [
            "negatives.npz: tail: float64 values of shape (3, 1), expected integers of shape [3, k]",
            "negatives.npz: head: 2 rows for 3 triples",
        ],
    )
    assert read(tmp_path, ranked, head=HEAD[0], tail=-TAIL)[1] == [
        "negatives.npz: tail: ids outside 0..3 in rows 1-2 (counted from 0)",
        "negatives.npz: head: int64 values of shape (2,), expected integers of shape [3, k]",
    ]


def test_lists_of_other_triples(tmp_path: Path, ranked: RankedTriples) -> None:
    lists = {"head_neg": HEAD, "tail_neg": TAIL}
    columns = {"head": [0, 0, 1], "relation": [0, 0, 0], "tail": [1, 1, 3]}
    _, problems = read(tmp_path, ranked, **lists, **columns)
    assert problems == ["negatives.npz: triples differ from the ranked ones in rows 2 (counted from 0)"]
    _, problems = read(tmp_path, ranked, **lists, **columns | {"tail": [1, 1]})
    assert problems == ["negatives.npz: head, relation, tail: 3, 3, 2 rows for 3 triples"]


def test_pickled_arrays_are_refused(tmp_path: Path, ranked: RankedTriples) -> None:
    lists, problems = read(tmp_path, ranked, head=np.array([[1], None], dtype=object), tail=TAIL)
    assert lists is None
    assert problems == ["negatives.npz: head: object values of shape (2,), expected integers of shape [3, k]"]


def test_files_that_are_no_arrays(tmp_path: Path, ranked: RankedTriples) -> None:
    path = tmp_path / "negatives.npz"
    problems: list[str] = []
    path.write_bytes(b"not a zip file")
    assert read_negatives(path, ranked, 4, problems) is None
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("head", b"text")
    assert read_negatives(path, ranked, 4, problems) is None
    np.savez(path, head=np.arange(10**4).reshape(-1, 2), tail=TAIL)
    whole = path.read_bytes()
    path.write_bytes(whole[:200] + bytes(100) + whole[300:])
    assert read_negatives(path, ranked, 4, problems) is None
    assert read_negatives(tmp_path / "absent.npz", ranked, 4, problems) is None
    assert [problem.split(":")[0] for problem in problems] == ["negatives.npz"] * 3 + ["absent.npz"]
    assert "not an .npz file" in problems[0]
    assert "it contains head, which is not an array" in problems[1]
    assert "cannot be read" in problems[2]


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<i8', 'fortran_order': False, 'shape': (3, 2",
        "{'descr': '<i8', 'fortran_order': False, 'shape': " + "(" * 3000,
        "{'descr': '<i8', 'fortran_order': False, 'shape': (3, 4000000000000000000), }",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (3, 1" + "0" * 400 + "), }",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (-3, -2), }",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (0, 4611686018427387904), }",
        "-" * 9000 + "1",
    ],
    ids=["cut", "nested", "huge", "10^400", "negative", "empty and huge", "minus signs"],
)
def test_arrays_with_an_impossible_header(tmp_path: Path, ranked: RankedTriples, header: str) -> None:
    array = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(48)
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(tmp_path / "negatives.npz", "w", compression) as file:
            file.writestr("head.npy", array)
        problems: list[str] = []
        assert read_negatives(tmp_path / "negatives.npz", ranked, 4, problems) is None
        assert problems[0].startswith("negatives.npz: cannot be read")


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA], ids=str)
def test_corrupt_compressed_arrays(tmp_path: Path, ranked: RankedTriples, compression: int) -> None:
    content = io.BytesIO()
    np.save(content, np.random.default_rng(0).integers(0, 4, (3, 2000)))
    path = tmp_path / "negatives.npz"
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("head.npy", content.getvalue())
        file.writestr("tail.npy", content.getvalue())
    whole = path.read_bytes()
    for start in range(40, 1500, 100):
        path.write_bytes(whole[:start] + bytes(4) + whole[start + 4 :])
        problems: list[str] = []
        assert read_negatives(path, ranked, 4, problems) is None
        assert len(problems) == 1


Pairs = dict[Side, set[tuple[int, int]]]

SIDES_RELATION_LISTS: tuple[Side, Side] = ("head", "tail")

entities = st.sets(st.integers(0, 9), max_size=5)


def as_sets(listed: Listed | None) -> Pairs:
    assert listed is not None
    return {side: set(zip(*(column.tolist() for column in listed[side]), strict=True)) for side in SIDES_RELATION_LISTS}


@pytest.fixture
def people() -> KnowledgeGraph:
    return KnowledgeGraph.from_triples(entity_labels=["Ada", "Bob", "Eve"], relation_labels=["knows", "likes"])


@pytest.fixture
def numbers() -> KnowledgeGraph:
    return KnowledgeGraph.from_triples(num_entities=10, num_relations=3)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_pairs_by_label(people: KnowledgeGraph, tmp_path: Path, packed: bool) -> None:
    lines = "likes\ttail\tEve\nknows\thead\tAda\nlikes\ttail\tBob\nlikes\ttail\tEve\n"
    path = tmp_path / ("types.tsv.gz" if packed else "types.tsv")
    path.write_bytes(gzip.compress(lines.encode()) if packed else lines.encode())
    assert as_sets(read_pairs(path, people, [])) == {"head": {(0, 0)}, "tail": {(1, 2), (1, 1)}}


def test_pairs_by_id_where_there_are_no_labels(numbers: KnowledgeGraph, tmp_path: Path) -> None:
    path = tmp_path / "types.tsv"
    path.write_text("2\ttail\t9\n", encoding="utf-8")
    assert as_sets(read_pairs(path, numbers, [])) == {"head": set(), "tail": {(2, 9)}}


def test_every_bad_pair_is_named(people: KnowledgeGraph, tmp_path: Path) -> None:
    path = tmp_path / "types.tsv"
    path.write_text("knows\tleft\tAda\nhates\thead\tMallory\nknows\thead\n", encoding="utf-8")
    problems: list[str] = []
    assert read_pairs(path, people, problems) is None
    assert problems == [
        "types.tsv, line 1: 'left' is no known side: 'knows\\tleft\\tAda'",
        "types.tsv, line 2: 'hates' is no known relation, 'Mallory' is no known entity: 'hates\\thead\\tMallory'",
        "types.tsv, line 3: 2 fields, expected relation<TAB>side<TAB>entity: 'knows\\thead'",
    ]


@given(st.dictionaries(st.integers(0, 2), st.tuples(entities, entities)), st.sampled_from(" \t"))
def test_type_constraints_come_back(
    tmp_path_factory: pytest.TempPathFactory, sets: dict[int, tuple[set[int], set[int]]], gap: str
) -> None:
    lines = [[relation, len(one), *one] for relation, both in sets.items() for one in both]
    path = tmp_path_factory.mktemp("openke") / "type_constrain.txt"
    path.write_text(f"{len(sets)}\n" + "".join(gap.join(map(str, line)) + "\n" for line in lines), encoding="utf-8")
    listed = read_type_constraints(path, KnowledgeGraph.from_triples(num_entities=10, num_relations=3), [])
    expected: Pairs = {
        side: {(relation, e) for relation, both in sets.items() for e in both[i]}
        for i, side in enumerate(SIDES_RELATION_LISTS)
    }
    assert as_sets(listed) == expected


def test_repeated_entities_and_blank_lines_do_no_harm(numbers: KnowledgeGraph, tmp_path: Path) -> None:
    path = tmp_path / "type_constrain.txt"
    path.write_bytes(b"1\r\n\r\n2 3 5 5 5\r\n2 0\r\n\r\n")
    listed = read_type_constraints(path, numbers, [])
    assert as_sets(listed) == {"head": {(2, 5)}, "tail": set()}
    packed = tmp_path / "type_constrain.txt.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert as_sets(read_type_constraints(packed, numbers, [])) == as_sets(listed)
    assert listed is not None
    assert all(column.dtype == np.int64 for columns in listed.values() for column in columns)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            "2\n0 2 1\n0 1 12\n3 0\n3 1 x\n",
            [
                "line 2: the count is 2, but 1 entities follow: '0 2 1'",
                "line 3: '12' is no known entity: '0 1 12'",
                "line 4: '3' is no known relation: '3 0'",
                "line 5: 'x' is no known entity: '3 1 x'",
            ],
        ),
        (
            "2\n0 0\n1 0\n0 0\n0 0\n",
            [
                "line 3: relation 1, expected the tails of relation 0: '1 0'",
                "line 4: relation 0 is already on line 2: '0 0'",
            ],
        ),
        (
            "0 1 5\n0 0\n",
            ["line 1: expected the number of relations in line 1: '0 1 5'"],
        ),
        (
            "1\n0 7 10 11 12 13 14 1 2\n0\n",
            ["'12' is no known entity and 2 more", "line 3: 1 field, expected relation count entity"],
        ),
        ("", ["empty"]),
    ],
    ids=["ids and counts", "order", "no number", "many", "nothing"],
)
def test_every_bad_line_of_type_constraints_is_named(
    numbers: KnowledgeGraph, tmp_path: Path, content: str, expected: list[str]
) -> None:
    path = tmp_path / "type_constrain.txt"
    path.write_text(content, encoding="utf-8")
    problems: list[str] = []
    assert read_type_constraints(path, numbers, problems) is None
    assert len(problems) == len(expected)
    for found, part in zip(problems, expected, strict=True):
        assert part in found


def test_missing_lines_are_counted(numbers: KnowledgeGraph, tmp_path: Path) -> None:
    path = tmp_path / "type_constrain.txt"
    path.write_text("2\n0 0\n0 0\n1 0\n", encoding="utf-8")
    problems: list[str] = []
    assert read_type_constraints(path, numbers, problems) is None
    assert problems == [
        "type_constrain.txt: the first line announces 2 relations with two lines each, but 3 lines follow"
    ]


def test_files_that_cannot_be_read(numbers: KnowledgeGraph, tmp_path: Path) -> None:
    packed = tmp_path / "type_constrain.txt"
    packed.write_bytes(gzip.compress(b"0\n"))
    problems: list[str] = []
    assert read_type_constraints(packed, numbers, problems) is None
    assert read_type_constraints(tmp_path, numbers, problems) is None
    assert "is a gzip file" in problems[0]
    assert "cannot be read" in problems[1]


def test_a_blank_line_does_not_move_the_other_lines(tmp_path: Path) -> None:
    graph = small_graph()
    for text in ("\n1\n0 1 2\n0 2 1 3\n", "\n0 1 2\n0 2 1 3\n"):
        (tmp_path / "type_constrain.txt").write_text(text, encoding="utf-8")
        with pytest.raises(DataError) as caught:
            open_candidates(str(tmp_path / "type_constrain.txt"), graph, RankedTriples.build(graph))
        assert "line 2: expected the number of relations in line 1" in caught.value.problems[0]
