from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.ranks.importers.drafts import Draft, all_integers, infer_types, plain, read_numbers


def _inferred(*files: list[str | None]) -> list[list[Any]]:
    drafts = [Draft(Path("x.csv"), columns={"label": pa.array(values, pa.string())}) for values in files]
    infer_types(drafts)
    assert len({str(draft.columns["label"].type) for draft in drafts}) == 1
    return [draft.columns["label"].to_pylist() for draft in drafts]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (["1", "-2", "3.0"], [1, -2, 3]),
        (["1", "2.5", ""], [1.0, 2.5, None]),
        (["1", "NA"], [1, None]),
        (["1", "nan"], [1, None]),
        (["1.5", "NaN"], [1.5, None]),
        (["a", "NA", ""], ["a", "NA", None]),
        (["007", "12"], ["007", "12"]),
        (["0", "0.5"], [0.0, 0.5]),
        (["", ""], [None, None]),
        (["9007199254740993"], [9007199254740992.0]),
    ],
)
def test_text_is_numbers_where_all_of_it_is(text: list[str | None], values: list[Any]) -> None:
    (found,) = _inferred(text)
    assert found == values
    assert [type(value) for value in found] == [type(value) for value in values]


def test_all_files_have_to_agree() -> None:
    assert _inferred(["1", "2"], ["x"]) == [["1", "2"], ["x"]]
    assert _inferred(["1", "2"], ["1.5"]) == [[1.0, 2.0], [1.5]]
    assert _inferred([""], ["3"]) == [[None], [3]]


def test_canonical_columns_are_left_alone() -> None:
    draft = Draft(Path("x.csv"), columns={"side": pa.array(["1"]), "x": pa.array(["1"])})
    infer_types([draft, Draft(Path("y.csv"))])
    assert (draft.columns["side"].to_pylist(), draft.columns["x"].to_pylist()) == (["1"], [1])


def _read_values(values: Any, *, whole: bool = False, nullable: bool = False) -> tuple[list[Any], list[str]]:
    draft = Draft(Path("x.csv"))
    array = values if isinstance(values, pa.Array) else pa.array(values)
    return read_numbers(draft, "rank", array, whole=whole, nullable=nullable).to_pylist(), draft.problems


@given(st.lists(st.integers(-(2**62), 2**62)))
def test_whole_numbers_are_exact_as_text_and_as_numbers(numbers: list[int]) -> None:
    for array in (pa.array(numbers, pa.int64()), pa.array(map(str, numbers), pa.string())):
        assert _read_values(array, whole=True) == (numbers, [])


@given(st.lists(st.floats(allow_nan=False)))
def test_numbers_are_exact_as_text_and_as_numbers(numbers: list[float]) -> None:
    for array in (pa.array(numbers, pa.float64()), pa.array(map(repr, numbers), pa.string())):
        assert _read_values(array) == (numbers, [])


def test_whole_numbers_may_be_written_as_pandas_does() -> None:
    assert _read_values(["3.0", "", "+4"], whole=True) == ([3, None, 4], [])
    assert _read_values([3.0, None], whole=True) == ([3, None], [])
    assert _read_values(["3.0", "x"], whole=True)[0] == [3, None]


@pytest.mark.parametrize("blank", ["", "NA", "N/A", "null", "NULL", "None"])
def test_what_means_nothing_is_null(blank: str) -> None:
    assert _read_values(["1", blank]) == ([1.0, None], [])


def test_nan_is_null_only_where_null_is_allowed() -> None:
    assert (
        _read_values(["1", "nan"], nullable=True)
        == _read_values([1.0, float("nan")], nullable=True)
        == ([1.0, None], [])
    )
    assert str(_read_values(["1", "nan"])) == str(([1.0, float("nan")], []))
    assert _read_values(["1", "NaN"], whole=True) == (
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
    assert _read_values(["2", value, "3"], whole=whole) == expected


def test_fractions_of_a_numeric_column_are_named_too() -> None:
    assert _read_values([2.0, 1.5], whole=True) == (
        [2, None],
        ["rank is not a whole number, for example 1.5: 1 row (row 2)"],
    )
    assert _read_values([2, None], whole=True) == ([2, None], [])
    assert _read_values(pa.array([2, 2**63], pa.uint64()), whole=True)[0] == [2, None]


def test_empty_values_of_a_refused_column_count_as_refused_unless_they_are_allowed() -> None:
    assert _read_values(["", "x", "3"])[1] == ["rank is not a number, for example 'x': 2 rows (rows 1-2)"]
    assert _read_values(["", "x", "3"], nullable=True)[1] == ["rank is not a number, for example 'x': 1 row (row 2)"]


def test_other_types_are_refused_whole() -> None:
    assert _read_values(pa.array([[1]])) == ([None], ["rank holds list<item: int64>, expected numbers"])
    assert _read_values(pa.array([True])) == ([None], ["rank holds bool, expected numbers"])
    assert _read_values(pa.nulls(2)) == ([None, None], [])


def test_names_made_of_digits_are_not_whole_numbers() -> None:
    assert all_integers(pa.array(["0", "-3", "12.0", None]))
    for name in ("007", "1.5", "Q42", ""):
        assert not all_integers(pa.array(["1", name]))
        assert not all_integers(pa.array(["1"]), pa.array([name]))


def test_a_column_becomes_one_array_without_dictionary_or_surrounding_space() -> None:
    chunks = pa.chunked_array([pa.array([" a "]).dictionary_encode(), pa.array(["b"]).dictionary_encode()])
    assert plain(chunks).equals(pa.array(["a", "b"]))
    assert plain(pa.array([1, 2]).dictionary_encode()).equals(pa.array([1, 2]))
