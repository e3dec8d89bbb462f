import gzip
import json
import math
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.adapters.list_matching import LineError
from kgprobe.predict.adapters.top_k_files import open_top_k, parse_line

QUERY = {"head": "a", "relation": "r"}


def parsed(**fields: Any) -> Any:
    return parse_line(json.dumps(fields))


@pytest.mark.parametrize(
    ("fields", "query"),
    [
        ({"head": "a", "relation": "r"}, ("tail", "a", "r", None)),
        ({"head": "a", "relation": "r", "tail": None}, ("tail", "a", "r", None)),
        ({"tail": "b", "relation": "r"}, ("head", "b", "r", None)),
        ({"head": None, "tail": 7, "relation": 0}, ("head", 7, 0, None)),
        ({"head": "a", "relation": "r", "tail": "b", "side": "tail"}, ("tail", "a", "r", "b")),
        ({"head": "a", "relation": "r", "tail": "b", "side": "Head"}, ("head", "b", "r", "a")),
        ({"head": "a", "relation": "r", "side": "tail"}, ("tail", "a", "r", None)),
        ({"gold_head": "a", "gold_predicate": "r", "gold_tail": "b", "predict": "tail"}, ("tail", "a", "r", "b")),
        ({"gold_head": "a", "gold_relation": "r", "id": 5, "true_rank": 1}, ("tail", "a", "r", None)),
    ],
)
def test_the_query_is_what_is_not_given_or_what_is_named(fields: dict[str, Any], query: tuple[Any, ...]) -> None:
    line = parsed(**fields, predictions=["c"])
    assert (line.side, line.given, line.relation, line.target) == query


@pytest.mark.parametrize(
    ("predictions", "names", "levels"),
    [
        ([], [], []),
        (["b", "c"], ["b", "c"], [0, 1]),
        ([3, "c"], [3, "c"], [0, 1]),
        ([["b", 0.5], ["c", 0.5], ["d", -1]], ["b", "c", "d"], [0, 0, 1]),
        ([{"entity": "b", "score": 2}, {"entity": 4, "score": 1}], ["b", 4], [0, 1]),
        ([{"entity": "b"}, {"entity": "c"}], ["b", "c"], [0, 1]),
        ([["b", 1], {"entity": "c", "score": 1.0}], ["b", "c"], [0, 0]),
    ],
)
def test_predictions_come_in_three_forms(predictions: list[Any], names: list[Any], levels: list[int]) -> None:
    line = parsed(**QUERY, predictions=predictions)
    assert (list(line.predictions), line.levels.tolist()) == (names, levels)


def test_infinite_scores_are_values() -> None:
    line = parsed(**QUERY, predictions=[["a", math.inf], ["b", math.inf], ["c", 0], ["d", -math.inf], ["e", -math.inf]])
    assert line.levels.tolist() == [0, 0, 1, 2, 2]


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_levels_tie_where_scores_do(scores: list[float]) -> None:
    ordered = sorted(scores, reverse=True)
    levels = parsed(**QUERY, predictions=[[i, score] for i, score in enumerate(ordered)]).levels.tolist()
    distinct = sorted(set(ordered), reverse=True)
    assert levels == [distinct.index(score) for score in ordered]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "neither head nor tail is given"),
        ({"head": "a", "tail": "b", "relation": "r"}, "head and tail are given, but not the side"),
        ({"head": "a"}, "no relation"),
        ({"relation": "r", "side": "tail", "tail": "b"}, "no head"),
        ({**QUERY, "side": "left"}, "the side is neither 'head' nor 'tail', but 'left'"),
        ({**QUERY, "side": 1}, "the side is neither 'head' nor 'tail', but 1"),
        ({**QUERY, "gold_head": "a"}, "head and gold_head are the same field"),
        ({"head": ["a"], "relation": "r"}, "the head is neither a name nor an id, but ['a']"),
        ({"head": True, "relation": "r"}, "the head is neither a name nor an id, but True"),
        ({"head": "a", "relation": 1.5}, "the relation is neither a name nor an id, but 1.5"),
        ({**QUERY, "predictions": None}, "no list of predictions"),
        ({**QUERY, "predictions": "b"}, "the predictions are not a list"),
        ({**QUERY, "predictions": ["b", None]}, "prediction 2 is not a name, id, [name, score] or {entity, score}"),
        ({**QUERY, "predictions": ["b", True]}, "prediction 2 is not a name, id, [name, score] or {entity, score}"),
        ({**QUERY, "predictions": [["b", 1, 2]]}, "prediction 1 is not a name, id, [name, score] or {entity, score}"),
        ({**QUERY, "predictions": [{"name": "b"}]}, "prediction 1 is not a name, id, [name, score] or {entity, score}"),
        ({**QUERY, "predictions": [["b", 1], "c"]}, "prediction 2 has no score, though others do"),
        ({**QUERY, "predictions": [["b", 1], ["c", "0"]]}, "the score of prediction 2 is not a number, but '0'"),
        ({**QUERY, "predictions": [["b", True]]}, "the score of prediction 1 is not a number, but True"),
        ({**QUERY, "predictions": [["b", 1], ["c", math.nan]]}, "the score of prediction 2 is NaN"),
        ({**QUERY, "predictions": [["b", 10**400]]}, "a score is too large for float64"),
        (
            {**QUERY, "predictions": [["b", 1], ["c", 0.5], ["d", 0.75]]},
            "the best must come first, but the score rises from 0.5 to 0.75 at prediction 3",
        ),
    ],
)
def test_what_is_wrong_is_said(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(LineError) as caught:
        parsed(**({"predictions": ["c"]} | fields))
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON (Expecting property name enclosed in double quotes, column 2)"),
        ('["a"]', "not a JSON object"),
        ("7" * 5000, "not readable as JSON (a number too long, or nested too deeply)"),
        ("[" * 100_000, "not readable as JSON (a number too long, or nested too deeply)"),
    ],
    ids=["cut", "array", "long number", "deep"],
)
def test_what_is_not_json_is_said(text: str, problem: str) -> None:
    with pytest.raises(LineError) as caught:
        parse_line(text)
    assert str(caught.value) == problem


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
    ids=["order", "length", "ties", "triple"],
)
def test_two_lists_for_one_query_are_refused(other: dict[str, Any], write: Write, people: KnowledgeGraph) -> None:
    (problem,) = refused(write([ADA, other]), people).problems
    assert problem.startswith("answers.jsonl, line 2: line 1 has a different list for the same query")


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
        "line 6: 'Cyy' is no known entity (nearest: 'Cy'), 17 is outside the entity ids 0..5",
        "line 7: 'Eve' is the name of more than one entity",
        "line 8: 2 is predicted twice",
        "line 9: 'Xi' is no known entity",
        "line 10: the best must come first",
    ]
    *lines, summary = problems
    for problem, part in zip(lines, said, strict=True):
        assert problem.startswith(f"answers.jsonl, {part}")
    assert summary.startswith(
        "answers.jsonl: 8 answers: 4 matched by label, 1 matched by id, 1 ambiguous, 2 unknown, 1 r"
    )


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


