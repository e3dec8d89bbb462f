import numpy as np
import pytest
from scipy import stats

from kgprobe.comparison.critical_values import critical_value, standard_errors


def test_standard_errors_are_those_of_sums():
    influence = np.random.default_rng(0).normal(size=(40, 3))
    assert standard_errors(influence) == pytest.approx(np.std(influence, axis=0, ddof=1) * 40**0.5)
    assert standard_errors(influence[:1]).tolist() == [0, 0, 0]


def test_a_single_column_needs_the_quantile_of_t():
    influence = np.random.default_rng(0).normal(size=(400, 1))
    assert critical_value(influence, replicates=20_000) == pytest.approx(stats.t(399).ppf(0.975), abs=0.05)
    assert critical_value(influence, 0.5, replicates=20_000) == pytest.approx(stats.t(399).ppf(0.75), abs=0.03)


def test_few_clusters_need_wider_bands():
    influence = np.random.default_rng(0).normal(size=(10, 1))
    assert critical_value(influence, replicates=20_000) > 2.1  # as the t distribution with 9 degrees of freedom: 2.26


def test_independent_columns_need_the_quantile_of_their_maximum():
    influence = np.random.default_rng(0).normal(size=(2000, 25))
    expected = stats.norm.ppf((1 + 0.95 ** (1 / 25)) / 2)
    assert critical_value(influence, replicates=10_000) == pytest.approx(expected, abs=0.07)


def test_equal_columns_need_no_more_than_one():
    one = np.random.default_rng(0).normal(size=(300, 1))
    many = one * np.arange(1, 30)
    assert critical_value(many) == pytest.approx(critical_value(one), rel=1e-3)


def test_columns_without_variation_need_no_band():
    one = np.random.default_rng(0).normal(size=(300, 1))
    assert critical_value(np.zeros((300, 4))) == 0.0
    assert critical_value(np.concatenate([one, np.zeros((300, 2)), np.full((300, 1), 7.0)], axis=1)) == critical_value(
        one
    )
    assert critical_value(np.ones((1, 5))) == 0.0


def test_the_scale_of_a_column_does_not_matter():
    influence = np.random.default_rng(0).normal(size=(200, 5))
    scaled = influence * np.array([1e-9, 1, 1e9, 3, 1e-3])
    assert critical_value(scaled) == pytest.approx(critical_value(influence), rel=1e-4)


def test_the_same_seed_gives_the_same_value():
    influence = np.random.default_rng(0).normal(size=(200, 5))
    assert critical_value(influence, seed=4) == critical_value(influence, seed=4) != critical_value(influence, seed=5)


def test_bands_hold_at_all_points_at_once():
    """Simulated: skewed scores, 30 points of which neighbours are alike; limits of one point at a time fail."""
    rng = np.random.default_rng(0)
    powers = np.linspace(0.3, 8, 30)
    truth = 1 / (powers + 1)
    held, pointwise = [], []
    for _ in range(400):
        scores = rng.random((150, 1)) ** powers
        influence = (scores - scores.mean(axis=0)) / 150
        away = np.abs(scores.mean(axis=0) - truth) / standard_errors(influence)
        held.append(away.max() <= critical_value(influence, replicates=400))
        pointwise.append(away.max() <= 1.96)
    assert 0.925 <= np.mean(held) <= 0.975
    assert np.mean(pointwise) < 0.92
