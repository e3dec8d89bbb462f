import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from clustered import SMOOTH, lineup, mean_family
from kgprobe.comparison import compare_models
from kgprobe.comparison.inference import Hypotheses, about_the_method, about_these_runs
from kgprobe.comparison.pair_tests import Correction, benjamini_hochberg, holm, pair_levels
from kgprobe.comparison.results import ComparisonSettings
from kgprobe.errors import UsageError
from kgprobe.metrics.rank_metrics import MRR

FEW = {"replicates": 400, "permutations": 400}
PAIRS = tuple(itertools.combinations(range(6), 2))

P = st.lists(st.floats(1e-12, 1), max_size=30)


def holm_by_hand(p):
    adjusted = {}
    most = 0.0
    for done, (value, i) in enumerate(sorted((value, i) for i, value in enumerate(p))):
        most = max(most, value * (len(p) - done))
        adjusted[i] = min(most, 1.0)
    return [adjusted[i] for i in range(len(p))]


@given(P)
def test_holm_is_the_loop(p):
    assert holm(p).tolist() == pytest.approx(holm_by_hand(p))


@given(P)
def test_benjamini_hochberg_is_that_of_scipy(p):
    assert benjamini_hochberg(p).tolist() == pytest.approx(stats.false_discovery_control(p).tolist() if p else [])


@given(P)
def test_adjusting_keeps_the_order_and_lowers_nothing(p):
    for adjust in (holm, benjamini_hochberg):
        adjusted = adjust(p)
        assert (adjusted >= np.array(p)).all()
        assert (np.diff(adjusted[np.argsort(p)]) >= 0).all()
        assert (adjusted <= 1).all()
    assert (benjamini_hochberg(p) <= holm(p)).all()


@pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])
def test_what_is_no_number_is_no_test(adjust):
    found = adjust([0.01, math.nan, 0.04])
    assert math.isnan(found[1])
    assert found[[0, 2]].tolist() == adjust([0.01, 0.04]).tolist()


def test_holm_keeps_the_family_wise_error():
    rng = np.random.default_rng(0)
    p = rng.random((4000, 20))  # all null hypotheses true
    rejected = np.mean([(holm(row) <= 0.05).any() for row in p])
    assert 0.038 < rejected < 0.062
    assert np.mean((p <= 0.05).any(axis=1)) > 0.6  # without it


@given(P, st.sampled_from([Correction.holm, Correction.bh, Correction.none]))
def test_a_level_for_every_test_is_the_correction(p, correction):
    """A p-value is at most its level exactly where the adjusted p-value is at most alpha."""
    adjusted = {"holm": holm, "bh": benjamini_hochberg, "none": np.asarray}[correction](p)
    for alpha in (0.01, 0.05, 0.3):
        clear = np.abs(adjusted - alpha) > 1e-9
        assert ((np.array(p) <= pair_levels(correction, p, alpha)) == (adjusted <= alpha))[clear].all()


@pytest.mark.parametrize("correction", Correction)
@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_a_difference_is_significant_exactly_where_its_interval_excludes_0(correction, runs, level):
    metrics = [*SMOOTH, "MedianRank", "MADRank"]
    found = compare_models(lineup(200, 5, runs=runs), metrics, level=level, correction=correction, **FEW)
    for one in found.differences:
        assert one.significant == (one.adjusted <= 1 - level + 1e-12)
        assert one.significant == (not one.interval.low <= 0 <= one.interval.high)
        assert one.interval.low <= one.value <= one.interval.high
        assert one.adjusted >= one.p - 1e-12 or one.metric.name in ("MedianRank", "MADRank")
    verdicts = [one.significant for one in found.differences]
    assert any(verdicts)
    assert not all(verdicts)


