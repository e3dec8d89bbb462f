import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from clustered import SMOOTH, STEPS, lineup, mean_family, model, weighted_mean
from kgprobe.comparison import line_up
from kgprobe.comparison.estimator_families import estimator_family
from kgprobe.comparison.estimators import condensed, difference, estimator, estimators
from kgprobe.comparison.lineup import grouped
from kgprobe.comparison.permutation_tests import permutation_tests
from kgprobe.comparison.resampling import flipped, resampled
from kgprobe.errors import UsageError
from kgprobe.metrics import evaluate, parse, scores
from support import with_columns

EVERY = SMOOTH + STEPS


def repeated(ranks, counts, codes):
    """The table in which each cluster stands as often as it is drawn."""
    rows = np.repeat(np.arange(len(ranks)), counts[codes].astype(int))
    table = ranks.take(rows)
    return with_columns(table, head=np.arange(len(table)))  # no query twice


@pytest.mark.parametrize("metric", EVERY)
@pytest.mark.parametrize("by", ["triple", "relation"])
def test_the_estimate_is_that_of_eval(metric, by):
    table = model(40, 3, runs=3)
    mine = line_up({"mine": table})
    found = estimator(mine, "mine", parse(metric), clusters=mine.clusters(by))
    (score,) = scores(table, metric)
    assert found.estimate == pytest.approx(score.value, rel=1e-12)
    assert np.std(found.run_values(found.sums), ddof=1) == pytest.approx(score.std, rel=1e-9)
    assert (found.queries, found.effective) == (score.queries, pytest.approx(score.effective))


@pytest.mark.parametrize("metric", ["MRR", "MR", "GMR", "AMRI", "ZMRR", "PROBE(alpha=0.5,beta=0)", *STEPS])
def test_re_weighted_sums_are_those_of_a_table_with_repeated_clusters(metric):
    table = model(25, 4)
    mine = line_up({"mine": table})
    clusters = mine.clusters("triple")
    found = estimator(mine, "mine", parse(metric), clusters=clusters)
    counts = np.random.default_rng(0).multinomial(25, [1 / 25] * 25, size=5).astype(float)
    expected = [evaluate(repeated(table, row, clusters.codes), metric)[str(parse(metric))] for row in counts]
    assert found.value(counts @ found.columns) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("metric", ["PROBE(alpha=1,beta=0.6)", "ZMRR", "MedianRank"])
@pytest.mark.parametrize("by", [["kind"], ["side", "relation"]], ids=["kind", "side and relation"])
def test_groups_have_the_values_of_eval(metric, by):
    table = model(30, 5, runs=2)
    mine = line_up({"mine": table})
    found = estimators(mine, "mine", parse(metric), cells=grouped(mine, by, mine.clusters()))
    for one, score in zip(found, scores(table, [metric], by=by), strict=True):
        assert one.estimate == pytest.approx(score.value, rel=1e-12)
        assert (one.queries, one.effective) == (score.queries, pytest.approx(score.effective))
        assert one.columns.shape[0] == score.queries // (1 if "side" in by else 2)


def test_single_candidates_are_left_out_where_they_say_nothing():
    table = model(10, 5)
    single = np.arange(20) < 4
    table = with_columns(table, candidates=np.where(single, 1, table.candidates), rank=np.where(single, 1, table.rank))
    mine = line_up({"mine": table})
    probe, mrr = (estimator(mine, "mine", parse(name), clusters=mine.clusters()) for name in ("PROBE(alpha=1)", "MRR"))
    assert (probe.queries, mrr.queries) == (16, 20)
    assert probe.effective_clusters == 8


@pytest.mark.parametrize("metric", SMOOTH)
def test_the_gradient_is_the_limit_of_differences(metric):
    both = lineup(30, runs=2)
    clusters = both.clusters()
    found = difference(*(estimator(both, m, parse(metric), clusters=clusters) for m in both.models))
    sums = found.sums
    gradient = found.gradient(sums)
    for i in range(len(sums)):
        step = 1e-6 * sums[i]
        up, down = sums.copy(), sums.copy()
        up[i] += step
        down[i] -= step
        numeric = (found.value(up) - found.value(down)) / (2 * step)
        assert gradient[i] * sums[i] == pytest.approx(numeric * sums[i], rel=1e-5, abs=1e-7)


def test_a_step_has_no_gradient():
    both = lineup(5)
    median = estimator(both, "model 0", parse("MedianRank"), clusters=both.clusters())
    with pytest.raises(UsageError, match="no derivative"):
        median.gradient(median.sums)


