"""A training of a model of rules that is killed goes on to the same end, whatever it was about to do."""

import signal
from pathlib import Path

import pytest

from kgprobe.train.run_records import RunLog
from killing import Moment, run_command
from rule_trainings import QUICK, family
from runs import TARGETS, assert_same_run


def _arguments(model: str, place: Path, run: str) -> list[str]:
    settings = QUICK[model] | {"batch_size": 32, "learning_rate": 0.01, "snapshot_every": 4, "patience": 0}
    texts = {name: str(value).strip("()") for name, value in settings.items()}
    options = [text for name, value in texts.items() for text in ("--set", f"{name}={value}")]
    options += [text for target in TARGETS for text in ("--select", target)]
    where = ["--graph", str(place / "graph"), "--output", str(place / run), "--device", "cpu", "--threads", "1"]
    return ["train", model, *where, *options, "--seeds", "3,8"]


@pytest.mark.slow
@pytest.mark.parametrize("model", QUICK)
def test_a_run_that_is_killed_ends_as_if_it_had_not_been(model: str, tmp_path: Path) -> None:
    family().write(tmp_path / "graph")
    whole = run_command(_arguments(model, tmp_path, "undisturbed"), tmp_path)
    assert whole.code == 0, whole.said
    # Counted anew by every process: while the first rules are sought, when some epochs are kept, as files are written.
    # Ctrl-C stops it after the epoch, and says which one is saved.
    shares = [("training", 0.1, signal.SIGKILL), ("training", 0.3, signal.SIGINT), ("writing", 0.4, signal.SIGKILL)]
    for number, (part, share, kind) in enumerate(shares):
        moment = Moment(part, max(1, int(share * whole.events[part])), kind)
        again = ["--resume"] if number else []
        killed = run_command([*_arguments(model, tmp_path, "killed"), *again], tmp_path, moment)
        assert killed.code == (130 if kind == signal.SIGINT else -kind), (moment, killed.said)
        assert kind == signal.SIGKILL or "is saved; the same command with --resume" in killed.said
    last = run_command([*_arguments(model, tmp_path, "killed"), "--resume"], tmp_path)
    assert last.code == 0, last.said
    assert len(assert_same_run(tmp_path / "undisturbed", tmp_path / "killed")) > 1 + 2 * len(TARGETS)
    assert RunLog(tmp_path / "killed" / "log.jsonl").rows()
