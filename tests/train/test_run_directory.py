"""A run is begun where there is room for it, thrown away only when told to, and continued only as what it is.

Two processes never train into one run; a killed one leaves it free.

Metrics as names of files: readable, safe on every system, never the same for two metrics.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given

from kgprobe.errors import DataError, UsageError
from kgprobe.files import Lock
from kgprobe.metrics import METRICS, Metric
from kgprobe.train.run_directory import RunDirectory
from kgprobe.train.run_files import slug
from kgprobe.train.run_records import environment
from kgprobe.train.settings import read_settings
from runs import TARGETS, begin, progress, quick_settings, row, small_graph, some_tensors
from support import metrics

GRAPH = small_graph()

SETTINGS = quick_settings()


def _create(path: Path, *, force: bool = False) -> RunDirectory:
    return RunDirectory.create(path, SETTINGS, GRAPH, environment(GRAPH, threads=1), force=force)


def _full_run(path: Path, *, finished: bool = True) -> Path:
    with begin(path, GRAPH) as run:
        for target in TARGETS:
            run.save_best(target, 3, {"entity": torch.ones(1, 2)}, {"epoch": 2})
        run.save_snapshot(2, 3, {"entity": torch.ones(1, 2)}, {"epoch": 2})
        run.log(row(2))
        run.save_state(some_tensors(), progress(2))
        (path / "ranks.parquet").write_bytes(b"ranks")
        (path / "ranks-mrr.parquet").write_bytes(b"ranks")
        if finished:
            run.save_result({"epochs": 2, "seconds": 0.5, "training_seconds": 0.4, "targets": {}})
    return path


def _files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_a_run_says_what_it_is(tmp_path: Path) -> None:
    with begin(tmp_path / "deep" / "run", GRAPH) as run:
        assert read_settings(run.path / "settings.toml") == run.settings == SETTINGS
        about = json.loads((run.path / "environment.json").read_text(encoding="utf-8"))
        assert about["graph"]["content_hash"] == GRAPH.content_hash
        assert {name: value for name, value in about.items() if name != "sha256"} == run.environment
        assert not run.finished


def test_its_files_have_the_names_that_are_documented(tmp_path: Path) -> None:
    best = {f"best/{name}/seed-3.safetensors" for name in ("probe-alpha-1-beta-0", "mrr")}
    best.add("snapshots/epoch-00002/seed-3.safetensors")
    others = {"settings.toml", "environment.json", "log.jsonl", "curve.csv", "state.safetensors", "result.json"}
    assert _files(_full_run(tmp_path / "run")) == best | others | {"ranks.parquet", "ranks-mrr.parquet", ".lock"}


def test_a_finished_run_is_not_overwritten(tmp_path: Path) -> None:
    path = _full_run(tmp_path / "run")
    before = _files(path)
    with pytest.raises(UsageError, match="finished run") as error:
        _create(path)
    assert "force=True" in error.value.remedy
    assert _files(path) == before


def test_an_unfinished_run_can_be_continued_or_thrown_away(tmp_path: Path) -> None:
    path = _full_run(tmp_path / "run", finished=False)
    with pytest.raises(UsageError, match="unfinished run") as error:
        _create(path)
    assert "resume=True" in error.value.remedy
    assert "force=True" in error.value.remedy


def test_force_throws_away_the_run_and_nothing_else(tmp_path: Path) -> None:
    path = _full_run(tmp_path / "run")
    (path / "snapshots/mine").mkdir()
    others = ("notes.md", "best/notes.md", "best/mrr/mine.safetensors", "ranksheet.parquet", "snapshots/mine/seed.md")
    for name in others:
        (path / name).write_text("mine", encoding="utf-8")
    with _create(path, force=True) as run:
        assert run.load_state() is None
        assert _files(path) == {"settings.toml", "environment.json", ".lock", *others}
        assert not (path / "snapshots/epoch-00002").exists()


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("name", ["thesis.tex", "log.jsonl", "state.safetensors", "best/model.pt"])
def test_a_folder_with_other_things_is_left_alone(name: str, force: bool, tmp_path: Path) -> None:
    path = tmp_path / "mine"
    (path / name).parent.mkdir(parents=True)
    (path / name).write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="holds other files") as error:
        _create(path, force=force)
    assert name.split("/")[0] in error.value.problems[0]
    assert _files(path) == {name}


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="it is a file"):
        _create(tmp_path / "run")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="cannot be written"):
        _create(tmp_path / "file" / "run")


def test_a_name_that_no_folder_can_have(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be used as a run directory"):
        _create(tmp_path / ("x" * 5000))
    with pytest.raises(DataError, match="cannot be used as a run directory"):
        RunDirectory.resume(tmp_path / ("x" * 5000), GRAPH)


def test_a_folder_in_the_place_of_a_file_is_not_thrown_away(tmp_path: Path) -> None:
    path = _full_run(tmp_path / "run")
    (path / "result.json").unlink()
    (path / "result.json").mkdir()
    with pytest.raises(DataError, match="cannot be used as a run directory") as error:
        _create(path, force=True)
    assert "result.json" in error.value.problems[0]
    assert (path / "result.json").is_dir()


def test_what_was_killed_before_there_was_a_run_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir()
    for name in (".lock", "environment.json", ".settings.toml.123.tmp"):
        (path / name).write_text("half", encoding="utf-8")
    _create(path).close()
    assert _files(path) == {".lock", "environment.json", "settings.toml"}


def test_a_run_goes_on_as_it_was_and_half_written_files_are_removed(tmp_path: Path) -> None:
    path = _full_run(tmp_path / "run", finished=False)
    before = _files(path)
    half = (".state", "best/mrr/.seed-3", "snapshots/epoch-00002/.seed-3")
    for name in (f"{stem}.safetensors.77.tmp" for stem in half):
        (path / name).write_text("half", encoding="utf-8")
    with RunDirectory.resume(path, small_graph(name="renamed"), {"epochs": 6, "seeds": (3, 8)}) as run:
        assert run.settings == SETTINGS
        assert _files(path) == before
        found = run.load_state()
    assert found is not None
    assert found[1] == progress(2)


@pytest.mark.parametrize("make", [lambda path: None, Path.mkdir], ids=["nothing", "empty folder"])
def test_where_there_is_no_run_none_goes_on(make: object, tmp_path: Path) -> None:
    make(tmp_path / "run")  # type: ignore[operator]
    with pytest.raises(UsageError, match="no run to resume"):
        RunDirectory.resume(tmp_path / "run", GRAPH)
    assert not (tmp_path / "run" / ".lock").exists()


def test_all_settings_that_differ_are_named(tmp_path: Path) -> None:
    _full_run(tmp_path / "run")
    given = {"epochs": 7, "dimension": 4, "seeds": (3, 9), "gamma": 1.0}
    with pytest.raises(UsageError, match="other settings") as error:
        RunDirectory.resume(tmp_path / "run", GRAPH, given)
    assert error.value.problems == [
        "epochs is 7, and was 6",
        "seeds is [3, 9], and was [3, 8]",
        "gamma is 1.0, and the run has no such setting",
    ]


def test_everything_that_is_damaged_is_named_at_once(tmp_path: Path) -> None:
    path = _full_run(tmp_path / "run")
    (path / "environment.json").write_text("{}", encoding="utf-8")
    for name in ("state.safetensors", "best/mrr/seed-3.safetensors"):
        (path / name).write_bytes((path / name).read_bytes()[:-3])
    with pytest.raises(DataError, match="cannot be resumed") as error:
        RunDirectory.resume(path, GRAPH, {"epochs": 7})
    problems = "\n".join(error.value.problems)
    assert len(error.value.problems) == 4
    assert all(name in problems for name in ("environment.json", "state.safetensors", "mrr/seed-3", "epochs is 7"))
    assert "force=True" in error.value.remedy


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("settings.toml", "epochs = = 3", "not TOML"),
        ("settings.toml", "epochs = 3", "does not name its model"),
        ("settings.toml", 'model = "ComplEx"\nepochz = 3\ndimension = 0', "epochz"),
        ("environment.json", None, "No such file"),
        ("environment.json", '{"graph": {"name": "small"}}', "graph.content_hash is missing"),
        ("environment.json", "[]", "not the JSON"),
    ],
    ids=["no TOML", "no model", "unknown setting", "no environment", "half a graph", "no object"],
)
def test_settings_and_surroundings_that_cannot_be_read(
    name: str, content: str | None, said: str, tmp_path: Path
) -> None:
    path = _full_run(tmp_path / "run")
    (path / name).unlink() if content is None else (path / name).write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match="cannot be resumed") as error:
        RunDirectory.resume(path, GRAPH)
    assert said in "\n".join(error.value.problems)


def test_the_state_is_no_checkpoint_and_a_checkpoint_no_state(tmp_path: Path) -> None:
    path = _full_run(tmp_path / "run")
    checkpoint, state = path / "best/mrr/seed-3.safetensors", path / "state.safetensors"
    one, other = checkpoint.read_bytes(), state.read_bytes()
    checkpoint.write_bytes(other)
    state.write_bytes(one)
    with pytest.raises(DataError, match="cannot be resumed") as error:
        RunDirectory.resume(path, GRAPH)
    assert len(error.value.problems) == 2


def test_another_graph_is_refused_and_both_are_named(tmp_path: Path) -> None:
    _full_run(tmp_path / "run")
    other = small_graph(seed=1, name="other")
    with pytest.raises(DataError, match="cannot be resumed") as error:
        RunDirectory.resume(tmp_path / "run", other)
    assert "small (12 entities" in error.value.problems[0]
    assert "other (12 entities" in error.value.problems[0]
    assert GRAPH.content_hash[:12] in error.value.problems[0]
    assert other.content_hash[:12] in error.value.problems[0]


def test_a_checkpoint_that_is_not_there(tmp_path: Path) -> None:
    with begin(tmp_path / "run", GRAPH) as run, pytest.raises(DataError, match=r"mrr/seed-8\.safetensors"):
        run.load_best("MRR", 8)


HOLD = """
import sys
from pathlib import Path
from kgprobe.files import Lock
lock = Lock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_turned_away_until_the_first_is_killed(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UsageError, match="another process is working in this directory") as error:
            Lock(path)
        assert error.value.problems == [f"its process id is {holder.pid}"]
    finally:
        holder.kill()
        holder.communicate()
    Lock(path).release()


