import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, nbinom

from kgprobe import UsageError
from kgprobe.openworld.estimate.missing import MissingCounts, check_rate


@pytest.mark.parametrize("rate", [0.1, 0.35, 0.7])
def test_geometric_numbers_of_answers_have_the_posterior_of_bayes(rate: float) -> None:
    # A geometric number of others of which each is missing with this rate: what is missing, given k known ones, is
    # negative binomial of shape k + 1.
    rng, stop = np.random.default_rng(0), 0.1
    total = rng.geometric(stop, 40_000) - 1
    known = 1 + rng.binomial(total, 1 - rate)
    found = MissingCounts.of(known, rate)
    exact = nbinom(known, 1 - (1 - stop) * rate)
    seen = known <= np.quantile(known, 0.95)
    assert np.abs(found.mean / exact.mean() - 1)[seen].max() < 0.1
    ratio = found.variance / exact.var()
    assert ratio[seen].min() > 0.75
    assert ratio[seen].max() < 1.25


def test_the_posterior_of_two_sizes_is_that_of_a_grid() -> None:
    rng, rate = np.random.default_rng(1), 0.3
    total = rng.choice([2, 40], 20_000)
    known = 1 + rng.binomial(total, 1 - rate)
    weight = np.array([binom.pmf(known - 1, size, 1 - rate) for size in (2, 40)])
    expect = (weight * np.array([2, 40])[:, None]).sum(axis=0) / weight.sum(axis=0) - (known - 1)
    found = MissingCounts.of(known, rate)
    small = known < 4
    assert np.abs(found.mean[small] - expect[small]).max() < 0.4
    assert np.abs(found.mean[~small] - expect[~small]).mean() < 2.0


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("kind", ["few", "many", "mixed"])
def test_as_many_are_missing_as_are_on_average(kind: str, rate: float) -> None:
    rng = np.random.default_rng(2)
    sizes = {
        "few": rng.geometric(0.5, 5000) - 1,
        "many": rng.integers(100, 2000, 5000),
        "mixed": np.exp(rng.normal(1.5, 1.2, 5000)).astype(int),
    }
    total = sizes[kind]
    known = 1 + rng.binomial(total, 1 - rate)
    missing = total - (known - 1)
    found = MissingCounts.of(known, rate)
    error = np.sqrt(rate * (1 - rate) * total.sum()) / len(total)
    assert abs(found.mean.mean() - missing.mean()) < 4 * error + 0.01 * missing.mean()
    # What is left to chance is as large as the variance says.
    assert ((missing - found.mean) ** 2).mean() == pytest.approx(found.variance.mean(), rel=0.25)


def test_weights_count_as_repeated_rows() -> None:
    known, times = np.array([1, 2, 5, 9]), np.array([3, 1, 4, 2])
    weighted = MissingCounts.of(known, 0.3, times.astype(float))
    repeated = MissingCounts.of(np.repeat(known, times), 0.3)
    np.testing.assert_allclose(np.repeat(weighted.mean, times), repeated.mean)
    np.testing.assert_allclose(np.repeat(weighted.variance, times), repeated.variance)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 300), min_size=1, max_size=30), st.floats(0, 0.95))
def test_any_numbers_have_a_mean_and_a_variance(known: list[int], rate: float) -> None:
    found = MissingCounts.of(np.array(known), rate)
    assert np.isfinite(found.mean).all()
    assert (found.mean >= 0).all()
    assert np.isfinite(found.variance).all()
    assert (found.variance >= 0).all()


def test_without_missing_facts_none_is_missing() -> None:
    found = MissingCounts.of(np.array([1, 4, 4]), 0.0)
    assert found.mean.tolist() == found.variance.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, float("nan"), float("inf")])
def test_rates_that_are_none_are_refused(rate: float) -> None:
    with pytest.raises(UsageError, match="the missing rate is"):
        check_rate(rate)
