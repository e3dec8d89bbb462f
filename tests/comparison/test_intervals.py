import math

import numpy as np
import pytest
from scipy import special, stats

from clustered import mean_family
from kgprobe.comparison.estimator_families import bootstrap
from kgprobe.comparison.inference import Hypotheses, about_the_method
from kgprobe.comparison.intervals import (
    Component,
    ContrastRuns,
    IntervalEvidence,
    Uncertainty,
    bootstrap_interval,
    bootstrap_t,
    clipped,
    tails,
    unknown,
)
from kgprobe.comparison.results import ComparisonSettings
from kgprobe.metrics.rank_metrics import MRR

MANY = IntervalEvidence(1000, 1000, 500)

PLAN = ComparisonSettings(replicates=200, permutations=200)


def test_seeds_alone_give_the_t_interval_of_their_values():
    values = np.array([0.31, 0.35, 0.36, 0.30])
    found = Uncertainty.of(Component(0.0, 500), [ContrastRuns(1.0, values, np.zeros((4, 4)))])
    interval = found.interval(values.mean(), level=0.95, limits=(0, 1), evidence=MANY)
    expected = stats.t.interval(0.95, 3, loc=values.mean(), scale=stats.sem(values))
    assert (interval.low, interval.high) == pytest.approx(expected)
    assert found.probability(values.mean() - 0.3) == pytest.approx(stats.ttest_1samp(values, 0.3).pvalue)


def test_two_sets_of_seeds_give_the_test_of_welch():
    one, other = np.array([0.31, 0.35, 0.36]), np.array([0.29, 0.28, 0.31])
    runs = [ContrastRuns(sign, values, np.zeros((3, 3))) for sign, values in ((1.0, one), (-1.0, other))]
    found = Uncertainty.of(Component(0.0, 500), runs)
    assert found.probability(one.mean() - other.mean()) == pytest.approx(
        stats.ttest_ind(one, other, equal_var=False).pvalue
    )


def test_many_runs_of_one_model_do_not_stand_in_for_few_of_the_other():
    agreeing, many = np.array([0.5, 0.5001]), np.linspace(0.4, 0.5, 20)
    runs = [ContrastRuns(1.0, agreeing, np.zeros((2, 2))), ContrastRuns(-1.0, many, np.zeros((20, 20)))]
    found = Uncertainty.of(Component(0.0, 500), runs)
    assert found.both.freedom == found.seeds.freedom == pytest.approx(1, abs=0.01)


def test_seeds_that_agree_leave_the_variance_of_the_queries():
    covariance = np.full((3, 3), 0.04)
    found = Uncertainty.of(Component(0.04, 80), [ContrastRuns(1.0, np.full(3, 0.5), covariance)])
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
    given = ContrastRuns(1.0, runs, np.cov(table) / 90)
    found = Uncertainty.of(Component(float(np.var(queries, ddof=1)) / 90, 89), [given])
    assert found.both.variance == pytest.approx(expected)
    assert found.seeds == Component(pytest.approx(squares[1] / 4), pytest.approx(3))


def test_p_and_interval_say_the_same():
    rng = np.random.default_rng(0)
    for _ in range(50):
        runs = [ContrastRuns(sign, rng.normal(size=3), np.eye(3) * rng.random()) for sign in (1.0, -1.0)]
        found = Uncertainty.of(Component(rng.random(), 200), runs)
        difference = 3 * rng.normal()
        level = 1 - found.probability(difference)
        interval = found.interval(difference, level=level, limits=(-math.inf, math.inf), evidence=MANY)
        nearest = interval.low if difference > 0 else interval.high
        assert nearest == pytest.approx(0, abs=1e-9 * max(1, abs(difference)))


def test_p_is_never_zero_and_one_where_nothing_varies():
    sure = Uncertainty.of(Component(1e-12, 1e6), [ContrastRuns(1.0, np.array([0.5, 0.5]), np.zeros((2, 2)))])
    assert 0 < sure.probability(0.5) < 1e-300
    nothing = Uncertainty.of(Component(0.0, 10), [ContrastRuns(1.0, np.array([0.5, 0.5]), np.zeros((2, 2)))])
    assert nothing.probability(0.0) == nothing.probability(0.5) == 1.0
    assert math.isnan(sure.probability(math.nan))


def test_no_finite_value_has_no_interval():
    unknown = Uncertainty.of(Component(math.nan, 10), [ContrastRuns(1.0, np.array([0.5, 0.6]), np.zeros((2, 2)))])
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
        yield Hypotheses(MRR(), mean_family(np.ones((200, 2)), *models), ((0, 1),))


# Every number of seeds and every spread between them is always tried, all pairs in the long study.
ALWAYS = ((3, 0.0), (5, 0.1), (3, 0.5))

OTHERS = ((5, 0.0), (3, 0.1), (5, 0.5))


