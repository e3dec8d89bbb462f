"""Means over runs of ranks, against plain addition and against closed forms that the code does not use."""

import math
import warnings
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.errors import UsageError
from kgprobe.transform import (
    _GREGORY,
    AffinePower,
    Identity,
    InverseLog,
    Log,
    Power,
    TopK,
    Transformer,
    mean_over_range,
)


def test_a_rank_equal_to_k_is_a_hit_and_half_a_rank_more_is_not():
    rank = np.array([1.0, 2.5, 3.0, 3.5, 4.0])
    assert TopK(3)(rank, np.full(5, 9.0)).tolist() == [1, 1, 1, 0, 0]


@settings(max_examples=60)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 12))
def test_share_of_a_tie_group_inside_the_first_k(k, first, more):
    last = first + more
    inside = sum(rank <= k for rank in range(first, last + 1))
    found = TopK(k).mean_over(np.array([float(first)]), np.array([float(last)]), np.array([30.0]))
    assert found.item() == pytest.approx(inside / (more + 1), rel=1e-15, abs=0)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_chance_by_brute_force(k):
    sizes = np.array([2.0, 3.0, 10.0, 57.0])
    mean, variance = TopK(k).chance(sizes)
    for size, m, v in zip(sizes.astype(int).tolist(), mean.tolist(), variance.tolist(), strict=True):
        hits = np.arange(1, size + 1) <= k
        assert (m, v) == pytest.approx((hits.mean(), hits.var()), abs=1e-15)


def test_a_rank_is_its_own_score_and_lower_is_better():
    rank = np.array([1.0, 2.5, 91_230_609.0])
    assert Identity()(rank, np.full(3, 1e9)).tolist() == rank.tolist()
    assert not Identity().higher_is_better


@pytest.mark.parametrize(("first", "last"), [(1, 1), (1, 2), (3, 10)])
def test_mean_of_a_tie_group(first, last):
    wanted = np.arange(first, last + 1).mean()
    assert Identity().mean_over(np.array([first]), np.array([last]), np.array([20])).item() == wanted


def test_chance_of_the_identity_by_brute_force():
    sizes = np.array([1.0, 2.0, 7.0, 100.0])
    mean, variance = Identity().chance(sizes)
    ranks = [np.arange(1, size + 1) for size in sizes]
    assert mean == pytest.approx([r.mean() for r in ranks], rel=1e-15, abs=0)
    assert variance == pytest.approx([r.var() for r in ranks], rel=1e-14, abs=0)


RANKS = np.array([1.0, 1.5, 2.0, 3.0, 1000.5, 1e9])


def test_log_is_exact():
    assert Log()(RANKS, RANKS) == pytest.approx([float(mp.log(mp.mpf(r))) for r in RANKS.tolist()], rel=1e-15, abs=0)


def test_inverse_log_is_exact():
    wanted = [float(mp.log(2) / mp.log(1 + mp.mpf(r))) for r in RANKS.tolist()]
    assert InverseLog()(RANKS, RANKS) == pytest.approx(wanted, rel=1e-15, abs=0)


def test_rank_one_is_the_optimum():
    one = np.ones(1)
    assert Log()(one, one).item() == Log.optimum == 0
    assert InverseLog()(one, one).item() == InverseLog.optimum == 1


def test_directions():
    assert not Log().higher_is_better
    assert InverseLog().higher_is_better
    assert Log()(np.array([2.0]), np.array([9.0])).item() == math.log(2)


ALPHAS = [s * a for a in (1e-300, 1e-100, 1e-19, 1e-18, 1e-16, 1e-9, 1e-3, 0.5, 1.0, 3.7, 37.3, 100.0) for s in (-1, 1)]

SIZES = [2, 3, 10, 1000, 40_943, 10**6, 10**9]


def exact(rank: float, size: float, alpha: float) -> mp.mpf:
    """Equation 2 of the paper as it is written, with digits to spare for its cancellation."""
    with mp.workdps(60 if alpha == 0 or abs(alpha) > 1e-20 else 360):
        r, e, a = mp.mpf(rank), mp.mpf(size), mp.mpf(alpha)
        if a == 0:
            return mp.log(e / r) / mp.log(e)
        return (r**-a - e**-a) / (1 - e**-a)


def score(alpha: float, rank: list[float], size: float) -> np.ndarray:
    return AffinePower(alpha)(np.array(rank, dtype=float), np.full(len(rank), float(size)))


def assert_exact(alpha: float, ranks: list[float], size: float) -> None:
    for rank, found in zip(ranks, score(alpha, ranks, size).tolist(), strict=True):
        wanted = exact(rank, size, alpha)
        if wanted == 0 or wanted > 1e-300:
            assert abs(mp.mpf(found) - wanted) <= 1e-12 * wanted, (alpha, rank, size, found, wanted)


