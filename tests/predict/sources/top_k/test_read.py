import gzip
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.sources.top_k import open_top_k

Write = Callable[[Iterable[Any]], Path]
ADA = {"head": "Ada", "relation": "knows", "predictions": ["Bob", "Cy"]}


def refused(path: Path, graph: KnowledgeGraph) -> DataError:
    with pytest.raises(DataError) as caught:
        open_top_k(path, graph)
    assert caught.value.title.startswith(str(path))
    assert caught.value.remedy
    return caught.value


def test_lists_of_both_sides_by_label_or_id(write: Write, people: KnowledgeGraph) -> None:
    lists = open_top_k(
        write(
            [
                ADA,
                {"tail": "Ada", "relation": "likes", "predictions": [["Di", 3.5], ["Bob", 3.5]]},
                {"head": 4, "relation": 1, "tail": 0, "side": "tail", "predictions": []},
                "",
            ]
        ),
        people,
    )
    tails, heads = lists.sides["tail"], lists.sides["head"]
    assert (len(lists), len(tails), len(heads)) == (3, 2, 1)
    assert (tails.keys.tolist(), tails.entities.tolist(), tails.offsets.tolist()) == ([0, 9], [1, 2], [0, 2, 2])
    assert (heads.keys.tolist(), heads.entities.tolist(), heads.ties.tolist()) == ([1], [3, 1], [0, 2])


def test_a_compressed_file_with_a_byte_order_mark_is_read(tmp_path: Path, people: KnowledgeGraph) -> None:
    path = tmp_path / "answers.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(ADA).encode("utf-8-sig") + b"\r\n"))
    assert open_top_k(path, people).sides["tail"].entities.tolist() == [1, 2]


def test_the_same_list_twice_is_once(write: Write, people: KnowledgeGraph) -> None:
    both_facts = [{**ADA, "tail": tail, "side": "tail"} for tail in ("Bob", "Di")]
    assert len(open_top_k(write([ADA, *both_facts]), people)) == 1


@pytest.mark.parametrize(
    "other",
    [
        {**ADA, "predictions": ["Cy", "Bob"]},
        {**ADA, "predictions": ["Bob"]},
        {**ADA, "predictions": [["Bob", 1], ["Cy", 1]]},
        {**ADA, "tail": "Di", "side": "tail", "predictions": []},
    ],
    ids=["order", "length", "ties", "fact"],
)
def test_two_lists_for_one_query_are_refused(other: dict[str, Any], write: Write, people: KnowledgeGraph) -> None:
    (problem,) = refused(write([ADA, other]), people).problems
    assert problem.startswith("answers.jsonl, line 2: line 1 has another list for the same query")


def test_everything_that_is_wrong_is_said_with_its_line(write: Write, people: KnowledgeGraph) -> None:
    problems = refused(
        write(
            [
                ADA,
                "{not json",
                {"head": "Ada", "predictions": []},
                {"head": "Ida", "relation": "knows", "predictions": []},
                {"head": "Bob", "relation": "loves", "predictions": []},
                {"head": "Bob", "relation": "knows", "predictions": ["Cyy", 17]},
                {"head": "Bob", "relation": "knows", "predictions": ["Eve"]},
                {"head": "Bob", "relation": "knows", "predictions": ["Cy", "Di", 2]},
                {"head": "Bob", "relation": "knows", "tail": "Xi", "side": "tail", "predictions": []},
                {"head": "Bob", "relation": "knows", "predictions": [["Cy", 1], ["Di", 2]]},
            ]
        ),
        people,
    ).problems
    said = [
        "line 2: not JSON",
        "line 3: no relation",
        "line 4: 'Ida' is no known entity (nearest: 'Ada')",
        "line 5: 'loves' is no known relation",
        "line 6: 'Cyy' is no known entity (nearest: 'Cy'), 17 is no entity id (0..5)",
        "line 7: 'Eve' is the name of more than one entity",
        "line 8: 2 is predicted twice",
        "line 9: 'Xi' is no known entity",
        "line 10: the best must come first",
    ]
    assert len(problems) == len(said)
    for problem, part in zip(problems, said, strict=True):
        assert problem.startswith(f"answers.jsonl, {part}")


def test_of_many_bad_lines_all_are_named(write: Write, people: KnowledgeGraph) -> None:
    *shown, more = refused(write(["{"] * 50), people).problems
    assert len(shown) == 20
    assert more == "answers.jsonl: 30 more bad lines: 21-50"


def test_bytes_that_are_no_text_are_named(tmp_path: Path, people: KnowledgeGraph) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_bytes(json.dumps(ADA).encode() + b'\n{"head": "\xff"}\n')
    (problem,) = refused(path, people).problems
    assert problem.startswith("answers.jsonl, line 2: not UTF-8 (byte 11 is 0xff)")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", b"", "empty"),
        ("a.jsonl", b"\n  \n", "empty"),
        ("a.jsonl", b"PAR1....", "a Parquet file"),
        ("a.jsonl", gzip.compress(b"{}"), "a gzip file"),
        ("a.jsonl.gz", b"{}", "cannot be read"),
        ("a.jsonl.gz", gzip.compress(json.dumps(ADA).encode())[:-9], "cannot be read"),
    ],
    ids=["empty", "blank", "parquet", "unnamed gzip", "no gzip", "cut gzip"],
)
def test_other_files_are_refused(name: str, content: bytes, said: str, tmp_path: Path, people: KnowledgeGraph) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert said in str(refused(path, people))


def test_what_is_no_file_is_refused(tmp_path: Path, people: KnowledgeGraph) -> None:
    for path in (tmp_path / "absent.jsonl", tmp_path):
        assert "cannot be read" in str(refused(path, people))


def test_a_pretty_printed_array_is_answered_with_a_way_to_lines(tmp_path: Path, people: KnowledgeGraph) -> None:
    path = tmp_path / "answers.json"
    path.write_text(json.dumps([ADA], indent=2), encoding="utf-8")
    assert "jq -c" in refused(path, people).remedy
