from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import hypergeom

from kgprobe.metrics.sample_bounds import RIDGES, SampleBounds, alike, hit_variance

SIZES = [(1, 0), (5, 1), (12, 5), (30, 29), (60, 20), (400, 50), (900, 120)]

FUNCTIONS = {
    "reciprocal": lambda b, N: 1 / (1 + b),
    "root": lambda b, N: 1 - np.sqrt(b / N),
    "log": lambda b, N: -np.log1p(b),
    "hits": lambda b, N: (b < 3).astype(float),
    "line": lambda b, N: 1 - b / N,
    "wave": lambda b, N: np.sin(b / 3.0),
}


@cache
def probabilities(population: int, size: int) -> NDArray[np.float64]:
    """P(X = x) for all b and x, by scipy."""
    b = np.arange(population + 1)[:, None]
    return np.asarray(hypergeom(population, b, size).pmf(np.arange(size + 1)))


@pytest.mark.parametrize(("population", "size"), SIZES)
def test_probabilities_are_those_of_scipy(population: int, size: int) -> None:
    bounds = SampleBounds(population, size)
    assert bounds.pmf == pytest.approx(probabilities(population, size)[bounds.grid], abs=1e-11)


def test_the_grid_has_the_ends_and_all_small_numbers() -> None:
    grid = SampleBounds(100_000, 1_000).grid
    assert grid[:33].tolist() == list(range(33))
    assert grid[-1] == 100_000
    assert (np.diff(grid) > 0).all()
    assert (np.diff(grid)[32:] <= 0.05 * grid[32:-1] + 1).all()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("ridge", RIDGES)
@pytest.mark.parametrize(("population", "size"), SIZES[:5])
def test_expectations_bound_the_function_for_every_number(
    population: int, size: int, ridge: float | None, name: str
) -> None:
    bounds = SampleBounds(population, size)
    values = FUNCTIONS[name](bounds.grid, population)
    lower, upper = bounds.statistics(values[None], np.arange(size + 1)[None], ridge)
    exact = probabilities(population, size)[bounds.grid]
    assert (exact @ upper[0] >= values - 1e-8).all()
    assert (exact @ lower[0] <= values + 1e-8).all()


@pytest.mark.parametrize("name", ["reciprocal", "root", "log"])
@pytest.mark.parametrize("ridge", RIDGES)
@pytest.mark.parametrize(("population", "size"), SIZES[5:])
def test_between_the_numbers_of_the_grid_they_are_bounds_but_for_interpolation(
    population: int, size: int, ridge: float | None, name: str
) -> None:
    bounds = SampleBounds(population, size)
    lower, upper = bounds.statistics(FUNCTIONS[name](bounds.grid, population)[None], np.arange(size + 1)[None], ridge)
    values = FUNCTIONS[name](np.arange(population + 1), population)
    exact = probabilities(population, size)
    assert (exact @ upper[0] >= values - 2e-3).all()
    assert (exact @ lower[0] <= values + 2e-3).all()


def test_a_line_has_a_bound_without_a_gap_where_the_sample_is_nearly_everything() -> None:
    bounds = SampleBounds(30, 29)
    values = FUNCTIONS["reciprocal"](bounds.grid, 30)[None]
    lower, upper = bounds.statistics(values, np.arange(30)[None], None)
    gap = bounds.pmf @ (upper - lower)[0]
    assert gap.max() < 0.3
    assert bounds.pmf[0] @ upper[0] == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("ridge", RIDGES)
@pytest.mark.parametrize(("population", "size"), [(12, 5), (30, 29), (40, 2), (60, 20)])
def test_variances_are_not_estimated_too_small(population: int, size: int, ridge: float | None, name: str) -> None:
    bounds = SampleBounds(population, size)
    x = np.arange(size + 1)
    values = np.repeat(FUNCTIONS[name](bounds.grid, population)[None], size + 1, axis=0)
    found = bounds.bound(values, x, ridge)
    exact = probabilities(population, size)
    for statistic, estimate in (found[:2], found[2:]):
        variance = exact @ np.square(statistic) - np.square(exact @ statistic)
        assert (exact @ estimate >= variance * (1 - 1e-9) - 1e-9).all()


@pytest.mark.parametrize(("population", "size"), [(12, 5), (30, 29), (60, 20), (400, 50)])
@pytest.mark.parametrize("error", [0.025, 0.001])
def test_exact_limits_miss_no_more_often_than_they_may(population: int, size: int, error: float) -> None:
    bounds = SampleBounds(population, size)
    x = np.arange(size + 1)
    low, high = bounds.limits(x, np.full(size + 1, error))
    exact, b = probabilities(population, size), np.arange(population + 1)[:, None]
    assert ((exact * (low > b)).sum(axis=1) <= error * (1 + 1e-9)).all()
    assert ((exact * (high < b)).sum(axis=1) <= error * (1 + 1e-9)).all()
    assert (low <= high).all()
    assert (low >= x).all()
    assert (high <= population - size + x).all()


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=3, max_size=7), st.integers(2, 6))
@settings(max_examples=50)
def test_the_variance_of_hits_is_unbiased(values: list[float], size: int) -> None:
    size = min(size, len(values))
    samples = np.array(list(combinations(values, size)))
    hits, squares = samples.sum(axis=1), np.square(samples).sum(axis=1)
    estimates = hit_variance(hits, squares, len(values), size)
    assert estimates.mean() == pytest.approx(hits.var(), abs=1e-12)


def test_few_populations_are_exact_and_many_are_rounded() -> None:
    few, which = alike(np.array([90, 80, 90]), np.array([5, 5, 5]))
    assert few.tolist() == [90, 80, 90]
    assert which.tolist() == [1, 0, 1]
    populations = np.arange(100, 10_000)
    rounded, which = alike(populations, np.full(len(populations), 20))
    assert (np.abs(rounded / populations - 1) < 0.015).all()
    assert which.max() < 300
    assert (rounded > 20).all()
