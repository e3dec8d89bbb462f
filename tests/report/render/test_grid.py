import csv
import io
import json
import math
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.report.render.grid import Cell, Column, Grid, Line, as_text, csv_text, grid_of, json_text, one_line
from reporting import NAMES, same

_NUMBERS = st.none() | st.floats() | st.integers() | st.booleans()

_ROWS = st.lists(st.fixed_dictionaries({"name": NAMES, "value": st.floats()}, optional={"more": _NUMBERS}), min_size=1)


@given(_ROWS)
def test_csv_parsed_back_has_every_digit_and_every_letter(rows: list[dict[str, Any]]) -> None:
    back = list(csv.DictReader(io.StringIO(csv_text(rows), newline="")))
    assert [row["name"] for row in back] == [row["name"] for row in rows]
    for read, row in zip(back, rows, strict=True):
        written = row["value"] if math.isfinite(row["value"]) else None
        assert same(float(read["value"]) if read["value"] else None, written)


@given(_ROWS)
def test_json_parsed_back_is_the_same(rows: list[dict[str, Any]]) -> None:
    back = json.loads(json_text(rows), parse_constant=pytest.fail)
    for read, row in zip(back, rows, strict=True):
        assert read.keys() == row.keys()
        assert read["name"] == row["name"]
        assert same(read["value"], row["value"] if math.isfinite(row["value"]) else None)


def test_half_a_letter_does_not_stop_a_result() -> None:
    rows = [{"name": "half \ud83d"}]
    assert json.loads(json_text(rows)) == rows
    assert csv_text(rows).encode() == b"name\nhalf ?\n"


def test_nothing_is_an_empty_list() -> None:
    assert json.loads(json_text([])) == []


def test_csv_has_the_columns_of_all_rows_and_ends_lines_plainly() -> None:
    assert csv_text([{"a": 1}, {"b": math.nan, "a": math.inf}]) == "a,b\n1,\n,\n"


_TURNING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def test_a_column_is_numeric_if_nothing_else_is_in_it() -> None:
    grid = grid_of([{"a": 1, "b": None, "c": "x"}, {"a": None, "b": 0.5, "c": 2}])
    assert [column.numeric for column in grid.columns] == [True, True, False]
    assert [[cell.text for cell in line.cells] for line in grid.lines] == [["1", "", "x"], ["", "0.5000", "2"]]


def test_headings_span_neighbours_but_not_beyond_those_above_them() -> None:
    columns = [
        ("", "", "model"),
        ("", "", "x"),
        *(("head", "PROBE", x) for x in "10"),
        *(("tail", x, "0") for x in "PR"),
    ]
    grid = Grid(tuple(Column(headings) for headings in columns), (Line((Cell(""),) * 6),))
    assert [list(grid.spans(level)) for level in range(grid.levels)] == [
        [("", 1), ("", 1), ("head", 2), ("tail", 2)],
        [("", 1), ("", 1), ("PROBE", 2), ("P", 1), ("R", 1)],
        [("model", 1), ("x", 1), ("1", 1), ("0", 1), ("0", 1), ("0", 1)],
    ]


@given(NAMES)
def test_one_line_is_one_line(name: str) -> None:
    text = one_line(name)
    assert len(text.splitlines()) <= 1
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in text)
    assert one_line(text) == text
    assert not any(unicodedata.bidirectional(c) in _TURNING for c in text)


def test_values_as_people_read_them() -> None:
    shown = [as_text(value) for value in (True, 12345, 0.0, 1e7, float("nan"), float("-inf"), "x")]
    assert shown == ["yes", "12,345", "0.0000", "1e+07", "nan", "-inf", "x"]
