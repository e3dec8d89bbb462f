"""Trainings of a study: finished ones are never repeated, failed ones are named, killed ones are continued."""

import json
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import kgprobe as kp
from kgprobe.studies.study_work import StudyResult, open_study, plan_study, run_study
from kgprobe.train.run_records import RunLog
from study_folders import study_text, training, write_graph, write_study

EPOCHS, EVERY = 400, 20

LONG = training(epochs=EPOCHS, validate_every=EVERY, patience=0)

MODELS = {
    "Good": training(select=["MRR", "Hits@1"], epochs=4),
    "Long": LONG,
    "Diverging": training(learning_rate=1e30, optimiser="adagrad", validate_every=2, epochs=50),
    "Chance": 'model = "random"',
}
CLAIMS = """
[[claims]]
name = "better"
kind = "better"
graph = "small"
model = "Good"
than = "Chance"
metric = "MRR"
statement = "Training helps"
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("trained")
    write_graph(place, "small")
    write_study(place, study_text(["small"], MODELS, claims=CLAIMS, seeds=[3, 8]))
    return place


@pytest.fixture(scope="module")
def killed(place: Path) -> dict[Path, int]:
    """A study that is killed while its second model is trained; gives when the files of trainings were written."""
    command = [sys.executable, "-m", "kgprobe", "study", "run", str(place / "study.toml"), "-o", str(place / "out")]
    log = place / "said.txt"
    with log.open("w") as said, subprocess.Popen([*command, *OPTIONS, "--jobs=1"], stdout=said, stderr=said) as parent:
        wait_for_state(place / "out", "Long", parent, log)
        parent.kill()
    while (place / "out" / "runs").exists() and "Long" in running():
        time.sleep(0.01)
    return {path: path.stat().st_mtime_ns for path in (place / "out" / "runs").rglob("*")}


OPTIONS = ["--device=cpu", "--threads=1"]


def wait_for_state(folder: Path, model: str, parent: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until a training has saved a state."""
    while not list((folder / "runs").glob(f"*/{model}-*/state.safetensors")):
        assert parent.poll() is None, log.read_text()
        time.sleep(0.005)


