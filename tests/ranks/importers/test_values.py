from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.ranks.importers.draft import Draft
from kgprobe.ranks.importers.values import all_whole, blanked, plain, read_numbers


def _read(values: Any, *, whole: bool = False, nullable: bool = False) -> tuple[list[Any], list[str]]:
    draft = Draft(Path("x.csv"))
    array = values if isinstance(values, pa.Array) else pa.array(values)
    return read_numbers(draft, "rank", array, whole=whole, nullable=nullable).to_pylist(), draft.problems


@given(st.lists(st.integers(-(2**62), 2**62)))
def test_whole_numbers_are_exact_as_text_and_as_numbers(numbers: list[int]) -> None:
    for array in (pa.array(numbers, pa.int64()), pa.array(map(str, numbers), pa.string())):
        assert _read(array, whole=True) == (numbers, [])


@given(st.lists(st.floats(allow_nan=False)))
def test_numbers_are_exact_as_text_and_as_numbers(numbers: list[float]) -> None:
    for array in (pa.array(numbers, pa.float64()), pa.array(map(repr, numbers), pa.string())):
        assert _read(array) == (numbers, [])


def test_whole_numbers_may_be_written_as_pandas_does() -> None:
    assert _read(["3.0", "", "+4"], whole=True) == ([3, None, 4], [])
    assert _read([3.0, None], whole=True) == ([3, None], [])
    assert _read(["3.0", "x"], whole=True)[0] == [3, None]


@pytest.mark.parametrize("blank", ["", "NA", "N/A", "null", "NULL", "None"])
def test_what_means_nothing_is_null(blank: str) -> None:
    assert _read(["1", blank]) == ([1.0, None], [])


def test_nan_is_null_only_where_null_is_allowed() -> None:
    assert _read(["1", "nan"], nullable=True) == _read([1.0, float("nan")], nullable=True) == ([1.0, None], [])
    assert str(_read(["1", "nan"])) == str(([1.0, float("nan")], []))
    assert _read(["1", "NaN"], whole=True) == (
        [1, None],
        ["rank is not a whole number, for example 'NaN': 1 row (row 2)"],
    )


@pytest.mark.parametrize(
    ("value", "whole"),
    [("x", False), ("1_0", False), ("1,5", False), ("1.5", True), ("1e30", True), ("9" * 25, True), ("inf", True)],
)
def test_what_is_no_number_is_named(value: str, whole: bool) -> None:
    kind = "whole number" if whole else "number"
    expected = ([2, None, 3], [f"rank is not a {kind}, for example {value!r}: 1 row (row 2)"])
    assert _read(["2", value, "3"], whole=whole) == expected


def test_fractions_of_a_numeric_column_are_named_too() -> None:
    assert _read([2.0, 1.5], whole=True) == ([2, None], ["rank is not a whole number, for example 1.5: 1 row (row 2)"])
    assert _read([2, None], whole=True) == ([2, None], [])


def test_empty_values_of_a_refused_column_count_as_refused_unless_they_are_allowed() -> None:
    assert _read(["", "x", "3"])[1] == ["rank is not a number, for example 'x': 2 rows (rows 1-2)"]
    assert _read(["", "x", "3"], nullable=True)[1] == ["rank is not a number, for example 'x': 1 row (row 2)"]


def test_other_types_are_refused_whole() -> None:
    assert _read(pa.array([[1]])) == ([None], ["rank holds list<item: int64>, expected numbers"])
    assert _read(pa.array([True])) == ([None], ["rank holds bool, expected numbers"])
    assert _read(pa.nulls(2)) == ([None, None], [])


def test_names_made_of_digits_are_not_whole_numbers() -> None:
    assert all_whole(pa.array(["0", "-3", "12.0", None]))
    for name in ("007", "1.5", "Q42", ""):
        assert not all_whole(pa.array(["1", name]))
        assert not all_whole(pa.array(["1"]), pa.array([name]))


def test_a_column_becomes_one_array_without_dictionary_or_surrounding_space() -> None:
    chunks = pa.chunked_array([pa.array([" a "]).dictionary_encode(), pa.array(["b"]).dictionary_encode()])
    assert plain(chunks).equals(pa.array(["a", "b"]))
    assert plain(pa.array([1, 2]).dictionary_encode()).equals(pa.array([1, 2]))


def test_numbers_are_never_blank() -> None:
    assert blanked(pa.array([1, 2])).to_pylist() == [1, 2]