@pytest.mark.parametrize(
    ("seeds", "between"), [*ALWAYS, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in OTHERS)]
)
def test_intervals_hold_for_other_seeds_and_queries(seeds, between):
    rng = np.random.default_rng(10 * seeds + int(10 * between))
    answers = about_the_method(list(simulated(500, (seeds, seeds), between, rng)), PLAN)
    columns = zip(*([*answer.intervals, *answer.tests.intervals] for answer in answers), strict=True)
    for intervals, truth in zip(columns, (0.5, 0.5, 0.0), strict=True):
        covered = np.mean([i.low <= truth <= i.high for i in intervals])
        assert 0.93 <= covered <= 0.985
    rejected = np.mean([answer.tests.p[0] <= 0.05 for answer in answers])
    assert rejected <= 0.07


@pytest.mark.slow
@pytest.mark.parametrize("between", [0.1, 0.3])
def test_intervals_hold_for_unequal_numbers_of_seeds(between):
    answers = about_the_method(list(simulated(500, (2, 8), between, np.random.default_rng(0))), PLAN)
    assert np.mean([a.tests.intervals[0].low <= 0 <= a.tests.intervals[0].high for a in answers]) >= 0.95
    assert np.mean([answer.tests.p[0] <= 0.05 for answer in answers]) <= 0.05


def test_fixed_seeds_would_be_too_sure_about_the_method():
    """The control: with the variance of the queries alone, most intervals miss."""
    rng = np.random.default_rng(1)
    held = []
    for question in simulated(300, (3, 3), 0.5, rng):
        influence = question.family.influence[:, 0]
        half = 1.96 * math.sqrt(np.square(influence).sum())
        held.append(abs(question.family.estimate[0] - 0.5) <= half)
    assert np.mean(held) < 0.5


MANY_CLUSTERS = IntervalEvidence(queries=1000, clusters=500, varying=300)


def interval(estimate, error, values, errors, *, level=0.95, limits=(-math.inf, math.inf), evidence=MANY_CLUSTERS):
    return bootstrap_interval(
        estimate, error, (np.asarray(values), errors), level=level, limits=limits, evidence=evidence
    )


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_central_intervals_have_the_width_of_the_normal_theory(level):
    """Percentiles 45 to 55 instead of 5 to 95 are an old mistake: the width would be 0.25 and not 3.29."""
    draws = np.random.default_rng(0).normal(size=100_000)
    low, high = tails(draws, level)
    width = 2 * stats.norm.ppf((1 + level) / 2)
    assert high - low == pytest.approx(width, rel=0.02)
    found = interval(0.0, 1.0, draws, np.ones(100_000), level=level)
    assert found.high - found.low == pytest.approx(width, rel=0.02)
    assert found.method == "bootstrap-t"
    assert interval(0.0, None, draws, None, level=level).method == "percentile"


@pytest.mark.parametrize("size", [2, 10, 999, 1000, 1001, 10_000])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_tails_of_mirrored_values_are_mirrored_and_hold_the_level(size, level):
    values = np.random.default_rng(size).normal(size=size)
    low, high = tails(values, level)
    assert tails(-values, level) == (-high, -low)
    assert ((values >= low) & (values <= high)).mean() >= level


def test_bootstrap_t_of_a_normal_mean_is_the_t_interval():
    score = np.random.default_rng(3).normal(size=(12, 1))
    (made,) = bootstrap([mean_family(np.ones((12, 1)), score - score.mean() + 5)], replicates=50_000)
    values, errors = made.of(np.array([1.0]))
    error = score.std(ddof=1) / 12**0.5
    low, high = bootstrap_t(5.0, error, values.copy(), errors, 0.95)
    expected = stats.t(11).ppf(0.975) * error
    assert high - low == pytest.approx(2 * expected, rel=0.15)  # wider than the normal 1.96 by 12 %
    assert high - low > 2 * 1.96 * error


def test_skewed_replicates_reach_further_on_the_other_side():
    rng = np.random.default_rng(0)
    score = rng.exponential(size=(40, 1))
    (made,) = bootstrap([mean_family(np.ones((40, 1)), score)], replicates=5_000)
    estimate, error = score.mean(), score.std(ddof=1) / 40**0.5
    values, errors = made.of(np.array([1.0]))
    low, high = bootstrap_t(estimate, error, values, errors, 0.95)
    assert high - estimate > 1.2 * (estimate - low)


def test_limits_are_those_of_the_metric():
    draws = np.random.default_rng(0).normal(0.99, 0.1, size=2_000)
    found = interval(0.99, None, draws, None, limits=(0.0, 1.0))
    assert found.high == 1.0
    assert 0.7 < found.low < 0.85
    assert clipped(-2, 3, (-1, 1)) == (-1, 1)


