import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.facts import Facts
from kgprobe.predict.readers.negatives import read_negatives
from kgprobe.predict.scorer import Side

TEST = [[0, 0, 1], [0, 0, 1], [2, 0, 3]]
HEAD, TAIL = np.array([[1, 2], [0, 1], [3, 3]]), np.array([[0], [1], [2]], dtype=np.int32)


@pytest.fixture
def facts() -> Facts:
    return Facts.build(KnowledgeGraph.from_triples(test=TEST))


def read(path: Path, facts: Facts, **arrays: Any) -> tuple[dict[Side, Any] | None, list[str]]:
    np.savez(path / "negatives.npz", **arrays)
    problems: list[str] = []
    return read_negatives(path / "negatives.npz", facts, 4, problems), problems


@pytest.mark.parametrize(
    "arrays",
    [
        {"head": HEAD, "tail": TAIL},
        {"head_neg": HEAD, "tail_neg": TAIL},
        {"head_neg": HEAD, "tail_neg": TAIL, "head": [0, 0, 2], "relation": [0, 0, 0], "tail": [1, 1, 3]},
    ],
    ids=["ours", "OGB", "OGB with its facts"],
)
def test_lists_as_they_are(tmp_path: Path, facts: Facts, arrays: dict[str, Any]) -> None:
    lists, problems = read(tmp_path, facts, **arrays)
    assert problems == []
    assert lists is not None
    assert {side: values.tolist() for side, values in lists.items()} == {"head": HEAD.tolist(), "tail": TAIL.tolist()}


def test_only_the_sides_that_are_ranked_are_needed(tmp_path: Path) -> None:
    facts = Facts.build(KnowledgeGraph.from_triples(test=TEST), sides="tail")
    lists, problems = read(tmp_path, facts, tail=TAIL)
    assert problems == []
    assert lists is not None
    assert list(lists) == ["tail"]


def test_everything_wrong_is_reported(tmp_path: Path, facts: Facts) -> None:
    assert read(tmp_path, facts, head=HEAD + 2) == (
        None,
        [
            "negatives.npz: no array 'tail' or 'tail_neg' for the side tail; arrays: head",
            "negatives.npz: head: ids outside 0..3 in rows 0, 2 (counted from 0)",
        ],
    )
    assert read(tmp_path, facts, head=HEAD[:2], tail=TAIL / 2) == (
        None,
        [
            "negatives.npz: tail: float64 values of shape (3, 1), expected whole numbers of shape [3, k]",
            "negatives.npz: head: 2 rows for 3 facts",
        ],
    )
    assert read(tmp_path, facts, head=HEAD[0], tail=-TAIL)[1] == [
        "negatives.npz: tail: ids outside 0..3 in rows 1-2 (counted from 0)",
        "negatives.npz: head: int64 values of shape (2,), expected whole numbers of shape [3, k]",
    ]


def test_lists_of_other_facts(tmp_path: Path, facts: Facts) -> None:
    lists = {"head_neg": HEAD, "tail_neg": TAIL}
    columns = {"head": [0, 0, 1], "relation": [0, 0, 0], "tail": [1, 1, 3]}
    _, problems = read(tmp_path, facts, **lists, **columns)
    assert problems == ["negatives.npz: other facts than those that are ranked in rows 2 (counted from 0)"]
    _, problems = read(tmp_path, facts, **lists, **columns | {"tail": [1, 1]})
    assert problems == ["negatives.npz: head, relation, tail: 3, 3, 2 rows for 3 facts"]


def test_pickled_arrays_are_refused(tmp_path: Path, facts: Facts) -> None:
    lists, problems = read(tmp_path, facts, head=np.array([[1], None], dtype=object), tail=TAIL)
    assert lists is None
    assert len(problems) == 1
    assert "allow_pickle=False" in problems[0]


def test_files_that_are_no_arrays(tmp_path: Path, facts: Facts) -> None:
    path = tmp_path / "negatives.npz"
    problems: list[str] = []
    path.write_bytes(b"not a zip file")
    assert read_negatives(path, facts, 4, problems) is None
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("head", b"text")
    assert read_negatives(path, facts, 4, problems) is None
    np.savez(path, head=np.arange(10**4).reshape(-1, 2), tail=TAIL)
    whole = path.read_bytes()
    path.write_bytes(whole[:200] + bytes(100) + whole[300:])
    assert read_negatives(path, facts, 4, problems) is None
    assert read_negatives(tmp_path / "absent.npz", facts, 4, problems) is None
    assert [problem.split(":")[0] for problem in problems] == ["negatives.npz"] * 4 + ["absent.npz"]
    assert "is no .npz file" in problems[0]
    assert "no array 'tail'" in problems[1]
    assert "shape ()" in problems[2]
    assert "cannot be read" in problems[3]
