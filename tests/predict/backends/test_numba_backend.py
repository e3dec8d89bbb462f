"""What is compiled may add in any order and take roots in a hurry, but not more wrongly than the bounds say."""

import subprocess
import sys

import numpy as np
import pytest

from kgprobe.predict.backends import numba_backend
from kgprobe.predict.backends.numba_backend import NumbaBackend
from kgprobe.predict.scorers import GroupNorm


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8])
def test_roots_are_within_a_few_units_over_the_whole_range(size: int) -> None:
    rng = np.random.default_rng(size)
    table = (rng.standard_normal((4000, size)) * 2.0 ** rng.uniform(-58, 58, (4000, 1))).astype(np.float32)
    query = np.zeros((1, size), dtype=np.float32)
    found = -NumbaBackend().scores(GroupNorm(size), query, table)[0].astype(np.float64)
    exact = np.sqrt((table.astype(np.float64) ** 2).sum(axis=1))
    assert (np.abs(found - exact) <= (size / 2 + 1 + 2 * 4) * 2.0**-24 * exact).all()


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_distance_of_zero_is_zero(size: int) -> None:
    vectors = np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32)
    scores = NumbaBackend().scores(GroupNorm(size), vectors, vectors)
    assert np.diag(scores).tolist() == [0.0] * 50
    assert (scores <= 0).all()


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("columns", [(64, 64), (64, 2048)], ids=str)
def test_candidates_come_in_portions(size: int, columns: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba_backend, "_COLUMNS", columns)
    monkeypatch.setattr(numba_backend, "_CACHED_COORDINATES", 100 * 6)
    rng = np.random.default_rng(0)
    queries, table = (rng.standard_normal((rows, 6)).astype(np.float32) for rows in (3, 333))
    scores = NumbaBackend().scores(GroupNorm(size), queries, table)
    differences = queries[:, None].astype(np.float64) - table
    exact = -np.sqrt((differences**2).reshape(3, 333, -1, size).sum(axis=3)).sum(axis=2)
    np.testing.assert_allclose(scores, exact, rtol=1e-5)


def test_nothing_is_compiled_before_it_is_needed() -> None:
    code = "import sys, kgprobe.predict; assert 'numba' not in sys.modules; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
