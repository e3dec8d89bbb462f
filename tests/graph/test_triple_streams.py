from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kgprobe.graph.triple_streams as module
from kgprobe.graph.triple_streams import KeySet, chunks, distinct_rows
from support import streaming

Row = tuple[int, ...]


@st.composite
def tables(draw: st.DrawFn) -> tuple[tuple[int, ...], list[list[Row]], type]:
    """Sizes of some columns, up to those whose rows do not fit 63 bits, and tables of rows with repeats."""
    most = draw(st.sampled_from([4, 300, 2**31 - 1, 2**40]))
    sizes = tuple(draw(st.lists(st.integers(1, most), min_size=1, max_size=3)))
    ids = [st.integers(0, size - 1) | st.sampled_from([0, size - 1]) for size in sizes]
    rows = draw(st.lists(st.lists(st.tuples(*ids), max_size=12), max_size=3))
    return sizes, rows, np.int64 if most > 2**31 else draw(st.sampled_from([np.int32, np.int64]))


def as_columns(rows: list[Row], columns: int, kind: type) -> list[np.ndarray]:
    return list(np.array(rows, dtype=kind).reshape(len(rows), columns).T)


@settings(max_examples=150)
@given(tables(), st.sampled_from([None, (1, 1, 1, 2), (3, 2, 4, 16)]))
def test_rows_are_sorted_and_counted_as_by_hand(
    case: tuple[tuple[int, ...], list[list[Row]], type], steps: tuple[int, ...] | None
) -> None:
    sizes, every, kind = case
    found = []
    with streaming(*(steps or ())):
        for columns, counts in distinct_rows([as_columns(rows, len(sizes), kind) for rows in every], sizes):
            assert {column.dtype for column in (*columns, counts)} == {np.dtype(np.int64)}
            assert 1 <= len(counts) <= module._BLOCK
            found += list(zip(zip(*(column.tolist() for column in columns), strict=True), counts.tolist(), strict=True))
    assert found == sorted(Counter(row for rows in every for row in rows).items())


def test_ids_of_the_largest_graphs_are_sorted() -> None:
    top = 2**63 - 1
    columns = [np.array([top, 0, top, 5]), np.array([0, 2, 0, 1])]
    blocks = list(distinct_rows([columns], (2**63, 3)))
    first, second = (np.concatenate([own[i] for own, _ in blocks]).tolist() for i in range(2))
    assert (first, second) == ([0, 5, top], [2, 1, 0])
    assert [count for _, counts in blocks for count in counts.tolist()] == [1, 1, 2]


@settings(max_examples=100)
@given(st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 20)), st.lists(st.lists(st.integers(0, 20))))
def test_keys_are_found_and_counted(keys: list[int], others: list[list[int]]) -> None:
    asked = KeySet(np.array(keys, dtype=np.int64))
    assert asked.keys.tolist() == sorted(set(keys))
    assert asked.likely(asked.keys).all()
    counts = asked.counts(np.array(some, dtype=np.int64) for some in others)
    often = Counter(key for some in others for key in some)
    assert counts.tolist() == [often[key] for key in sorted(set(keys))]


def test_few_other_keys_are_likely() -> None:
    keys = np.random.default_rng(0).integers(0, 1 << 50, 20_000)
    others = np.arange(1 << 20) * 1000 + 7  # as the keys of one relation: evenly spaced
    assert KeySet(keys).likely(others).mean() < 0.05


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_chunks_are_all_rows(rows: int) -> None:
    table = np.arange(3 * rows).reshape(rows, 3)
    with streaming(2):
        assert [row for some in chunks(table) for row in some.tolist()] == table.tolist()