@pytest.mark.parametrize("name", ["answers.jsonl", "answers.jsonl.gz"])
def test_a_line_without_an_end_is_refused_while_it_is_read(tmp_path: Path, people: KnowledgeGraph, name: str) -> None:
    size = 128 << 20
    with (gzip.open if name.endswith(".gz") else open)(tmp_path / name, "wb") as file:
        file.write(b'{"head": "Ada", "relation": "knows", "predictions": ["Bob"]}\n')
        file.write(b'{"head": "Bob", "relation": "knows", "predictions": [')
        for _ in range(size >> 20):
            file.write(b" " * (1 << 20))
        file.write(b"]}\n")
    tracemalloc.start()
    with pytest.raises(DataError) as caught:
        open_top_k(tmp_path / name, people)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "line 2 is longer than" in caught.value.problems[0]
    assert peak < size


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        '{"head": 0, "relation": 0, "predictions": ' + "[" * 100_000,
        '{"head": ' + "1" * 5000 + ', "relation": 0, "predictions": [1]}',
        '{"head": 1' + "0" * 400 + ', "relation": 0, "predictions": [1]}',
        '{"head": 0, "relation": 0, "predictions": [1' + "0" * 400 + "]}",
        '{"head": 0, "relation": 0, "predictions": [[1, 1' + "0" * 400 + "]]}",
        '{"head": {}, "relation": [], "predictions": [1]}',
        '{"head": 0, "relation": 0, "side": {}, "predictions": [1]}',
        '{"head": 0, "relation": 0, "predictions": {"a": 1}}',
        '{"head": 0, "relation": 0, "predictions": [{"entity": []}, {"score": {}}]}',
        '{"head": 0, "relation": 0, "predictions": [[1, true]]}',
        '{"head": "\\ud800", "relation": 0, "predictions": [1]}',
        "\x00",
    ],
    ids=range(13),
)
def test_lines_of_all_kinds_are_named(write: Write, people: KnowledgeGraph, line: str) -> None:
    with pytest.raises(DataError) as caught:
        open_top_k(write([line]), people)
    problem, *summary = caught.value.problems
    assert problem.startswith("answers.jsonl, line 1: ")
    for text in (problem, *summary):
        assert len(text) < 300
        assert text.encode()


def test_fields_by_the_names_of_rdf() -> None:
    line = parse_line('{"subject": "Ada", "predicate": "knows", "predictions": ["Bob"]}')
    assert (line.side, line.given, line.relation) == ("tail", "Ada", "knows")
    line = parse_line('{"subject": "x", "predicate": "knows", "object": "Ada", "side": "subject", "predictions": []}')
    assert (line.side, line.given, line.target) == ("head", "Ada", "x")
    with pytest.raises(LineError, match="tail and object are the same field"):
        parse_line('{"tail": "Ada", "object": "Ada", "relation": "knows", "predictions": []}')
