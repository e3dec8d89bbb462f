import numpy as np
import pytest

from kgprobe.aggregate.powers import Powers


def test_rounding_does_not_add_up_over_many_steps():
    exponents, base = np.linspace(-3, 3, 3001), np.linspace(1.1, 60, 50)
    found = np.empty((exponents.size, base.size))
    Powers(exponents).fill(np.log(base), found)
    assert np.abs(found / base ** exponents[:, None] - 1).max() < 8e-14


@pytest.mark.parametrize(
    "exponents", [[0.0], [2.0, -1.0], [0.0, 1.0, 5.0], np.arange(-10, 11) / 10, np.linspace(-400, 400, 9)]
)
def test_even_and_uneven_steps(exponents):
    base = np.array([0.25, 1.0, 3.0])
    found = np.empty((len(exponents), 3))
    Powers(np.asarray(exponents)).fill(np.log(base), found)
    assert found == pytest.approx(base ** np.asarray(exponents)[:, None], rel=1e-12)


def test_a_power_that_vanishes_does_not_take_the_next_ones_along():
    exponents = np.linspace(-400, 0, 9)
    found = np.empty((9, 1))
    Powers(exponents).fill(np.log([10.0]), found)
    assert found[0, 0] == 0
    assert found[2:, 0] == pytest.approx(10.0 ** exponents[2:], rel=1e-12)
