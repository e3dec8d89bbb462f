import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.readers.relation_lists import Listed, read_pairs, read_type_constraints
from kgprobe.predict.scorer import Side

Pairs = dict[Side, set[tuple[int, int]]]
SIDES: tuple[Side, Side] = ("head", "tail")
entities = st.sets(st.integers(0, 9), max_size=5)


def as_sets(listed: Listed | None) -> Pairs:
    assert listed is not None
    return {side: set(zip(*(column.tolist() for column in listed[side]), strict=True)) for side in SIDES}


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
        side: {(relation, e) for relation, both in sets.items() for e in both[i]} for i, side in enumerate(SIDES)
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
            ["line 1: expected the number of relations: '0 1 5'"],
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
        "type_constrain.txt: the first line says that 2 relations follow with two lines each, but 3 lines do"
    ]


def test_files_that_cannot_be_read(numbers: KnowledgeGraph, tmp_path: Path) -> None:
    packed = tmp_path / "type_constrain.txt"
    packed.write_bytes(gzip.compress(b"0\n"))
    problems: list[str] = []
    assert read_type_constraints(packed, numbers, problems) is None
    assert read_type_constraints(tmp_path, numbers, problems) is None
    assert "is a gzip file" in problems[0]
    assert "cannot be read" in problems[1]
