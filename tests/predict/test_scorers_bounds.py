"""Bounds held against float32 sums in every order that a machine may choose."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from adversarial import QUERIES, TABLES, Floats, normal
from kgprobe.predict.scorers import Dot, GroupNorm, Similarity
from ranking import BACKENDS, SIMILARITIES, score

Sum = Callable[[NDArray[np.float32], np.random.Generator], NDArray[np.float32]]

FLUSHED = np.float32(2.0**-126)

ULP = 2.0**-23


def _one_by_one(terms: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    total = np.zeros(terms.shape[:-1], dtype=np.float32)
    for i in range(terms.shape[-1]):
        total = total + terms[..., i]
    return total


def _flushing(terms: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    """What is subnormal becomes zero, wherever it turns up."""
    total = np.zeros(terms.shape[:-1], dtype=np.float32)
    for i in range(terms.shape[-1]):
        total = _flush(total + _flush(terms[..., i]))
    return total


def _flush(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.where(np.abs(values) < FLUSHED, np.float32(0), values)


SUMS: dict[str, Sum] = {
    "in order": _one_by_one,
    "reversed": lambda terms, rng: _one_by_one(terms[..., ::-1], rng),
    "permuted": lambda terms, rng: _one_by_one(terms[..., rng.permutation(terms.shape[-1])], rng),
    "pairwise": lambda terms, rng: np.add.reduce(np.ascontiguousarray(terms), axis=-1),
    "largest first": lambda terms, rng: _one_by_one(-np.sort(-terms, axis=-1), rng),
    "flushing": _flushing,
}

ROOTS = {"exact": 0.0, "low": -4 * ULP, "high": 4 * ULP}

"""How far a square root may be off, and stays off for all groups."""


def float32_scores(
    similarity: Similarity, queries: Floats, table: Floats, add: str, root: str, rng: np.random.Generator
) -> Floats:
    """Scores [queries, table] in float32 all the way, without gamma."""
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(similarity, Dot):
            return SUMS[add](queries[:, None] * table, rng)
        squared = np.square(queries[:, None] - table)
        grouped = squared.reshape(*squared.shape[:2], -1, similarity.width(squared.shape[2]))
        totals = SUMS[add](grouped, rng)
        totals = _flush(totals) if add == "flushing" else totals
        return -SUMS[add](np.sqrt(totals) * np.float32(1 + ROOTS[root]), rng)


def canonical_scores(similarity: Similarity, queries: Floats, table: Floats) -> Floats:
    """The canonical scores [queries, table], a coordinate at a time."""
    q, e = queries.astype(np.float64)[:, None], table.astype(np.float64)
    total = np.zeros((len(queries), len(table)))
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(similarity, Dot):
            for i in range(table.shape[1]):
                total += q[..., i] * e[:, i]
            return total.astype(np.float32)
        width = similarity.size or table.shape[1]
        for start in range(0, table.shape[1], width):
            squared = np.zeros_like(total)
            for i in range(start, start + width):
                squared += np.square(q[..., i] - e[:, i])
            total += np.sqrt(squared)
        return (similarity.gamma - total).astype(np.float32)


def assert_sound(similarity: Similarity, queries: Floats, table: Floats, scores: Floats, canonical: Floats) -> None:
    """Every candidate outside the bounds of a target is on the side that the canonical scores say."""
    dimension = table.shape[1]
    extent, most = similarity.magnitude(queries), float(similarity.magnitude(table).max())
    overflow = similarity.may_overflow(extent, most, dimension)
    usable = scores[~overflow]
    assert np.isfinite(usable).all()
    for target in range(len(table)):
        own = canonical[:, target]
        low, high = similarity.thresholds(own, extent, most, dimension)
        assert low.dtype == high.dtype == np.float32
        below, above = usable < low[~overflow, None], usable > high[~overflow, None]
        assert (canonical[~overflow] < own[~overflow, None])[below].all()
        assert (canonical[~overflow] > own[~overflow, None])[above].all()


def drawn(kind: str, rows: int, candidates: int, dimension: int, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    table = TABLES[kind](rng, candidates, dimension)
    return QUERIES.get(kind, normal)(rng, rows, dimension), table


@pytest.mark.parametrize("similarity", SIMILARITIES, ids=str)
@pytest.mark.parametrize("kind", TABLES)
def test_the_yardstick_is_the_loop_of_the_definition(kind: str, similarity: Similarity) -> None:
    queries, table = drawn(kind, 3, 9, 12, seed=0)
    expected = [[score(similarity, query, candidate) for candidate in table] for query in queries]
    assert canonical_scores(similarity, queries, table).tolist() == expected


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("dimension", [6, 258, 2004])
@pytest.mark.parametrize("similarity", SIMILARITIES, ids=str)
def test_bounds_hold_for_every_way_to_add_up(similarity: Similarity, dimension: int, kind: str) -> None:
    queries, table = drawn(kind, 3, 16, dimension, seed=dimension)
    canonical, rng = canonical_scores(similarity, queries, table), np.random.default_rng(0)
    for add in SUMS:
        # A root that is off adds to the error of any sum in the same way: with long vectors one of them shows it.
        several = isinstance(similarity, GroupNorm) and (dimension < 2000 or add == "in order")
        for root in ROOTS if several else ["exact"]:
            scores = float32_scores(similarity, queries, table, add, root, rng)
            assert_sound(similarity, queries, table, scores, canonical)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("similarity", SIMILARITIES, ids=str)
def test_bounds_hold_for_what_the_backends_compute(similarity: Similarity, backend: str) -> None:
    backend = BACKENDS[backend]()
    for dimension in (6, 516, 2004):
        for kind in TABLES:
            queries, table = drawn(kind, 3, 70, dimension, seed=1)
            scores = backend.scores(similarity, backend.to_device(queries), backend.to_device(table))
            row, column = (index.ravel() for index in np.indices((3, 70)))
            taken = backend.take(scores, row, column).reshape(3, 70)
            assert_sound(similarity, queries, table, taken, canonical_scores(similarity, queries, table))


def _spread(values: list[float], width: int, groups: int) -> Floats:
    """A vector of groups, the first coordinate of each a value."""
    vector = np.zeros((groups, width), dtype=np.float32)
    vector[:, 0] = values
    return vector.ravel()


@pytest.mark.parametrize("term", [0.99, 1.01], ids=["lost", "doubled"])
@pytest.mark.parametrize("dimension", [64, 500, 2000])
@pytest.mark.parametrize("similarity", [Dot(), GroupNorm(1), GroupNorm(2), GroupNorm(None)], ids=str)
def test_bounds_hold_where_every_rounding_errs_to_the_same_side(
    similarity: Similarity, dimension: int, term: float
) -> None:
    """1 and many terms of about half a unit in its last place, beside the numbers that their sum is close to."""
    half = term * ULP / 2
    steps = 1 + ULP * np.arange(dimension).astype(np.float64)
    if isinstance(similarity, Dot) or similarity.size is None:
        stagnating = np.float32([1.0] + [math.sqrt(half)] * (dimension - 1))[None]
        query = stagnating if isinstance(similarity, Dot) else np.zeros_like(stagnating)
        single = steps
    else:
        groups = dimension // similarity.size
        stagnating = _spread([1.0] + [half] * (groups - 1), similarity.size, groups)[None]
        query, single = np.zeros_like(stagnating), steps
    table = np.zeros((dimension + 1, dimension), dtype=np.float32)
    table[0], table[1:, 0] = stagnating, single
    canonical = canonical_scores(similarity, query, table)
    scores = float32_scores(similarity, query, table, "in order", "exact", np.random.default_rng(0))
    order_of_canonical, order_of_scores = (
        np.sort(values[0]).searchsorted(values[0, 0]) for values in (canonical, scores)
    )
    assert order_of_canonical != order_of_scores
    assert_sound(similarity, query, table, scores, canonical)


@pytest.mark.parametrize("dimension", [2, 64, 2000])
@pytest.mark.parametrize("similarity", [Dot(), GroupNorm(1), GroupNorm(2), GroupNorm(None)], ids=str)
def test_bounds_hold_where_all_products_are_flushed_to_zero(similarity: Similarity, dimension: int) -> None:
    small = np.float32(0.99 * 2.0**-63)
    table = np.zeros((41, dimension), dtype=np.float32)
    table[0], table[1:, 0] = small, 2.0**-63 * 1.01 * np.linspace(1, dimension, 40)
    query = np.full((1, dimension), 2.0**-63 if isinstance(similarity, Dot) else 0.0, dtype=np.float32)
    scores = float32_scores(similarity, query, table, "flushing", "exact", np.random.default_rng(0))
    assert scores[0, 0] == 0
    assert (scores[0, 1:] != 0).all()
    assert_sound(similarity, query, table, scores, canonical_scores(similarity, query, table))


@given(
    st.integers(0, 10**9),
    st.sampled_from([1, 2, 3, 4, None]),
    st.integers(1, 40),
    st.sampled_from(["zero", "a distance", "nearly a distance", "huge", "beyond float32", "tiny"]),
    st.sampled_from(sorted(SUMS)),
    st.sampled_from(sorted(ROOTS)),
    st.floats(-30, 30),
)
@settings(max_examples=300)
def test_bounds_of_norms_hold_whatever_gamma_is(
    seed: int, size: int | None, groups: int, gamma: str, add: str, root: str, exponent: float
) -> None:
    rng = np.random.default_rng(seed)
    dimension = groups * (size or 1)
    kind = sorted(TABLES)[seed % len(TABLES)]
    queries, table = drawn(kind, 2, 12, dimension, seed)
    if kind in ("random", "whole", "permuted", "one ulp apart", "duplicated"):
        queries, table = ((vectors * 10.0**exponent).astype(np.float32) for vectors in (queries, table))
    with np.errstate(over="ignore", invalid="ignore"):
        distance = -float(canonical_scores(GroupNorm(size), queries, table)[0, 0])
    added = {
        "zero": 0.0,
        "a distance": distance,
        "nearly a distance": distance * (1 + 3e-8),
        "huge": 1e30,
        "beyond float32": 1e300,
        "tiny": -1e-42,
    }[gamma]
    similarity = GroupNorm(size, added if math.isfinite(added) else 0.0)
    scores = float32_scores(similarity, queries, table, add, root, rng)
    assert_sound(similarity, queries, table, scores, canonical_scores(similarity, queries, table))


@given(st.integers(0, 10**9), st.integers(1, 60), st.floats(-38, 38), st.floats(-38, 38), st.sampled_from(sorted(SUMS)))
@settings(max_examples=200)
def test_bounds_of_products_hold_at_every_scale(
    seed: int, dimension: int, query_exponent: float, exponent: float, add: str
) -> None:
    rng = np.random.default_rng(seed)
    kinds = ("random", "permuted", "one ulp apart", "whole", "cancelling")
    queries, table = drawn(kinds[seed % len(kinds)], 2, 12, dimension, seed)
    queries = (np.clip(queries, -3, 3) * 10.0**query_exponent).astype(np.float32)
    table = (np.clip(table, -3, 3) * 10.0**exponent).astype(np.float32)
    scores = float32_scores(Dot(), queries, table, add, "exact", rng)
    assert_sound(Dot(), queries, table, scores, canonical_scores(Dot(), queries, table))


@pytest.mark.parametrize("dimension", [4, 12, 300])
@pytest.mark.parametrize("similarity", [Dot(), GroupNorm(1), GroupNorm(2), GroupNorm(4), GroupNorm(None)], ids=str)
def test_whatever_overflows_is_reported(similarity: Similarity, dimension: int) -> None:
    """Vectors in line with each other, so that the sums are as large as their extents allow."""
    is_dot = isinstance(similarity, Dot)
    rng = np.random.default_rng(0)
    overflowed = 0
    for power in np.linspace(8, 38.4, 400):
        for size, other in ((power, power), (power / 20, 2 * power - power / 20 if is_dot else power)):
            query, candidate = (
                np.full((1, dimension), sign * min(10.0**exponent, 3.4e38), dtype=np.float32)
                for exponent, sign in ((size, 1), (other, 1 if is_dot else -1))
            )
            scores = float32_scores(similarity, query, candidate, "in order", "exact", rng)
            overflow = similarity.may_overflow(
                similarity.magnitude(query), float(similarity.magnitude(candidate)[0]), dimension
            )
            overflowed += not np.isfinite(scores).all()
            assert overflow[0] or np.isfinite(scores).all()
    assert overflowed > 10


@pytest.mark.parametrize(
    ("similarity", "size"), [(Dot(), 1e16), (GroupNorm(1), 1e16), (GroupNorm(None), 1e16)], ids=str
)
def test_ordinary_embeddings_do_not_overflow(similarity: Similarity, size: float) -> None:
    vectors = np.full((1, 2000), size, dtype=np.float32)
    extent = similarity.magnitude(vectors)
    assert not similarity.may_overflow(extent, float(extent[0]), 2000).any()


def test_what_is_not_finite_may_overflow() -> None:
    for similarity in (Dot(), GroupNorm(1), GroupNorm(None)):
        for query, candidate in ((np.inf, 1.0), (1.0, np.inf), (np.inf, np.inf), (0.0, np.inf), (np.inf, 0.0)):
            assert similarity.may_overflow(np.array([query]), candidate, 4).tolist() == [True]
        assert similarity.may_overflow(np.array([1.0, np.inf, 2.0]), 1.0, 4).tolist() == [False, True, False]


@pytest.mark.parametrize("similarity", [Dot(), GroupNorm(1), GroupNorm(2), GroupNorm(None), GroupNorm(2, 9.0)], ids=str)
def test_few_pairs_are_unclear_on_random_vectors(similarity: Similarity) -> None:
    queries, table = drawn("random", 20, 2000, 256, seed=3)
    canonical = canonical_scores(similarity, queries, table)
    scores = float32_scores(similarity, queries, table, "pairwise", "exact", np.random.default_rng(0))
    extent, most = similarity.magnitude(queries), float(similarity.magnitude(table).max())
    unclear = 0
    for target in range(0, 2000, 20):
        low, high = similarity.thresholds(canonical[:, target], extent, most, 256)
        within = (scores >= low[:, None]) & (scores <= high[:, None])
        assert within[:, target].all()
        unclear += int(within.sum()) - len(queries)
    assert unclear / (20 * 2000 * 100) < 1e-3


@pytest.mark.parametrize("similarity", SIMILARITIES, ids=str)
def test_an_infinite_score_of_a_target_is_beaten_and_beats_all_the_same(similarity: Similarity) -> None:
    """The target of an ordinary tile may lie in another tile, and be infinitely far away."""
    queries, table = drawn("random", 1, 8, 6, seed=4)
    scores = float32_scores(similarity, queries, table, "in order", "exact", np.random.default_rng(0))
    extent, most = similarity.magnitude(queries), float(similarity.magnitude(table).max())
    low, high = similarity.thresholds(np.float32([-np.inf]), extent, most, 6)
    assert not (scores < low).any()
    low, high = similarity.thresholds(np.float32([np.inf]), extent, most, 6)
    assert not (scores > high).any()
