"""A run in memory keeps what a run on disk keeps: copies, and no more of the log than belongs to the state.

Files of tensors are read back bit for bit, are the same bytes whenever written, and say when they are damaged.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from kgprobe.errors import DataError
from kgprobe.predict.array_files import open_arrays
from kgprobe.train.checkpoints import Checkpoint, MemoryStorage, RunStorage, read_metadata, read_tensors, write_tensors
from kgprobe.train.run_directory import clear_temporary
from kgprobe.train.run_files import snapshot_path
from killing import killed_writing, write_in_turn
from runs import TARGETS, begin, bits, progress, row, some_tensors


@pytest.fixture(params=["memory", "disk"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunStorage]:
    if request.param == "memory":
        yield MemoryStorage()
        return
    with begin(tmp_path / "run") as run:
        yield run


def _logged(storage: RunStorage) -> list[dict[str, object]]:
    return storage.rows if isinstance(storage, MemoryStorage) else storage.log_file.rows()  # type: ignore[attr-defined]


def _snapshot(storage: RunStorage, epoch: int, seed: int) -> tuple[dict[str, torch.Tensor], dict[str, object]]:
    if isinstance(storage, MemoryStorage):
        return storage.snapshots[epoch, seed]
    checkpoint = Checkpoint.read(snapshot_path(storage.path, epoch, seed))  # type: ignore[attr-defined]
    assert (checkpoint.target, checkpoint.seed) == ("", seed)
    return dict(checkpoint.tensors), dict(checkpoint.facts)


def test_a_run_begins_with_nothing(storage: RunStorage) -> None:
    storage.log(row(1))
    assert storage.load_state() is None
    assert _logged(storage) == []


def test_a_state_is_what_it_was_when_it_was_kept(storage: RunStorage) -> None:
    tensors = some_tensors()
    before = list(bits(tensors))
    storage.save_state(tensors, progress(3))
    for own in tensors.values():
        own.zero_()
    found = storage.load_state()
    assert found is not None
    assert list(bits(found[0])) == before
    assert found[1] == progress(3)


def test_what_is_loaded_can_be_changed_without_harm(storage: RunStorage) -> None:
    storage.save_state({"own": torch.ones(3)}, progress(3))
    first = storage.load_state()
    assert first is not None
    first[0]["own"].zero_()
    second = storage.load_state()
    assert second is not None
    assert second[0]["own"].tolist() == [1, 1, 1]


def test_rows_after_the_state_are_forgotten(storage: RunStorage) -> None:
    storage.log(row(2))
    storage.save_state({"own": torch.ones(1)}, progress(2))
    storage.log(row(4))
    storage.log(row(6))
    storage.load_state()
    assert _logged(storage) == [row(2)]
    storage.log(row(4, seconds=0.75))
    assert _logged(storage) == [row(2), row(4, seconds=0.75)]


def test_every_target_and_seed_has_a_checkpoint_of_its_own(storage: RunStorage) -> None:
    for number, (target, seed) in enumerate((target, seed) for target in TARGETS for seed in (3, 8)):
        storage.save_best(target, seed, {"entity": torch.full((1, 2), 99.0)}, {"epoch": 1})
        storage.save_best(target, seed, {"entity": torch.full((1, 2), float(number))}, {"epoch": number})
    for number, (target, seed) in enumerate((target, seed) for target in TARGETS for seed in (3, 8)):
        tensors, facts = storage.load_best(target, seed)
        assert tensors["entity"].tolist() == [[number, number]]
        assert facts == {"epoch": number}


def test_every_epoch_and_seed_has_a_snapshot_of_its_own(storage: RunStorage) -> None:
    own = torch.zeros(1, 2)
    for number, (epoch, seed) in enumerate((epoch, seed) for epoch in (0, 50, 100_000) for seed in (3, 8)):
        storage.save_snapshot(epoch, seed, {"entity": own.fill_(number)}, {"epoch": epoch})
    own.fill_(99)
    for number, (epoch, seed) in enumerate((epoch, seed) for epoch in (0, 50, 100_000) for seed in (3, 8)):
        tensors, facts = _snapshot(storage, epoch, seed)
        assert tensors["entity"].tolist() == [[number, number]]
        assert facts == {"epoch": epoch}


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
    assert read_metadata(path) == FACTS


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
            read_metadata(path)


@pytest.mark.parametrize("position", [-1, -300])
def test_a_bit_that_has_flipped_is_noticed(position: int, tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    write_tensors(path, {"own": torch.arange(100.0)}, FACTS)
    damaged = bytearray(path.read_bytes())
    damaged[position] ^= 4
    path.write_bytes(damaged)
    assert _refused(path) == "the checksum does not match: the file has changed since it was written"


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
    for seconds in (0, *np.random.default_rng(0).uniform(0, 0.01, 2)):
        killed_writing(path, seconds)
        tensors, facts = read_tensors(path)
        assert (tensors["own"] == facts["number"]).all()
        clear_temporary(tmp_path)
        assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="cannot be written"):
        write_tensors(tmp_path / "file" / "state.safetensors", some_tensors(), {})
