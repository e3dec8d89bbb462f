"""Products of integers of 16 bits: what they decide, what is left to float32, and when they are used."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from adversarial import QUERIES, TABLES, Floats, normal
from kgprobe.predict.backends import int16_backend as module
from kgprobe.predict.backends.backend import Bounds, NumpyBackend, backend_for
from kgprobe.predict.backends.int16_backend import Int16Backend
from kgprobe.predict.backends.int16_kernels import ANY_CPU, INSTRUCTIONS, PANEL, Packed
from kgprobe.predict.backends.numba_backend import NumbaBackend
from kgprobe.predict.scorers import Dot, GroupNorm
from kgprobe.resources import Resources
from ranking import Vectors, graph_of, vectors
from ranking import counted as counted_by_engine

SHAPES = [(1, 1, 1), (3, 63, 5), (2, 64, 8), (4, 65, 33), (5, 130, 64), (2, 700, 257)]


def drawn(kind: str, shape: tuple[int, int, int]) -> tuple[Floats, Floats]:
    rng, (rows, columns, dimension) = np.random.default_rng(3), shape
    return QUERIES.get(kind, normal)(rng, rows, dimension), TABLES[kind](rng, columns, dimension)


def around(row: Any, own: Floats) -> Bounds:
    """The targets alone: integers have bounds of their own."""
    open_ = np.full(len(own), np.float32(np.inf))
    return Bounds(row, -open_, open_, own)


def counted(queries: Floats, table: Floats, bounds: Bounds, masked: Any = ((), ())) -> tuple[Any, Any, set[Any]]:
    """Counts above and within, and the pairs within."""
    backend = Int16Backend()
    tile = backend.scores(Dot(), backend.to_device(queries), backend.to_device(table))
    backend.mask(tile, *(np.array(index, dtype=np.int64) for index in masked))
    above, within = backend.count(tile, bounds)
    which, column = backend.within(tile, bounds, int(within.sum()))
    pairs = list(zip(which.tolist(), column.tolist(), strict=True))
    assert len(pairs) == len(set(pairs)) == within.sum()
    assert np.bincount(which, minlength=len(within)).tolist() == within.tolist()
    return above, within, set(pairs)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_is_certain_is_right_and_the_rest_is_within(kind: str, shape: tuple[int, int, int]) -> None:
    """The truth is the canonical score."""
    queries, table = drawn(kind, shape)
    rows, columns, _ = shape
    similarity, row = Dot(), np.repeat(np.arange(rows), 3)
    exact = similarity.canonical(np.repeat(queries, columns, axis=0), np.tile(table, (rows, 1))).reshape(rows, columns)
    own = exact[row, np.random.default_rng(0).integers(0, columns, len(row))]
    masked = ([0], [columns - 1])
    above, within, pairs = counted(queries, table, around(row, own), masked)
    for target, query in enumerate(row.tolist()):
        others = [column for column in range(columns) if (query, column) != (0, columns - 1)]
        unclear = {column for which, column in pairs if which == target}
        assert unclear <= set(others)
        better = {column for column in others if exact[query, column] > own[target]}
        equal = {column for column in others if exact[query, column] == own[target]}
        broken = {column for column in others if np.isnan(exact[query, column])}
        assert equal <= unclear
        assert broken <= unclear
        assert above[target] == len(better - unclear)
        assert above[target] <= len(better) <= above[target] + within[target]


def test_float32_decides_what_integers_cannot() -> None:
    """Candidates whose products of integers are too close are compared by float32 products, not by canonical scores."""
    table = np.column_stack([np.ones(100), np.linspace(0, 1e-3, 100)]).astype(np.float32)
    queries = np.ones((1, 2), dtype=np.float32)
    own = np.float32([1 + 5e-4])
    above, within, _ = counted(queries, table, around(np.array([0]), own))
    assert above[0] == 50
    assert within[0] == 0


def test_filtered_scores_are_below_everything() -> None:
    queries, table = np.ones((1, 2), dtype=np.float32), np.full((70, 2), np.inf, dtype=np.float32)
    bounds = around(np.array([0]), np.float32([np.inf]))
    above, within, _ = counted(queries, table, bounds, (np.zeros(69, int), np.arange(69)))
    assert (above.tolist(), within.tolist()) == ([0], [1])


@pytest.mark.parametrize("long", [1e4, 1e20, 1e38])
def test_a_long_candidate_leaves_no_other_open(long: float) -> None:
    """Integers have bounds for each panel and float32 has some for each candidate; only its own score may overflow."""
    rng = np.random.default_rng(2)
    queries, table = normal(rng, 40, 16), normal(rng, 5 * PANEL, 16)
    table[3] *= np.float32(long)
    row, target = np.arange(40), PANEL + np.arange(40)
    own = Dot().canonical(queries, table[target])
    above, _, pairs = counted(queries, table, around(row, own))
    assert pairs - {(query, 3) for query in range(40)} == set(zip(row.tolist(), target.tolist(), strict=True))
    decided = [[column for column in range(len(table)) if (query, column) not in pairs] for query in range(40)]
    exact = queries.astype(np.float64) @ table.astype(np.float64).T
    assert above.tolist() == [(exact[query, columns] > own[query]).sum() for query, columns in enumerate(decided)]
    assert ((0, 3) in pairs) == (long == 1e38)


@pytest.mark.parametrize("huge", ["candidates", "queries"])
@pytest.mark.parametrize("dimension", [1, 2, 8, 33])
def test_the_largest_numbers_stay_finite(huge: str, dimension: int) -> None:
    """The scores are small, so the engine sees no overflow."""
    rng, graph = np.random.default_rng(5), graph_of(seed=2, entities=40, facts=80)

    def large(rows: int) -> Floats:
        return rng.choice(np.float32([3.4e38, -3.4e38, 3.39e38, 1e38, 0, 1]), (rows, dimension))

    def small(rows: int) -> Floats:
        some = rng.random((rows, dimension)) < 0.5
        return np.where(some, rng.choice(np.float32([1e-30, -1e-30, 3e-31]), (rows, dimension)), np.float32(0))

    draw_queries, draw_table = (small, large) if huge == "candidates" else (large, small)
    queries = draw_queries(2 * graph.num_entities * graph.num_relations)
    shape = (2, graph.num_entities, graph.num_relations, dimension)
    model = Vectors(Dot(), queries.reshape(shape), draw_table(graph.num_entities))
    expected = counted_by_engine(model, graph, NumpyBackend())
    assert counted_by_engine(model, graph, Int16Backend()) == expected
    assert counted_by_engine(model, graph, Int16Backend(), Resources(threads=1, batch=7, tile=11)) == expected


@pytest.mark.parametrize("memory", [1 << 20, 1 << 10])
def test_candidates_are_rounded_once_or_for_each_tile(memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(seed=4, entities=190, facts=60)
    model = vectors("mixed", Dot(), graph, 16, seed=1)
    expected = counted_by_engine(model, graph, NumpyBackend())
    for name, size in (("_LARGE_TILE", 70), ("_BATCH", 20), ("_LARGE_BATCH", 20)):
        monkeypatch.setattr(module, name, size)
    rounded: list[int] = []
    real = Packed.of

    def noted(embeddings: Floats, group: int, span: int) -> Packed:
        rounded.append(len(embeddings) if span == PANEL else 0)
        return real(embeddings, group, span)

    monkeypatch.setattr(module.Packed, "of", noted)
    assert counted_by_engine(model, graph, Int16Backend(memory)) == expected
    assert rounded.count(0) > 2  # blocks of queries
    assert [rows for rows in rounded if rows] == ([190, 190] if memory == 1 << 20 else [])  # for each side


def test_little_memory_holds_no_rounded_candidates() -> None:
    columns, dimension = 14_541, 256
    assert Int16Backend(1 << 30).shape(columns, dimension, 1 << 29) == (512, 512 * columns)
    few = Int16Backend(1 << 20)
    assert few.shape(columns, dimension, 1 << 19) == (2048, 2048 << 15)
    table = few.to_device(np.zeros((columns, dimension), dtype=np.float32))
    assert table.as_candidates.words.nbytes == 2 * PANEL * dimension
    assert table[: len(table.exact)] is not table  # each tile has room of its own


def test_the_list_of_unclear_pairs_fits_into_little_memory() -> None:
    queries, table = drawn("random", (2000, 30_000, 4))
    own = Dot().canonical(queries, table[:2000])
    backend = Int16Backend(1 << 20)
    tile = backend.scores(Dot(), backend.to_device(queries), backend.to_device(table))
    backend.count(tile, around(np.arange(2000), own))  # compiles
    tracemalloc.start()
    backend.count(tile, around(np.arange(2000), own))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize("size", [1, 2, None])
def test_norms_are_those_of_the_numba_backend(size: int | None) -> None:
    queries, table = drawn("random", (3, 50, 6))
    backend, similarity = Int16Backend(), GroupNorm(size)
    found: NDArray[Any] = backend.scores(similarity, backend.to_device(queries), backend.to_device(table))
    assert found.tolist() == NumbaBackend().scores(similarity, queries, table).tolist()


@pytest.mark.parametrize(
    ("products", "worthwhile", "expected"),
    [(1 << 40, True, Int16Backend), (1 << 40, False, NumbaBackend), (1000, True, NumbaBackend)],
)
def test_it_is_chosen_for_many_products_where_a_measurement_says_so(
    products: int, worthwhile: bool, expected: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "is_worthwhile", lambda: worthwhile)
    assert type(backend_for("cpu", products)) is expected


def test_it_is_not_worthwhile_without_the_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "instructions", lambda: ANY_CPU)
    assert not module.is_worthwhile.__wrapped__()


@pytest.mark.parametrize(("integers", "expected"), [(0.5, True), (0.81, False), (2.0, False)])
def test_it_is_worthwhile_if_it_is_measured_to_be_much_faster(
    integers: float, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([1.0, integers])  # of float32 products, then of integers

    def seconds(work: Callable[[], Any]) -> float:
        work()
        return next(times)

    monkeypatch.setattr(module, "instructions", lambda: INSTRUCTIONS[0])
    monkeypatch.setattr(module, "_seconds", seconds)
    assert module.is_worthwhile.__wrapped__() is expected


@pytest.mark.parametrize("kind", TABLES)
def test_unclear_pairs_are_kept_from_counting(kind: str) -> None:
    """They are those that comparing again finds, for any of the targets; where there is no room, that is done."""
    queries, table = drawn(kind, (5, 130, 64))
    backend = Int16Backend()
    tile = backend.scores(Dot(), backend.to_device(queries), backend.to_device(table))
    row = np.array([0, 1, 1, 2, 3, 4])
    exact = queries.astype(np.float64) @ table.astype(np.float64).T
    with np.errstate(over="ignore"):
        own = exact[row, np.arange(6) * 7].astype(np.float32)
    bounds = around(row, own)
    _, within = backend.count(tile, bounds)
    kept = tile.unclear
    assert (kept is not None) == (within.sum() <= 4 * len(row))
    for chosen in (np.arange(6), np.array([1, 4]), np.array([5])):
        found = int(within[chosen].sum())
        pairs = []
        for unclear in (kept, None):
            tile.unclear = unclear
            pairs.append(sorted(zip(*backend.within(tile, bounds.part(chosen), found), strict=True)))
        assert pairs[0] == pairs[1]
        assert len(pairs[0]) == found