def test_neither_resume_nor_force_goes_past_it(tmp_path: Path) -> None:
    graph = small_graph()
    with begin(tmp_path / "run", graph) as run:
        with pytest.raises(UsageError, match="another process"):
            RunDirectory.resume(run.path, graph)
        with pytest.raises(UsageError, match="another process"):
            RunDirectory.create(run.path, run.settings, graph, {}, force=True)
        assert (run.path / "settings.toml").exists()
    RunDirectory.resume(run.path, graph).close()


def test_a_run_that_is_refused_is_not_left_locked(tmp_path: Path) -> None:
    graph = small_graph()
    begin(tmp_path / "run", graph).close()
    with pytest.raises(UsageError, match="unfinished run"):
        begin(tmp_path / "run", graph)
    with pytest.raises(UsageError, match="other settings"):
        RunDirectory.resume(tmp_path / "run", graph, {"epochs": 99})
    RunDirectory.resume(tmp_path / "run", graph).close()


@given(metrics(), metrics())
def test_two_metrics_never_share_a_name(one: Metric, other: Metric) -> None:
    assert (slug(str(one)) == slug(str(other))) == (str(one) == str(other))


@given(metrics())
def test_names_are_safe_everywhere(metric: Metric) -> None:
    assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*[a-z0-9]", slug(str(metric)))


def test_one_metric_written_in_two_ways_is_one() -> None:
    assert slug("probe(beta=0, alpha=1)") == slug("PROBE(alpha=1,beta=0)") == "probe-alpha-1-beta-0"


def test_the_plain_metrics_have_different_names() -> None:
    names = [slug(str(metric())) for metric in METRICS]
    assert len(set(names)) == len(names)
