import numpy as np
import pytest
from scipy import stats

from clustered import lineup, mean_family
from kgprobe import parse
from kgprobe.compare import bootstrap as module
from kgprobe.compare.bootstrap import bootstrap
from kgprobe.compare.estimator import estimator
from kgprobe.compare.family import family


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
        family([estimator(given, m, parse(name), clusters=given.clusters()) for m in given.models])
        for name in ("MRR", "MedianRank", "PROBE(alpha=1,beta=0.5)")
    ]
    told = []
    together = list(bootstrap(families, replicates=200, seed=3, watch=told.append))
    assert sum(told) == 200
    monkeypatch.setattr(module, "_KEPT_CELLS", 1)
    one_by_one = bootstrap(families, replicates=200, seed=3, watch=told.append)
    for alone, found in zip(one_by_one, together, strict=True):
        assert alone.values == pytest.approx(found.values, rel=1e-12)
    assert sum(told) == 400


def test_no_family_has_no_replicates():
    assert list(bootstrap([], replicates=100)) == []
