"""What every backend promises, held against loops."""

import threading
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kgprobe.predict.backends.backend as module
from adversarial import QUERIES, TABLES, Floats, normal
from kgprobe.errors import UsageError
from kgprobe.predict.backends import backend as backend_module
from kgprobe.predict.backends import torch_backend
from kgprobe.predict.backends.backend import Backend, Bounds, NumpyBackend, backend_for
from kgprobe.predict.backends.numba_backend import NumbaBackend
from kgprobe.predict.backends.torch_backend import TorchBackend
from kgprobe.predict.scorers import Dot, GroupNorm, Similarity
from ranking import BACKENDS, SIMILARITIES, score


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    return BACKENDS[request.param]()


def numbers(backend: Backend, scores: Any) -> NDArray[Any]:
    row, column = (index.ravel() for index in np.indices(scores.shape))
    return backend.take(scores, row, column).reshape(tuple(scores.shape))


def drawn(kind: str, rows: int, candidates: int, dimension: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(5)
    table = TABLES[kind](rng, candidates, dimension)
    return QUERIES.get(kind, normal)(rng, rows, dimension), table


@pytest.mark.parametrize("similarity", SIMILARITIES, ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 6), (3, 7, 6), (5, 2500, 6), (2, 130, 2100)], ids=str)
def test_scores_are_those_of_all_pairs(backend: Backend, similarity: Similarity, shape: tuple[int, ...]) -> None:
    rows, candidates, dimension = shape
    queries, table = drawn("random", rows, candidates, dimension)
    found = numbers(backend, backend.scores(similarity, backend.to_device(queries), backend.to_device(table)))
    gamma = getattr(similarity, "gamma", 0.0)  # which the scores of a tile go without
    for row in range(rows):
        for column in range(0, candidates, 97):
            exact = score(similarity, queries[row], table[column]) - gamma
            assert found[row, column] == pytest.approx(exact, rel=1e-4, abs=1e-3)
    canonical = similarity.canonical(np.repeat(queries, candidates, axis=0), np.tile(table, (rows, 1))).reshape(
        found.shape
    )
    np.testing.assert_allclose(found, canonical - np.float32(gamma), rtol=1e-4, atol=1e-3)
    assert found.dtype == np.float32


@pytest.mark.parametrize("similarity", SIMILARITIES, ids=str)
def test_a_tile_of_no_candidates(backend: Backend, similarity: Similarity) -> None:
    queries, nobody = np.ones((2, 6), dtype=np.float32), np.empty((0, 6), dtype=np.float32)
    scores = backend.scores(similarity, backend.to_device(queries), backend.to_device(nobody))
    assert tuple(scores.shape) == (2, 0)
    bounds = Bounds(np.array([0, 1, 1]), np.float32([-np.inf, 0, 0]), np.float32([0, 0, np.inf]), np.zeros(3))
    above, within = backend.count(scores, bounds)
    assert (above.tolist(), within.tolist()) == ([0, 0, 0], [0, 0, 0])


def test_threads_do_not_write_into_the_scores_of_each_other(backend: Backend) -> None:
    queries, table = drawn("random", 4, 9, 6)
    placed = backend.to_device(queries), backend.to_device(table)
    scores = backend.scores(Dot(), *placed)
    before = numbers(backend, scores)
    thread = threading.Thread(target=lambda: backend.scores(GroupNorm(1), *placed))
    thread.start()
    thread.join()
    assert numbers(backend, scores).tolist() == before.tolist()


def test_a_smaller_tile_after_a_larger_one(backend: Backend) -> None:
    queries, table = drawn("random", 4, 9, 6)
    for rows, candidates in ((4, 9), (1, 2), (4, 3), (2, 9)):
        for similarity in SIMILARITIES:
            scores = backend.scores(
                similarity, backend.to_device(queries[:rows]), backend.to_device(table[:candidates])
            )
            fresh = BACKENDS["plain"]().scores(similarity, queries[:rows], table[:candidates])
            np.testing.assert_allclose(numbers(backend, scores), fresh, rtol=1e-5, atol=1e-5)


def _counts_by_loops(scores: NDArray[Any], bounds: Bounds) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    above, within, pairs = [], [], []
    for target, (row, low, high) in enumerate(zip(bounds.row, bounds.low, bounds.high, strict=True)):
        inside = [c for c, s in enumerate(scores[row]) if low <= s <= high]
        above.append(sum(s > high for s in scores[row]))
        within.append(len(inside))
        pairs += [(target, column) for column in inside]
    return above, within, pairs


def _pairs(backend: Backend, scores: Any, bounds: Bounds) -> list[tuple[int, int]]:
    which, column = backend.within(scores, bounds, int(backend.count(scores, bounds)[1].sum()))
    return list(zip(which.tolist(), column.tolist(), strict=True))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("view", ["whole", "columns", "chosen"])
