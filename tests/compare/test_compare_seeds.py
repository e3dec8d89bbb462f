import math

import numpy as np
import pytest
from scipy import special, stats

from clustered import mean_family
from kgprobe.compare.inference import Plan, Question, about_the_method
from kgprobe.compare.interval import Evidence
from kgprobe.compare.seeds import Component, Runs, Uncertainty
from kgprobe.metrics.plain import MRR

MANY = Evidence(1000, 1000, 500)
PLAN = Plan(level=0.95, replicates=200, permutations=200, seed=0)


def test_seeds_alone_give_the_t_interval_of_their_values():
    values = np.array([0.31, 0.35, 0.36, 0.30])
    found = Uncertainty.of(Component(0.0, 500), [Runs(1.0, values, np.zeros((4, 4)))])
    interval = found.interval(values.mean(), level=0.95, limits=(0, 1), evidence=MANY)
    expected = stats.t.interval(0.95, 3, loc=values.mean(), scale=stats.sem(values))
    assert (interval.low, interval.high) == pytest.approx(expected)
    assert found.probability(values.mean() - 0.3) == pytest.approx(stats.ttest_1samp(values, 0.3).pvalue)


def test_two_sets_of_seeds_give_the_test_of_welch():
    one, other = np.array([0.31, 0.35, 0.36]), np.array([0.29, 0.28, 0.31])
    runs = [Runs(sign, values, np.zeros((3, 3))) for sign, values in ((1.0, one), (-1.0, other))]
    found = Uncertainty.of(Component(0.0, 500), runs)
    assert found.probability(one.mean() - other.mean()) == pytest.approx(
        stats.ttest_ind(one, other, equal_var=False).pvalue
    )


def test_many_runs_of_one_model_do_not_stand_in_for_few_of_the_other():
    agreeing, many = np.array([0.5, 0.5001]), np.linspace(0.4, 0.5, 20)
    runs = [Runs(1.0, agreeing, np.zeros((2, 2))), Runs(-1.0, many, np.zeros((20, 20)))]
    found = Uncertainty.of(Component(0.0, 500), runs)
    assert found.both.freedom == found.seeds.freedom == pytest.approx(1, abs=0.01)


def test_seeds_that_agree_leave_the_variance_of_the_queries():
    covariance = np.full((3, 3), 0.04)
    found = Uncertainty.of(Component(0.04, 80), [Runs(1.0, np.full(3, 0.5), covariance)])
    interval = found.interval(0.5, level=0.95, limits=(0, 1), evidence=MANY)
    assert interval.high - 0.5 == pytest.approx(stats.t(80).ppf(0.975) * 0.2)


def test_what_both_levels_contain_is_counted_once():
    """In a balanced table of runs and queries the variance is that of the two-way analysis."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(4, 1)) + 0.5 * rng.normal(size=(1, 90)) + rng.normal(size=(4, 90))
    total = table.mean()
    runs, queries = table.mean(axis=1), table.mean(axis=0)
    inner = table - runs[:, None] - queries + total
    squares = (np.square(queries - total).sum() / 89, np.square(runs - total).sum() / 3, np.square(inner).sum() / 267)
    expected = squares[0] / 90 + squares[1] / 4 - squares[2] / 360
    given = Runs(1.0, runs, np.cov(table) / 90)
    found = Uncertainty.of(Component(float(np.var(queries, ddof=1)) / 90, 89), [given])
    assert found.both.variance == pytest.approx(expected)
    assert found.seeds == Component(pytest.approx(squares[1] / 4), pytest.approx(3))


def test_p_and_interval_say_the_same():
    rng = np.random.default_rng(0)
    for _ in range(50):
        runs = [Runs(sign, rng.normal(size=3), np.eye(3) * rng.random()) for sign in (1.0, -1.0)]
        found = Uncertainty.of(Component(rng.random(), 200), runs)
        difference = 3 * rng.normal()
        level = 1 - found.probability(difference)
        interval = found.interval(difference, level=level, limits=(-math.inf, math.inf), evidence=MANY)
        nearest = interval.low if difference > 0 else interval.high
        assert nearest == pytest.approx(0, abs=1e-9 * max(1, abs(difference)))


def test_p_is_never_zero_and_one_where_nothing_varies():
    sure = Uncertainty.of(Component(1e-12, 1e6), [Runs(1.0, np.array([0.5, 0.5]), np.zeros((2, 2)))])
    assert 0 < sure.probability(0.5) < 1e-300
    nothing = Uncertainty.of(Component(0.0, 10), [Runs(1.0, np.array([0.5, 0.5]), np.zeros((2, 2)))])
    assert nothing.probability(0.0) == nothing.probability(0.5) == 1.0
    assert math.isnan(sure.probability(math.nan))


def test_no_finite_value_has_no_interval():
    unknown = Uncertainty.of(Component(math.nan, 10), [Runs(1.0, np.array([0.5, 0.6]), np.zeros((2, 2)))])
    interval = unknown.interval(0.5, level=0.95, limits=(0, 1), evidence=MANY)
    assert math.isnan(interval.low)
    assert not interval.trusted


def simulated(sets, seeds, between, rng):
    """Two methods that are alike, trained several times each; sides depend on each other."""
    for _ in range(sets):
        triple = rng.normal(size=(200, 1)) + 0.7 * rng.normal(size=(200, 2))
        models = [
            [
                special.ndtr(triple + method + between * rng.normal() + 0.7 * rng.normal(size=(200, 2)))
                for _ in range(number)
            ]
            for number, method in ((number, 0.5 * rng.normal(size=(200, 1))) for number in seeds)
        ]
        yield Question(MRR(), mean_family(np.ones((200, 2)), *models), ((0, 1),))


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("between", [0.0, 0.1, 0.5])
def test_intervals_hold_for_other_seeds_and_queries(seeds, between):
    rng = np.random.default_rng(10 * seeds + int(10 * between))
    answers = about_the_method(list(simulated(500, (seeds, seeds), between, rng)), PLAN)
    for place, truth in ((0, 0.5), (1, 0.5), (2, 0.0)):
        covered = np.mean([a.intervals[place].low <= truth <= a.intervals[place].high for a in answers])
        assert 0.93 <= covered <= 0.985
    rejected = np.mean([answer.p[0] <= 0.05 for answer in answers])
    assert rejected <= 0.07


@pytest.mark.parametrize("between", [0.1, 0.3])
def test_intervals_hold_for_unequal_numbers_of_seeds(between):
    answers = about_the_method(list(simulated(500, (2, 8), between, np.random.default_rng(0))), PLAN)
    assert np.mean([a.intervals[2].low <= 0 <= a.intervals[2].high for a in answers]) >= 0.95
    assert np.mean([answer.p[0] <= 0.05 for answer in answers]) <= 0.05


def test_fixed_seeds_would_be_too_sure_about_the_method():
    """The control: with the variance of the queries alone, most intervals miss."""
    rng = np.random.default_rng(1)
    held = []
    for question in simulated(300, (3, 3), 0.5, rng):
        influence = question.family.influence[:, 0]
        half = 1.96 * math.sqrt(np.square(influence).sum())
        held.append(abs(question.family.estimate[0] - 0.5) <= half)
    assert np.mean(held) < 0.5
