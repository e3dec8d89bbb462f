from itertools import pairwise

import pytest

from kgprobe.cli.training_output import SparseNotes, standings, steps_done
from kgprobe.train.trainer import TrainingProgress
from kgprobe.train.validation import Best


def told(epochs: int, every: int, validates: bool) -> list[int]:
    """The epochs after which a line is written, in a training that tells what the trainer does."""
    lines: list[str] = []
    notes = SparseNotes(lines.append, validates)
    progress = TrainingProgress(epochs, steps_an_epoch=3)
    for epoch in range(epochs):
        for step in range(4):
            progress.step = step
            notes(progress)
        progress.epoch, progress.loss = epoch + 1, [0.5]
        notes(progress)
        if validates and (progress.epoch % every == 0 or progress.epoch == epochs):
            progress.phase = "validating"
            notes(progress)
            progress.last, progress.best = {"MRR": [0.5]}, {"MRR": [Best(0.5, progress.epoch)]}
            notes(progress)
            progress.phase = "training"
    if validates:
        assert all("MRR 0.5000, best 0.5000" in line for line in lines)
    return [int(line.split("/")[0].removeprefix("epoch ")) for line in lines]


@pytest.mark.parametrize("epochs", [1, 7, 19, 20, 21, 100, 999])
@pytest.mark.parametrize("every", [1, 5, 50])
@pytest.mark.parametrize("validates", [True, False])
def test_a_log_has_few_lines_and_the_last_epoch(epochs: int, every: int, validates: bool) -> None:
    lines = told(epochs, every, validates)
    assert lines[-1] == epochs
    assert len(lines) <= 21
    assert all(first < second for first, second in pairwise(lines))
    if validates:
        assert all(epoch % every == 0 or epoch == epochs for epoch in lines)


def test_what_is_done_before_the_first_validation_is_told_once() -> None:
    lines: list[str] = []
    notes = SparseNotes(lines.append, validates=True)
    progress = TrainingProgress(5, steps_an_epoch=3)
    for epoch in range(3):
        for phase in ("mining", "training", "grounding", "validating") if epoch < 2 else ("mining", "pruning"):
            progress.phase, progress.step = phase, progress.step + 1
            notes(progress)
        progress.epoch, progress.loss = epoch + 1, [0.5]
    assert lines == [
        "epoch 0/5, mining",
        "epoch 0/5, grounding",
        "epoch 2/5, loss 0.5000, 0 steps a second, pruning",
    ]


def test_steps_never_run_backwards_between_epochs() -> None:
    inside = steps_done(TrainingProgress(10, 4, epoch=2, step=3))
    after = steps_done(TrainingProgress(10, 4, epoch=3, step=4))
    begun = steps_done(TrainingProgress(10, 4, epoch=3, step=0))
    assert (inside, after, begun) == (11, 12, 12)


def test_targets_without_a_value_yet_are_left_out() -> None:
    assert standings(TrainingProgress(10, 4, best={"MRR": [None, None]})) == []
    assert standings(TrainingProgress(10, 4, best={"MRR": [Best(0.5, 1), None]})) == ["MRR best 0.5000"]
