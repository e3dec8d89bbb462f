from itertools import groupby

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.graph.sorted_keys import find, pair_keys, run_starts

numbers = st.lists(st.integers(0, 30))


@settings(max_examples=50)
@given(numbers, numbers)
def test_find_is_a_dictionary_lookup(keys: list[int], wanted: list[int]) -> None:
    ordered = sorted(set(keys))
    position = {key: i for i, key in enumerate(ordered)}
    found = find(np.array(ordered, dtype=np.int64), np.array(wanted, dtype=np.int64))
    assert found.tolist() == [position.get(key, -1) for key in wanted]


@settings(max_examples=50)
@given(numbers)
def test_runs_are_those_of_groupby(values: list[int]) -> None:
    lengths = [len(list(group)) for _, group in groupby(sorted(values))]
    starts = run_starts(np.array(sorted(values), dtype=np.int64))
    assert np.diff(starts, append=len(values)).tolist() == lengths


def test_pair_keys_of_int32_do_not_overflow() -> None:
    big = np.array([2**31 - 1], dtype=np.int32)
    assert pair_keys(big, big, 2**31).tolist() == [(2**31 - 1) * 2**31 + 2**31 - 1]


def test_pair_keys_leave_their_arguments_alone() -> None:
    first, second = np.array([3]), np.array([4])
    pair_keys(first, second, 10)
    assert (first.tolist(), second.tolist()) == ([3], [4])
