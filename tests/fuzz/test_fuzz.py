"""Every input is refused with a message that names its file, or read as the plain reader of its format reads it."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuzz.campaign import Batch, Counts, fuzz, table
from fuzz.guided import packed, unpacked
from fuzz.inputs import ACCEPTED, FAILED, REFUSED, Kind, judge, write
from fuzz.kinds import KINDS
from fuzz.mutators import make_input
from kgprobe.errors import DataError


@pytest.mark.parametrize("name", KINDS)
def test_valid_inputs_are_accepted_and_read_right(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    verdicts = [judge(kind, files, tmp_path / "input") for files in kind.seeds]
    assert [str(verdict) for verdict in verdicts if verdict.outcome != ACCEPTED] == []


@pytest.mark.parametrize("name", KINDS)
def test_mutated_inputs_are_refused_or_read_right(name: str, tmp_path: Path) -> None:
    counts = fuzz(KINDS[name], 0, range(50), tmp_path)
    assert not counts.failures, table([counts])


@pytest.mark.campaign
@pytest.mark.parametrize("name", KINDS)
def test_two_thousand_mutated_inputs_are_refused_or_read_right(name: str, tmp_path: Path) -> None:
    counts = fuzz(KINDS[name], 0, range(2000), tmp_path)
    assert not counts.failures, table([counts])
    assert counts.outcomes[REFUSED] > 100  # else the mutations change nothing
    assert counts.outcomes[ACCEPTED] > 40  # one input in fifty is valid, so the plain reader has been asked


@pytest.mark.parametrize("name", KINDS)
def test_an_input_is_made_again_from_its_number(name: str) -> None:
    again = replace(KINDS[name], make=lambda: KINDS[name].seeds)
    inputs = [dict(make_input(KINDS[name], 7, index)) for index in range(10)]
    assert inputs == [dict(make_input(again, 7, index)) for index in range(10)]
    assert any(files not in KINDS[name].seeds for files in inputs)


@pytest.mark.parametrize("name", KINDS)
def test_coverage_guidance_keeps_an_input_as_it_is(name: str) -> None:
    files = make_input(KINDS[name], 1, 1)
    assert unpacked(packed(files)) == files


def _kind(read: Callable[[Path], Any], expect: Callable[[Path], Any] = lambda _: 1, **options: Any) -> Kind:
    return Kind("planted", lambda: [{"a.txt": b"one\n"}], read, expect, **options)


def _raises(error: Exception) -> Callable[[Path], Any]:
    def read(_folder: Path) -> Any:
        raise error

    return read


def _warns(_folder: Path) -> int:
    warnings.warn("invalid value", RuntimeWarning, stacklevel=1)
    return 1


class _Careless:
    def __del__(self) -> None:
        raise ValueError("printed, not raised")


def _prints_a_traceback(_folder: Path) -> int:
    _Careless()
    return 1


PLANTED = {
    "ValueError: bad": _kind(_raises(ValueError("bad"))),
    "wrong value: : 2 instead of 1": _kind(lambda _: 2),
    "wrong value: : nan instead of nan": _kind(lambda _: float("nan"), lambda _: float("nan")),
    "accepted, but invalid: KeyError": _kind(lambda _: 1, lambda _: {}["rank"]),
    "refused without the name of the file": _kind(_raises(DataError("something is wrong"))),
    "refused without a message": _kind(_raises(DataError(" "))),
    "warning: invalid value": _kind(_warns),
    "a traceback on standard error": _kind(_prints_a_traceback),
    "Overtime": _kind(lambda _: time.sleep(5), seconds=0.05),
    "MemoryError": _kind(lambda _: bytearray(1 << 40)),
}


@pytest.mark.parametrize("problem", PLANTED)
def test_a_planted_fault_is_found(problem: str, tmp_path: Path) -> None:
    verdict = judge(PLANTED[problem], {"a.txt": b"one\n"}, tmp_path / "input")
    assert verdict.outcome == FAILED
    assert verdict.problem.startswith(problem)


def test_a_refusal_that_names_the_file_is_no_failure(tmp_path: Path) -> None:
    kind = _kind(_raises(DataError("a.txt: not a number")))
    assert judge(kind, {"a.txt": b"one\n"}, tmp_path / "input").outcome == REFUSED
    assert sys.unraisablehook is sys.__unraisablehook__ or sys.unraisablehook.__module__ != "fuzz.inputs"


def test_each_distinct_failure_is_saved_once(tmp_path: Path) -> None:
    counts = fuzz(_kind(_raises(ValueError("bad"))), 3, range(20), tmp_path)
    assert counts.outcomes == {FAILED: 20}
    (saved,) = (tmp_path / "planted").iterdir()
    assert saved.name == "3-0"
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == dict(make_input(_kind(int), 3, 0))


def test_an_input_that_ends_its_process_is_saved(tmp_path: Path) -> None:
    batch = Batch(_kind(int), 0, 0, 9, tmp_path / "failures", tmp_path / "scratch")
    write({"a.txt": b"the last one"}, tmp_path / "scratch" / "input")
    counts = batch.result(-11)
    assert counts.failures == {"the process ended with -11": 1}
    assert (tmp_path / "failures" / "planted" / "0-0-crash" / "a.txt").read_bytes() == b"the last one"


def test_counts_survive_the_way_through_a_file(tmp_path: Path) -> None:
    counts = fuzz(_kind(lambda _: 2), 0, range(3), tmp_path)
    counts.write(tmp_path / "counts.json")
    again = Counts.read(tmp_path / "counts.json")
    again.merge(counts)
    assert again.row() == {"kind": "planted", "inputs": 6, "refused": 0, "accepted": 0, "failed": 6, "distinct": 1}
