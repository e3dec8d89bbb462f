import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.comparison.intervals import Component
from kgprobe.comparison.model_comparison import compare_models
from kgprobe.studies.claim_logic import (
    THE_METHOD,
    THESE_RUNS,
    AtLeast,
    Opposite,
    Provided,
    Sample,
    Sign,
    all_of,
    any_of,
    needed_sample,
)
from kgprobe.studies.evidence import Evidence
from planted_claims import APART, SHARP, planted


def sign(z: float) -> Sign:
    return Sign(f"z is {z}", z, Component(1.0, math.inf))


values = st.lists(st.floats(-5, 5), min_size=1, max_size=8)


@given(values, st.data())
def test_at_least_is_the_partial_conjunction_of_its_parts(z, data):
    needed = data.draw(st.integers(1, len(z)))
    parts = [sign(one) for one in z]
    supports = sorted(part.p(THESE_RUNS).supports for part in parts)
    opposes = sorted(part.p(THESE_RUNS).opposes for part in parts)
    found = AtLeast(needed, parts).p(THESE_RUNS)
    assert found.supports == pytest.approx(min(1, (len(z) - needed + 1) * supports[needed - 1]))
    assert found.opposes == pytest.approx(min(1, needed * opposes[len(z) - needed]))


@given(values)
def test_all_any_and_opposite_follow_logic(z):
    parts = [sign(one) for one in z]
    assert all_of(parts).observed == all(one > 0 for one in z)
    assert any_of(parts).observed == any(one > 0 for one in z)
    assert Opposite(all_of(parts)).observed != all_of(parts).observed
    assert Opposite(all_of(parts)).p(THESE_RUNS) == all_of(parts).p(THESE_RUNS)[::-1]


@pytest.mark.parametrize("needed", [1, 2, 3, 5])
def test_a_false_statement_is_rarely_supported_whatever_the_dependence(needed):
    """With fewer true parts than needed, p-values up to 5 % come in at most 5 % of the draws."""
    random = np.random.default_rng(needed)
    effects = np.array([4.0] * (needed - 1) + [0.0] * (6 - needed))
    rejected = []
    for _ in range(2_000):
        z = effects + random.normal() * 0.7 + random.normal(size=5) * math.sqrt(1 - 0.49)
        rejected.append(AtLeast(needed, [sign(float(one)) for one in z]).p(THESE_RUNS).supports <= 0.05)
    assert np.mean(rejected) < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2_000)


@pytest.mark.parametrize("shared", [-0.95, 0.0, 0.95])
@pytest.mark.parametrize("lead", [0.0, 1.5, 6.0])
def test_choosing_the_observed_best_model_needs_no_correction(lead, shared):
    """The first of five models is the best at both points, by any lead: "the best changes" is rarely confirmed.

    Where the errors at both points have opposite signs, the observed best model is often far behind at the second
    point; only the condition that it is significantly the best at the first point keeps the claim from being confirmed.
    """
    random = np.random.default_rng(int(100 * (lead + 1 + shared)))
    means, confirmed = np.array([lead, 0, 0, 0, 0]), []
    for _ in range(1_000):
        common = random.normal(size=5)
        own = math.sqrt(1 - shared**2) * random.normal(size=5)
        start, end = means + common, means + shared * common + own
        best = int(np.argmax(start))
        ahead = [
            all_of(
                [Sign("", float(at[best] - at[other]), Component(2.0, math.inf)) for other in range(5) if other != best]
            )
            for at in (start, end)
        ]
        statement = Provided(ahead[0], Opposite(ahead[1]))
        assert statement.observed == (np.argmax(end) != best)
        confirmed.append(2 * statement.p(THESE_RUNS).supports <= 0.05)
    assert np.mean(confirmed) < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 1_000)


def test_p_values_about_methods_are_those_of_the_comparison():
    lineup = planted(APART, 3)
    compared = compare_models(lineup, SHARP, seeds="random", correction="none", replicates=100)
    evidence = Evidence(lineup)
    assert len(compared.differences) == 10
    for one in compared.differences:
        found = evidence.ahead(one.first, one.second, SHARP)
        assert found.value == pytest.approx(one.value)
        assert 2 * min(found.p(THE_METHOD)) == pytest.approx(one.p, rel=1e-9)


def test_p_values_about_these_runs_are_close_to_those_of_the_permutation_test():
    lineup = planted({name: APART[name] for name in ("Popular", "Steady")}, 5, triples=500)
    compared = compare_models(lineup, SHARP, seeds="fixed", permutations=20_000, replicates=100)
    found = Evidence(lineup).ahead("Popular", "Steady", SHARP)
    assert 2 * min(found.p(THESE_RUNS)) == pytest.approx(compared.differences[0].p, abs=0.01)


def test_a_sign_that_cannot_be_trusted_decides_nothing():
    doubtful = Sign("few queries", 9.0, Component(1.0, 50.0), remark="the effective number of queries is 3")
    assert doubtful.p(THESE_RUNS) == (1.0, 1.0)
    assert doubtful.remarks == ("the effective number of queries is 3",)


def test_what_would_decide_does_decide():
    statement = all_of([sign(1.2), sign(2.5)])
    needed = needed_sample(statement, 0.01, method=False)
    assert statement.p(Sample(False, needed.queries)).supports <= 0.01
    assert statement.p(Sample(False, needed.queries / 1.1 / 1.01)).supports > 0.01


def test_more_runs_decide_where_runs_differ():
    close = Evidence(planted(APART, 1, runs=2)).ahead("Popular", "Steady", SHARP)
    assert close.fewest_runs == 2
    needed = needed_sample(close, 1e-6, method=True)
    assert needed.queries == 1 or needed.runs == math.inf
    if math.isfinite(needed.runs):
        assert min(close.p(Sample(True, 1.0, int(needed.runs)))) <= 1e-6


def test_nothing_decides_a_difference_of_zero():
    assert needed_sample(sign(0.0), 0.01, method=False).queries == math.inf
