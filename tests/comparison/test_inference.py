import math

import numpy as np
import pytest
from scipy import stats

from clustered import SMOOTH, lineup, mean_family
from kgprobe.comparison import inference, resampling
from kgprobe.comparison.estimator_families import estimator_family
from kgprobe.comparison.estimators import estimator
from kgprobe.comparison.inference import Hypotheses, about_the_method, about_these_runs
from kgprobe.comparison.results import ComparisonSettings
from kgprobe.metrics import parse
from kgprobe.metrics.rank_metrics import MRR

PLAN = ComparisonSettings(replicates=999, permutations=200)


@pytest.fixture(params=[250, pytest.param(1000, marks=pytest.mark.slow)])
def sets(request):
    """How many sets of data are drawn to see how often an interval holds."""
    return request.param


def assert_nominal(share, sets):
    """Intervals at level 0.95 hold as often as they say, but for chance: three standard deviations of so many sets."""
    assert abs(share - 0.95) <= 0.63 / math.sqrt(sets)


def question(given, metric, pairs=((0, 1),)):
    models = estimator_family([estimator(given, m, parse(metric), clusters=given.clusters()) for m in given.models])
    return Hypotheses(parse(metric), models, pairs)


def covered(families, truth):
    answers = about_these_runs([Hypotheses(MRR(), one, ()) for one in families], PLAN)
    return np.mean([answer.intervals[0].low <= truth <= answer.intervals[0].high for answer in answers])


def reciprocal_ranks(rng, triples, *, dependent, weight_spread=0.0, hard=0.8):
    """Skewed scores; what makes a triple hard is shared by its sides, rare entities are harder."""
    popularity = rng.normal(size=(triples, 2))
    shared = rng.normal(size=(triples, 1)) if dependent else rng.normal(size=(triples, 2))
    latent = hard + shared + 0.5 * rng.normal(size=(triples, 2)) + 0.3 * popularity * (weight_spread > 0)
    return np.exp(weight_spread * popularity), 1 / np.maximum(1, np.floor(np.exp(1.8 * latent)))


def truth(**options):
    weight, score = reciprocal_ranks(np.random.default_rng(77), 500_000, **options)
    return float((weight * score).sum() / weight.sum())


@pytest.mark.parametrize("dependent", [True, False])
def test_intervals_hold_as_often_as_they_say(dependent, sets):
    rng = np.random.default_rng(1)
    drawn = [reciprocal_ranks(rng, 120, dependent=dependent) for _ in range(sets)]
    expected = truth(dependent=dependent)
    assert_nominal(covered([mean_family(*one) for one in drawn], expected), sets)
    alone = covered([mean_family(weight.reshape(-1, 1), score.reshape(-1, 1)) for weight, score in drawn], expected)
    # The control: without clusters the same intervals miss too often, but only where sides depend on each other.
    if dependent:
        assert alone < 0.89
    else:
        assert_nominal(alone, sets)


def test_intervals_hold_with_popularity_weights_down_to_200_effective_queries(sets):
    rng = np.random.default_rng(2)
    options = {"dependent": True, "weight_spread": 1.0}
    drawn = [reciprocal_ranks(rng, 300, **options) for _ in range(sets)]
    families = [mean_family(*one) for one in drawn]
    effective = np.array([one.estimators[0].effective for one in families])
    assert 190 < np.median(effective) < 260
    assert_nominal(covered(families, truth(**options)), sets)


def test_intervals_of_differences_hold_and_an_effect_is_found(sets):
    rng = np.random.default_rng(3)
    questions = []
    for _ in range(sets):
        weight = np.exp(0.7 * rng.normal(size=(180, 2)))
        triple = rng.normal(size=(180, 1))
        first, second = (np.exp(-np.abs(triple + rng.normal(size=(180, 1)) + move)) for move in (0.0, 0.15))
        questions.append(Hypotheses(MRR(), mean_family(weight, first * [[1, 1]], second * [[1, 1]]), ((0, 1), (1, 0))))
    answers = about_these_runs(questions, PLAN)
    differences = [one.family.estimate[0] - one.family.estimate[1] for one in questions]
    effect = float(np.mean(differences))
    held = np.mean([a.tests.intervals[0].low <= effect <= a.tests.intervals[0].high for a in answers])
    assert_nominal(held, sets)
    for answer, found in zip(answers, differences, strict=True):
        there, back = answer.tests.intervals
        assert (there.low, there.high) == pytest.approx((-back.high, -back.low), abs=1e-12)
        assert there.low <= found <= there.high
        assert answer.tests.p[0] == answer.tests.p[1]


@pytest.mark.parametrize("metric", SMOOTH)
def test_with_many_clusters_all_ways_agree(metric):
    """Bootstrap-t, percentiles and the normal theory are the same where there is no skewness left."""
    asked = question(lineup(4000, 2), metric)
    (answer,) = about_these_runs([asked], ComparisonSettings(level=0.9, replicates=4000, permutations=4000))
    for contrast, interval in zip(asked.contrasts(), [*answer.intervals, *answer.tests.intervals], strict=True):
        error = math.sqrt(np.square(contrast.influence()).sum())
        assert interval.trusted
        low, high = (
            min(max(contrast.estimate + s * 1.645 * error, contrast.limits[0]), contrast.limits[1]) for s in (-1, 1)
        )
        assert (interval.low, interval.high) == pytest.approx((low, high), abs=0.12 * error)