def test_replicates_without_variation_make_no_limit_too_near():
    """Hardly any hit: many draws have none and no variation, so nothing keeps the truth from being far higher."""
    score = np.zeros((400, 1))
    score[:2] = 1.0
    (made,) = bootstrap([mean_family(np.ones((400, 1)), score)], replicates=2_000)
    values, errors = made.of(np.array([1.0]))
    assert (errors == 0).mean() > 0.05
    few = IntervalEvidence.of(400, 400, score[:, 0] - score.mean(), np.ones(400))
    found = interval(0.005, score.std(ddof=1) / 20, values, errors, limits=(0.0, 1.0), evidence=few)
    assert found.high == 1.0
    assert found.low >= 0.0
    assert not found.trusted
    assert "from a few clusters of queries, as if there were 2 instead of 400" in found.remark


def test_replicates_without_a_value_are_left_out_and_said():
    draws = np.random.default_rng(0).normal(size=1_000)
    draws[:10] = math.nan
    found = interval(0.0, None, draws, None)
    assert math.isfinite(found.low)
    assert not found.trusted
    assert "no value on some bootstrap draws" in found.remark


@pytest.mark.parametrize("estimate", [math.nan, math.inf])
def test_a_value_that_is_not_finite_has_no_interval(estimate):
    found = interval(estimate, None, [1.0, 2.0], None)
    assert math.isnan(found.low)
    assert not found.trusted
    assert "no finite value" in found.remark
    assert unknown(0.9, "why").level == 0.9


def test_no_variation_is_a_point_that_is_not_trusted():
    found = interval(
        0.5, 0.0, np.full(100, 0.5), np.zeros(100), evidence=IntervalEvidence.of(500, 500, np.zeros(500), np.ones(500))
    )
    assert (found.low, found.high, found.trusted) == (0.5, 0.5, False)
    assert "all clusters have the same score" in found.remark


@pytest.mark.parametrize(
    ("evidence", "remark"),
    [
        (IntervalEvidence(199, 150, 100), "the effective number of queries is 199, below 200"),
        (IntervalEvidence(5000, 11, 9), "the effective number of clusters is 11, below 100"),
        (
            IntervalEvidence(5000, 2000, 4.2, 101.0),
            "most of the variance comes from a few clusters of queries, as if there were 20 instead of 2,000",
        ),
        (IntervalEvidence(200, 100, 10, 5.0), None),
        (IntervalEvidence(200, 100), None),
    ],
)
def test_too_little_evidence_is_said_in_plain_words(evidence, remark):
    assert evidence.remark == remark
    found = interval(0.0, None, np.random.default_rng(0).normal(size=100), None, evidence=evidence)
    assert (found.trusted, found.remark) == (remark is None, remark)


def test_the_number_that_varies_is_that_of_equal_deviations():
    rng = np.random.default_rng(0)

    def of(influence, weight=None):
        return IntervalEvidence.of(9, 9, np.asarray(influence), np.ones(len(influence)) if weight is None else weight)

    assert of([1.0, -1, 1, -1, 0, 0]).varying == pytest.approx(4)
    assert of(1e-200 * rng.choice([-1, 1], 50)).varying == pytest.approx(50)
    normal = of(rng.normal(size=100_000))
    assert normal.varying == pytest.approx(100_000 / 3, rel=0.05)
    assert normal.freedom(100_000) == pytest.approx(100_000, rel=0.1)
    assert IntervalEvidence(9, 41).freedom(50) == 40
    assert of(rng.choice([-1.0, 1.0], 64)).freedom(64) == math.inf


def test_kurtosis_is_that_of_the_scores_and_not_of_the_weights():
    rng = np.random.default_rng(0)
    score = rng.exponential(size=200_000)
    even = IntervalEvidence.of(9, 9, score - score.mean(), np.ones(200_000))
    assert even.kurtosis == pytest.approx(stats.kurtosis(score, fisher=False), rel=1e-9)
    weight = np.where(rng.random(200_000) < 0.5, 0.0, rng.integers(1, 4, 200_000).astype(float))
    mean = (weight * score).sum() / weight.sum()
    weighted = IntervalEvidence.of(9, 9, weight * (score - mean) / weight.sum(), weight)
    repeated = np.repeat(score, weight.astype(int))
    assert weighted.kurtosis == pytest.approx(stats.kurtosis(repeated, fisher=False), rel=1e-9)


def test_weights_next_to_nothing_do_no_harm():
    weight = np.array([1.0, 1.0, 1e-310, 0.0])
    found = IntervalEvidence.of(9, 9, np.array([1e-3, -1e-3, 1e-310, 0.0]), weight)
    assert found.kurtosis >= 1
    alone = IntervalEvidence.of(9, 9, np.array([0.0, 0.0, 1e-310, 0.0]), weight)
    assert alone.kurtosis > 1e300
    assert alone.varying == 1
