"""A disk that is full while a command writes: the old file stays, nothing else is left, and the message says why."""

import subprocess
import sys
from pathlib import Path

import pytest

FEW = ["--replicates", "100"]
WRITING = {
    "figure as PDF": ["figure", "transformers", "-o", "OUT.pdf"],
    "figure as SVG": ["figure", "transformers", "-o", "OUT.svg"],
    "figure as PNG": ["figure", "transformers", "-o", "OUT.png"],
    "all figures": ["figure", "all", "-o", "OUT"],
    "rank": ["rank", "random", "--graph", "GRAPH", "-o", "OUT.parquet"],
    "report": ["report", "RANKS", "-o", "OUT.html", *FEW],
    "compare": ["compare", "RANKS", *FEW, "-o", "OUT.json"],
    "split": ["openworld", "split", "GRAPH", "-o", "OUT"],
}
QUICK = ["figure as PDF", "rank"]
_BYTES = 1000


def run(arguments: list[str], folder: Path, inputs: dict[str, Path]) -> subprocess.CompletedProcess[str]:
    """Run a command that may write files of at most 1,000 bytes, which is an error as on a full disk."""
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({_BYTES}, {_BYTES}))"
    code = f"{limit}; from kgprobe.cli.main import main; main()"
    words = [str(folder / word if word.startswith("OUT") else inputs.get(word, word)) for word in arguments]
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "command", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in WRITING]
)
def test_a_full_disk_keeps_the_old_file(tmp_path: Path, ranks_file: Path, graph_dir: Path, command: str) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    target = next(word for word in WRITING[command] if word.startswith("OUT"))
    if "." in target:
        (folder / target).write_text("old")
    done = run(WRITING[command], folder, {"RANKS": ranks_file, "GRAPH": graph_dir})
    assert "Traceback" not in done.stderr
    assert "File too large" in done.stderr
    assert done.returncode == 1
    left = [path for path in folder.rglob("*") if path.is_file()]
    assert all(not path.name.endswith(".tmp") for path in left)
    if "." in target:
        assert [(path.name, path.read_text()) for path in left] == [(target, "old")]