def test_counts_are_those_of_a_loop(backend: Backend, dtype: type, view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_module, "_CELLS_AT_ONCE", 1500)
    monkeypatch.setattr(torch_backend, "_CELLS_AT_ONCE", 1500)
    rng = np.random.default_rng(0)
    values = rng.choice(np.array([-np.inf, -1, -0.0, 0.0, 0.5, 2, np.nan, np.inf], dtype=dtype), (6, 600))
    chosen = {"whole": slice(None), "columns": slice(3, 540), "chosen": np.array([1, 4, 20])}[view]
    row = np.sort(rng.integers(0, 6, 40))
    limits = rng.choice(np.array([-np.inf, -1, 0, 0.5, 3, np.inf], dtype=dtype), (2, 40))
    bounds = Bounds(row, limits.min(axis=0), limits.max(axis=0), limits.mean(axis=0))
    scores = backend.copy_of(values)[:, chosen]
    above, within, pairs = _counts_by_loops(values[:, chosen], bounds)
    found = backend.count(scores, bounds)
    assert [counts.dtype for counts in found] == [np.int64, np.int64]
    assert [counts.tolist() for counts in found] == [above, within]
    assert _pairs(backend, scores, bounds) == pairs
    some = np.array([7, 2, 30])
    expected = [(i, c) for i, target in enumerate(some) for t, c in pairs if t == target]
    assert _pairs(backend, scores, bounds.part(some)) == expected


def test_a_candidate_alone_within_the_bounds_is_found_wherever_it_is(backend: Backend) -> None:
    for columns, place in ((601, 0), (601, 255), (601, 256), (601, 511), (601, 600), (257, 256), (1, 0), (256, 255)):
        values = np.full((1, columns), 5, dtype=np.float32)
        values[0, place] = 1
        bounds = Bounds(np.array([0]), *3 * [np.float32([1])])
        assert _pairs(backend, backend.copy_of(values), bounds) == [(0, place)]


def test_what_is_masked_is_neither_above_nor_within(backend: Backend) -> None:
    scores = backend.copy_of(np.arange(12, dtype=np.float32).reshape(3, 4))
    backend.mask(scores, np.array([0, 2, 2]), np.array([1, 3, 0]))
    everything = Bounds(np.arange(3), np.full(3, -np.inf, np.float32), np.full(3, np.inf, np.float32), np.zeros(3))
    assert backend.count(scores, everything)[1].tolist() == [3, 4, 2]
    assert [column for _, column in _pairs(backend, scores, everything)] == [0, 2, 3, 0, 1, 2, 3, 1, 2]
    backend.mask(scores, np.empty(0, np.int64), np.empty(0, np.int64))
    assert backend.count(scores, everything)[1].tolist() == [3, 4, 2]


def test_what_is_cleared_is_within_infinite_bounds(backend: Backend) -> None:
    scores = backend.copy_of(np.float32([[np.nan, np.inf, 1], [2, 3, 4], [-np.inf, np.nan, np.nan]]))
    backend.clear_rows(scores, np.array([0, 2]))
    everything = Bounds(np.arange(3), np.full(3, -np.inf, np.float32), np.full(3, np.inf, np.float32), np.zeros(3))
    assert backend.count(scores, everything)[1].tolist() == [3, 3, 3]
    assert numbers(backend, scores)[1].tolist() == [2, 3, 4]


def test_rows_that_hold_nan(backend: Backend) -> None:
    scores = backend.copy_of(np.array([[0, np.inf], [np.nan, 1], [1, -np.inf], [2, np.nan]]))
    assert backend.nan_rows(scores).tolist() == [1, 3]
    assert backend.nan_rows(backend.copy_of(np.zeros((2, 3)))).tolist() == []


@pytest.mark.parametrize("similarity", SIMILARITIES, ids=str)
@pytest.mark.parametrize("kind", TABLES)
def test_canonical_scores_are_those_of_the_loop_bit_for_bit(
    backend: Backend, kind: str, similarity: Similarity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend_module, "_CELLS_AT_ONCE", 100)
    monkeypatch.setattr(torch_backend, "_PAIRS_AT_ONCE", 7)
    queries, table = drawn(kind, 5, 8, 12)
    rng = np.random.default_rng(0)
    row, column = rng.integers(0, 5, 40), rng.integers(0, 8, 40)
    found = backend.canonical(similarity, backend.to_device(queries), row, backend.to_device(table), column)
    expected = np.float32([score(similarity, queries[q], table[e]) for q, e in zip(row, column, strict=True)])
    assert found.dtype == np.float32
    # Zero has two signs, which compare as equal.
    assert (found + np.float32(0)).tobytes() == (expected + np.float32(0)).tobytes()


def test_the_order_of_a_sum_of_products_shows(backend: Backend) -> None:
    rng = np.random.default_rng(0)
    queries = np.ones((1, 40), dtype=np.float32)
    table = rng.choice(np.float32([2.0**60, -(2.0**60), 1, 2, 3]), (50, 40))
    row, column = np.zeros(50, dtype=np.int64), np.arange(50)
    found = backend.canonical(Dot(), backend.to_device(queries), row, backend.to_device(table), column)
    expected = [score(Dot(), queries[0], candidate) for candidate in table]
    assert found.tolist() == expected
    assert table.astype(np.float64).sum(axis=1).tolist() != expected
    assert table[:, ::-1].astype(np.float64).cumsum(axis=1)[:, -1].tolist() != expected


