import math

import numpy as np
import pytest

from kgprobe.errors import UsageError
from kgprobe.models.least_squares import fit_cp, fit_rescal
from kgprobe.models.least_squares.ridge import ridge


@pytest.mark.parametrize("regularisation", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("rank", [2, 4])
def test_least_squares_of_the_augmented_problem(regularisation, rank):
    rng = np.random.default_rng(1)
    target, regressors = rng.standard_normal((5, 20)), rng.standard_normal((20, rank)) @ rng.standard_normal((rank, 4))
    augmented = np.vstack([regressors, regularisation**0.5 * np.eye(4)])
    expected = np.linalg.lstsq(augmented, np.vstack([target.T, np.zeros((4, 5))]))[0].T
    found = ridge(regressors.T @ regressors, target @ regressors, regularisation)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_without_regularisation_to_speak_of_rounding_errors_stay_small():
    rng = np.random.default_rng(0)
    for _ in range(20):
        regressors = np.outer(rng.standard_normal(30), rng.standard_normal(5))
        target = rng.standard_normal((1, 30))
        expected = np.linalg.lstsq(regressors, target.T)[0].T
        found = ridge(regressors.T @ regressors, target @ regressors, regularisation=1e-300)
        np.testing.assert_allclose(found, expected, atol=1e-2)


@pytest.mark.parametrize("fit", [fit_rescal, fit_cp])
@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"dimension": 0}, "dimension is 0, expected a whole number of at least 1"),
        ({"dimension": 2.5}, "dimension is 2.5,"),
        ({"dimension": True}, "dimension is True,"),
        ({"iterations": 0}, "iterations is 0, expected a whole number of at least 1"),
        ({"seed": -1}, "seed is -1, expected a whole number of at least 0"),
        ({"regularisation": 0}, "regularisation is 0, expected a number above 0"),
        ({"regularisation": math.inf}, "regularisation is inf,"),
        ({"regularisation": math.nan}, "regularisation is nan,"),
        ({"regularisation": "much"}, "regularisation is 'much',"),
        ({"damping": -0.1}, "damping is -0.1, expected a number from 0 to 1"),
        ({"damping": math.nan}, "damping is nan,"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_requests_that_make_no_sense(graph, fit, asked, problem):
    with pytest.raises(UsageError, match="no model can be fitted") as caught:
        fit(graph, **asked)
    assert [line.startswith(problem) for line in caught.value.problems] == [True]


@pytest.mark.parametrize("fit", [fit_rescal, fit_cp])
def test_all_problems_at_once(graph, fit):
    with pytest.raises(UsageError) as caught:
        fit(graph, dimension=0, iterations=-1, regularisation=-1, damping=2, seed=0.5)
    named = [line.split()[0] for line in caught.value.problems]
    assert named == ["dimension", "iterations", "seed", "regularisation", "damping"]