def running() -> str:
    """The commands of all processes."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return "\n".join(found)


@pytest.fixture(scope="module")
def notes() -> list[str]:
    return []


@pytest.fixture(scope="module")
def result(place: Path, notes: list[str], killed: dict[Path, int]) -> StudyResult:
    """The same study, continued to its end."""
    return run_study(place / "study.toml", place / "out", jobs=2, threads=1, device="cpu", note=notes.append)


def run_of(folder: Path, model: str) -> Path:
    (run,) = (path for path in (folder / "runs" / "small").glob(f"{model}-*") if path.is_dir())
    return run


def test_ranks_of_record_are_those_of_the_first_selection_metric(place, result):
    lineup = result.sources["own"].lineups["small"]
    assert lineup.models == ("Good", "Long", "Chance")
    assert len(lineup.runs["Good"]) == 2
    kept, run = place / "out" / "ranks" / "small" / "Good.parquet", run_of(place / "out", "Good")
    assert kept.read_bytes() == (run / "ranks.parquet").read_bytes()
    training_info = kp.read_ranks(kept).info.training
    assert training_info is not None
    assert training_info.selected_by == "MRR"
    assert [checkpoint.seed for checkpoint in training_info.checkpoints] == [3, 8]


def test_the_same_training_by_hand_has_the_same_ranks(place, result):
    settings = {"dimension": 4, "epochs": 4, "validate_every": 1, "select": ["MRR", "Hits@1"], "seeds": [3, 8]}
    fitted = kp.fit("complex", place / "graphs" / "small", threads=1, **settings)
    kept = kp.read_ranks(place / "out" / "ranks" / "small" / "Good.parquet")
    assert kept.rank.tolist() == fitted.ranks["MRR"].rank.tolist()


def test_a_training_that_fails_is_named_and_stops_nothing_else(place, result, notes):
    reason = result.missing["own", "small", "Diverging"]
    assert reason.startswith("Diverging on small failed (exit code 1): ")
    assert "diverged" in reason
    log = run_of(place / "out", "Diverging")
    assert "diverged" in log.with_name(f"{log.name}.log").read_text()
    assert reason in notes
    assert "Long on small: trained" in notes
    assert open_study(place / "out").missing == result.missing


def test_finished_trainings_are_known_and_failed_ones_are_tried_again(place, result):
    rows = {row["model"]: row for row in plan_study(place / "study.toml", place / "out").to_rows()}
    assert {model: row["state"] for model, row in rows.items()} == {
        "Good": "finished",
        "Long": "finished",
        "Diverging": "begun",
        "Chance": "finished",
    }
    assert rows["Good"]["seconds"] == 0


def test_ranks_are_kept_without_their_run(place, result, tmp_path):
    """Checkpoints are large; without them nothing is trained again."""
    shutil.copytree(place / "out" / "ranks", tmp_path / "out" / "ranks")
    for name in ("study.toml", "sources.json"):
        shutil.copy(place / "out" / name, tmp_path / "out")
    states = {task.model: task.state for task in plan_study(place / "study.toml", tmp_path / "out").tasks}
    assert states == {"Good": "finished", "Long": "finished", "Diverging": "to do", "Chance": "finished"}


def test_a_finished_run_whose_ranks_were_not_kept_is_not_trained_again(place, result, tmp_path):
    shutil.copytree(place / "out", tmp_path / "out")
    for ending in ("json", "parquet"):
        (tmp_path / "out" / "ranks" / "small" / f"Good.{ending}").unlink()
    before = run_of(tmp_path / "out", "Good").stat().st_mtime_ns
    again = run_study(place / "study.toml", tmp_path / "out", train=False)
    assert again.sources["own"].lineups["small"].models == ("Good", "Long", "Chance")
    assert run_of(tmp_path / "out", "Good").stat().st_mtime_ns == before


def test_a_killed_study_goes_on_where_it_was(place, killed, result):
    """The finished training is left alone; the other one goes on from its last state."""
    good, long = run_of(place / "out", "Good"), run_of(place / "out", "Long")
    assert long / "state.safetensors" in killed
    assert long / "result.json" not in killed
    assert (long / "result.json").exists()
    assert (long / "settings.toml").stat().st_mtime_ns == killed[long / "settings.toml"]  # it was not begun again
    assert [row["epoch"] for row in RunLog(long / "log.jsonl").rows()] == list(range(EVERY, EPOCHS + 1, EVERY))
    assert good / "result.json" in killed
    assert {path: path.stat().st_mtime_ns for path in killed if good in path.parents} == {
        path: time for path, time in killed.items() if good in path.parents
    }


@pytest.mark.slow
def test_ctrl_c_saves_the_epoch_and_the_same_command_continues(tmp_path):
    write_graph(tmp_path, "small")
    models = {"One": LONG.replace(f"{EPOCHS}", "1000000"), "Two": LONG.replace(f"{EPOCHS}", "1000001")}
    study = write_study(tmp_path, study_text(["small"], models, claims=""))
    command = [sys.executable, "-m", "kgprobe", "study", "run", str(study), "-o", str(tmp_path / "out")]
    log = tmp_path / "said.txt"
    with log.open("w") as said, subprocess.Popen([*command, "--jobs=2"], stdout=said, stderr=said) as parent:
        for model in models:
            wait_for_state(tmp_path / "out", model, parent, log)
        parent.send_signal(signal.SIGINT)
        assert parent.wait() == 130
    assert "stopping 2 trainings after their epoch" in log.read_text()
    assert "the same command continues" in log.read_text()
    for path in (tmp_path / "out" / "runs" / "small").glob("*.log"):
        assert "is saved; the same command with --resume continues" in path.read_text()
    assert [task.state for task in plan_study(study, tmp_path / "out").tasks] == ["begun", "begun"]


@pytest.mark.slow
def test_trainings_without_memory_are_tried_alone_and_named(tmp_path):
    write_graph(tmp_path, "small")
    models = {"Large": training(dimension=10**13), "Small": training()}
    study = write_study(tmp_path, study_text(["small"], models, claims=""))
    notes: list[str] = []
    result = run_study(study, tmp_path / "out", jobs=2, device="cpu", note=notes.append)
    assert result.missing["own", "small", "Large"].startswith("out of memory: ")
    assert "there is not enough memory" in result.missing["own", "small", "Large"]
    assert "1 trainings were short of memory, and are tried again one at a time" in notes
    assert result.sources["own"].lineups["small"].models == ("Small",)


@pytest.mark.slow
def test_open_world_models_are_trained_and_evaluated_once(tmp_path):
    write_graph(tmp_path, "small")
    claims = """
[openworld]
world = "graphs/small"
density = 0.6
[openworld.models.A]
TRAIN
[openworld.models.B]
TRAIN

[[claims]]
name = "keeps"
kind = "keeps-order"
metric = "MRR"
than = "Hits@1"
missing = 0.4
statement = "MRR keeps the order"
""".replace("TRAIN", training(epochs=4))
    study = write_study(tmp_path, study_text(["small"], {"Chance": ""}, claims=claims))
    result = run_study(study, tmp_path / "out", device="cpu")
    points = result.sources["own"].worlds[0.4]
    assert points.models == ("A", "B")
    assert points.checkpoints[:5] == tuple(f"epoch-{epoch:05d}" for epoch in range(5))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "openworld").rglob("*")}
    assert [task.state for task in plan_study(study, tmp_path / "out").tasks] == ["finished", "finished"]
    assert run_study(study, tmp_path / "out").verdicts == result.verdicts
    assert {path: path.stat().st_mtime_ns for path in before} == before
    (tmp_path / "out" / "openworld" / "pairs" / "A" / "epoch-00002.open.parquet").unlink()
    assert run_study(study, tmp_path / "out", train=False).verdicts == result.verdicts
    shorter = json.loads((tmp_path / "out" / "openworld" / "pairs" / "A" / "evaluated.json").read_text())
    assert len(shorter["files"]) == 10
