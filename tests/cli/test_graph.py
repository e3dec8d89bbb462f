import csv
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kgprobe.cli.graph import app
from kgprobe.errors import DataError, UsageError
from kgprobe.graph import load_graph


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    directory = tmp_path / "tiny"
    directory.mkdir()
    (directory / "train.txt").write_text("a\tr\tb\nb\tr\tb\n")
    (directory / "test.txt").write_text("b\tr\ta\n")
    return directory


def _run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["stats", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_json_is_a_list_of_flat_objects(tiny: Path) -> None:
    (row,) = json.loads(_run(tiny, "--format", "json"))
    expected = {
        "graph": "tiny",
        "entities": 2,
        "relations": 1,
        "triples": 3,
        "train": 2,
        "valid": 0,
        "test": 1,
    }
    assert row.items() >= (expected | {"mean_degree": 2.0, "max_degree": 3, "symmetric_leakage": 1.0}).items()
    assert list(row)[:9] == [*expected, "mean_degree", "max_degree"]


def test_csv_has_a_row_for_each_graph(tiny: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(_run(tiny, tiny, "--format", "csv"))))
    assert [(row["graph"], row["entities"]) for row in rows] == [("tiny", "2"), ("tiny", "2")]


def test_a_single_graph_is_shown_line_by_line(tiny: Path) -> None:
    lines = [line.split() for line in _run(tiny).splitlines()]
    assert lines[0] == ["graph", "tiny"]
    assert ["max_degree", "3"] in lines


def test_several_graphs_are_shown_side_by_side(tiny: Path) -> None:
    lines = [line.split() for line in _run(tiny, tiny).splitlines()]
    assert lines[0][:3] == ["graph", "entities", "relations"]
    assert [line[:3] for line in lines[2:4]] == [["tiny", "2", "1"]] * 2


def test_a_bad_graph_is_a_data_error(tiny: Path) -> None:
    (tiny / "test.txt").write_text("a\tr\n")
    with pytest.raises(DataError, match="not a graph of labelled triples"):
        _run(tiny)


def _write(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["write", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stderr


@pytest.mark.parametrize(("options", "file"), [((), "train.parquet"), (("--format", "tsv"), "train.tsv")])
def test_a_graph_is_written_in_another_format(tiny: Path, options: tuple[str, ...], file: str) -> None:
    note = _write(tiny, "-o", tiny.parent / "new", *options)
    assert "2 entities, 1 relations, triples: 2 train, 1 test" in note
    assert (tiny.parent / "new" / file).exists()
    assert load_graph(tiny.parent / "new").content_hash == load_graph(tiny).content_hash


def test_a_format_that_does_not_exist(tiny: Path) -> None:
    with pytest.raises(UsageError, match="nearest: parquet"):
        _write(tiny, "-o", tiny.parent / "new", "-f", "parqet")
    with pytest.raises(UsageError, match="is both input and output"):
        _write(tiny, "-o", tiny, "-f", "tsv")


def test_a_graph_is_written_as_arrays(tiny: Path, tmp_path: Path) -> None:
    arguments = ["write", str(tiny), "-o", str(tmp_path / "arrays"), "--format", "npy"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "2 entities, 1 relations, triples: 2 train, 1 test" in result.stderr
    assert load_graph(tmp_path / "arrays").content_hash == load_graph(tiny).content_hash
    with pytest.raises(UsageError, match="overwritten"):
        CliRunner().invoke(app, ["write", str(tiny), "-o", str(tiny), "--format", "npy"], catch_exceptions=False)