@pytest.mark.parametrize("size", [1, 2, 5, 8, None])
def test_the_order_of_a_sum_of_norms_shows(backend: Backend, size: int | None) -> None:
    """Gamma is a distance, so that what is left of the others is what their order has made of the last bits."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((1, 40 // (size or 1))) * 10.0 ** rng.uniform(-10, 0, (1, 40 // (size or 1)))
    groups = rng.permuted(np.repeat(values, 50, axis=0), axis=1)
    table = np.repeat(groups, size or 1, axis=1).astype(np.float32)
    norms = np.sqrt(np.square(table, dtype=np.float64).reshape(50, -1, size or 40).cumsum(axis=2)[:, :, -1])
    similarity = GroupNorm(size, gamma=float(norms.cumsum(axis=1)[0, -1]))
    row, column = np.zeros(50, dtype=np.int64), np.arange(50)
    queries = np.zeros((1, 40), dtype=np.float32)
    found = backend.canonical(similarity, backend.to_device(queries), row, backend.to_device(table), column)
    expected = [score(similarity, queries[0], candidate) for candidate in table]
    assert found.tolist() == expected
    assert expected[0] == 0
    assert any(expected)
    assert max(map(abs, expected)) < 1e-12


def test_canonical_scores_in_many_dimensions(backend: Backend) -> None:
    for dimension in (1, 2, 2002):
        for similarity in (Dot(), GroupNorm(1), GroupNorm(dimension, 3.0)):
            queries, table = drawn("cancelling", 3, 3, dimension)
            found = backend.canonical(
                similarity, backend.to_device(queries), np.arange(3), backend.to_device(table), np.arange(3)
            )
            assert found.tolist() == [score(similarity, q, e) for q, e in zip(queries, table, strict=True)]


def test_no_pairs_have_no_canonical_scores(backend: Backend) -> None:
    queries, table = drawn("random", 3, 4, 6)
    nothing = np.empty(0, dtype=np.int64)
    for similarity in SIMILARITIES:
        found = backend.canonical(similarity, backend.to_device(queries), nothing, backend.to_device(table), nothing)
        assert (found.shape, found.dtype) == ((0,), np.float32)


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        (np.array([[1, 0.5]], dtype=np.float16), np.float32),
        (np.array([[1, 2**-30]], dtype=np.float32), np.float32),
        (np.array([[1, 1 + 2**-50]]), np.float64),
        (np.array([[2**53, 2**53 - 1]]), np.float64),
        (np.array([[200, 255]], dtype=np.uint8), np.float64),
        (np.array([[-3, 4]], dtype=np.int32), np.float64),
        (np.array([[1.0, 2.0], [3.0, 4.0]], order="F"), np.float64),
        (np.array([[1.0, 2.0], [3.0, 4.0]])[::-1, ::-1], np.float64),
        (np.broadcast_to(np.array([1.0, 2.0]), (3, 2)), np.float64),
    ],
    ids=["half", "single", "double", "large", "bytes", "int", "columns first", "backward", "one row"],
)
def test_scores_are_adopted_exactly_and_as_a_copy(backend: Backend, values: NDArray[Any], kept: type) -> None:
    before = values.copy()
    values.flags.writeable = False
    scores = backend.copy_of(values)
    found = numbers(backend, scores)
    assert found.dtype == kept
    assert found.tolist() == before.astype(kept).tolist() == before.tolist()
    everywhere = tuple(index.ravel() for index in np.indices(values.shape))
    backend.mask(scores, *everywhere)
    assert values.tolist() == before.tolist()


def test_a_scorers_own_matrix_is_not_written_into(backend: Backend) -> None:
    own = np.ones((2, 3), dtype=np.float32)
    backend.clear_rows(backend.copy_of(own), np.array([0, 1]))
    assert own.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_part_of_the_bounds() -> None:
    bounds = Bounds(np.array([0, 0, 3]), np.float32([1, 2, 3]), np.float32([4, 5, 6]), np.float32([2, 3, 4]))
    part = bounds.part(np.array([2, 0]))
    assert (part.row.tolist(), part.low.tolist(), part.high.tolist()) == ([3, 0], [3, 1], [6, 4])


def test_a_device_has_its_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(backend_for()) is NumbaBackend
    assert type(backend_for("torch:cpu")) is TorchBackend
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert type(backend_for("cpu")) is NumpyBackend
    with pytest.raises(UsageError, match="the device 'cuda' needs torch") as error:
        backend_for("cuda")
    assert error.value.remedy == "pip install 'kgprobe[models]'"


@pytest.mark.parametrize("device", ["warp", "torch:warp", "cuda:99", "", "CPU"])
def test_a_device_that_is_not_there(device: str) -> None:
    with pytest.raises(UsageError, match=r"the device '.*' cannot be used") as error:
        backend_for(device)
    assert error.value.problems
    assert "choose cpu or cuda" in error.value.remedy
