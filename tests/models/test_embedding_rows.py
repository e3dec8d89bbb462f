"""The kernels for negative samples, interpreted on a CPU, against float64; and the sizes that they are given."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

import interpreted_kernels
from interpreted_kernels import CASES
from kgprobe.models.embedding_rows import _block_shape, has_kernels

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="kernels need triton")


@pytest.fixture(scope="module")
def interpreted() -> dict[str, Any]:
    """What the program says about all cases."""
    surroundings = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    program = Path(interpreted_kernels.__file__)
    done = subprocess.run(
        [sys.executable, str(program)], env=surroundings, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@needs_triton
@pytest.mark.parametrize("name", list(CASES))
def test_scores_and_all_gradients_are_those_of_float64(interpreted: dict[str, Any], name: str) -> None:
    apart = interpreted["cases"][name]
    expected = {"scores", "queries", "table"} | ({"axes", "shares"} if CASES[name].projections else set())
    assert set(apart) == expected
    assert max(apart.values()) < 1e-5


@needs_triton
def test_an_answer_at_no_distance_has_no_gradient(interpreted: dict[str, Any]) -> None:
    assert interpreted["at_no_distance"]


@pytest.mark.parametrize("dimension", [1, 2, 3, 7, 64, 100, 129, 1000, 4096])
def test_programs_work_on_powers_of_two_that_hold_a_group(dimension: int) -> None:
    for width in (width for width in range(1, dimension + 1) if dimension % width == 0):
        shape = _block_shape(width, dimension)
        assert all(size >= 1 and size & (size - 1) == 0 for size in shape.values())
        assert width <= shape["WIDTH"] < 2 * width
        assert shape["GROUPS"] < 2 * (dimension // width)
        assert shape["ANSWERS"] <= 32
        assert shape["ANSWERS"] * shape["GROUPS"] * shape["WIDTH"] <= max(2048, shape["WIDTH"])


def test_kernels_are_for_gpus() -> None:
    assert not has_kernels(torch.zeros(1, 1, 2))
