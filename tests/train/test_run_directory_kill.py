"""Whatever stops a training, it goes on to the same end: the same checkpoints, bit for bit, and the same ranks."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from kgprobe.train.checkpoints import State
from kgprobe.train.run_records import RunLog
from killing import Moment, Session, run_command
from runs import TARGETS, assert_same_run, small_graph

EPOCHS = 24

SNAPSHOT_EVERY = 5

"""Not when validations are, so that some come between two states, and are then written again."""

SNAPSHOTS = (*range(0, EPOCHS, SNAPSHOT_EVERY), EPOCHS)

SESSION = 8

"""Into how many pieces a training is cut: a process is killed within the first of those that are left."""


def _arguments(place: Path, run: str, *more: str) -> list[str]:
    select = [text for target in TARGETS for text in ("--select", target)]
    settings = {"dimension": 4, "epochs": EPOCHS, "validate-every": 2, "batch-size": 32, "patience": 0}
    options = [text for name, value in settings.items() for text in (f"--{name}", str(value))]
    where = ["--graph", str(place / "graph"), "--output", str(place / run), "--device", "cpu", "--threads", "1"]
    others = ["--seeds", "3,8", "--set", "learning_rate=0.05", "--set", f"snapshot_every={SNAPSHOT_EVERY}"]
    return ["train", "complex", *where, *others, *select, *options, *more]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    small_graph().write(folder / "graph")
    return folder


@pytest.fixture(scope="module")
def undisturbed(place: Path) -> Session:
    session = run_command(_arguments(place, "undisturbed"), place)
    assert session.code == 0, session.said
    assert min(session.events[part] for part in ("training", "writing", "ranking")) > 1000
    return session


def _moments(whole: dict[str, int], kind: signal.Signals, *parts: str) -> list[Moment]:
    """Random moments within these parts, in any order, then two moments within ranking.

    The second of the two comes after the first target is done, which is then not ranked again.
    """
    rng = np.random.default_rng(5)
    moments = [Moment(part, int(rng.integers(1, whole[part] // SESSION)), kind) for part in rng.permutation(parts)]
    ranking = [rng.uniform(low, high) for low, high in ((0, 0.4), (0.55, 0.9))]
    return moments + [Moment("ranking", 1 + int(share * whole["ranking"]), kind) for share in ranking]


def _assert_same_end(one: Path, other: Path) -> None:
    assert len(assert_same_run(one, other)) == 1 + 2 * len(TARGETS) + 2 * len(SNAPSHOTS)
    assert [row["epoch"] for row in RunLog(one / "log.jsonl").rows()] == list(range(2, EPOCHS + 1, 2))


def _stop_and_go_on(place: Path, run: str, moments: list[Moment], code: int) -> Session:
    """Run into every one of the moments, then to the end; gives the last session that was stopped."""
    for number, moment in enumerate(moments):
        stopped = run_command(_arguments(place, run, *(["--resume"] if number else [])), place, moment)
        assert stopped.code == code, (moment, stopped.said)
        assert not (place / run / "result.json").exists()
    last = run_command(_arguments(place, run, "--resume"), place)
    assert last.code == 0, last.said
    return stopped


def test_a_run_that_is_killed_ten_times_ends_as_if_it_had_not_been(place: Path, undisturbed: Session) -> None:
    moments = _moments(undisturbed.events, signal.SIGKILL, *["training"] * 4, *["writing"] * 4)
    assert len(moments) == 10
    _stop_and_go_on(place, "killed", moments, -signal.SIGKILL)
    _assert_same_end(place / "undisturbed", place / "killed")


def test_a_run_that_is_stopped_by_hand_says_how_to_go_on_and_goes_on(place: Path, undisturbed: Session) -> None:
    moments = _moments(undisturbed.events, signal.SIGINT, "training", "writing")[:3]
    stopped = _stop_and_go_on(place, "stopped", moments, 130)
    assert "the same command with --resume" in stopped.said
    _assert_same_end(place / "undisturbed", place / "stopped")


def test_ctrl_c_saves_the_epoch_and_says_where_it_goes_on(place: Path, undisturbed: Session) -> None:
    # In the middle of an epoch, of which only every second is validated and saved otherwise.
    for number, share in enumerate((0.02, 0.05)):
        moment = Moment("training", int(share * undisturbed.events["training"]), signal.SIGINT)
        stopped = run_command(_arguments(place, "asked", *(["--resume"] if number else [])), place, moment)
        assert stopped.code == 130, stopped.said
        said = re.search(
            r"epoch (\d+) of 24 is saved; the same command with --resume continues with epoch (\d+)", stopped.said
        )
        assert said, stopped.said
        saved = State.read(place / "asked" / "state.safetensors").progress["epoch"]
        assert [int(epoch) for epoch in said.groups()] == [saved, saved + 1]
    last = run_command(_arguments(place, "asked", "--resume"), place)
    assert last.code == 0, last.said
    _assert_same_end(place / "undisturbed", place / "asked")


def test_a_finished_run_is_shown_again_and_neither_trained_nor_overwritten(place: Path, undisturbed: Session) -> None:
    run = place / "undisturbed"
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.name != ".lock"}
    again = run_command(_arguments(place, run.name, "--resume"), place)
    assert (again.code, again.events) == (0, {})
    refused = run_command(_arguments(place, run.name), place)
    assert refused.code == 2
    assert "--force" in refused.said
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.name != ".lock"} == before


def test_a_second_process_is_turned_away_while_the_first_trains_and_let_in_when_it_is_killed(place: Path) -> None:
    arguments = _arguments(place, "shared", "--set", "label_smoothing=0.1")
    arguments[arguments.index("--epochs") + 1] = "1000000"
    with subprocess.Popen([sys.executable, "-m", "kgprobe", *arguments], stderr=subprocess.PIPE, text=True) as first:
        try:
            while not (place / "shared" / "state.safetensors").exists():
                assert first.poll() is None, first.communicate()[1]
                time.sleep(0.01)
            second = run_command([*arguments, "--resume"], place)
            assert second.code == 2
            assert "another process is training in this run directory" in second.said
            assert str(first.pid) in second.said
            assert run_command([*arguments, "--force"], place).code == 2
        finally:
            first.kill()
    third = run_command([*arguments, "--resume"], place, Moment("training", 10))
    assert third.code == -signal.SIGKILL, third.said
