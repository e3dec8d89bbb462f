import csv
import io
import json
import math
import unicodedata
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kgprobe.report.grid import Cell, Column, Grid, GridRow, as_text, csv_text, grid_of, json_text, one_line, terminal
from reporting import HOSTILE, NAMES, numbers_grid, same

_NUMBERS = st.none() | st.floats() | st.integers() | st.booleans()

_ROWS = st.lists(st.fixed_dictionaries({"name": NAMES, "value": st.floats()}, optional={"more": _NUMBERS}), min_size=1)


@given(_ROWS)
def test_csv_parsed_back_has_every_digit_and_every_letter_that_can_be_shown(rows: list[dict[str, Any]]) -> None:
    back = list(csv.DictReader(io.StringIO(csv_text(rows), newline="")))
    assert [row["name"] for row in back] == [one_line(row["name"]) for row in rows]
    for read, row in zip(back, rows, strict=True):
        written = row["value"] if math.isfinite(row["value"]) else None
        assert same(float(read["value"]) if read["value"] else None, written)


@given(_ROWS)
def test_json_parsed_back_is_the_same(rows: list[dict[str, Any]]) -> None:
    back = json.loads(json_text(rows), parse_constant=pytest.fail)
    for read, row in zip(back, rows, strict=True):
        assert read.keys() - {"reason"} == row.keys()
        assert ("reason" in read) == any(isinstance(v, float) and not math.isfinite(v) for v in row.values())
        assert read["name"] == row["name"]
        assert same(read["value"], row["value"] if math.isfinite(row["value"]) else None)


def test_half_a_letter_does_not_stop_a_result() -> None:
    rows = [{"name": "half \ud83d"}]
    assert json.loads(json_text(rows)) == rows
    assert csv_text(rows).encode() == "name\nhalf \ufffd\n".encode()


def test_nothing_is_an_empty_list() -> None:
    assert json.loads(json_text([])) == []


def test_csv_has_the_columns_of_all_rows_and_ends_lines_plainly() -> None:
    found = csv_text([{"a": 1}, {"b": math.nan, "a": math.inf}])
    assert found == "a,b,reason\n1,,\n,,b is undefined; a is infinite\n"


def test_a_number_that_is_not_finite_has_a_reason() -> None:
    rows = [{"value": math.nan, "low": -math.inf}, {"value": math.nan, "reason": "no query"}, {"value": 1.0}]
    assert json.loads(json_text(rows), parse_constant=pytest.fail) == [
        {"value": None, "low": None, "reason": "value is undefined; low is infinite"},
        {"value": None, "reason": "no query"},
        {"value": 1.0},
    ]


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
    grid = Grid(tuple(Column(headings) for headings in columns), (GridRow((Cell(""),) * 6),))
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
    assert shown == ["yes", "12,345", "0.0000", "1e+07", "\N{EN DASH}", "-inf", "x"]


@given(st.lists(NAMES, min_size=1, max_size=4))
def test_any_name_stays_on_its_line_and_moves_no_cursor(names: list[str]) -> None:
    text = terminal(grid_of([{"name": name, "value": 0.5} for name in names]))
    assert len(text.splitlines()) == len(text.split("\n")) - 1
    lines = [line for line in text.split("\n") if line.endswith("0.5000")]
    assert len(lines) == len(names)
    assert all(character.isprintable() or character.isspace() or ord(character) > 159 for character in text)


def test_numbers_end_below_each_other_whatever_stands_behind_them() -> None:
    lines = terminal(numbers_grid(["one", "other", "third", "fourth", "fifth", "sixth"], columns=1)).split("\n")
    numbers = [line for line in lines if "0." in line]
    assert len({line.index(".") for line in numbers}) == 1
    assert [line.split()[2:] for line in numbers[:4]] == [
        ["1st"],
        ["±0.0123", "2nd", "†"],
        ["3rd", "†‡"],
        ["±0.0123", "abc"],
    ]


def test_a_wide_table_comes_in_parts_that_name_their_rows() -> None:
    grid = numbers_grid(["one", "other", "third"], columns=9)
    whole, parts = terminal(grid), terminal(grid, width=80)
    assert whole.count("other") == 1
    assert parts.count("other") > 2
    assert all(cell_len(line) <= 80 for line in parts.split("\n"))
    numbers = {word for word in whole.split() if word[-1].isdigit()}
    assert numbers <= set(parts.split())


def test_a_table_that_fits_is_whole() -> None:
    grid = numbers_grid(["one", "other"], columns=2)
    assert terminal(grid, width=200).count("other") == 1


def test_text_that_is_too_wide_is_wrapped_between_words() -> None:
    name, finding = "a" * 40, "ranks repeat " * 20
    text = terminal(grid_of([{"ranks": name, "finding": finding, "rows": 3}]), width=100)
    assert name in text
    assert all(cell_len(line) <= 100 for line in text.split("\n"))
    assert text.replace(name, "").split().count("repeat") == 20


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
def test_numbers_and_names_are_never_broken(width: int) -> None:
    rows = [
        {"model": f"TransformerE-with-a-long-name-{i}", "metric": "PROBE(alpha=-0.5,beta=0.25)"}
        | {f"relation {k}": 0.1234 + k / 10 for k in range(6)}
        for i in range(3)
    ]
    text = terminal(grid_of(rows), width=width)
    words = text.split()
    for row in rows:
        for value in row.values():
            assert as_text(value) in words
    heads = text.count("metric")
    assert all(text.count(row["model"]) == heads for row in rows), "every part names its rows"


def test_key_columns_that_hold_numbers_are_repeated_in_every_part() -> None:
    grid = grid_of([{"relation": 7, "label": "knows"} | {f"metric {k}": 0.5 for k in range(9)}])
    text = terminal(replace(grid, keys=2), width=40)
    assert text.count("knows") == text.count("label") > 2


def test_notes_are_wrapped_between_words() -> None:
    sentence = "Places in [brackets] are not statistically distinguishable at the 95 % level. " * 4
    for width in (None, 40):
        text = terminal(replace(grid_of([{"value": 1}]), notes=(sentence,)), width=width)
        assert all(len(line) <= (width or 100) for line in text.split("\n"))
        assert " ".join(sentence.split()) in " ".join(text.split())


def test_colours_are_shown_only_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
    grid = numbers_grid(HOSTILE, columns=1)
    assert "\x1b[" not in terminal(grid)
    coloured = terminal(grid, colour=True)
    assert "\x1b[1;38;2;248;166;2m0.0000" in coloured
    assert coloured.count("\x1b[1;38;2;") == 3
    monkeypatch.setenv("NO_COLOR", "1")
    assert "38;2" not in terminal(grid, colour=True)


def test_zero_has_no_sign() -> None:
    assert as_text(-0.0) == "0.0000"
