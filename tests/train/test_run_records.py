"""What is remembered of the surroundings of a run, and what is said when they have changed.

The log grows row by row, is cut back to the byte, and gives the validation curve.
"""

import csv
import json
import platform
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import kgprobe as kp
from kgprobe.errors import DataError
from kgprobe.train.run_records import RunLog, changes, environment, graph_metadata, other_graph, write_curve
from runs import TARGETS, row, small_graph


def test_versions_machine_and_graph_are_named() -> None:
    graph = small_graph()
    found = environment(graph, threads=3)
    assert json.loads(json.dumps(found)) == found
    assert (found["python"], found["torch"], found["numpy"]) == (
        platform.python_version(),
        torch.__version__,
        np.__version__,
    )
    assert found["threads"] == 3
    assert found["graph"] == {
        "name": "small",
        "content_hash": graph.content_hash,
        "learned_hash": graph.learned_hash,
        "entities": 12,
        "relations": 2,
    }


def test_all_changes_are_named_but_those_of_the_graph() -> None:
    before = environment(small_graph(), threads=2)
    now = environment(small_graph(seed=1), threads=1) | {"torch": "9"}
    assert changes(before, before) == []
    assert changes(before, now) == [f"torch was {torch.__version__} and is 9", "threads was 2 and is 1"]


GRAPH = kp.KnowledgeGraph.from_triples(train=[[0, 0, 1]], valid=[[1, 0, 2]], test=[[0, 0, 2]])

OTHER_TEST = replace(GRAPH, splits={**GRAPH.splits, "test": [[2, 0, 0]]})

NO_TEST = replace(GRAPH, splits={split: GRAPH.splits[split] for split in ("train", "valid")})


def test_another_test_split_is_another_graph_unless_it_may_be() -> None:
    for graph in (OTHER_TEST, NO_TEST):
        assert graph.learned_hash == GRAPH.learned_hash
        assert len(other_graph(graph_metadata(GRAPH), graph)) == 1
        assert other_graph(graph_metadata(GRAPH), graph, other_test=True) == []


def test_what_was_learned_must_be_the_same() -> None:
    for split in ("train", "valid"):
        other = replace(GRAPH, splits={**GRAPH.splits, split: [[2, 0, 1]]})
        assert len(other_graph(graph_metadata(GRAPH), other, other_test=True)) == 1
    larger = replace(GRAPH, num_entities=4)
    assert len(other_graph(graph_metadata(GRAPH), larger, other_test=True)) == 1


def test_facts_that_do_not_tell_what_was_learned_are_compared_whole() -> None:
    before = {fact: value for fact, value in graph_metadata(GRAPH).items() if fact != "learned_hash"}
    assert other_graph(before, GRAPH, other_test=True) == []
    assert len(other_graph(before, OTHER_TEST, other_test=True)) == 1


def test_half_a_row_that_a_killed_process_left_is_cut_off(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "log.jsonl")
    log.add(row(2))
    length = log.length
    with log.path.open("ab") as file:
        file.write(b'{"epoch": 4, "sco')
    log.cut(length)
    log.add(row(4))
    assert log.rows() == [row(2), row(4)]


def test_a_log_that_lost_rows_is_refused(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "log.jsonl")
    log.add(row(2))
    with pytest.raises(DataError, match="rows are missing") as error:
        log.cut(log.length + 1)
    assert "force=True" in error.value.remedy


def test_all_rows_that_are_no_rows_are_named(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "log.jsonl")
    log.path.write_text('{"epoch": 2, "seconds": 1, "loss": [], "scores": 5}\nnot JSON\n[4]\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"log\.jsonl") as error:
        log.rows()
    assert error.value.problems == [
        "row 1: scores is 5, and must be an object",
        "row 2 is no JSON object: 'not JSON'",
        "row 3 is no JSON object: '[4]'",
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[" * 99_999, "row 1 is no JSON object"),
        ('{"epoch": ' + "9" * 5000 + "}", "row 1 is no JSON object"),
        ('{"epoch": 2, "seconds": 1, "loss": [0.5], "scores": {"MRR": [0.1, 0.2]}}', "another number of scores"),
        ('{"epoch": 2, "seconds": 1, "loss": [0.5], "scores": {"MRR": 0.1}}', "another number of scores"),
        ('{"epoch": 2, "seconds": 1, "loss": [0.5]}', "scores is missing"),
    ],
    ids=["deep", "digits", "scores", "no list", "no scores"],
)
def test_rows_of_something_else(line: str, said: str, tmp_path: Path) -> None:
    log = RunLog(tmp_path / "log.jsonl")
    log.path.write_text(line, encoding="utf-8")
    with pytest.raises(DataError, match=r"log\.jsonl") as error:
        log.rows()
    assert said in error.value.problems[0]


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be written"):
        RunLog(tmp_path / "nowhere" / "log.jsonl").add(row(2))


def test_the_curve_has_a_line_for_each_validation_target_and_seed(tmp_path: Path) -> None:
    write_curve(tmp_path / "curve.csv", [row(2), row(4)], [3, 8])
    with (tmp_path / "curve.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    expected = [
        (epoch, seed, target, epoch / by) for epoch in (2, 4) for target in TARGETS for seed, by in ((3, 100), (8, 200))
    ]
    assert [(int(line["epoch"]), int(line["seed"]), line["target"], float(line["score"])) for line in lines] == expected
    assert [line["loss"] for line in lines[:2]] == ["0.7", "0.6"]
