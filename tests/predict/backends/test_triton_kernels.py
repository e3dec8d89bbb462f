"""What the kernels compile to for a GPU, and how they round. Without a GPU, Triton's interpreter runs them."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

import torch

import compiled_kernels
from adversarial import TABLES
from ranking import COUNTING


@cache
def _compiled() -> dict[str, dict[str, Any]]:
    surroundings = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    program = Path(compiled_kernels.__file__)
    surroundings["PYTHONPATH"] = os.pathsep.join(sys.path)
    result = subprocess.run(
        [sys.executable, program], check=True, capture_output=True, text=True, env=surroundings, timeout=300
    )
    found: dict[str, dict[str, Any]] = json.loads(result.stdout)
    return found


def test_kernels_compile_for_gpus_and_keep_everything_in_registers() -> None:
    found = _compiled()
    assert len(found) > 30
    assert {name: one["spilled"] for name, one in found.items() if one["spilled"] > 32} == {}
    assert all(one["shared"] <= (99 if name.endswith(" 89") else 227) << 10 for name, one in found.items())


def test_dot_products_are_computed_by_tensor_cores() -> None:
    dots = {name: one["tensor cores"] for name, one in _compiled().items() if name.startswith("count_dots")}
    assert len(dots) == 12
    assert all(number > 0 for number in dots.values())


def test_canonical_scores_round_every_product_and_every_sum() -> None:
    """A fused product and sum would be another number, except where the product of two float32 is exact in float64."""
    canonical = {name: one for name, one in _compiled().items() if name.startswith(("settle", "score_pairs"))}
    assert len(canonical) == 18
    for name, one in canonical.items():
        width = int(name.split()[1])
        assert (one["fused float64"] > 0) == (width == 0)
        assert (one["float64 roots"] > 0) == (width > 1)
        assert one["approximate roots"] == 0
        assert one["vector loads"] == (0 if width == 3 else 2)


def test_norms_have_fast_square_roots() -> None:
    found = _compiled()
    assert found["count_norms 1"]["approximate roots"] == 0
    assert all(found[f"count_norms {width}"]["approximate roots"] > 0 for width in (2, 3, 8, 256))


@pytest.mark.parametrize("kind", sorted(TABLES.keys() - {"some infinite"}))
def test_embeddings_are_split_into_two_short_numbers(kind: str) -> None:
    table = TABLES[kind](np.random.default_rng(4), 37, 70)
    table[0, :3] = [3.4028235e38, -3.4e38, 3.39e38]  # these would round to infinity
    backend: Any = COUNTING["triton"]()
    high, low, (size, once, twice) = (values.cpu() for values in backend.rounded(backend.placed(table), 32))
    assert high.shape == low.shape == (64, 128)
    assert not high[37:].any()
    assert not high[:, 70:].any()
    assert torch.isfinite(high).all()
    for values in (high, low):
        assert not ((values != 0) & (values.abs().float() < 2.0**-126)).any()
    exact = table.astype(np.float64)
    first = high[:37, :70].double().numpy()
    both = first + low[:37, :70].double().numpy()
    for found, values in ((size, exact), (once, exact - first), (twice, exact - both)):
        np.testing.assert_allclose(found, np.linalg.norm(values, axis=1), rtol=1e-12)
    usual = np.abs(exact) > 2.0**-100
    share = 2.0**-8 if torch.cuda.is_available() else 2.0**-7  # the interpreter truncates
    assert (np.abs(exact - first)[usual] <= share * np.abs(exact)[usual]).all()
    assert (np.abs(exact - both)[usual] <= share**2 * np.abs(exact)[usual]).all()