def telling_ranks(size: int) -> list[float]:
    some = {1, 1.5, 2, 2.5, 3, 7, size // 3 + 0.5, size // 2, size - 1.5, size - 1, size - 0.5, size}
    return sorted(rank for rank in some if 1 <= rank <= size)


@pytest.mark.parametrize("alpha", [0.0, *ALPHAS])
def test_affine_power_is_exact_to_twelve_digits(alpha):
    for size in SIZES:
        assert_exact(alpha, telling_ranks(size), size)


@st.composite
def questions(draw):
    """A rank near 1, near the last, or anywhere, whole or half; alpha plain or tiny."""
    size = draw(st.integers(2, 10**9) | st.integers(2, 60))
    near = st.integers(0, 6)
    twice = draw(near.map(lambda k: 2 + k) | near.map(lambda k: 2 * size - k) | st.integers(2, 2 * size))
    sign = draw(st.sampled_from([-1, 1]))
    alpha = draw(st.floats(-100, 100) | st.floats(-300, 0).map(lambda x: sign * 10.0**x))
    return alpha, min(max(twice, 2), 2 * size) / 2, size


@settings(max_examples=60)
@given(questions())
def test_affine_power_is_exact_anywhere(question):
    alpha, rank, size = question
    assert_exact(alpha, [rank], size)


@pytest.mark.parametrize("alpha", [-100.0, -2.0, -0.5, -1e-9, 0.0, 1e-9, 0.5, 2.0, 30.0, 100.0])
@pytest.mark.parametrize(("first", "size"), [(1, 60), (1, 10**9), (10**5, 10**9), (10**9 - 25, 10**9), (500, 1000)])
def test_affine_power_falls_wherever_float64_can_tell(alpha, first, size):
    rank = np.arange(first, min(first + 25, size) + 0.1, 0.5)
    found = score(alpha, rank.tolist(), size)
    rounded = np.array([float(exact(r, size, alpha)) for r in rank.tolist()])
    apart = rounded[:-1] - rounded[1:] > 4 * np.spacing(rounded[:-1])
    assert (found[:-1] > found[1:])[apart].all()
    assert (found[:-1] >= found[1:]).all()


@pytest.mark.parametrize("alpha", [0.0, *ALPHAS])
def test_affine_power_never_rises(alpha):
    for size in (500, 10**5, 10**9):
        for first in {1, size // 1000 + 1, size // 2, size - 400}:
            found = score(alpha, np.arange(first, first + 400.5, 0.5).clip(max=size).tolist(), size)
            assert (np.diff(found) <= 0).all()


@pytest.mark.parametrize("alpha", [0.0, math.inf, -math.inf, 1e5, -1e5, *ALPHAS])
@pytest.mark.parametrize("size", SIZES)
def test_affine_power_runs_from_exactly_one_to_exactly_zero(alpha, size):
    assert score(alpha, [1, size], size).tolist() == [1.0, 0.0]


def test_affine_power_at_infinity():
    assert score(math.inf, [1, 1.5, 2, 9], 9).tolist() == [1, 0, 0, 0]
    assert score(-math.inf, [1, 5, 8.5, 9], 9).tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize("sign", [1, -1])
def test_affine_power_approaches_infinity(sign):
    limit = score(sign * math.inf, [1, 2, 8, 9], 9)
    assert score(sign * 1e4, [1, 2, 8, 9], 9) == pytest.approx(limit, abs=1e-300)


@pytest.mark.parametrize("alpha", [a for a in ALPHAS if abs(a) < 1e-13])
def test_affine_power_is_continuous_at_zero(alpha):
    for size in SIZES:
        ranks = telling_ranks(size)
        assert score(alpha, ranks, size) == pytest.approx(score(0.0, ranks, size), rel=2e-12, abs=0)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1.0, 1e-300, math.inf, -math.inf])
def test_a_single_candidate_says_nothing(alpha):
    transformer, one = AffinePower(alpha), np.ones(1)
    assert math.isnan(transformer(one, one).item())
    assert math.isnan(transformer.mean_over(one, one, one).item())


@pytest.mark.parametrize("alpha", [-7.3, -1.0, -1e-9, 0.0, 1e-300, 0.5, 1.0, 20.0])
def test_raw_power_is_exact(alpha):
    rank = np.array([1, 1.5, 2, 10, 12_345.5, 1e9])
    with mp.workdps(40):
        wanted = [float(mp.mpf(r) ** -mp.mpf(alpha)) for r in rank.tolist()]
    assert Power(alpha)(rank, np.full(6, 1e9)) == pytest.approx(wanted, rel=1e-14, abs=0)


