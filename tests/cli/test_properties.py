import csv
import io
import json

import pytest
import typer
from typer.testing import CliRunner

from kgprobe.cli.properties import properties
from kgprobe.errors import UsageError

app = typer.Typer()

app.command()(properties)


def _run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_json_has_a_flat_row_for_each_metric_and_property() -> None:
    rows = json.loads(_run("--metric", "Hits@10", "--metric", "MRR", "--format", "json"))
    assert [row["metric"] for row in rows] == ["Hits@10"] * 6 + ["MRR"] * 6
    assert {len(row) for row in rows} == {9}
    assert all(isinstance(value, str | int | bool | None) for row in rows for value in row.values())
    pessimum = rows[1]
    assert pessimum["counterexample"] == "rank 10 of 10 scores 1, rank 11 of 11 scores 0"
    assert (pessimum["holds"], pessimum["paper"], pessimum["agrees"]) == (False, True, False)
    assert rows[0]["searched"] > 100


def test_csv_markdown_and_latex_have_the_same_rows() -> None:
    rows = list(csv.DictReader(io.StringIO(_run("-m", "AMRI", "-f", "csv"))))
    assert [row["property"] for row in rows][:2] == ["fixed optimum", "fixed pessimum"]
    assert len(_run("-m", "AMRI", "-f", "markdown").splitlines()) == 2 + 6
    assert r"\begin{tabular}" in _run("-m", "AMRI", "-f", "latex")


def test_the_table_shows_the_matrix_then_reasons_counterexamples_and_notes() -> None:
    text = _run("-m", "PROBE", "-m", "AMRI", "-m", "ZMR")
    lines = [line.split() for line in text.splitlines()]
    assert lines[0] == ["metric", "optimum", "pessimum", "anti-monotone", "size", "sharpness", "popularity"]
    assert lines[2] == ["PROBE(alpha=1,beta=0)", "yes", "yes", "yes", "yes+", "yes+", "yes+"]
    assert lines[3] == ["AMRI", "yes", "yes", "yes", "no*", "no", "no"]
    assert lines[4] == ["ZMR", "no", "no", "yes", "no", "no", "no"]
    titles = ["1 of 12 shared verdicts", "Differences from the paper's table", "Counterexamples", "Notes"]
    places = [text.index(title) for title in titles]
    assert places == sorted(places)


def test_sections_that_would_be_empty_are_left_out() -> None:
    text = _run("-m", "MRR")
    assert "Counterexamples" in text
    assert "says otherwise" not in text
    assert "Notes" not in text


def test_an_unknown_metric_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="unknown metric 'MMR'"):
        _run("-m", "MMR")
