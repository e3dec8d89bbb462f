import unicodedata

from hypothesis import given

from kgprobe.report.render.grid import Cell, Column, Grid, Line, grid_of
from kgprobe.report.render.text import as_text, one_line
from reporting import NAMES

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
