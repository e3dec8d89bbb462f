import numpy as np
import pytest

from kgprobe.transform import Identity


def test_a_rank_is_its_own_score_and_lower_is_better():
    rank = np.array([1.0, 2.5, 91_230_609.0])
    assert Identity()(rank, np.full(3, 1e9)).tolist() == rank.tolist()
    assert not Identity().higher_is_better


@pytest.mark.parametrize(("first", "last"), [(1, 1), (1, 2), (3, 10)])
def test_mean_of_a_tie_group(first, last):
    wanted = np.arange(first, last + 1).mean()
    assert Identity().mean_over(np.array([first]), np.array([last]), np.array([20])).item() == wanted


def test_chance_by_brute_force():
    sizes = np.array([1.0, 2.0, 7.0, 100.0])
    mean, variance = Identity().chance(sizes)
    ranks = [np.arange(1, size + 1) for size in sizes]
    assert mean == pytest.approx([r.mean() for r in ranks], rel=1e-15, abs=0)
    assert variance == pytest.approx([r.var() for r in ranks], rel=1e-14, abs=0)
