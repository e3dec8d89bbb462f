import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.predict.sources.top_k.lists import SideLists


@given(st.dictionaries(st.integers(0, 50), st.lists(st.integers(0, 2), max_size=5).map(sorted), max_size=8))
def test_lists_are_in_order_of_their_keys_and_runs_end_with_them(levels: dict[int, list[int]]) -> None:
    entities = {key: [key * 10 + i for i in range(len(own))] for key, own in levels.items()}
    lists = SideLists.build(
        list(levels),
        [np.array(own, dtype=np.int64) for own in entities.values()],
        [np.array(own, dtype=np.int64) for own in levels.values()],
    )
    assert len(lists) == len(levels)
    assert lists.keys.tolist() == sorted(levels)
    for i, key in enumerate(sorted(levels)):
        assert lists.entities[lists.offsets[i] : lists.offsets[i + 1]].tolist() == entities[key]
    runs = [
        [entities[key][i] for i in range(len(own)) if own[i] == level]
        for key, own in sorted(levels.items())
        for level in sorted(set(own))
    ]
    cut = [lists.entities[a:b].tolist() for a, b in zip(lists.ties[:-1], lists.ties[1:], strict=True)]
    assert cut == runs
