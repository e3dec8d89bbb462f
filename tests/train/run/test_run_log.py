"""The log grows row by row, is cut back to the byte, and gives the validation curve."""

import csv
from pathlib import Path

import pytest

from kgprobe.errors import DataError
from kgprobe.train.run.curve import write_curve
from kgprobe.train.run.log import Log
from runs import TARGETS, row


def test_half_a_row_that_a_killed_process_left_is_cut_off(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl")
    log.add(row(2))
    length = log.length
    with log.path.open("ab") as file:
        file.write(b'{"epoch": 4, "sco')
    log.cut(length)
    log.add(row(4))
    assert log.rows() == [row(2), row(4)]


def test_a_log_that_lost_rows_is_refused(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl")
    log.add(row(2))
    with pytest.raises(DataError, match="rows are missing") as error:
        log.cut(log.length + 1)
    assert "--force" in error.value.remedy


def test_all_rows_that_are_no_rows_are_named(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl")
    log.path.write_text('{"epoch": 2}\nnot JSON\n[4]\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"log\.jsonl") as error:
        log.rows()
    assert error.value.problems == ["row 2 is no JSON object: 'not JSON'", "row 3 is no JSON object: '[4]'"]


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be written"):
        Log(tmp_path / "nowhere" / "log.jsonl").add(row(2))


def test_the_curve_has_a_line_for_each_validation_target_and_seed(tmp_path: Path) -> None:
    write_curve(tmp_path / "curve.csv", [row(2), row(4)], [3, 8])
    with (tmp_path / "curve.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    expected = [
        (epoch, seed, target, epoch / by) for epoch in (2, 4) for target in TARGETS for seed, by in ((3, 100), (8, 200))
    ]
    assert [(int(line["epoch"]), int(line["seed"]), line["target"], float(line["score"])) for line in lines] == expected
    assert [line["loss"] for line in lines[:2]] == ["0.7", "0.6"]
