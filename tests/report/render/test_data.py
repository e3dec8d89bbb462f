import csv
import io
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.report.render.data import csv_text, json_text
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
