"""What the surrounding program has told torch must not reach the ranks."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from kgprobe.predict.backends.torch_backend import PlacedEmbeddings, TorchBackend
from kgprobe.predict.ranking import rank
from kgprobe.predict.scorers import Dot, GroupNorm, Similarity
from kgprobe.resources import Resources
from ranking import SIMILARITIES, graph_of, vectors

GRAPH = graph_of(seed=2, entities=100, facts=40)

TORCH = Resources(device="torch:cpu")


@pytest.fixture
def default_dtype() -> Iterator[None]:
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("similarity", SIMILARITIES, ids=str)
@pytest.mark.usefixtures("default_dtype")
def test_the_default_type_of_torch_makes_no_difference(similarity: Similarity, dtype: torch.dtype) -> None:
    model = vectors("random", similarity, GRAPH, 12, seed=0)
    expected = rank(model, GRAPH, resources=TORCH).to_arrow()
    torch.set_default_dtype(dtype)
    assert rank(model, GRAPH, resources=TORCH).to_arrow().equals(expected)


@pytest.mark.parametrize("similarity", [Dot(), GroupNorm(2)], ids=str)
def test_automatic_short_types_make_no_difference(similarity: Similarity) -> None:
    model = vectors("random", similarity, GRAPH, 12, seed=0)
    expected = rank(model, GRAPH, resources=TORCH).to_arrow()
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
        assert rank(model, GRAPH, resources=TORCH).to_arrow().equals(expected)


@pytest.mark.parametrize("precision", ["medium", "high", "highest"])
def test_products_are_in_full_precision_and_the_setting_is_left_alone(precision: str) -> None:
    rng = np.random.default_rng(0)
    queries, table = (rng.standard_normal((64, 256)).astype(np.float32) for _ in range(2))
    backend = TorchBackend("cpu")
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(precision)
        scores = backend.scores(Dot(), backend.to_device(queries), backend.to_device(table)).numpy()
        assert torch.get_float32_matmul_precision() == precision
        with pytest.raises(RuntimeError):
            backend.scores(Dot(), backend.to_device(queries), backend.to_device(table[:, :5].copy()))
        assert torch.get_float32_matmul_precision() == precision
    finally:
        torch.set_float32_matmul_precision(before)
    exact = queries.astype(np.float64) @ table.T.astype(np.float64)
    assert np.abs(scores - exact).max() < 256 * 2.0**-24 * 400


def _settings() -> set[str]:
    """How products of float32 are computed at the moment, on any device."""
    products = [torch.backends.cuda.matmul, getattr(torch.backends.mkldnn, "matmul", None)]
    newer = {product.fp32_precision for product in products if hasattr(product, "fp32_precision")}
    return newer or {torch.get_float32_matmul_precision()}


def test_shortcuts_are_forbidden_while_a_product_is_computed() -> None:
    """Not every machine has a shortcut to take, so the settings themselves are looked at."""
    seen: list[set[str]] = []

    class Watched(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if "matmul" in getattr(function, "__name__", ""):
                seen.append(_settings())
            return super().__torch_function__(function, types, args, kwargs or {})

    backend = TorchBackend("cpu")
    queries = backend.to_device(np.ones((2, 3), dtype=np.float32))
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        backend.scores(Dot(), PlacedEmbeddings(queries.exact, queries.placed.as_subclass(Watched)), queries)
        assert not _settings() & {"ieee", "highest"}
    finally:
        torch.set_float32_matmul_precision(before)
    assert len(seen) == 1
    assert seen[0] <= {"ieee", "highest"}


def test_products_are_in_full_precision_under_the_newer_settings_of_torch() -> None:
    """torch 2.9 and later has a setting for each library, and refuses to be asked for the old one after that."""
    if not hasattr(torch.backends.mkldnn, "matmul"):
        pytest.skip("this torch has no such setting")
    model = vectors("random", Dot(), GRAPH, 64, seed=0)
    expected = rank(model, GRAPH, resources=TORCH).to_arrow()
    before = torch.backends.mkldnn.matmul.fp32_precision
    try:
        torch.backends.mkldnn.matmul.fp32_precision = "bf16"
        assert rank(model, GRAPH, resources=TORCH).to_arrow().equals(expected)
        assert torch.backends.mkldnn.matmul.fp32_precision == "bf16"
    finally:
        torch.backends.mkldnn.matmul.fp32_precision = before


def test_vectors_that_cannot_be_written_to_are_placed() -> None:
    table = np.ones((3, 2), dtype=np.float32)
    table.flags.writeable = False
    backend = TorchBackend("cpu")
    assert backend.scores(Dot(), backend.to_device(table), backend.to_device(table)).tolist() == [[2.0] * 3] * 3
