"""Precision of matrix products: what was set before comes back, and a CPU stays as it is."""

from __future__ import annotations

import pytest
import torch

from kgprobe.train.precision import mixed, products_in


@pytest.mark.parametrize(("precision", "wanted"), [("float32", "highest"), ("tf32", "high"), ("bfloat16", "high")])
def test_what_was_set_before_comes_back(precision: str, wanted: str) -> None:
    before = torch.get_float32_matmul_precision()
    with products_in(precision):
        assert torch.get_float32_matmul_precision() == wanted
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
def test_products_on_a_cpu_stay_long(precision: str) -> None:
    with mixed(precision, torch.device("cpu")):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
