"""The benchmark of GPUs runs in Triton's interpreter, so that it is in order when there is a GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

from kgprobe.train.fitting import fit

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "gpu_ranking.py"


@pytest.mark.slow
def test_all_parts_run_without_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARK.parent)
    from gpu_models import generated_graph

    fit("rotate", generated_graph(20, 20, 60), tmp_path / "run", epochs=1, dimension=4, threads=1)
    surroundings = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        [sys.executable, BENCHMARK, "--tiny", "--runs", tmp_path / "run"],
        check=True, capture_output=True, text=True, env=surroundings, timeout=900,
    )  # fmt: skip
    parts = ("limits", "graph", "models", "passes", "generated", "whole", "streamed", "soundness", "pykeen", "training")
    assert all(f"== {part}\n" in result.stdout for part in parts)
    assert "DIFFERENT" not in result.stdout
    assert "rows in violation: 0" in result.stdout
    assert result.stdout.count("the same ranks as torch, the same ranks as CPU") == 7
    assert "trained RotatE, on the host" in result.stdout
    assert result.stdout.count("equal ranks: torch 100.0000%, CPU 100.0000%") == 2
