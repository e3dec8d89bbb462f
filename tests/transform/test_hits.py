import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.transform import Hits


def test_a_rank_equal_to_k_is_a_hit_and_half_a_rank_more_is_not():
    rank = np.array([1.0, 2.5, 3.0, 3.5, 4.0])
    assert Hits(3)(rank, np.full(5, 9.0)).tolist() == [1, 1, 1, 0, 0]


@settings(max_examples=60)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 12))
def test_share_of_a_tie_group_inside_the_first_k(k, first, more):
    last = first + more
    inside = sum(rank <= k for rank in range(first, last + 1))
    found = Hits(k).mean_over(np.array([float(first)]), np.array([float(last)]), np.array([30.0]))
    assert found.item() == pytest.approx(inside / (more + 1), rel=1e-15, abs=0)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_chance_by_brute_force(k):
    sizes = np.array([2.0, 3.0, 10.0, 57.0])
    mean, variance = Hits(k).chance(sizes)
    for size, m, v in zip(sizes.astype(int).tolist(), mean.tolist(), variance.tolist(), strict=True):
        hits = np.arange(1, size + 1) <= k
        assert (m, v) == pytest.approx((hits.mean(), hits.var()), abs=1e-15)
