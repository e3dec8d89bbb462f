import numpy as np
import pytest
from scipy import stats

from clustered import SMOOTH, STEPS, lineup, mean_family
from kgprobe.comparison import estimator_families as module
from kgprobe.comparison.estimator_families import bootstrap, estimator_family
from kgprobe.comparison.estimators import difference, estimator
from kgprobe.comparison.resampling import side_by_side
from kgprobe.metrics import parse


def test_replicates_have_the_moments_of_means_drawn_with_replacement():
    score = np.random.default_rng(0).random((60, 1)) ** 3
    (made,) = bootstrap([mean_family(np.ones((60, 1)), score)], replicates=40_000)
    assert made.values.mean() == pytest.approx(score.mean(), abs=4 * score.std() / 60**0.5 / 200)
    assert made.values.std() == pytest.approx(score.std() / 60**0.5, rel=0.02)
    assert stats.skew(made.values[:, 0]) == pytest.approx(stats.skew(score[:, 0]) / 60**0.5, abs=0.05)


def test_percentiles_agree_with_scipy():
    rng = np.random.default_rng(0)
    weight, score = rng.random((80, 1)) + 0.1, rng.random((80, 1)) ** 2
    (made,) = bootstrap([mean_family(weight, score)], replicates=20_000)

    def ratio(s, w, axis=-1):
        return (s * w).sum(axis=axis) / w.sum(axis=axis)

    theirs = stats.bootstrap(
        (score[:, 0], weight[:, 0]), ratio, paired=True, method="percentile", n_resamples=20_000, rng=rng
    )
    ours = np.quantile(made.values, [0.025, 0.975])
    assert ours == pytest.approx(list(theirs.confidence_interval), abs=0.03 * np.ptp(ours))
    assert made.values.std() == pytest.approx(theirs.standard_error, rel=0.03)


def test_a_cluster_is_drawn_as_a_whole():
    """Two equal queries in each cluster vary as much as one alone."""
    score = np.random.default_rng(0).random((50, 1))
    alone, twice = bootstrap(
        [mean_family(np.ones((50, 1)), score), mean_family(np.ones((50, 2)), np.repeat(score, 2, axis=1))],
        replicates=500,
    )
    assert twice.values == pytest.approx(alone.values, rel=1e-12)
    assert np.sqrt(twice.covariance) == pytest.approx(np.sqrt(alone.covariance), rel=1e-9)


def test_all_families_see_the_same_draws_in_any_batches(monkeypatch):
    given = lineup(30, 2)
    families = [
        estimator_family([estimator(given, m, parse(name), clusters=given.clusters()) for m in given.models])
        for name in ("MRR", "MedianRank", "PROBE(alpha=1,beta=0.5)")
    ]
    told = []
    together = list(bootstrap(families, replicates=200, seed=3, progress=told.append))
    assert sum(told) == 200
    monkeypatch.setattr(module, "_KEPT_CELLS", 1)
    one_by_one = bootstrap(families, replicates=200, seed=3, progress=told.append)
    for alone, found in zip(one_by_one, together, strict=True):
        assert alone.values == pytest.approx(found.values, rel=1e-12)
    assert sum(told) == 400


def test_no_family_has_no_replicates():
    assert list(bootstrap([], replicates=100)) == []


def made(metric, *, triples=40, models=3, runs=1):
    given = lineup(triples, models, runs=runs)
    return estimator_family([estimator(given, m, parse(metric), clusters=given.clusters()) for m in given.models])


def replicates(one, counts):
    return one.finish(side_by_side([one.reduction], one.clusters)(counts))


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
