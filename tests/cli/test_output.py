import json

import pytest

from kgprobe.cli.output import Format, print_rows

ROWS = [{"name": "a_b & c|d", "value": 0.1 + 0.2, "count": 1234}, {"name": None, "value": float("nan"), "more": True}]


def printed(capsys: pytest.CaptureFixture[str], style: Format) -> str:
    print_rows(ROWS, style)
    return capsys.readouterr().out


def test_json_keeps_every_digit_and_has_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(printed(capsys, Format.json), parse_constant=pytest.fail)
    assert rows[0]["value"] == 0.1 + 0.2
    assert rows[1]["value"] is None


def test_latex_escapes_what_it_must(capsys: pytest.CaptureFixture[str]) -> None:
    assert r"a\_b \& c|d & 0.3000 & 1,234" in printed(capsys, Format.latex)


def test_markdown_escapes_bars(capsys: pytest.CaptureFixture[str]) -> None:
    assert r"a_b & c\|d" in printed(capsys, Format.markdown)


def test_csv_has_all_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, Format.csv).splitlines()[0] == "name,value,count,more"


def test_table_shows_values_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, Format.table).splitlines()
    assert lines[0].split() == ["name", "value", "count", "more"]
    assert "1,234" in lines[2]
