"""Files of tensors are read back bit for bit, are the same bytes whenever written, and say when they are damaged."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from kgprobe.errors import DataError
from kgprobe.predict.sources.arrays import open_arrays
from kgprobe.train.run.contents import clear_temporary
from kgprobe.train.run.tensors import read_facts, read_tensors, write_tensors
from killing import killed_writing, write_in_turn
from runs import bits, some_tensors

FACTS = {"kind": "test", "epoch": 5, "score": 0.1 + 0.2, "nothing": None, "names": ["ä", "b"]}


def _refused(path: Path) -> str:
    with pytest.raises(DataError, match="cannot be read") as error:
        read_tensors(path)
    assert str(path) in error.value.title
    assert error.value.remedy
    return error.value.problems[0]


def test_everything_comes_back_to_the_last_bit(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    write_tensors(path, some_tensors(), FACTS)
    tensors, facts = read_tensors(path)
    assert list(bits(tensors)) == list(bits(some_tensors()))
    assert facts == FACTS
    assert read_facts(path) == FACTS


def test_the_same_is_written_as_the_same_bytes(tmp_path: Path) -> None:
    for name in "ab":
        tensors = dict(sorted(some_tensors().items(), reverse=name == "a"))
        write_tensors(tmp_path / name, tensors, dict(sorted(FACTS.items(), reverse=name == "b")))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_parts_of_one_memory_are_written_apart(tmp_path: Path) -> None:
    stack = torch.arange(6.0).reshape(2, 3)
    write_tensors(tmp_path / "a", {"first": stack[:1], "second": stack[1:], "both": stack}, {})
    assert read_tensors(tmp_path / "a")[0]["second"].tolist() == [[3, 4, 5]]


def test_nothing_else_is_left_in_the_folder(tmp_path: Path) -> None:
    write_tensors(tmp_path / "best" / "mrr" / "seed-0.safetensors", some_tensors(), FACTS)
    assert [path.name for path in (tmp_path / "best" / "mrr").iterdir()] == ["seed-0.safetensors"]


def test_others_may_read_what_they_may_read_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    write_tensors(tmp_path / "own", some_tensors(), FACTS)
    assert (tmp_path / "own").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_the_light_reader_sees_the_facts(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a.safetensors", {"entity": torch.eye(2)}, FACTS)
    header = json.loads(open_arrays(tmp_path / "a.safetensors").header or "")
    assert header.items() >= FACTS.items()


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    write_tensors(path, {"own": torch.arange(100.0)}, FACTS)
    whole = path.read_bytes()
    for length in (0, 4, 8, 60, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert _refused(path)
        with pytest.raises(DataError):
            read_facts(path)


@pytest.mark.parametrize("position", [-1, -300])
def test_a_bit_that_has_flipped_is_noticed(position: int, tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    write_tensors(path, {"own": torch.arange(100.0)}, FACTS)
    damaged = bytearray(path.read_bytes())
    damaged[position] ^= 4
    path.write_bytes(damaged)
    assert _refused(path) == "its numbers are not those that were written"


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x04 a pickle", b"PK\x03\x04", b"x" * 64], ids=["empty", "pickle", "zip", "x"]
)
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    path.write_bytes(content)
    assert _refused(path)


@pytest.mark.parametrize("metadata", [None, {"other": "x"}, {"kgprobe": "no JSON"}, {"kgprobe": "[1]"}], ids=str)
def test_tensors_of_others_are_refused(metadata: dict[str, str] | None, tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    save_file({"own": torch.ones(2)}, path, metadata)
    assert _refused(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert _refused(tmp_path / "state.safetensors") == "no such file"


def test_a_process_killed_while_it_writes_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    write_in_turn(path, times=1)
    for seconds in (0, 0, *np.random.default_rng(0).uniform(0, 0.01, 4)):
        killed_writing(path, seconds)
        tensors, facts = read_tensors(path)
        assert (tensors["own"] == facts["number"]).all()
        clear_temporary(tmp_path)
        assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="cannot be written"):
        write_tensors(tmp_path / "file" / "state.safetensors", some_tensors(), {})
