from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.graph.grouped import Grouped

pairs = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4)), max_size=60)


@pytest.mark.parametrize("num_keys", [9, 2**62], ids=["pairs fit an int64", "pairs do not fit"])
@settings(max_examples=40)
@given(rows=pairs)
def test_groups_are_a_dictionary_of_sets(num_keys: int, rows: list[tuple[int, int]]) -> None:
    sets: defaultdict[int, set[int]] = defaultdict(set)
    for key, value in rows:
        sets[key].add(value)
    table = np.array(rows, dtype=np.int64).reshape(-1, 2)
    groups = Grouped.build(table[:, 0], table[:, 1].astype(np.int32), num_keys, 5)

    assert groups.keys.tolist() == sorted(sets)
    bounds = zip(groups.offsets[:-1], groups.offsets[1:], strict=True)
    assert [groups.values[a:b].tolist() for a, b in bounds] == [sorted(sets[key]) for key in sorted(sets)]
    assert groups.values.dtype == np.int32
    assert groups.count(np.arange(10)).tolist() == [len(sets.get(key, ())) for key in range(10)]
    keys, values = (grid.ravel() for grid in np.meshgrid(range(10), range(5)))
    expected = [v in sets.get(k, ()) for k, v in zip(keys.tolist(), values.tolist(), strict=True)]
    assert groups.contains(keys, values).tolist() == expected
    assert set(zip(*(column.tolist() for column in groups.pairs()), strict=True)) == set(rows)
