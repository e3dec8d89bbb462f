import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.predict.counts import Counts


def counts_of(rows: list[tuple[int, int, int]]) -> Counts:
    return Counts(*np.array(rows, dtype=np.int64).reshape(-1, 3).T)


rows = st.lists(st.tuples(*[st.integers(0, 10**9)] * 3), min_size=1, max_size=6)


@given(rows)
def test_ranks_are_the_mean_of_the_places_of_a_tie_group(rows: list[tuple[int, int, int]]) -> None:
    counts = counts_of(rows)
    expected = [(greater + 1 + greater + 1 + equal) / 2 for greater, equal, _ in rows]
    assert counts.rank.tolist() == expected
    assert counts.candidates.tolist() == [others + 1 for *_, others in rows]


@given(rows)
def test_parts_add_up_in_any_order(rows: list[tuple[int, int, int]]) -> None:
    counts, zeros = counts_of(rows), Counts.zeros(len(rows))
    for whole in (counts + counts + zeros, zeros + counts + counts, counts + (zeros + counts)):
        assert whole.greater.tolist() == [2 * greater for greater, *_ in rows]
        assert whole.equal.tolist() == [2 * equal for _, equal, _ in rows]
        assert whole.others.tolist() == [2 * others for *_, others in rows]


def test_nothing_counted_is_the_first_of_one() -> None:
    counts = Counts.zeros(2)
    assert (counts.rank.tolist(), counts.candidates.tolist()) == ([1.0, 1.0], [1, 1])
    assert counts.greater is not counts.equal


def test_counts_are_filled_in_and_put_in_order() -> None:
    counts = Counts.zeros(4)
    counts.put(slice(1, 3), np.array([5, 6]), np.array([1, 2]), np.array([10, 20]))
    assert counts.greater.tolist() == [0, 5, 6, 0]
    assert counts.equal.tolist() == [0, 1, 2, 0]
    assert counts.others.tolist() == [0, 10, 20, 0]
    moved = counts.at(np.array([2, 0, 1, 3]))
    assert (moved.greater.tolist(), moved.equal.tolist(), moved.others.tolist()) == (
        [6, 0, 5, 0],
        [2, 0, 1, 0],
        [20, 0, 10, 0],
    )
