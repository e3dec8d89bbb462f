"""When the Triton backend is chosen, and its own contract beside the fused counts."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

import torch

from adversarial import TABLES
from kgprobe.errors import UsageError
from kgprobe.predict.backends import backend as choices
from kgprobe.predict.backends.backend import NumpyBackend, backend_for, is_fused
from kgprobe.predict.backends.torch_backend import TorchBackend
from kgprobe.predict.backends.triton_backend import Tiles, TritonBackend, padded_number
from kgprobe.predict.scorers import Dot, GroupNorm, Similarity
from ranking import COUNTING, SIMILARITIES, matrix

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def forgotten() -> Any:
    choices._triton_problem.cache_clear()
    yield
    choices._triton_problem.cache_clear()


def test_it_is_chosen_where_kernels_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "_may_use_triton", lambda device: True)
    chosen = backend_for(DEVICE if DEVICE == "cuda" else "cpu:0")
    assert type(chosen) is TritonBackend
    assert is_fused(chosen)
    assert not any(is_fused(other()) for name, other in COUNTING.items() if name != "triton")


def test_torch_takes_over_where_kernels_do_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any, **more: Any) -> None:
        raise RuntimeError("Failed to find C compiler\nPlease specify it")

    monkeypatch.setattr(choices, "_may_use_triton", lambda device: True)
    monkeypatch.setattr(TritonBackend, "canonical", fails)
    with pytest.warns(UserWarning, match=r"without Triton.*RuntimeError: Failed to find C compiler$"):
        assert type(backend_for("cpu:0")) is TorchBackend


@pytest.mark.parametrize("device", ["torch:cpu", "cuda:77", "cuda:x", "cuda:-1"])
def test_it_is_not_chosen_for_other_devices(device: str) -> None:
    assert not choices._may_use_triton(device)
    if device != "torch:cpu":
        with pytest.raises(UsageError, match="cannot be used"):
            backend_for(device)


@pytest.mark.parametrize("similarity", [*SIMILARITIES, GroupNorm(4), GroupNorm(12, 3.0)], ids=str)
@pytest.mark.parametrize("kind", TABLES)
def test_canonical_scores_are_those_of_the_definition(kind: str, similarity: Similarity) -> None:
    rng = np.random.default_rng(0)
    queries, table = (TABLES[kind](rng, rows, 12) for rows in (7, 11))
    row, column = rng.integers(0, 7, 90), rng.integers(0, 11, 90)
    backend = TritonBackend(DEVICE, Tiles(pairs=32))
    found = backend.canonical(similarity, backend.to_device(queries), row, backend.to_device(table), column)
    with np.errstate(invalid="ignore"):
        expected = NumpyBackend().canonical(similarity, queries, row, table, column)
    assert found.tobytes() == expected.tobytes() or np.array_equal(found, expected, equal_nan=True)


def test_no_pairs_have_no_scores() -> None:
    backend = TritonBackend(DEVICE)
    one, none = backend.to_device(np.ones((1, 4), dtype=np.float32)), np.empty(0, dtype=np.int64)
    assert backend.canonical(Dot(), one, none, one, none).tolist() == []


def test_matrices_of_scores_are_counted_as_by_torch() -> None:
    from ranking import brute_force, counted, graph_of

    graph = graph_of(seed=3)
    model = matrix(graph, seed=1)
    assert counted(model, graph, TritonBackend(DEVICE)) == brute_force(model, graph)


def test_numbers_are_padded_to_multiples() -> None:
    assert [padded_number(number, 32) for number in (0, 1, 32, 33)] == [32, 32, 32, 64]


def test_short_embeddings_are_multiplied_in_one_step() -> None:
    tiles = Tiles()
    assert [tiles.of(Dot(), dimension).block for dimension in (5, 64, 65, 128, 129, 512)] == [64, 64, 128, 128, 64, 64]
    assert {tiles.of(Dot(), dimension, level).rows for dimension in (64, 128, 256) for level in (0, 1)} == {128}
    assert all(tiles.columns(Dot(), 64) % tiles.of(Dot(), 64, level).columns == 0 for level in (0, 1))
