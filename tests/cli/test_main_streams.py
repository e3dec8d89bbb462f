"""Standard output or standard error that is closed, full, or without a reader: a clear message, and never exit 0."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "kgprobe"]
FEW = ["--replicates", "100"]
PRINTING = {
    "eval": ["eval", "RANKS"],
    "surface": ["surface", "RANKS", "--beta", "0"],
    "compare": ["compare", "RANKS", *FEW],
    "decide": ["decide", "RANKS", "--beta", "0", *FEW],
    "check": ["check", "RANKS", "-f", "json"],
    "report": ["report", "RANKS", "-o", "OUT.md", *FEW],
    "metrics": ["metrics", "-f", "csv"],
    "graph stats": ["graph", "stats", "GRAPH"],
    "openworld estimate": ["openworld", "estimate", "RANKS", "--missing", "0.1", "--entities", "4", "--draws", "4"],
    "openworld split": ["openworld", "split", "GRAPH", "-o", "OUT"],
    "version": ["--version"],
    "help": ["--help"],
}


@pytest.fixture
def shell(tmp_path: Path, graph_dir: Path, ranks_file: Path):
    """Run a command with a redirection of a shell; give its exit code and what it wrote to standard error."""
    places = {"RANKS": ranks_file, "GRAPH": graph_dir, "OUT": tmp_path / "out", "OUT.md": tmp_path / "out.md"}

    def run(arguments: list[str], redirection: str, **environment: str) -> subprocess.CompletedProcess[str]:
        words = [*COMMAND, *(str(places.get(word, word)) for word in arguments)]
        script = ["sh", "-c", f'exec "$@" {redirection}', "sh", *words]
        return subprocess.run(
            script, capture_output=True, text=True, check=False, timeout=120, env={**os.environ, **environment}
        )

    return run


def assert_refused(done: subprocess.CompletedProcess[str], said: str) -> None:
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    at = lines.index("Error: standard output: cannot be written")  # there may be notes before it
    assert lines[at + 1 :] == [f"  - {said}", "Remedy: send the results to a file or program that takes them"]


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("redirection", "said"),
    [(">&-", "it is closed"), (">/dev/full", "No space left on device")],
    ids=["closed", "full"],
)
def test_results_that_cannot_be_written(shell, redirection: str, said: str, unbuffered: str) -> None:
    assert_refused(shell(PRINTING["eval"], redirection, PYTHONUNBUFFERED=unbuffered), said)


@pytest.mark.slow
@pytest.mark.parametrize("command", PRINTING)
def test_results_of_every_command_that_cannot_be_written(shell, command: str) -> None:
    assert_refused(shell(PRINTING[command], ">&-"), "it is closed")
    assert_refused(shell(PRINTING[command], ">/dev/full"), "No space left on device")


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "<&- 2>&-"])
def test_notes_that_cannot_be_written_do_not_change_results(shell, redirection: str) -> None:
    arguments = ["rank", "random", "--graph", "GRAPH", "-o", "OUT"]  # it writes a note
    done = shell(arguments, redirection)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "<&- >&- 2>&-"])
def test_an_error_that_cannot_be_told_is_still_an_exit_code(shell, redirection: str) -> None:
    done = shell(["eval", "absent.parquet"], redirection)
    assert (done.returncode, done.stdout) == (1, "")


def test_a_closed_stream_does_not_lend_its_number_to_a_file(shell, tmp_path: Path) -> None:
    # The file that is opened first would get number 1, and with it everything printed.
    done = shell(["rank", "random", "--graph", "GRAPH", "-o", "OUT"], ">&-")
    assert done.returncode == 0
    again = shell(["rank", "random", "--graph", "GRAPH", "-o", "OUT.md"], "")
    assert again.returncode == 0
    assert (tmp_path / "out").read_bytes() == (tmp_path / "out.md").read_bytes()


def test_a_file_name_that_is_no_text_is_printed_as_its_bytes(ranks_file: Path, tmp_path: Path) -> None:
    output = os.fsencode(tmp_path) + b"/\xff.md"
    done = subprocess.run(
        [*COMMAND, "report", ranks_file, "--replicates", "100", "-o", output], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, output + b"\n")
    assert os.path.exists(output)
