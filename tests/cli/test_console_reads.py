"""Every command opens and validates each of its rank files exactly once."""

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kgprobe.ranks import schema

COMMANDS = {
    "eval": ["eval"],
    "surface": ["surface"],
    "check": ["check"],
    "compare": ["compare", "--replicates", "100", "--permutations", "100"],
    "compare to a page": ["compare", "--replicates", "100", "--permutations", "100", "-o", "OUT.html"],
    "decide": ["decide", "--alpha", "1", "--beta", "0", "--replicates", "100"],
    "decide on a map": ["decide", "--replicates", "100"],
    "report": ["report", "--replicates", "100", "-o", "OUT.html"],
    "report as a table": ["report", "--replicates", "100", "-o", "OUT.md"],
    "figure": ["figure", "rank-histogram", "-o", "OUT.pdf"],
    "estimate": ["openworld", "estimate", "--missing", "0.2", "--entities", "9", "--draws", "4", "--odds", "1,2"],
}


@pytest.fixture
def files(kgprobe, tmp_path: Path) -> list[Path]:
    """Rank files of two models on the graph in the folder `tiny`."""
    graph, names = tmp_path / "tiny", ["likes", "knows"]
    graph.mkdir()
    (graph / "train.txt").write_text("".join(f"e{i}\t{names[i % 2]}\te{(i * i + 1) % 9}\n" for i in range(9)))
    (graph / "test.txt").write_text("".join(f"e{i}\tknows\te{(i + 3) % 9}\n" for i in range(9)))
    paths = [tmp_path / f"model{seed}.parquet" for seed in range(2)]
    for seed, path in enumerate(paths):
        assert kgprobe("rank", "random", "--graph", graph, "--seed", seed, "--name", f"m{seed}", "-o", path).code == 0
    return paths


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts the rank files that are opened and the validations that are run."""
    counts: Counter[str] = Counter()
    opened, checked = pq.ParquetFile.__init__, schema.Checker.__init__

    def open_file(self: object, source: object, *args: object, **kwargs: object) -> None:
        counts[Path(str(source)).name] += 1
        opened(self, source, *args, **kwargs)

    def check(self: schema.Checker, *args: object, **kwargs: object) -> None:
        counts["validations"] += 1
        checked(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(pq.ParquetFile, "__init__", open_file)
    monkeypatch.setattr(schema.Checker, "__init__", check)
    return counts


@pytest.mark.parametrize("graph", [True, False], ids=["with graph", "alone"])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_rank_file_is_opened_and_validated_once(
    kgprobe, files: list[Path], reads: Counter[str], tmp_path: Path, command: str, graph: bool
) -> None:
    arguments = [str(tmp_path / word) if word.startswith("OUT") else word for word in COMMANDS[command]]
    if command == "estimate" and graph:
        arguments = [word for word in arguments if word not in ("--entities", "9")]
    beta = ["--beta", "0"] if not graph and command in ("surface", "decide on a map") else []
    done = kgprobe(*arguments, *files, *beta, *(["--graph", tmp_path / "tiny"] if graph else []))
    assert "Traceback" not in done.err
    assert done.code == 0 or command == "check", done.err
    assert reads == {"model0.parquet": 1, "model1.parquet": 1, "validations": 2}
