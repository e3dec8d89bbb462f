"""Two processes never train into one run; a killed one leaves it free."""

import subprocess
import sys
from pathlib import Path

import pytest

from kgprobe.errors import UsageError
from kgprobe.train.run.directory import RunDirectory
from kgprobe.train.run.lock import Lock
from runs import begin, small_graph

HOLD = """
import sys
from pathlib import Path
from kgprobe.train.run.lock import Lock
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
        with pytest.raises(UsageError, match="another process trains into this run") as error:
            Lock(path)
        assert error.value.problems == [f"its process number is {holder.pid}"]
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
    with pytest.raises(UsageError, match="not finished"):
        begin(tmp_path / "run", graph)
    with pytest.raises(UsageError, match="other settings"):
        RunDirectory.resume(tmp_path / "run", graph, {"epochs": 99})
    RunDirectory.resume(tmp_path / "run", graph).close()
