import numpy as np
import pytest
from scipy.sparse import csr_array

from kgprobe.models.markov_logic.likelihood import Others, Prior, most_likely


def by_newton(features: np.ndarray, truth: np.ndarray, strength: float) -> np.ndarray:
    """Logistic regression with a last column of ones, whose weight has no prior, by Newton's method."""
    rows = np.column_stack([features, np.ones(len(features))])
    held = np.append(np.full(features.shape[1], strength), 0.0)
    weights = np.zeros(rows.shape[1])
    for _ in range(50):
        likely = 1 / (1 + np.exp(-rows @ weights))
        slope = rows.T @ (likely - truth) + held * weights
        bend = rows.T @ (rows * (likely * (1 - likely))[:, None]) + np.diag(held)
        weights -= np.linalg.solve(bend, slope)
    return weights


@pytest.mark.parametrize("strength", [0.1, 3.0])
def test_weights_are_those_of_a_regression_over_all_pairs_one_by_one(strength: float) -> None:
    rng = np.random.default_rng(0)
    features = rng.poisson(0.7, (60, 4)).astype(float)
    truth = np.clip((rng.random(60) < 0.4) + rng.choice([0, 0.25], 60), 0, 1)
    everything = np.concatenate([features, np.zeros((40, 4))])
    expected = by_newton(everything, np.concatenate([truth, np.ones(3), np.zeros(37)]), strength)
    weights, bias = most_likely(csr_array(features), truth, Others(40, 3), Prior(strength, 1000))
    assert np.append(weights, bias) == pytest.approx(expected, abs=2e-3)


def test_without_rules_the_bias_is_what_the_number_of_facts_says() -> None:
    weights, bias = most_likely(csr_array((0, 0)), np.zeros(0), Others(100, 20), Prior(1.0, 100))
    assert len(weights) == 0
    assert bias == pytest.approx(np.log(20 / 80), abs=1e-3)


def test_without_facts_everything_stays_finite() -> None:
    weights, bias = most_likely(csr_array(np.ones((2, 1))), np.zeros(2), Others(7, 0), Prior(1.0, 30))
    assert np.isfinite([*weights, bias]).all()
    assert weights[0] < 0


def test_a_strong_prior_leaves_weights_near_nothing() -> None:
    features, truth = csr_array(np.ones((9, 1))), np.ones(9)
    loose, held = (most_likely(features, truth, Others(50, 0), Prior(s, 200))[0][0] for s in (0.1, 1e4))
    assert abs(held) < 0.01 < 2 < loose