def test_raw_power_ignores_the_candidate_count():
    rank = np.array([1.0, 2.0, 5.0])
    assert (Power(0.7)(rank, np.full(3, 5.0)) == Power(0.7)(rank, np.full(3, 5e8))).all()


def test_raw_power_at_infinity():
    rank, size = np.array([1.0, 1.5, 9.0]), np.full(3, 9.0)
    assert Power(math.inf)(rank, size).tolist() == [1, 0, 0]
    assert Power(-math.inf)(rank, size).tolist() == [1, math.inf, math.inf]


@pytest.mark.parametrize("transformer", [AffinePower(math.inf), AffinePower(-math.inf), Power(math.inf)])
def test_infinite_alpha_over_a_tie_group(transformer):
    for first, last in [(1, 1), (1, 4), (2, 5), (6, 9), (9, 9), (1, 9)]:
        ranks = np.arange(first, last + 1.0)
        wanted = transformer(ranks, np.full(ranks.size, 9.0)).mean()
        found = transformer.mean_over(np.array([float(first)]), np.array([float(last)]), np.array([9.0]))
        assert found.item() == pytest.approx(wanted, rel=1e-15, abs=0)


def test_a_tie_group_of_infinite_ranks_is_infinite():
    over = Power(-math.inf).mean_over(np.array([1.0, 1.0]), np.array([1.0, 2.0]), np.array([9.0, 9.0]))
    assert over.tolist() == [1, math.inf]


@pytest.mark.parametrize("transformer", [AffinePower(math.inf), AffinePower(-math.inf), Power(math.inf)])
def test_chance_at_infinite_alpha(transformer):
    size = np.array([2.0, 7.0, 500.0])
    mean, variance = transformer.chance(size)
    for n, m, v in zip(size.tolist(), mean.tolist(), variance.tolist(), strict=True):
        scores = transformer(np.arange(1, n + 1), np.full(int(n), n))
        assert (m, v) == pytest.approx((scores.mean(), scores.var()), rel=1e-12, abs=0)


def test_infinite_alpha_is_hits_at_one():
    rank, size = np.array([1.0, 2.0, 3.5]), np.array([4.0, 9.0, 9.0])
    assert (AffinePower(math.inf)(rank, size) == TopK(1)(rank, size)).all()


@pytest.mark.parametrize("kind", [Power, AffinePower])
def test_alpha_must_be_a_number(kind):
    with pytest.raises(ValueError, match="not a number"):
        kind(math.nan)


def test_transformers_are_values():
    assert AffinePower(1.0) == AffinePower(1) != AffinePower(2.0)
    assert len({AffinePower(0.5), AffinePower(0.5), Power(0.5)}) == 2


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
def test_chance_of_long_ranges_by_brute_force(transformer):
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


@pytest.mark.parametrize("kind", [Power, AffinePower])
@pytest.mark.parametrize("alpha", [1101.0, 1e6, 1e300])
def test_an_alpha_beyond_double_precision_is_its_limit(kind, alpha):
    """2 ** -1101 is 0, so that of whole ranks only rank 1 scores; the sum needs no more time for many candidates."""
    sizes = np.array([2.0, 3.0, 1e9, 2.0**53])
    for found, wanted in zip(kind(alpha).chance(sizes), (1 / sizes, (1 - 1 / sizes) / sizes), strict=True):
        assert found == pytest.approx(wanted, rel=1e-12)
    first, last = np.array([1.0, 2.0, 1.0]), np.array([4.0, 9.0, 1.0])
    assert kind(alpha).mean_over(first, last, np.full(3, 50.0)).tolist() == [0.25, 0.0, 1.0]


def test_a_power_that_overflows_is_infinite_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Power(-400.0)(np.array([1.0, 9.0]), np.array([9.0, 9.0])).tolist() == [1.0, math.inf]


@pytest.mark.parametrize("alpha", [-1e6, -1e12, -1e300])
def test_a_mean_of_too_many_terms_is_refused(alpha):
    with pytest.raises(UsageError, match="closer to 0"):
        AffinePower(alpha).chance(np.array([2.0**53]))
    mean, _ = AffinePower(alpha).chance(np.array([3.0]))
    assert mean.item() == pytest.approx(2 / 3, rel=1e-12)


@pytest.mark.parametrize("alpha", [-1e308, 1e308])
@pytest.mark.filterwarnings("error")
def test_an_alpha_that_overflows_gives_the_limit(alpha: float) -> None:
    rank, candidates = np.array([1.0, 2.0, 9.0, 1.0]), np.array([9.0, 9.0, 9.0, 2.0])
    limit = AffinePower(math.copysign(math.inf, alpha))
    assert AffinePower(alpha)(rank, candidates).tolist() == limit(rank, candidates).tolist()
