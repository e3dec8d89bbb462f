import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "kgprobe"]


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_away_is_not_answered_with_a_traceback(ranks_file: Path, unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [*COMMAND, "eval", str(ranks_file), "-m", "MR"]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_results_are_the_same_bytes_under_every_locale(ranks_file: Path) -> None:
    command = [*COMMAND, "eval", str(ranks_file), "-m", "MR"]
    printed = [
        subprocess.run(command, stdout=subprocess.PIPE, check=True, env={**os.environ, "PYTHONIOENCODING": encoding})
        for encoding in ("ascii", "utf-8")
    ]
    assert len({done.stdout for done in printed}) == 1
    assert "─" in printed[0].stdout.decode()


def test_an_interrupt_ends_the_command_without_a_traceback(tmp_path: Path) -> None:
    command = [*COMMAND, "demo", "--output", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("1. A graph")  # so it is at work
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1]
    assert process.returncode == 130
    assert "Traceback" not in said
    assert not [path for path in tmp_path.iterdir() if path.suffix != ".parquet"]
