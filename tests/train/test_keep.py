"""A run in memory keeps what a run on disk keeps: copies, and no more of the log than belongs to the state."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kgprobe.train.keep import Keep, MemoryKeep
from kgprobe.train.run.checkpoint import Checkpoint
from kgprobe.train.run.names import snapshot_path
from runs import TARGETS, begin, bits, row, some_tensors


@pytest.fixture(params=["memory", "disk"])
def keep(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Keep]:
    if request.param == "memory":
        yield MemoryKeep()
        return
    with begin(tmp_path / "run") as run:
        yield run


def _logged(keep: Keep) -> list[dict[str, object]]:
    return keep.rows if isinstance(keep, MemoryKeep) else keep.log_file.rows()  # type: ignore[attr-defined]


def _snapshot(keep: Keep, epoch: int, seed: int) -> tuple[dict[str, torch.Tensor], dict[str, object]]:
    if isinstance(keep, MemoryKeep):
        return keep.snapshots[epoch, seed]
    checkpoint = Checkpoint.read(snapshot_path(keep.path, epoch, seed))  # type: ignore[attr-defined]
    assert (checkpoint.target, checkpoint.seed) == ("", seed)
    return dict(checkpoint.tensors), dict(checkpoint.facts)


def test_a_run_begins_with_nothing(keep: Keep) -> None:
    keep.log(row(1))
    assert keep.load_state() is None
    assert _logged(keep) == []


def test_a_state_is_what_it_was_when_it_was_kept(keep: Keep) -> None:
    tensors = some_tensors()
    before = list(bits(tensors))
    keep.save_state(tensors, {"epoch": 3, "best": {"MRR": [None, 0.1]}})
    for own in tensors.values():
        own.zero_()
    found = keep.load_state()
    assert found is not None
    assert list(bits(found[0])) == before
    assert found[1] == {"epoch": 3, "best": {"MRR": [None, 0.1]}}


def test_what_is_loaded_can_be_changed_without_harm(keep: Keep) -> None:
    keep.save_state({"own": torch.ones(3)}, {"epoch": 3})
    first = keep.load_state()
    assert first is not None
    first[0]["own"].zero_()
    second = keep.load_state()
    assert second is not None
    assert second[0]["own"].tolist() == [1, 1, 1]


def test_rows_after_the_state_are_forgotten(keep: Keep) -> None:
    keep.log(row(2))
    keep.save_state({"own": torch.ones(1)}, {"epoch": 2})
    keep.log(row(4))
    keep.log(row(6))
    keep.load_state()
    assert _logged(keep) == [row(2)]
    keep.log(row(4, seconds=0.75))
    assert _logged(keep) == [row(2), row(4, seconds=0.75)]


def test_every_target_and_seed_has_a_checkpoint_of_its_own(keep: Keep) -> None:
    for number, (target, seed) in enumerate((target, seed) for target in TARGETS for seed in (3, 8)):
        keep.save_best(target, seed, {"entity": torch.full((1, 2), 99.0)}, {"epoch": 1})
        keep.save_best(target, seed, {"entity": torch.full((1, 2), float(number))}, {"epoch": number})
    for number, (target, seed) in enumerate((target, seed) for target in TARGETS for seed in (3, 8)):
        tensors, facts = keep.load_best(target, seed)
        assert tensors["entity"].tolist() == [[number, number]]
        assert facts == {"epoch": number}


def test_every_epoch_and_seed_has_a_snapshot_of_its_own(keep: Keep) -> None:
    own = torch.zeros(1, 2)
    for number, (epoch, seed) in enumerate((epoch, seed) for epoch in (0, 50, 100_000) for seed in (3, 8)):
        keep.save_snapshot(epoch, seed, {"entity": own.fill_(number)}, {"epoch": epoch})
    own.fill_(99)
    for number, (epoch, seed) in enumerate((epoch, seed) for epoch in (0, 50, 100_000) for seed in (3, 8)):
        tensors, facts = _snapshot(keep, epoch, seed)
        assert tensors["entity"].tolist() == [[number, number]]
        assert facts == {"epoch": epoch}