def test_percentiles_serve_where_there_is_no_derivative():
    asked = question(lineup(300, 2), "MedianRank")
    (answer,) = about_these_runs([asked], PLAN)
    methods = [interval.method for interval in [*answer.intervals, *answer.tests.intervals]]
    assert methods == ["percentile", "percentile", "bootstrap"]
    (of_method,) = about_the_method([question(lineup(300, 2, runs=2), "MedianRank")], PLAN)
    intervals = [*of_method.intervals, *of_method.tests.intervals]
    assert [interval.method for interval in intervals] == ["t"] * 3
    assert all(interval.low <= interval.high for interval in intervals)
    assert 0 < of_method.tests.p[0] <= 1


def test_runs_that_agree_leave_the_standard_error_over_clusters():
    rng = np.random.default_rng(0)
    weight, first, second = rng.random((3, 400, 2))
    asked = Hypotheses(MRR(), mean_family(weight, [first] * 3, [second] * 2), ((0, 1),))
    (answer,) = about_the_method([asked], PLAN)
    for contrast, interval in zip(asked.contrasts(), [*answer.intervals, *answer.tests.intervals], strict=True):
        influence = contrast.influence()
        error = math.sqrt(400) * np.std(influence, ddof=1)
        freedom = contrast.evidence(influence).freedom(400)
        half = stats.t(freedom).ppf(0.975) * error
        assert (interval.low, interval.high) == pytest.approx((contrast.estimate - half, contrast.estimate + half))
    assert answer.tests.p[0] == pytest.approx(2 * stats.t(freedom).sf(abs(contrast.estimate) / error))


def test_one_cluster_tells_nothing():
    asked = Hypotheses(MRR(), mean_family(np.ones((1, 500)), np.full((1, 500), 0.4), np.full((1, 500), 0.2)), ((0, 1),))
    (answer,) = about_these_runs([asked], PLAN)
    assert all(not interval.trusted for interval in answer.intervals)
    assert answer.intervals[0].remark == "the effective number of clusters is 1, below 100"
    assert answer.tests.p[0] == 1.0


def test_weight_on_a_single_query_tells_nothing():
    weight = np.full((300, 2), 1e-300)
    weight[7, 0] = 1.0
    score = np.random.default_rng(0).random((300, 2))
    (answer,) = about_these_runs([Hypotheses(MRR(), mean_family(weight, score), ())], PLAN)
    assert not answer.intervals[0].trusted
    assert "effective number of queries is 1," in answer.intervals[0].remark


def test_equal_scores_are_a_point_that_is_not_trusted():
    weight = np.random.default_rng(0).random((300, 2))
    (answer,) = about_these_runs([Hypotheses(MRR(), mean_family(weight, np.full((300, 2), 0.3)), ())], PLAN)
    assert (answer.intervals[0].low, answer.intervals[0].high) == pytest.approx((0.3, 0.3))
    assert not answer.intervals[0].trusted


def test_no_weight_at_all_has_no_interval():
    nothing = np.zeros((300, 2))
    asked = Hypotheses(MRR(), mean_family(np.ones((300, 2)), nothing), ())
    assert about_these_runs([asked], PLAN)[0].intervals[0].low == 0.0
    with np.errstate(invalid="ignore", divide="ignore"):
        empty = Hypotheses(MRR(), mean_family(nothing, nothing, nothing), ((0, 1),))
        (answer,) = about_these_runs([empty], PLAN)
    assert math.isnan(answer.intervals[0].low)
    assert math.isnan(answer.tests.p[0])
    assert not answer.tests.intervals[0].trusted


def brute_force(weight, first, second, draws, rng):
    """Limits of a difference of means by plain loops: draw clusters, studentise; and the p-value of swaps."""
    clusters = len(weight)

    def difference(rows):
        own = weight[rows].sum()
        value = (weight * (first - second))[rows].sum() / own
        influence = (weight * (first - second - value))[rows].sum(axis=1) / own
        return value, math.sqrt(np.square(influence).sum() * clusters / (clusters - 1))

    value, error = difference(np.arange(clusters))
    drawn = [difference(rng.integers(clusters, size=clusters)) for _ in range(draws)]
    low, high = np.quantile([(other - value) / own for other, own in drawn], [0.025, 0.975])
    swaps = rng.choice([-1, 1], size=(draws, clusters)) @ (weight * (first - second)).sum(axis=1) / weight.sum()
    return value - high * error, value - low * error, float((np.abs(swaps) >= abs(value)).mean())


@pytest.mark.parametrize("move", [0.0, 0.012])
def test_random_groups_of_clusters_agree_with_drawing_the_clusters(monkeypatch, move):
    """The limits differ by less than two runs of 2,000 draws may: their standard deviation is 0.06 errors."""
    rng = np.random.default_rng(5)
    weight = np.exp(0.5 * rng.normal(size=(3_000, 2)))
    hard = rng.normal(size=(3_000, 1))
    first, second = (np.exp(-np.abs(hard + rng.normal(size=(3_000, 2)) + shift)) for shift in (0.0, move))
    low, high, p = brute_force(weight, first, second, 2_000, rng)
    for module in (resampling, inference):
        monkeypatch.setattr(module, "MOST_UNITS", 1_000)
    asked = Hypotheses(MRR(), mean_family(weight, first, second), ((0, 1),))
    settings = ComparisonSettings(replicates=2_000, permutations=2_000)
    merged = asked.merged(settings)
    (answer,) = about_these_runs([merged], settings)
    assert (asked.family.clusters, merged.family.clusters) == (3_000, 1_000)
    assert merged.family.estimate.tolist() == asked.family.estimate.tolist()
    error = (high - low) / (2 * 1.96)
    (interval,) = answer.tests.intervals
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=0.25 * error)
    assert answer.tests.p[0] == pytest.approx(p, abs=5 * math.sqrt(max(p * (1 - p), 0.001) * 2 / 2_000))
