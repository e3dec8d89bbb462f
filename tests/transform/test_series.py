"""Means over runs of ranks, against plain addition and against closed forms that the code does not use."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.transform import AffinePower, Identity, InverseLog, Log, Power, Transformer
from kgprobe.transform.series import _GREGORY, mean_over_range

TRANSFORMERS = [
    *(Power(alpha) for alpha in (1.0, 0.5, -1.0, -2.5, 20.0)),
    *(AffinePower(alpha) for alpha in (1.0, 0.5, 0.0, 1e-300, -1.0, -5.0, 30.0, -30.0, 100.0, -100.0)),
    Log(),
    InverseLog(),
]


def added_up(transformer: Transformer, first: int, last: int, size: int) -> float:
    ranks = np.arange(first, last + 1.0)
    return math.fsum(transformer(ranks, np.full(ranks.size, float(size))).tolist()) / ranks.size


def mean(transformer: Transformer, first: int, last: int, size: int) -> float:
    return transformer.mean_over(np.array([float(first)]), np.array([float(last)]), np.array([float(size)])).item()


def assert_mean(transformer: Transformer, first: int, last: int, size: int) -> None:
    wanted = added_up(transformer, first, last, size)
    if abs(wanted) > 1e-290:
        assert mean(transformer, first, last, size) == pytest.approx(wanted, rel=1e-12, abs=0), (first, last, size)


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=str)
def test_tie_group_of_any_length_and_place(transformer):
    for size in (5, 300, 5000, 10**6, 10**9):
        for length in (1, 2, 130, 144, 145, 146, 200, 1000, 2000, 40_000):
            for first in (1, 2, 17, size // 2, size - length - 50, size - length, size - length + 1):
                if first >= 1 and first + length - 1 <= size:
                    assert_mean(transformer, first, first + length - 1, size)


@settings(max_examples=40)
@given(
    st.floats(-100, 100) | st.sampled_from([0.0, 1e-300, -1e-9]),
    st.integers(1, 10**6),
    st.integers(1, 5000),
    st.integers(0, 10**6),
)
def test_tie_group_anywhere(alpha, first, length, behind):
    last = first + length - 1
    assert_mean(AffinePower(alpha), first, last, last + behind + (last + behind == 1))


@pytest.mark.parametrize("alpha", [100.0, -100.0, 30.0])
def test_steep_scores_at_the_switch_from_adding_to_integrating(alpha):
    switch = 2 * int(64 + 8 * abs(alpha))
    for length in range(switch - 2, switch + 4):
        for first in (1, 40, 3000):
            assert_mean(AffinePower(alpha), first, first + length - 1, first + length + 5)


def power_sum(s: mp.mpf, n: int) -> mp.mpf:
    """1^s + 2^s + ... + n^s by Euler and Maclaurin: the first terms added up, the rest an integral and corrections."""
    m, terms = min(n, 60), 14
    total = mp.fsum(mp.mpf(k) ** s for k in range(1, m + 1))
    if n <= m:
        return total
    a, b = mp.mpf(m), mp.mpf(n)
    total += mp.log(b / a) if s == -1 else (b ** (s + 1) - a ** (s + 1)) / (s + 1)
    total += (b**s - a**s) / 2
    for k in range(1, terms + 1):
        falling = mp.fprod(s - j for j in range(2 * k - 1))
        total += mp.bernoulli(2 * k) / mp.factorial(2 * k) * falling * (b ** (s - 2 * k + 1) - a ** (s - 2 * k + 1))
    return total


def test_the_oracle_itself():
    with mp.workdps(40):
        assert mp.almosteq(power_sum(mp.mpf(-1), 1000), mp.harmonic(1000), 1e-20)
        assert mp.almosteq(power_sum(mp.mpf(-1.5), 500), mp.fsum(mp.mpf(k) ** -1.5 for k in range(1, 501)), 1e-20)
        assert power_sum(mp.mpf(2), 100) == pytest.approx(100 * 101 * 201 / 6, rel=1e-25, abs=0)


@pytest.mark.parametrize("size", [2, 100, 145, 146, 1000, 40_943, 10**6, 10**9])
def test_reciprocal_ranks_add_up_to_harmonic_numbers(size):
    with mp.workdps(40):
        first, second = mp.harmonic(size) / size, power_sum(mp.mpf(-2), size) / size
        wanted = float(first), float(second - first**2)
    found = Power(1.0).chance(np.array([float(size)]))
    assert (found[0].item(), found[1].item()) == pytest.approx(wanted, rel=1e-12, abs=0)


@pytest.mark.parametrize("size", [2, 145, 146, 40_943, 10**9])
def test_logarithms_add_up_to_log_factorials(size):
    with mp.workdps(40):
        log_factorial = mp.loggamma(size + 1)
        mean_log, mean_score = log_factorial / size, 1 - log_factorial / (size * mp.log(size))
    assert mean(Log(), 1, size, size) == pytest.approx(float(mean_log), rel=1e-12, abs=0)
    assert mean(AffinePower(0.0), 1, size, size) == pytest.approx(float(mean_score), rel=1e-12, abs=0)


@pytest.mark.parametrize("alpha", [0.25, 0.5, 1.0, 1.7, -0.5, -1.0, -2.3])
@pytest.mark.parametrize("size", [2, 50, 200, 40_943, 10**6, 10**9])
def test_chance_of_affine_power_in_closed_form(alpha, size):
    with mp.workdps(60):
        a, last = mp.mpf(alpha), mp.mpf(size) ** -mp.mpf(alpha)
        raw_mean, raw_square = power_sum(-a, size) / size, power_sum(-2 * a, size) / size
        wanted_mean = (raw_mean - last) / (1 - last)
        wanted_variance = (raw_square - raw_mean**2) / (1 - last) ** 2
    found_mean, found_variance = AffinePower(alpha).chance(np.array([float(size)]))
    assert found_mean.item() == pytest.approx(float(wanted_mean), rel=1e-12, abs=0)
    assert found_variance.item() == pytest.approx(float(wanted_variance), rel=1e-11, abs=0)


@pytest.mark.parametrize("alpha", [0.5, 1.0, -0.5, -2.3])
@pytest.mark.parametrize(("first", "last"), [(2, 10**9), (10**5, 9 * 10**8), (10**8, 10**8 + 10**6), (1000, 10**5)])
def test_long_tie_groups_in_closed_form(alpha, first, last):
    size = 10**9
    with mp.workdps(60):
        a, end = mp.mpf(alpha), mp.mpf(size) ** -mp.mpf(alpha)
        raw = (power_sum(-a, last) - power_sum(-a, first - 1)) / (last - first + 1)
        wanted = (raw - end) / (1 - end)
    assert mean(Power(alpha), first, last, size) == pytest.approx(float(raw), rel=1e-12, abs=0)
    assert mean(AffinePower(alpha), first, last, size) == pytest.approx(float(wanted), rel=1e-12, abs=0)


@pytest.mark.parametrize("size", [2, 200, 10**5, 10**9])
def test_chance_of_the_mean_rank_on_the_unit_scale(size):
    found_mean, found_variance = AffinePower(-1.0).chance(np.array([float(size)]))
    assert found_mean.item() == pytest.approx(0.5, rel=1e-12, abs=0)
    assert found_variance.item() == pytest.approx((size + 1) / (12 * (size - 1)), rel=1e-11, abs=0)


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=str)
def test_chance_by_brute_force(transformer):
    sizes = np.array([5.0, 2.0, 1000.0, 5.0, 3330.0, 40_943.0])
    found_mean, found_variance = transformer.chance(sizes)
    for size, m, v in zip(sizes.astype(int).tolist(), found_mean.tolist(), found_variance.tolist(), strict=True):
        scores = transformer(np.arange(1, size + 1.0), np.full(size, float(size)))
        centre = math.fsum(scores.tolist()) / size
        assert m == pytest.approx(centre, rel=1e-12, abs=0)
        assert v == pytest.approx(math.fsum(np.square(scores - centre).tolist()) / size, rel=1e-11, abs=0)


def test_many_runs_at_once_are_each_run_alone():
    rng = np.random.default_rng(0)
    size, transformer = 5000, AffinePower(0.5)
    score = transformer(np.arange(1, size + 1.0), np.full(size, float(size)))
    total = np.concatenate([[0], np.cumsum(score.astype(np.longdouble))])
    first = rng.integers(1, 1000, 40_000)
    last = first + rng.choice([0, 1, 9, 130, 150, 3000], first.size)
    found = transformer.mean_over(first.astype(float), last.astype(float), np.full(first.size, float(size)))
    wanted = (total[last] - total[first - 1]) / (last - first + 1)
    assert np.abs(found / wanted - 1).max() < 1e-12


def test_the_end_corrections_are_the_coefficients_of_gregory():
    """z / ln(1 + z) = 1 + G1 z + G2 z^2 + ..., in whole fractions."""
    found = [Fraction(1)]
    for n in range(1, _GREGORY.size + 1):
        found.append(-sum(found[k] * Fraction((-1) ** (n - k), n - k + 1) for k in range(n)))
    assert _GREGORY.tolist() == [float(abs(g)) for g in found[1:]]


def test_no_run_at_all():
    none = np.empty(0)
    assert AffinePower(0.5).mean_over(none, none, none).shape == (0,)
    assert AffinePower(0.5).chance(none)[1].shape == (0,)


def test_runs_may_share_a_candidate_count():
    found = mean_over_range(lambda rank, _: rank, np.array([1.0, 2.0]), np.array([3.0, 2.0]), np.array([9.0]), 1.0)
    assert found.tolist() == [2.0, 2.0]


def test_the_mean_of_a_line_is_its_middle():
    assert mean_over_range(Identity(), np.array([11.0]), np.array([10**8 + 0.0]), np.ones(1), 1.0) == pytest.approx(
        [(11 + 10**8) / 2], rel=1e-13
    )
