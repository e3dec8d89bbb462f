import itertools
import math
from collections import defaultdict
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.arrays import (
    EntityRows,
    Grouped,
    codes_of,
    distinct,
    find,
    id_problems,
    pair_keys,
    run_starts,
    slices,
    spread,
    sum_by,
    triple_problems,
)

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


@given(st.lists(st.integers(0, 4), max_size=8))
def test_elements_of_lists_have_their_list_and_position(lengths: list[int]) -> None:
    owner, position = spread(np.array(lengths, dtype=np.int64))
    expected = [(i, j) for i, length in enumerate(lengths) for j in range(length)]
    assert list(zip(owner.tolist(), position.tolist(), strict=True)) == expected


@given(st.lists(st.integers(0, 9), max_size=20), st.integers(1, 12))
def test_slices_cover_all_rows_and_exceed_the_weight_by_less_than_a_row(weights: list[int], most: int) -> None:
    cut = slices(np.array(weights, dtype=np.int64), most)
    assert [i for part in cut for i in range(part.start, part.stop)] == list(range(len(weights)))
    assert all(sum(weights[part][1:]) <= most for part in cut)


@given(st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=6), min_size=1, max_size=3))
def test_rows_have_the_same_code_if_all_columns_are_equal(tables: list[list[tuple[int, int]]]) -> None:
    arrays = [np.array(rows, dtype=np.int64).reshape(-1, 2) for rows in tables]
    codes = np.concatenate(codes_of([[array[:, 0], array[:, 1]] for array in arrays])).tolist()
    rows = [row for table in tables for row in table]
    assert len(codes) == len(rows)
    for (one, code), (other, other_code) in itertools.combinations(zip(rows, codes, strict=True), 2):
        assert (one == other) == (code == other_code)


def test_good_ids_have_no_problem() -> None:
    assert id_problems("x", np.array([0, 4]), 5) == []
    assert id_problems("x", np.array([], dtype=int), 0) == []


def test_rows_of_bad_ids_are_named() -> None:
    (problem,) = id_problems("x", np.array([5, 0, -1, 7]), 5)
    assert "3 ids outside 0..4 in rows 0, 2-3" in problem
    assert "for example 5" in problem


def test_each_column_has_its_own_limit() -> None:
    problems = triple_problems("test", np.array([[9, 0, 1], [0, 1, 0]]), entities=3, relations=1)
    assert [problem.split(":")[0] for problem in problems] == ["test head", "test relation"]


def test_numbers_with_a_fraction_are_refused() -> None:
    assert "whole numbers" in triple_problems("test", np.zeros((1, 3)), 1, 1)[0]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0, 2.5]), st.sampled_from([-1.0, 7.0])), max_size=30))
def test_distinct_finds_every_combination_once(rows: list[tuple[float, float]]) -> None:
    a, b = (np.array([row[i] for row in rows], dtype=float) for i in range(2))
    values, which = distinct([a, b], len(rows))
    found = list(zip(values[0].tolist(), values[1].tolist(), strict=True))
    assert len(found) == len(set(found)) == len(set(rows))
    assert [found[i] for i in which] == rows


def test_distinct_without_columns_is_one_combination() -> None:
    values, which = distinct([], 3)
    assert values == []
    assert which.tolist() == [0, 0, 0]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 4), st.floats(-1e12, 1e12)), max_size=40))
def test_sum_by_is_the_sum_of_each_group(rows: list[tuple[int, float]]) -> None:
    which, amount = np.array([g for g, _ in rows], dtype=np.int64), np.array([x for _, x in rows], dtype=float)
    expected = [math.fsum(x for g, x in rows if g == group) for group in range(5)]
    scale = float(np.abs(amount).max(initial=0))
    assert sum_by(which, amount, 5) == pytest.approx(expected, rel=1e-15, abs=1e-15 * scale)


def test_long_sums_do_not_drift() -> None:
    rng = np.random.default_rng(0)
    amount = rng.random(300_000)
    found = sum_by(np.zeros(amount.size, dtype=np.int64), amount, 1).item()
    assert found == pytest.approx(math.fsum(amount.tolist()), rel=1e-15)


@pytest.mark.parametrize("odd", [math.inf, math.nan])
def test_sums_of_what_is_not_finite(odd: float) -> None:
    found = sum_by(np.array([0, 1, 1]), np.array([1.0, odd, 2.0]), 2)
    assert found[0] == 1
    assert str(found[1]) == str(odd)
