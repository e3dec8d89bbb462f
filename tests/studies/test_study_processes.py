"""Commands in processes of their own: their failures in words, how many run at a time, and none outlives its parent."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kgprobe.studies.study_processes import Job, run_jobs


def job(place: Path, name: str, *arguments: str) -> Job:
    return Job(name, arguments, place / "logs" / f"{name}.log")


def ended(jobs: list[Job], at_once: int = 2) -> dict[str, str | None]:
    return {one.name: failure for one, failure in run_jobs(jobs, at_once, lambda shares: None, print)}


def waiting_job(place: Path, name: str = "waits") -> Job:
    """A command that waits for somebody to write a study into a pipe."""
    os.mkfifo(place / f"{name}.toml")
    return job(place, name, "study", "run", str(place / f"{name}.toml"), f"--output={place}/out")


def test_failures_are_told_from_success_and_lack_of_memory(tmp_path):
    found = ended(
        [
            job(tmp_path, "version", "--version"),
            job(tmp_path, "wrong", "eval", f"{tmp_path}/no.parquet"),
            job(tmp_path, "short", "eval", f"{tmp_path}/there is not enough memory"),
        ]
    )
    assert found["version"] is None
    assert str(found["wrong"]).startswith(f"wrong failed (exit code 1): {tmp_path}/no.parquet: ")
    assert str(found["short"]).startswith(f"out of memory: short: {tmp_path}/there is not enough memory")
    assert (tmp_path / "logs" / "version.log").read_text().strip()


def test_a_killed_process_was_short_of_memory_and_no_more_run_than_allowed(tmp_path):
    jobs = [waiting_job(tmp_path, name) for name in ("one", "two")]
    seen: list[list[str]] = []
    killed: set[int] = set()

    def watch(shares: dict[str, float]) -> None:
        seen.append(list(shares))
        for child in children(os.getpid()):
            if child not in killed and ".toml" in command(child):
                killed.add(child)
                os.kill(child, signal.SIGKILL)

    reasons = [failure for _, failure in run_jobs(jobs, 1, watch, print)]
    assert [str(reason).split(":")[0] for reason in reasons] == ["out of memory", "out of memory"]
    assert max(map(len, seen)) == 1
    assert {name for names in seen for name in names} == {"one", "two"}


def children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    if not listed.exists():
        pytest.skip("this system does not list the children of a process")
    return [int(child) for child in listed.read_text().split()]


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


PARENT = """
import sys
from pathlib import Path
from kgprobe.studies.study_processes import Job, run_jobs
log, *arguments = sys.argv[1:]
list(run_jobs([Job("waits", tuple(arguments), Path(log))], 1, lambda shares: print("watched", flush=True), print))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not kill the children of a killed process")
def test_a_child_dies_with_its_parent(tmp_path):
    waiting = waiting_job(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(waiting.log), *waiting.arguments], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "watched\n"
        (child,) = children(parent.pid)
        assert alive(child)
        parent.kill()
    deadline = time.monotonic() + 20
    while alive(child):
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            pytest.fail("the child was still there")
        time.sleep(0.01)


def test_closing_asks_running_processes_to_stop(tmp_path):
    jobs = [job(tmp_path, "version", "--version"), waiting_job(tmp_path)]
    running = run_jobs(jobs, 2, lambda shares: None, print)
    assert next(running) == (jobs[0], None)
    (child,) = [one for one in children(os.getpid()) if ".toml" in command(one)]
    running.close()
    assert not alive(child)
