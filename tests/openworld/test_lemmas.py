import itertools
import math

import mpmath
import numpy as np
import pytest

from kgprobe.openworld.expected_scores import Removed, Unlearned, chance_level, expected
from kgprobe.openworld.lemmas import (
    alpha_derivative,
    normalised_derivative,
    paper_alpha_derivative,
    paper_derivative,
    sign_term,
)
from kgprobe.transform import AffinePower, Identity, InverseLog, Log, Power, TopK, Transformer

KINDS: list[Transformer] = [
    *map(Power, (2.0, 1.0, -1.0)),
    *map(AffinePower, (1.0, 0.0, -1.0)),
    TopK(3),
    InverseLog(),
    Log(),
    Identity(),
]


@pytest.mark.parametrize("f", KINDS, ids=str)
def test_it_is_the_slope_of_the_expected_metric(f: Transformer) -> None:
    grid = np.meshgrid([0.0, 1.0, 9.0, 28.0, 500.0], [0.05, 0.25, 0.9], [0.1, 0.5, 1.0])
    n, rate, strength = (axis.ravel() for axis in grid)
    derivative = expected(f, Removed(n, rate), 6004.0, strength, Unlearned.nothing).derivative
    assert paper_derivative(f, n, 6004.0, rate, strength) == pytest.approx(derivative, rel=1e-9)


@pytest.mark.parametrize("at_zero", [0.0, 1.0])
def test_it_is_the_printed_sum(at_zero: float) -> None:
    n, size, rate, strength = 6, 40, 0.3, 0.5
    p = rate * strength
    total = at_zero * (1 - p) ** (n + 1)
    total += sum(math.comb(n + 1, r) * p**r * (1 - p) ** (n + 1 - r) * r * r**-0.5 for r in range(1, n + 2))
    assert paper_derivative(Power(0.5), n, size, rate, strength, at_zero) == pytest.approx(
        total / (p * (n + 1)), rel=1e-12
    )


def test_a_term_for_rank_zero_would_be_off() -> None:
    n, rate, strength = 28, 0.25, 0.3
    with_it, without = (paper_derivative(Power(1.0), n, 5976, rate, strength, at_zero=g).item() for g in (1.0, 0.0))
    p = rate * strength
    assert with_it - without == pytest.approx((1 - p) ** (n + 1) / (p * (n + 1)), rel=1e-12)
    assert with_it - without == pytest.approx(0.048, abs=0.0005)


ALPHAS = [-8.0, -3.0, -1.0, -0.5, -0.01, -1e-4, -1e-9, 0.0, 1e-9, 1e-4, 0.01, 0.5, 1.0, 3.0, 8.0, 40.0]


def _hidden(others: float, rate: float) -> Removed:
    return Removed(np.array([others]), np.array([rate]))


def _derivative(alpha: float, n: float, size: float, rate: float, strength: float, unlearned: Unlearned) -> float:
    return float(expected(AffinePower(alpha), _hidden(n, rate), [size], strength, unlearned).derivative[0])


def _exact(alpha: float, rank: int, size: int) -> float:
    """The derivative of f* by alpha in fifty digits."""
    with mpmath.workdps(50):
        a, b = mpmath.log(rank), mpmath.log(size)

        def f(x: mpmath.mpf) -> mpmath.mpf:
            return (b - a) / b if x == 0 else mpmath.expm1(-x * (a - b)) / mpmath.expm1(x * b)

        h = mpmath.mpf(10) ** -12
        x = mpmath.mpf(alpha)
        return float((f(x + h) - f(x - h)) / (2 * h))


