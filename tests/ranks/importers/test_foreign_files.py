import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.errors import DataError, UsageError
from kgprobe.ranks.importers.drafts import Draft
from kgprobe.ranks.importers.foreign_files import (
    SOURCES,
    all_whole,
    blanked,
    each_path,
    format_of,
    infer_types,
    plain,
    read_numbers,
    source_of,
)


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


def _read(path: Path, format: str) -> tuple[dict[str, list[str]] | None, list[str]]:  # noqa: A002
    draft = Draft(path)
    table = source_of(format)(path, draft)
    return None if table is None else table.to_pydict(), draft.problems


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table.csv"


def test_all_text_is_read_as_text(path: Path) -> None:
    path.write_text('h,rank,"a, b"\n007,1.0,"x ""y"" ,\nz"\nNA,,\n')
    assert _read(path, "csv") == ({"h": ["007", "NA"], "rank": ["1.0", ""], "a, b": ['x "y" ,\nz', ""]}, [])


def test_a_quotation_mark_in_tsv_is_a_character(path: Path) -> None:
    path.write_text('h\t"t\n"a\tb"\n')
    assert _read(path, "tsv") == ({"h": ['"a'], '"t': ['b"']}, [])


def test_blank_lines_line_ends_byte_order_marks_and_space_in_the_header_do_not_matter(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf\r\nh, rank\r\n1,2\r\n\r\n3,4\r\n")
    assert _read(path, "csv") == ({"h": ["1", "3"], "rank": ["2", "4"]}, [])
    path.write_bytes(b"\xef\xbb\xbfh,rank\n1,2")
    assert _read(path, "csv") == ({"h": ["1"], "rank": ["2"]}, [])


def test_compressed_files_are_read(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        file.write("h\n1\n")
    assert _read(tmp_path / "t.csv.gz", "csv") == ({"h": ["1"]}, [])


def test_every_line_with_a_wrong_number_of_fields_is_named(path: Path) -> None:
    lines = ["h,r"] + ["1,2" if i % 3 else "1" for i in range(90)] + ["1,2,3"]
    path.write_text("\n".join(lines) + "\n")
    _, problems = _read(path, "csv")
    assert problems[0] == "line 2: 1 fields, expected 2: '1'"
    assert len(problems) == 21
    assert problems[-1] == "11 more lines have a wrong number of fields"
    path.write_text("h,r\n1,2\n1,2,3\n")
    assert _read(path, "csv")[1] == ["line 3: 3 fields, expected 2: '1,2,3'"]


def test_lines_that_are_no_text_are_named(path: Path) -> None:
    path.write_bytes(b"h,r\n1,2\n\xff,2\n3,4\n\xfe,2\n")
    _, problems = _read(path, "csv")
    assert [problem.split(":")[0] for problem in problems] == ["table.csv, line 3", "table.csv, line 5"]


def test_a_header_that_is_no_text_is_named(path: Path) -> None:
    path.write_bytes(b"h,\xff\n1,2\n")
    assert "line 1: not UTF-8" in _read(path, "csv")[1][0]


@pytest.mark.parametrize(
    ("content", "format", "said"),
    [
        (b"PAR1....", "csv", "it is a Parquet file"),
        (b"\x1f\x8b....", "tsv", "it is a gzip file"),
        (b"h,r\n1,2\n", "parquet", "not a readable Parquet file"),
        (b"\n\n", "csv", "table.csv: empty"),
    ],
)
def test_a_file_that_is_not_what_its_name_says(path: Path, content: bytes, format: str, said: str) -> None:  # noqa: A002
    path.write_bytes(content)
    table, problems = _read(path, format)
    assert table is None
    assert said in problems[0]


def test_a_compressed_file_that_was_cut_off_is_a_problem(tmp_path: Path) -> None:
    whole = gzip.compress(b"h,r\n" + b"1,2\n" * 1000)
    (tmp_path / "t.csv.gz").write_bytes(whole[:-12])
    table, problems = _read(tmp_path / "t.csv.gz", "csv")
    assert table is None
    assert "cannot be read" in problems[0]


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    pq.write_table(pa.table({"h": [1], "x": ["a"]}), tmp_path / "t.parquet")
    assert _read(tmp_path / "t.parquet", "parquet") == ({"h": [1], "x": ["a"]}, [])


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.csv", "csv"),
        ("a.CSV.gz", "csv"),
        ("a.tsv", "tsv"),
        ("a.b.txt", "tsv"),
        ("a.parquet", "parquet"),
        ("a.pq", "parquet"),
    ],
)
def test_the_format_is_in_the_name(name: str, format: str) -> None:  # noqa: A002
    assert format_of(Path(name)) == format


def test_unknown_formats_get_the_known_ones() -> None:
    for name in ("ranks.xlsx", "ranks", "ranks.gz"):
        with pytest.raises(UsageError, match="format is not known") as caught:
            format_of(Path(name))
        assert ", ".join(SOURCES) in caught.value.remedy
    with pytest.raises(UsageError, match="nearest: csv, tsv"):
        source_of("cssv")


def test_all_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    (tmp_path / "good.csv").write_text("x")
    files = [tmp_path / "none.csv", tmp_path, tmp_path / "empty.csv", tmp_path / "good.csv", Path("/dev/null")]
    with pytest.raises(DataError) as caught:
        each_path(files)
    assert [problem.split(": ")[1] for problem in caught.value.problems] == [
        "no such file",
        "this is a folder, not a file",
        "the file is empty",
        "this is a pipe or a device",
    ]
    assert each_path(tmp_path / "good.csv") == each_path(str(tmp_path / "good.csv")) == [tmp_path / "good.csv"]


def test_no_file_and_the_same_file_twice_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file"):
        each_path([])
    with pytest.raises(UsageError, match="twice"):
        each_path([tmp_path / "a", tmp_path / "a"])


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


def test_empty_values_of_a_refused_column_count_as_refused_unless_they_are_allowed() -> None:
    assert _read_values(["", "x", "3"])[1] == ["rank is not a number, for example 'x': 2 rows (rows 1-2)"]
    assert _read_values(["", "x", "3"], nullable=True)[1] == ["rank is not a number, for example 'x': 1 row (row 2)"]


def test_other_types_are_refused_whole() -> None:
    assert _read_values(pa.array([[1]])) == ([None], ["rank holds list<item: int64>, expected numbers"])
    assert _read_values(pa.array([True])) == ([None], ["rank holds bool, expected numbers"])
    assert _read_values(pa.nulls(2)) == ([None, None], [])


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
