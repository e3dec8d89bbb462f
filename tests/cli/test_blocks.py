"""``kgprobe rank --blocks``, and ``kgprobe blocks``."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kgprobe.cli.main import with_values


@pytest.fixture
def ranking(kgprobe, graph_dir: Path, tmp_path: Path) -> tuple[Path, bytes]:
    """A ranking whose first half is counted, and the rank file that it makes."""
    expected, folder = tmp_path / "expected.parquet", tmp_path / "ranking"
    assert kgprobe("rank", "random", "-g", graph_dir, "-o", expected).code == 0
    done = kgprobe("rank", "random", "-g", graph_dir, "--blocks", folder, "--part", "1/2")
    assert (done.code, done.out) == (0, "")
    assert f"when all parts are: kgprobe blocks merge {folder}" in done.err
    return folder, expected.read_bytes()


def test_parts_are_merged(kgprobe, graph_dir: Path, ranking: tuple[Path, bytes], tmp_path: Path) -> None:
    folder, expected = ranking
    out = tmp_path / "ranks.parquet"
    early = kgprobe("blocks", "merge", folder, "-o", out)
    assert early.code == 1
    assert "parts 2 of 2 were not run, or not to their end" in early.err
    assert not out.exists()
    assert kgprobe("rank", "random", "-g", graph_dir, "--blocks", folder, "--part", "2/2").code == 0
    done = kgprobe("blocks", "merge", folder, "-o", out)
    assert (done.code, done.out) == (0, "")
    assert "wrote" in done.err
    assert out.read_bytes() == expected


def test_without_a_part_the_rest_is_counted_and_written(
    kgprobe, graph_dir: Path, ranking: tuple[Path, bytes], tmp_path: Path
) -> None:
    folder, expected = ranking
    out = tmp_path / "ranks.parquet"
    assert kgprobe("rank", "random", "-g", graph_dir, "--blocks", folder, "-o", out).code == 0
    assert out.read_bytes() == expected
    assert folder.is_dir()


def test_the_status_is_a_table_and_one_row_of_data(kgprobe, ranking: tuple[Path, bytes]) -> None:
    folder, _ = ranking
    shown = kgprobe("blocks", "status", folder)
    assert shown.code == 0
    assert "missing" in shown.out
    (row,) = json.loads(kgprobe("blocks", "status", folder, "--format", "json").out)
    assert (row["model"], row["graph"]) == ("random", "tiny")
    assert row["done"] + row["missing"] == row["blocks"] > row["done"] > 0
    assert (row["running"], row["stopped"], row["seconds_left"]) == (0, 0, None)


@pytest.mark.parametrize(
    ("options", "problems"),
    [
        ([], ["there is no rank file to write: give --output"]),
        (["--part", "1/2"], ["give --blocks"]),
        (["--blocks", "b", "--part", "1/2", "-o", "x.parquet"], ["leave out --output"]),
        (["-o", "x.parquet", "--workers", "2", "--gpus", "1"], ["--workers, --gpus belong to --ray"]),
        (
            ["--part", "1/2", "-o", "x.parquet", "--cpus", "2"],
            ["give --blocks", "leave out --output", "belong to --ray"],
        ),
        (["--blocks", "b", "--part", "3/2"], ["'3/2' is not a part"]),
        (["--blocks", "b", "--sample", "5", "-o", "x"], ["samples are not ranked by blocks: leave out --sample"]),
    ],
)
def test_options_that_do_not_go_together(
    kgprobe, graph_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: list[str], problems: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    done = kgprobe("rank", "random", "-g", graph_dir, *options)
    assert done.code == 2
    assert all(problem in done.err for problem in problems)
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]


def test_a_directory_that_holds_something_else(kgprobe, graph_dir: Path, tmp_path: Path) -> None:
    for command in ("merge", "status"):
        options = ["-o", tmp_path / "x.parquet"] if command == "merge" else []
        done = kgprobe("blocks", command, graph_dir, *options)
        assert done.code == 1
        assert "not the directory of a ranking" in done.err
    done = kgprobe("rank", "random", "-g", graph_dir, "--blocks", graph_dir, "-o", tmp_path / "x.parquet")
    assert done.code == 2
    assert "other files than those of a ranking" in done.err or "is a file of the input" in done.err


def test_another_ranking_in_the_directory(
    kgprobe, graph_dir: Path, ranking: tuple[Path, bytes], tmp_path: Path
) -> None:
    folder, _ = ranking
    done = kgprobe("rank", "random", "-g", graph_dir, "--seed", 1, "--blocks", folder, "-o", tmp_path / "x.parquet")
    assert done.code == 2
    assert "it holds the blocks of another ranking" in done.err
    assert not (tmp_path / "x.parquet").exists()


def test_the_blocks_are_no_output(kgprobe, ranking: tuple[Path, bytes]) -> None:
    folder, _ = ranking
    done = kgprobe("blocks", "merge", folder, "-o", folder / "queries.parquet")
    assert done.code == 2
    assert "an input would be overwritten" in done.err


def test_ray_without_an_address_is_this_machine() -> None:
    assert with_values(["rank", "x", "--ray", "--workers", "2"]) == ["rank", "x", "--ray=local", "--workers", "2"]
    assert with_values(["rank", "x", "--ray"]) == ["rank", "x", "--ray=local"]
    assert with_values(["rank", "--ray", "auto", "x"]) == ["rank", "--ray", "auto", "x"]
    assert with_values(["rank", "--ray=auto", "x"]) == ["rank", "--ray=auto", "x"]


@pytest.mark.slow
def test_on_ray_the_blocks_go_when_the_rank_file_is_written(
    kgprobe, graph_dir: Path, ranking: tuple[Path, bytes], tmp_path: Path
) -> None:
    out = tmp_path / "ranks.parquet"
    done = kgprobe("rank", "random", "-g", graph_dir, "--ray", "--workers", "2", "--cpus", "1", "-o", out)
    assert done.code == 0, done.err
    assert out.read_bytes() == ranking[1]
    assert not out.with_name("ranks.parquet.blocks").exists()


@pytest.mark.slow
def test_an_interrupt_keeps_what_is_counted(tmp_path: Path) -> None:
    folder = tmp_path / "ranking"
    out = tmp_path / "ranks.parquet"
    words = ["rank", "random", "-g", "family-tree", "--blocks", folder, "--batch", "1", "-o", out]
    command = [sys.executable, "-m", "kgprobe", *map(str, words)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while not any((folder / "blocks").glob("*.parquet")) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode in (130, 0), said
    assert "Traceback" not in said
    subprocess.run(command, check=True, capture_output=True)
    plain = [*command[:3], "rank", "random", "-g", "family-tree", "-o", str(tmp_path / "plain.parquet")]
    subprocess.run(plain, check=True, capture_output=True)
    assert out.read_bytes() == (tmp_path / "plain.parquet").read_bytes()
