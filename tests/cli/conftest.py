from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import kgprobe as kp
from kgprobe.cli.main import main


@dataclass(frozen=True)
class Run:
    code: int
    out: str
    err: str


Command = Callable[..., Run]


@pytest.fixture
def kgprobe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command line in this process, errors and exit code included."""

    def run(*arguments: object) -> Run:
        monkeypatch.setattr("sys.argv", ["kgprobe", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        captured = capsys.readouterr()
        return Run(code, captured.out, captured.err)

    return run


@pytest.fixture
def graph_dir(tmp_path: Path) -> Path:
    """A graph of four entities and two relations."""
    directory = tmp_path / "tiny"
    directory.mkdir()
    (directory / "entities.dict").write_text("".join(f"{i}\te{i}\n" for i in range(4)))
    (directory / "relations.dict").write_text("0\tlikes\n1\tknows\n")
    (directory / "train.txt").write_text("e0\tlikes\te1\ne1\tlikes\te2\ne2\tknows\te0\ne0\tknows\te3\n")
    (directory / "test.txt").write_text("e0\tlikes\te2\ne1\tknows\te3\n")
    return directory


def _queries(**changes: object) -> dict[str, object]:
    columns: dict[str, object] = {
        "head": [0, 0, 1, 1],
        "relation": [0, 0, 1, 1],
        "tail": [2, 2, 3, 3],
        "side": ["head", "tail", "head", "tail"],
        "rank": [1.0, 2.0, 3.0, 1.5],
        "ties": [0, 0, 0, 1],
        "candidates": [3, 3, 3, 4],
    }
    return columns | changes


@pytest.fixture
def queries() -> Callable[..., dict[str, object]]:
    """Both sides of the two test facts of the tiny graph as columns, some of them changed."""
    return _queries


@pytest.fixture
def ranks_file(tmp_path: Path) -> Path:
    path = tmp_path / "model.parquet"
    kp.Ranks.from_columns(**_queries()).write(path)  # type: ignore[arg-type]
    return path


@pytest.fixture
def seeded_file(tmp_path: Path) -> Path:
    path = tmp_path / "seeded.parquet"
    ranks = {1: [1.0, 2.0, 3.0, 1.5], 2: [2.0, 2.0, 3.0, 1.5]}
    runs = {seed: kp.Ranks.from_columns(**_queries(rank=rank)) for seed, rank in ranks.items()}  # type: ignore[arg-type]
    kp.merge_seeds(runs).write(path)
    return path


@pytest.fixture
def interval_file(tmp_path: Path) -> Path:
    """Two of four ranks are exact, one is 2 or 3, one anything from 2 to 4."""
    path = tmp_path / "lists.parquet"
    changes = {"rank": [1.0, 2.0, 2.0, 2.0], "ties": [0] * 4, "worst_rank": [None, None, 3.0, 4.0]}
    kp.Ranks.from_columns(**_queries(**changes)).write(path)  # type: ignore[arg-type]
    return path
