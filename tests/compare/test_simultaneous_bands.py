import numpy as np
import pytest

from clustered import lineup
from kgprobe import parse
from kgprobe.compare.bands import bands
from kgprobe.compare.critical import critical_value
from kgprobe.compare.estimator import difference, estimator

ALPHAS, BETAS = [-1.0, 0.0, 1.0], [0.0, 0.5]


@pytest.fixture(scope="module")
def given():
    return lineup(250, 3, runs=2)


def expected(given, *models):
    """Value and influence at every point, through the estimators."""
    values, influences = [], []
    for alpha in ALPHAS:
        for beta in BETAS:
            metric = parse(f"PROBE(alpha={alpha},beta={beta})")
            own = [estimator(given, m, metric, clusters=given.clusters()) for m in models]
            one = own[0] if len(own) == 1 else difference(*own)
            values.append(one.estimate)
            influences.append(one.columns @ one.gradient(one.sums))
    return np.reshape(values, (3, 2)), np.stack(influences, axis=1)


@pytest.mark.parametrize("models", [("model 0",), ("model 2", "model 0")], ids=["model", "difference"])
def test_bands_are_those_of_the_estimators(given, models):
    found = bands(given, ALPHAS, BETAS, model=models[0], against=models[1] if len(models) > 1 else None)
    value, influence = expected(given, *models)
    assert found.value == pytest.approx(value, rel=1e-12)
    assert found.error.ravel() == pytest.approx(np.std(influence, axis=0, ddof=1) * 250**0.5, rel=1e-9)
    assert found.critical == pytest.approx(critical_value(influence), rel=1e-3)
    assert found.critical > 2.1
    half = found.critical * found.error
    assert found.low == pytest.approx(found.value - half)
    assert found.high == pytest.approx(found.value + half)


def test_differences_are_antisymmetric(given):
    there = bands(given, ALPHAS, BETAS, model="model 0", against="model 1")
    back = bands(given, ALPHAS, BETAS, model="model 1", against="model 0")
    assert back.low == pytest.approx(-there.high)
    assert back.critical == pytest.approx(there.critical, rel=1e-5)


def test_bands_stay_within_what_is_possible():
    few = lineup(3, 1)
    found = bands(few, ALPHAS, [0.0], model="model 0")
    assert (found.low >= 0).all()
    assert (found.high <= 1).all()
    assert not found.trusted.any()


def test_trust_is_told_for_each_beta(given):
    found = bands(given, [1.0], [0.0, 3.0], model="model 0")
    assert found.effective[0] == 500
    assert found.trusted.tolist() == [True, False]
