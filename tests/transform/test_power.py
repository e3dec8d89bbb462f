import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.transform import AffinePower, Hits, Power

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
    assert (AffinePower(math.inf)(rank, size) == Hits(1)(rank, size)).all()


@pytest.mark.parametrize("kind", [Power, AffinePower])
def test_alpha_must_be_a_number(kind):
    with pytest.raises(ValueError, match="not a number"):
        kind(math.nan)


def test_transformers_are_values():
    assert AffinePower(1.0) == AffinePower(1) != AffinePower(2.0)
    assert len({AffinePower(0.5), AffinePower(0.5), Power(0.5)}) == 2
