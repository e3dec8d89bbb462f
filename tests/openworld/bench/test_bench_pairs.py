from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from kgprobe.openworld.bench.pairs import PairCounts

VALUES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 2)), min_size=2, max_size=14)


def _arrays(rows: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    first, second, model = np.array(rows).T
    return first.astype(float), second.astype(float), model


@given(VALUES)
def test_counts_are_those_of_a_loop_over_pairs(rows: list[tuple[int, int, int]]) -> None:
    first, second, model = _arrays(rows)
    counts = PairCounts.of(first, second, model, 3)
    products = [(a[0] - b[0]) * (a[1] - b[1]) for a, b in combinations(rows, 2)]
    assert counts.pairs == len(products)
    assert counts.tied == products.count(0)
    assert counts.discordant == sum(product < 0 for product in products)


@given(VALUES)
def test_tau_is_that_of_scipy(rows: list[tuple[int, int, int]]) -> None:
    first, second, model = _arrays(rows)
    wanted = kendalltau(first, second).statistic
    assert PairCounts.of(first, second, model, 3).tau().item() == pytest.approx(wanted, abs=1e-12, nan_ok=True)


@given(VALUES, st.lists(st.integers(0, 3), min_size=3, max_size=3))
def test_tau_of_drawn_models_is_that_of_their_copied_points(rows: list[tuple[int, int, int]], draws: list[int]) -> None:
    first, second, model = _arrays(rows)
    copied = [i for i, own in enumerate(model) for _ in range(draws[own])]
    wanted = kendalltau(first[copied], second[copied]).statistic if len(copied) > 1 else np.nan
    weights = np.array([draws, [1, 1, 1]], dtype=float)
    tau = PairCounts.of(first, second, model, 3).tau(weights)
    assert tau[0] == pytest.approx(wanted, abs=1e-12, nan_ok=True)
    assert tau[1] == pytest.approx(kendalltau(first, second).statistic, abs=1e-12, nan_ok=True)


def test_many_points_are_counted_in_parts() -> None:
    first, second = np.random.default_rng(0).normal(size=(2, 700))
    counts = PairCounts.of(first, second + first)
    assert counts.tau().item() == pytest.approx(kendalltau(first, second + first).statistic, abs=1e-12)
    assert counts.pairs == 700 * 699 // 2
