import itertools
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


@pytest.mark.parametrize("width", [56, 80, 200])
@pytest.mark.parametrize("name", ["rank", "openworld split"])
def test_help_is_wrapped_to_the_width(name: str, width: int) -> None:
    line = [sys.executable, "-m", "kgprobe", *name.split(), "--help"]
    done = subprocess.run(line, capture_output=True, text=True, check=True, env=os.environ | {"COLUMNS": str(width)})
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert max(map(len, done.stdout.splitlines())) <= width
    assert "…" not in done.stdout
    first = next(i for i, line in enumerate(lines) if "Usage" in line) + 1
    while not lines[first] or "[OPTIONS]" in lines[first]:
        first += 1
    paragraphs: list[list[str]] = [[]]
    for text in lines[first:]:
        if text.startswith(("╭", "Arguments", "Options")):
            break
        paragraphs = [*paragraphs, []] if not text else [*paragraphs[:-1], [*paragraphs[-1], text]]
    for paragraph in paragraphs:
        for text, after in itertools.pairwise(paragraph):
            assert len(text) + 1 + len(after.split()[0]) > width - 4, f"{text!r} has room for a word of {after!r}"