def test_a_difference_subtracts_and_keeps_the_smaller_numbers():
    both = lineup(30)
    first, second = (estimator(both, m, parse("MRR"), clusters=both.clusters()) for m in both.models)
    apart = difference(first, second)
    assert apart.estimate == pytest.approx(first.estimate - second.estimate, abs=1e-15)
    assert apart.columns.shape == (30, 3)  # the weights are the same, and kept once
    assert (apart.queries, apart.effective, apart.effective_clusters) == (60, 60, 30)


def test_expected_ties_are_refused_where_nothing_is_known():
    both = lineup(5)
    with pytest.raises(UsageError, match="is not available for MedianRank"):
        estimator(both, "model 0", parse("MedianRank"), clusters=both.clusters(), tie="expected")


@pytest.mark.parametrize("metric", SMOOTH)
def test_condensed_runs_have_the_same_value_for_any_sums(metric):
    mine = lineup(30, models=1, runs=3)
    full = estimator(mine, "model 0", parse(metric), clusters=mine.clusters())
    short = condensed(full)
    linear = metric not in ("HMR", "GMR", "VarRank", "StdRank")
    assert len(short.parts) == (1 if linear else 3)
    counts = np.random.default_rng(0).integers(0, 3, size=(20, 30)).astype(float)
    assert short.value(counts @ short.columns) == pytest.approx(full.value(counts @ full.columns), rel=1e-12)


def test_runs_with_other_weights_are_not_condensed():
    weight, score = np.ones((5, 2)), np.random.default_rng(0).random((2, 5, 2))
    parts = weighted_mean(weight, score[0]).parts + weighted_mean(2 * weight, score[1]).parts
    given = mean_family(weight, (score[0], score[1])).estimators[0]
    different = type(given)(parts, given.factors, 10, 10.0, 5.0)
    assert len(condensed(given).parts) == 1
    assert condensed(different) is different


METRICS = ["MedianRank", "IMedianRank", "MADRank"]


@pytest.mark.parametrize("name", METRICS)
@given(weight=arrays(float, (7, 5), elements=st.integers(0, 3)))
def test_many_at_once_are_those_one_by_one(name, weight):
    weight[:, 2] += 1
    ranks, metric = np.array([1.0, 1.5, 4.0, 6.5, 7.0]), parse(name)
    expected = [metric.of_distribution(ranks[row > 0], row[row > 0]) for row in weight]
    assert metric.of_distribution(ranks, weight).tolist() == expected


def median_estimators(name, runs=2):
    lined = line_up({f"m{i}": model(700, i, runs=runs, worse=1.5 * i) for i in range(2)})
    return [estimator(lined, one, parse(name), clusters=lined.clusters()) for one in lined.models]


@pytest.mark.parametrize("name", METRICS)
def test_fewer_ranks_give_the_same_values_for_every_draw(name):
    whole = median_estimators(name)
    narrow = estimator_family(whole)
    ranks = {len(part.ranks) for one in whole for part in one.parts}
    if name != "MADRank":
        assert max(len(part.ranks) for one in narrow.estimators for part in one.parts) < min(ranks) / 2
    counts = resampled(200, 700, np.random.default_rng(0))
    for full, few in zip(whole, narrow.estimators, strict=True):
        assert few.estimate == full.estimate
        np.testing.assert_array_equal(few.value(counts @ few.columns), full.value(counts @ full.columns))


@pytest.mark.parametrize("name", METRICS)
def test_fewer_ranks_give_the_same_values_for_every_swap(name):
    """Models whose medians are far apart, swapped triple by triple."""
    first, second = median_estimators(name, runs=1)
    (found,) = permutation_tests([estimator_family([first, second])], [[(0, 1)]], permutations=300)
    # The signs of the first chunk, drawn as the test draws them.
    signs = flipped(300, 700, np.random.default_rng([0, 0]))
    tables = [np.asarray(one.parts[0].columns.todense()) for one in (first, second)]
    ranks = [one.parts[0].ranks for one in (first, second)]
    metric = parse(name)

    def swapped(row):
        values = []
        for own, other in ((0, 1), (1, 0)):
            weight = np.concatenate([tables[own][row > 0].sum(axis=0), tables[other][row < 0].sum(axis=0)])
            joined, place = np.unique(np.concatenate([ranks[own], ranks[other]]), return_inverse=True)
            total = np.bincount(place, weight)
            values.append(metric.of_distribution(joined[total > 0], total[total > 0]))
        return values[0] - values[1]

    differences = np.array([swapped(row) for row in signs])
    observed = first.estimate - second.estimate
    expected = (1 + (np.abs(differences) >= abs(observed) * (1 - 1e-12)).sum()) / 301
    assert found.p[0] == pytest.approx(expected)
