import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kgprobe.report.render.grid import grid_of
from kgprobe.report.render.terminal_tables import terminal
from reporting import HOSTILE, NAMES, numbers_grid


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


def test_text_that_is_too_wide_is_folded_not_cut() -> None:
    rows = [{"ranks": "a" * 100, "finding": "b" * 100}]
    text = terminal(grid_of(rows), width=60)
    assert text.count("a") == 101  # one of them is in the heading
    assert text.count("b") == 100
    assert all(cell_len(line) <= 60 for line in text.split("\n"))


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
