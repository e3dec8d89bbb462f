import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kgprobe as kp
from kgprobe.cli import progress
from terminal import run_on_terminal


@pytest.fixture
def large_file(tmp_path: Path) -> Path:
    rows = 900_000
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "head": np.arange(rows),
            "relation": rng.integers(0, 9, rows),
            "tail": rng.integers(0, 10**9, rows),
            "side": pa.array(["tail"] * rows),
            "rank": np.floor(1 + 1e9 * rng.random(rows)),
            "candidates": np.full(rows, 2 * 10**9),
            "note": rng.random(rows),
        }
    )
    pq.write_table(table, tmp_path / "large.parquet", compression="none")
    assert (tmp_path / "large.parquet").stat().st_size > progress._LONG
    return tmp_path / "large.parquet"


def test_every_batch_is_reported(ranks_file: Path) -> None:
    seen: list[int] = []
    kp.evaluate(kp.RankFile(ranks_file, seen.append), "MRR")
    assert set(seen) == {4}


def test_a_terminal_shows_a_bar_and_the_result_stays_clean(large_file: Path) -> None:
    command = [sys.executable, "-m", "kgprobe", "eval", str(large_file), "-m", "MRR", "-f", "json"]
    assert re.search(r"[1-9][\d,]* rows read", run_on_terminal(command))
    piped = subprocess.run(command, capture_output=True, text=True, check=True)
    assert piped.stderr == ""
    assert piped.stdout.startswith("[")
