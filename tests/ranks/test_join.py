from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.errors import DataError, UsageError
from kgprobe.ranks import Ranks, RanksInfo, concatenate, merge_seeds

Make = Callable[..., Ranks]


@given(st.lists(st.integers(0, 40), max_size=4))
def test_pieces_put_together_again_are_the_whole(cuts: list[int]) -> None:
    n = 40
    whole = Ranks.from_columns(
        head=np.arange(n),
        relation=np.zeros(n, dtype=int),
        tail=np.ones(n, dtype=int),
        side=np.where(np.arange(n) % 3, "tail", "head"),
        rank=np.arange(n) / 2 + 1,
        candidates=np.full(n, 99),
        ties=np.where(np.arange(n) % 4, np.arange(n) % 2, np.nan),
        labels={"kind": pa.array([f"k{i % 5}" for i in range(n)]).dictionary_encode()},
    )
    edges = [0, *sorted(cuts), n]
    pieces = [whole.filter((np.arange(n) >= a) & (np.arange(n) < b)) for a, b in pairwise(edges)]
    assert concatenate(pieces).to_arrow().to_pylist() == whole.to_arrow().to_pylist()


def test_a_column_that_one_table_lacks_is_null_there(make: Make) -> None:
    both = concatenate([make(ties=[0] * 4), make(head=[5, 5, 6, 6])])
    assert both.column("ties").to_pylist() == [0] * 4 + [None] * 4


def test_facts_on_which_tables_differ_are_forgotten(make: Make) -> None:
    one = RanksInfo(model="a", graph="g", filtered=("train",), settings={"format": "csv", "source": "x"})
    two = RanksInfo(model="b", graph="g", filtered=("train", "test"), settings={"format": "csv", "source": "y"})
    info = concatenate([make(info=one), make(head=[5, 5, 6, 6], info=two)]).info
    assert info == RanksInfo(graph="g", settings={"format": "csv"})


def test_tables_that_share_a_query_are_refused(make: Make) -> None:
    with pytest.raises(DataError, match="not usable") as caught:
        concatenate([make(), make()])
    assert caught.value.problems == ["the same query (and seed) occurs again: 4 rows (rows 5-8)"]


def test_tables_with_and_without_seeds_do_not_go_together(make: Make) -> None:
    with pytest.raises(DataError) as caught:
        concatenate([make(seed=1), make()])
    assert caught.value.problems == ["seed is missing, though the table has seeds: 4 rows (rows 5-8)"]


def test_labels_of_different_kinds_do_not_go_together(make: Make) -> None:
    with pytest.raises(DataError, match="label columns") as caught:
        concatenate([make(labels={"kind": [1] * 4}), make(head=[5, 5, 6, 6], labels={"kind": ["a"] * 4})])
    assert "kind" in caught.value.problems[0]


def test_nothing_cannot_be_concatenated() -> None:
    with pytest.raises(UsageError):
        concatenate([])


def test_runs_are_told_apart_by_their_seed(make: Make) -> None:
    merged = merge_seeds({3: make(seed=8), 1: make(rank=[2, 2, 2, 2])})
    assert merged.seed is not None
    assert merged.seed.tolist() == [3] * 4 + [1] * 4
    assert merged.rank.tolist() == [1, 2.5, 3, 4, 2, 2, 2, 2]


def test_tables_with_and_without_intervals_go_together(make: Make) -> None:
    some = make(worst_rank=[None, None, 7, 6])
    both = concatenate([make(head=[5, 5, 6, 6]), some])
    assert both.column("worst_rank").to_pylist() == [None] * 6 + [7, 6]
    assert both.intervals.tolist() == [False] * 6 + [True] * 2
    assert merge_seeds({1: some, 2: make()}).intervals.tolist() == [False, False, True, True] + [False] * 4
