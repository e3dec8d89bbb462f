import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kgprobe.comparison import resampling
from kgprobe.comparison.resampling import (
    ColumnSums,
    DrawFunction,
    chunks,
    critical_value,
    every_flip,
    flipped,
    gathered,
    parted,
    resampled,
    side_by_side,
    standard_errors,
)
from kgprobe.resources import Resources


def test_standard_errors_are_those_of_sums():
    influence = np.random.default_rng(0).normal(size=(40, 3))
    assert standard_errors(influence) == pytest.approx(np.std(influence, axis=0, ddof=1) * 40**0.5)
    assert standard_errors(influence[:1]).tolist() == [0, 0, 0]


def test_a_single_column_needs_the_quantile_of_t():
    influence = np.random.default_rng(0).normal(size=(400, 1))
    assert critical_value(influence, replicates=20_000) == pytest.approx(stats.t(399).ppf(0.975), abs=0.05)
    assert critical_value(influence, 0.5, replicates=20_000) == pytest.approx(stats.t(399).ppf(0.75), abs=0.03)


def test_few_clusters_need_wider_bands():
    influence = np.random.default_rng(0).normal(size=(10, 1))
    assert critical_value(influence, replicates=20_000) > 2.1  # as the t distribution with 9 degrees of freedom: 2.26


def test_independent_columns_need_the_quantile_of_their_maximum():
    influence = np.random.default_rng(0).normal(size=(2000, 25))
    expected = stats.norm.ppf((1 + 0.95 ** (1 / 25)) / 2)
    assert critical_value(influence, replicates=10_000) == pytest.approx(expected, abs=0.07)


def test_equal_columns_need_no_more_than_one():
    one = np.random.default_rng(0).normal(size=(300, 1))
    many = one * np.arange(1, 30)
    assert critical_value(many) == pytest.approx(critical_value(one), rel=1e-3)


def test_columns_without_variation_need_no_band():
    one = np.random.default_rng(0).normal(size=(300, 1))
    assert critical_value(np.zeros((300, 4))) == 0.0
    assert critical_value(np.concatenate([one, np.zeros((300, 2)), np.full((300, 1), 7.0)], axis=1)) == critical_value(
        one
    )
    assert critical_value(np.ones((1, 5))) == 0.0


def test_the_scale_of_a_column_does_not_matter():
    influence = np.random.default_rng(0).normal(size=(200, 5))
    scaled = influence * np.array([1e-9, 1, 1e9, 3, 1e-3])
    assert critical_value(scaled) == pytest.approx(critical_value(influence), rel=1e-4)


def test_the_same_seed_gives_the_same_value():
    influence = np.random.default_rng(0).normal(size=(200, 5))
    assert critical_value(influence, seed=4) == critical_value(influence, seed=4) != critical_value(influence, seed=5)


@pytest.mark.slow
def test_bands_hold_at_all_points_at_once():
    """Simulated: skewed scores, 30 points of which neighbours are alike; limits of one point at a time fail."""
    rng = np.random.default_rng(0)
    powers = np.linspace(0.3, 8, 30)
    truth = 1 / (powers + 1)
    held, pointwise = [], []
    for _ in range(400):
        scores = rng.random((150, 1)) ** powers
        influence = (scores - scores.mean(axis=0)) / 150
        away = np.abs(scores.mean(axis=0) - truth) / standard_errors(influence)
        held.append(away.max() <= critical_value(influence, replicates=400))
        pointwise.append(away.max() <= 1.96)
    assert 0.925 <= np.mean(held) <= 0.975
    assert np.mean(pointwise) < 0.92


@pytest.mark.parametrize("cells", [1 << 24, 40])
def test_products_are_the_same_in_one_block_and_in_many(monkeypatch, cells):
    monkeypatch.setattr(resampling, "_BLOCK_CELLS", cells)
    rng = np.random.default_rng(0)
    first, second, draws = rng.random((37, 2)), rng.random((37, 5)), rng.random((4, 37))
    kinds = [
        ColumnSums(2, first.__getitem__),
        DrawFunction(1, lambda d: d.max(axis=1, keepdims=True)),
        ColumnSums(5, second.__getitem__),
    ]
    found = side_by_side(kinds, 37)(draws)
    expected = [draws @ first, draws.max(axis=1, keepdims=True), draws @ second]
    assert found == pytest.approx(np.concatenate(expected, axis=1), rel=1e-12)
    for part, own in zip(parted(found, kinds), expected, strict=True):
        assert part == pytest.approx(own, rel=1e-12)


def test_rules_alone_need_no_table():
    assert side_by_side([DrawFunction(1, lambda draws: draws[:, 1:])], 2)(np.array([[3.0, 4.0]])).tolist() == [[4.0]]


def test_counts_are_those_of_as_many_draws_with_replacement():
    counts = resampled(20_000, 5, np.random.default_rng(0))
    assert (counts.sum(axis=1) == 5).all()
    assert counts.mean(axis=0) == pytest.approx(np.ones(5), abs=0.03)
    expected = np.full((5, 5), -1 / 5) + np.eye(5)  # the covariance of a multinomial distribution
    assert np.cov(counts, rowvar=False) == pytest.approx(expected, abs=0.03)


def test_signs_are_fair_and_independent():
    signs = flipped(20_000, 5, np.random.default_rng(0))
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert signs.T @ signs / len(signs) == pytest.approx(np.eye(5), abs=0.03)
    assert signs.mean(axis=0) == pytest.approx(np.zeros(5), abs=0.03)


@pytest.mark.parametrize("clusters", [1, 3, 6])
def test_every_way_to_choose_signs_occurs_once(clusters):
    signs = every_flip(clusters)
    assert len({tuple(row) for row in signs.tolist()}) == len(signs) == 2**clusters
    assert (signs[0] == 1).all()


@given(st.integers(0, 10_000), st.integers(1, 1 << 22))
def test_chunks_add_up_and_stay_small(total, width):
    sizes = list(chunks(total, width))
    assert sum(sizes) == total
    assert all(size > 0 and (size == 1 or size * width <= 1 << 20) for size in sizes)


def test_what_is_gathered_does_not_hang_on_the_number_of_threads(monkeypatch):
    def kept():
        return gathered(resampled, lambda counts: counts[:, :3], clusters=30_000, total=100, seed=5)

    by_default = kept()
    assert by_default.shape == (100, 3)
    for workers in (1, 7):
        monkeypatch.setattr(Resources, "workers", workers)
        assert (kept() == by_default).all()


def test_another_seed_draws_otherwise_and_chunks_differ():
    one, other = (gathered(resampled, lambda c: c[:, :50], clusters=300_000, total=12, seed=seed) for seed in (1, 2))
    assert len(np.unique(np.concatenate([one, other]), axis=0)) == 24


def test_progress_tells_every_row_once():
    told = []
    gathered(resampled, lambda counts: counts[:, :1], clusters=100_000, total=57, seed=0, progress=told.append)
    assert sum(told) == 57
    assert len(told) == 6


def test_few_clusters_are_not_grouped_and_many_are_in_groups_of_the_same_size(monkeypatch):
    monkeypatch.setattr(resampling, "MOST_UNITS", 50)
    assert resampling.random_groups(50) is None
    groups = resampling.random_groups(1_020, seed=3)
    assert sorted(set(np.bincount(groups))) == [20, 21]
    assert (groups == resampling.random_groups(1_020, seed=3)).all()
    assert (groups != resampling.random_groups(1_020, seed=4)).any()