def test_max_t_is_the_largest_standardised_difference_of_all_swaps():
    """Brute force: all swaps of eight clusters, three models."""
    rng = np.random.default_rng(3)
    scores = rng.random((3, 8)) + np.array([[0.0], [0.3], [0.9]])
    family = mean_family(np.ones((8, 1)), *(one[:, None] for one in scores))
    pairs = ((0, 1), (0, 2), (1, 2))
    (answer,) = about_these_runs([Hypotheses(MRR(), family, pairs)], ComparisonSettings(permutations=256))
    apart = np.array([scores[i] - scores[j] for i, j in pairs])
    spread = np.sqrt(np.square(apart).sum(axis=1))
    signs = np.array(list(itertools.product([-1, 1], repeat=8)))
    largest = np.abs(signs @ apart.T / spread).max(axis=1)
    observed = np.abs(apart.sum(axis=1)) / spread
    expected = [np.mean(largest >= one - 1e-9) for one in observed]
    assert answer.tests.adjusted.tolist() == pytest.approx(expected)
    assert answer.tests.significant == [one <= 0.05 for one in expected] == [True, True, False]


def test_one_pair_needs_no_correction():
    given = lineup(150, 2)
    results = [compare_models(given, "MRR", correction=one, **FEW).differences[0] for one in Correction]
    assert len({(one.adjusted, one.interval.low, one.interval.high) for one in results}) == 1
    assert results[0].adjusted == results[0].p


def test_intervals_without_correction_are_narrower():
    given = lineup(150, 4)
    widths = {}
    for correction in Correction:
        found = compare_models(given, "MRR", correction=correction, **FEW).differences
        widths[correction] = [one.interval.high - one.interval.low for one in found]
    assert (np.array(widths["none"]) < np.array(widths["max-t"])).all()


def test_unknown_corrections_are_refused():
    with pytest.raises(UsageError, match="unknown `correction` 'bonferroni'"):
        compare_models(lineup(20, 2), "MRR", correction="bonferroni")


def alike(sets, rng, runs=1, apart=0.0, heavy=False):
    """Six models of equal quality, or with a distance from one to the next, on triples that are hard for all."""
    for _ in range(sets):
        hard = rng.normal(size=(100, 1))
        models = []
        for i in range(6):
            own = hard + 0.5 * rng.normal(size=(100, 1)) + apart * i
            scores = [1 / (1 + np.exp(own + 0.5 * rng.normal(size=(100, 2)))) for _ in range(runs)]
            models.append([one**8 for one in scores] if heavy else scores)
        yield Hypotheses(MRR(), mean_family(np.exp(0.5 * rng.normal(size=(100, 2))), *models), PAIRS)


@pytest.mark.parametrize(
    ("heavy", "sets"), [(True, 120), *(pytest.param(heavy, 2000, marks=pytest.mark.slow) for heavy in (True, False))]
)
def test_among_six_equal_models_a_difference_is_found_in_one_of_twenty_test_sets(heavy, sets):
    plan = ComparisonSettings(replicates=100, permutations=399)
    answers = about_these_runs(list(alike(sets, np.random.default_rng(5), heavy=heavy)), plan)
    share = np.mean([any(one.tests.significant) for one in answers])
    assert abs(share - 0.05) <= 0.65 / math.sqrt(sets)  # three standard deviations
    alone = np.mean([(one.tests.p <= 0.05).any() for one in answers])
    assert alone > 0.2  # the control: without a correction


@pytest.mark.slow
def test_among_six_equal_methods_differences_are_no_more_frequent_with_random_seeds():
    plan = ComparisonSettings(replicates=999, permutations=1, seeds="random")
    answers = about_the_method(list(alike(1000, np.random.default_rng(6), runs=3)), plan)
    assert np.mean([any(one.tests.significant) for one in answers]) <= 0.07


def test_max_t_finds_a_small_effect_more_often_than_holm():
    questions = list(alike(60, np.random.default_rng(7), apart=0.08))
    found = {}
    for correction in (Correction.max_t, Correction.holm):
        plan = ComparisonSettings(replicates=100, permutations=399, correction=correction)
        found[correction] = np.mean([any(one.tests.significant) for one in about_these_runs(questions, plan)])
    assert 0.2 < found[Correction.holm] < found[Correction.max_t] < 1