@pytest.mark.parametrize("size", [2, 7, 135, 40943])
def test_the_derivative_by_alpha_is_right_everywhere(size: int) -> None:
    ranks = sorted({1, 2, max(size // 3, 1), size - 1, size} - {0})
    for alpha, rank in itertools.product(ALPHAS, ranks):
        exact = _exact(alpha, rank, size)
        assert alpha_derivative(alpha, rank, size) == pytest.approx(exact, rel=1e-9, abs=1e-13)
        if 0.005 < abs(alpha) < 10:
            assert paper_alpha_derivative(alpha, rank, size) == pytest.approx(exact, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("size", [2, 3, 14, 135, 1000, 6004])
def test_the_sign_term_is_negative_inside_and_zero_at_the_ends_alone(size: int) -> None:
    rank = np.arange(1.0, size + 1)[:, None]
    alpha = np.arange(-100, 101) / 20
    f = sign_term(alpha, rank, size)
    zero = (rank == 1) | (rank == size) | (alpha == 0)
    scale = np.abs(np.expm1(alpha * np.log(rank)) * np.log(size)) + 1
    assert (np.abs(f[zero]) <= 1e-12 * scale[zero]).all()
    assert (f[~zero] < -1e-12 * scale[~zero]).all()
    beyond = np.arange(size + 1.0, 2 * size + 2)[:, None]
    assert (sign_term(alpha[alpha != 0], beyond, size) > 0).all()


def test_alpha_zero_need_not_be_left_out() -> None:
    rank, size = np.arange(1.0, 101), 100.0
    a, b = np.log(rank), np.log(size)
    assert alpha_derivative(0.0, rank, size) == pytest.approx(-(a / 2) * (1 - a / b), abs=1e-14)


GRID = [
    (float(n), float(size), rate, strength)
    for size, most in ((100, 9), (1000, 99), (5976, 597))
    for n in (1, most // 3, most)
    for rate in (0.1, 0.25, 0.5, 0.9)
    for strength in (0.1, 0.5, 0.9, 1.0)
]


def _over_grid(alpha: float, unlearned: Unlearned, *, normalised: bool = False) -> np.ndarray:
    n, size, rate, strength = np.array(GRID).T
    derivative = expected(AffinePower(alpha), Removed(n, rate), size, strength, unlearned).derivative
    return derivative / (1 - chance_level(AffinePower(alpha), size)) if normalised else derivative


def test_lemma_1_holds_where_unlearned_answers_score_nothing_and_nowhere_else() -> None:
    alphas = [-3.0, -2.0, -1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0, 2.0, 3.0]
    for unlearned, rising in ((Unlearned.nothing, 0), (Unlearned.anywhere, len(GRID)), (Unlearned.below, len(GRID))):
        derivatives = np.stack([_over_grid(alpha, unlearned) for alpha in alphas])
        assert (np.diff(derivatives, axis=0) > 1e-12).any(axis=0).sum() == rising


def test_the_counterexample() -> None:
    alphas, expect = [-1.0, -0.5, -0.25, 0.0, 0.5, 1.0], [0.499, 0.641, 0.694, 0.662, 0.364, 0.152]
    found = [_derivative(alpha, 28, 5976, 0.25, 0.9, Unlearned.anywhere) for alpha in alphas]
    assert found == pytest.approx(expect, abs=0.0006)
    consistent = [_derivative(alpha, 28, 5976, 0.25, 0.9, Unlearned.below) for alpha in alphas]
    assert consistent == pytest.approx(found, abs=0.001)
    assert consistent[0] < consistent[2] > consistent[-1]


@pytest.mark.parametrize(
    ("size", "n", "alpha", "derivative"), [(1000, 99, 2.0, -0.0011), (104, 50, 1.0, -0.007)], ids=["few", "many"]
)
def test_derivatives_are_negative_only_where_unlearned_answers_may_pass_learned_ones(
    size: int, n: int, alpha: float, derivative: float
) -> None:
    assert _derivative(alpha, n, size, 0.5, 0.9, Unlearned.anywhere) == pytest.approx(derivative, abs=0.0005)
    assert _derivative(alpha, n, size, 0.5, 0.9, Unlearned.below) > 0
    assert _derivative(alpha, n, size, 0.5, 0.9, Unlearned.nothing) > 0


@pytest.mark.parametrize("unlearned", [Unlearned.anywhere, Unlearned.below])
def test_over_the_closed_world_the_derivative_falls_with_alpha_up_to_1(unlearned: Unlearned) -> None:
    found = np.stack([_over_grid(alpha, unlearned, normalised=True) for alpha in np.linspace(-3, 1, 17)])
    assert (np.diff(found, axis=0) < 1e-13).all()


def test_beyond_alpha_1_it_can_rise_where_unlearned_answers_stand_anywhere() -> None:
    sharp = np.linspace(1, 6, 21)
    anywhere = np.stack([_over_grid(alpha, Unlearned.anywhere, normalised=True) for alpha in sharp])
    below = np.stack([_over_grid(alpha, Unlearned.below, normalised=True) for alpha in sharp])
    assert (np.diff(anywhere, axis=0) > 1e-6).any()
    assert (np.diff(below, axis=0) < 1e-13).all()


@pytest.mark.parametrize("unlearned", [Unlearned.anywhere, Unlearned.below])
@pytest.mark.parametrize("alpha", [-3.0, -1.0, 0.5, 1.0, 2.0])
def test_rescaling_shows_no_more(alpha: float, unlearned: Unlearned) -> None:
    n, size, rate, strength = np.array(GRID).T
    pair = [
        normalised_derivative(f, Removed(n, rate), size, strength, unlearned)
        for f in (Power(alpha), AffinePower(alpha))
    ]
    assert pair[0] == pytest.approx(pair[1], rel=1e-9, abs=1e-12)
