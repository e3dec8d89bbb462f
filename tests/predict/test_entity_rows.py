import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.predict.entity_rows import EntityRows

lists = st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=6)


@given(lists, st.data())
def test_taken_rows_are_those_of_a_list_of_lists(rows: list[list[int]], data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.integers(-1, len(rows) - 1), max_size=8))
    flat = np.array([entity for row in rows for entity in row], dtype=np.int32)
    compressed = EntityRows(np.cumsum([0, *map(len, rows)]), flat)
    offsets, entities = compressed.take(np.array(wanted, dtype=np.int64))
    assert entities.dtype == np.int32
    taken = [entities[a:b].tolist() for a, b in itertools.pairwise(offsets)]
    assert taken == [[] if i < 0 else rows[i] for i in wanted]
    assert offsets[-1] == len(entities)
