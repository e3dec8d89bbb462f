import numpy as np
import pytest

from clustered import SMOOTH, STEPS, lineup, mean_family
from kgprobe import parse
from kgprobe.compare.estimator import difference, estimator
from kgprobe.compare.family import family
from kgprobe.compare.kept import side_by_side


def made(metric, *, triples=40, models=3, runs=1):
    given = lineup(triples, models, runs=runs)
    return family([estimator(given, m, parse(metric), clusters=given.clusters()) for m in given.models])


def replicates(one, counts):
    return one.finish(side_by_side([one.kept], one.clusters)(counts))


def draws(clusters, number=6):
    return np.random.default_rng(1).multinomial(clusters, [1 / clusters] * clusters, size=number).astype(float)


@pytest.mark.parametrize("metric", SMOOTH + STEPS)
@pytest.mark.parametrize("runs", [1, 2])
def test_values_of_replicates_are_those_of_each_estimator(metric, runs):
    one = made(metric, runs=runs)
    counts = draws(40)
    expected = np.stack([e.value(counts @ e.columns) for e in one.estimators], axis=1)
    assert replicates(one, counts).values == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("metric", SMOOTH)
@pytest.mark.parametrize("runs", [1, 2])
def test_standard_errors_of_replicates_come_from_their_own_clusters(metric, runs):
    one = made(metric, runs=runs)
    counts = draws(40)
    found = replicates(one, counts)
    apart = difference(one.estimators[0], one.estimators[2])
    alone = one.estimators[1]
    for contrast, estimated in (([1, 0, -1], apart), ([0, 1, 0], alone)):
        values, errors = found.of(np.array(contrast, dtype=float))
        for row, value, error in zip(counts, values, errors, strict=True):
            drawn = np.repeat(np.arange(40), row.astype(int))
            columns = estimated.columns[drawn]
            influence = columns @ estimated.gradient(columns.sum(axis=0))
            assert error**2 == pytest.approx(40 * np.var(influence, ddof=1), rel=1e-7)
            assert value == pytest.approx(estimated.value(columns.sum(axis=0)), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("metric", SMOOTH)
def test_influence_predicts_what_leaving_a_cluster_out_does(metric):
    one = made(metric, triples=300, models=2)
    without = np.ones((300, 300)) - np.eye(300)
    for i, e in enumerate(one.estimators):
        jackknife = e.estimate - e.value(without @ e.columns)
        jackknife -= jackknife.mean()
        influence = one.influence[:, i]
        assert np.corrcoef(jackknife, influence)[0, 1] > 0.999
        assert np.std(jackknife) == pytest.approx(np.std(influence), rel=0.03)
        assert abs(influence.sum()) < 1e-9 * np.abs(influence).sum()


def test_the_error_of_a_mean_is_the_textbook_one():
    score = np.random.default_rng(0).random((50, 1))
    one = mean_family(np.ones((50, 1)), score)
    assert np.sqrt(np.square(one.influence).sum() * 50 / 49) == pytest.approx(np.std(score, ddof=1) / np.sqrt(50))


def test_equal_models_have_no_variance_of_their_difference():
    score = np.random.default_rng(0).random((50, 2))
    one = mean_family(np.ones((50, 2)), score, score.copy())
    values, errors = replicates(one, draws(50)).of(np.array([1.0, -1.0]))
    assert (values == 0).all()
    assert (errors == 0).all()


def test_nearly_equal_scores_do_not_cancel():
    score = 1 - 1e-7 * np.random.default_rng(0).random((50, 1))
    one = mean_family(np.ones((50, 1)), score)
    _, errors = replicates(one, draws(50)).of(np.array([1.0]))
    expected = [np.std(np.repeat(score, row.astype(int)), ddof=1) / np.sqrt(50) for row in draws(50)]
    assert errors == pytest.approx(expected, rel=1e-6)


def test_runs_become_models_of_their_own():
    one = made("MRR", models=2, runs=3)
    assert len(one.by_run().estimators) == 6
    assert one.by_run().estimate.reshape(2, 3).mean(axis=1) == pytest.approx(one.estimate)
