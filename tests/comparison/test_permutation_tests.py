import itertools
import math

import numpy as np
import pytest
from scipy import stats

from clustered import SMOOTH, STEPS, lineup, mean_family, model
from kgprobe.comparison import line_up
from kgprobe.comparison.estimator_families import estimator_family
from kgprobe.comparison.estimators import estimator
from kgprobe.comparison.permutation_tests import permutation_tests
from kgprobe.metrics import evaluate, parse
from support import with_columns


def p_value(one, *, permutations=10_000, pair=(0, 1), seed=0):
    (found,) = permutation_tests([one], [[pair]], permutations=permutations, seed=seed)
    return found.p[0]


def of(given, metric):
    return estimator_family([estimator(given, m, parse(metric), clusters=given.clusters()) for m in given.models])


@pytest.mark.parametrize("metric", SMOOTH + STEPS)
def test_few_clusters_are_swapped_in_every_way(metric):
    tables = [model(4, seed, worse=0.3 * seed) for seed in (1, 2)]
    name = str(parse(metric))
    codes = line_up({"one": tables[0]}).clusters().codes
    differences = []
    for swapped in itertools.product([False, True], repeat=4):
        rows = np.array(swapped)[codes]
        ranks = [np.where(rows, b.rank, a.rank) for a, b in (tables, tables[::-1])]
        values = [evaluate(with_columns(t, rank=r), metric)[name] for t, r in zip(tables, ranks, strict=True)]
        differences.append(abs(values[0] - values[1]))
    expected = np.mean(np.array(differences) >= differences[0] - 1e-10)
    given = line_up({"one": tables[0], "other": tables[1]})
    assert p_value(of(given, metric), permutations=16) == pytest.approx(expected, abs=1e-12)


def test_exact_p_values_are_those_of_scipy():
    rng = np.random.default_rng(0)
    for _ in range(5):
        first, second = rng.integers(0, 4, (2, 9)) / 3  # ties abound
        ours = p_value(mean_family(np.ones((9, 1)), first[:, None], second[:, None]))
        theirs = stats.permutation_test(
            (first, second), lambda a, b: a.mean() - b.mean(), permutation_type="samples", n_resamples=np.inf
        )
        assert ours == pytest.approx(theirs.pvalue, abs=1e-12)


def test_random_p_values_agree_with_scipy():
    rng = np.random.default_rng(1)
    first = rng.random(60)
    second = first + rng.normal(0.03, 0.15, 60)
    ours = p_value(mean_family(np.ones((60, 1)), first[:, None], second[:, None]), permutations=40_000)
    theirs = stats.permutation_test(
        (first, second),
        lambda a, b, axis: a.mean(axis=axis) - b.mean(axis=axis),
        permutation_type="samples",
        n_resamples=40_000,
        vectorized=True,
        rng=rng,
    )
    assert 0.05 < ours < 0.9
    assert ours == pytest.approx(theirs.pvalue, abs=0.015)


def test_p_is_never_zero():
    """A p value of 0 claims more than any number of permutations can show."""
    one = mean_family(np.ones((500, 1)), np.full((500, 1), 0.9), np.full((500, 1), 0.1))
    assert p_value(one, permutations=999) == 1 / 1000
    assert p_value(mean_family(np.ones((9, 1)), np.ones((9, 1)), np.zeros((9, 1)))) == 2 / 512


def test_identical_models_have_p_one():
    score = np.random.default_rng(0).random((300, 2))
    assert p_value(mean_family(np.ones((300, 2)), score, score.copy()), permutations=500) == 1.0
    shuffled = 0.1 + 0.2 * np.ones((300, 2))
    assert p_value(mean_family(np.ones((300, 2)), 0.3 * np.ones((300, 2)), shuffled), permutations=500) == 1.0


@pytest.mark.parametrize("metric", ["MRR", "GMR", "MedianRank"])
def test_the_order_of_the_two_does_not_matter(metric):
    one = of(lineup(80, 2), metric)
    assert p_value(one, pair=(0, 1), permutations=400) == p_value(one, pair=(1, 0), permutations=400)


def test_a_cluster_is_swapped_as_a_whole():
    rng = np.random.default_rng(0)
    first, second = rng.random((2, 70, 1))
    alone = mean_family(np.ones((70, 1)), first, second)
    thrice = mean_family(np.ones((70, 3)), np.repeat(first, 3, axis=1), np.repeat(second, 3, axis=1))
    assert p_value(thrice) == p_value(alone)


@pytest.mark.parametrize("metric", ["MRR", "GMR", "MedianRank"])
def test_models_may_have_different_numbers_of_runs(metric):
    """Naming every run of a model twice, or all runs of both in another number, changes no mean and no p value."""
    tables = {"one": model(40, 1, runs=2), "other": model(40, 2, runs=3, worse=0.2)}
    uneven = of(line_up(tables), metric)
    expected = [uneven.by_run().estimate[:2].mean(), uneven.by_run().estimate[2:].mean()]
    assert uneven.estimate == pytest.approx(expected)
    first, second = (e.by_run() for e in uneven.estimators)
    kind = type(uneven.estimators[0])
    even = [kind(tuple(run.parts[0] for run in runs), (1 / 6,) * 6, 80, 80.0, 40.0) for runs in (first * 3, second * 2)]
    assert p_value(estimator_family(even), permutations=800) == pytest.approx(
        p_value(uneven, permutations=800), abs=1e-12
    )


def test_no_finite_value_has_no_p():
    weight = np.zeros((20, 1))
    with np.errstate(invalid="ignore"):
        assert math.isnan(p_value(mean_family(weight, weight, weight), permutations=100))


def test_several_families_and_no_pairs():
    given = lineup(40, 3)
    families = [of(given, "MRR"), of(given, "MedianRank")]
    both = list(permutation_tests(families, [[(0, 1), (0, 2)], [(1, 2)]], permutations=300))
    assert [len(one.p) for one in both] == [2, 1]
    assert both[0].p[1] == p_value(families[0], pair=(0, 2), permutations=300)
    assert [len(one.p) for one in permutation_tests(families, [[], []], permutations=300)] == [0, 0]


@pytest.mark.slow
def test_one_in_twenty_alike_models_is_rejected():
    """Simulated: models of equal quality, sides that depend on each other, popularity weights."""
    rng = np.random.default_rng(5)
    families = []
    for _ in range(4000):
        weight = np.exp(rng.normal(size=(60, 2)))
        hard = rng.normal(size=(60, 1))
        first, second = (np.exp(-np.abs(hard + rng.normal(size=(60, 1)) + rng.normal(size=(60, 2)))) for _ in range(2))
        families.append(mean_family(weight, first, second))
    p = np.concatenate([one.p for one in permutation_tests(families, [[(0, 1)]] * 4000, permutations=999)])
    assert 0.04 < (p <= 0.05).mean() < 0.06
    assert 0.48 < (p <= 0.5).mean() < 0.52
