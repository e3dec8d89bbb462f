import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.report.page.payload import unpack
from pages import made_up

Command = Callable[..., Any]

Queries = Callable[..., dict[str, Any]]


def _carried(path: Path) -> dict[str, Any]:
    (text,) = re.findall(r'id="data">([^<]*)</script>', path.read_text(encoding="utf-8"))
    return unpack(base64.b64decode(text))[0]


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Three models on the same queries."""
    for name, table in made_up(rows=300).items():
        table.write(tmp_path / f"{name}.parquet")
    return sorted(tmp_path.glob("*.parquet"))


def test_a_page_is_written_and_its_path_printed(kgprobe: Command, files: list[Path], tmp_path: Path) -> None:
    page = tmp_path / "out" / "my report.html"
    run = kgprobe("report", *files, "-o", page, "--title", "Three <models>", "-m", "MRR", "--replicates", 200)
    assert (run.code, run.out) == (0, f"{page}\n")
    header = _carried(page)
    assert header["title"] == "Three <models>"
    assert [model["name"] for model in header["models"]] == ["model 0", "model 1", "model 2"]
    assert [model["file"] for model in header["models"]] == [file.name for file in files]
    assert {estimate["metric"] for estimate in header["estimates"]} == {"MRR"}
    assert len(header["differences"]) == 3
    names = " ".join(f"'{file.name}'" for file in files)
    expected = f"kgprobe report {names} -o 'my report.html' --title 'Three <models>' -m MRR --replicates 200"
    assert header["command"] == expected
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", header["written"])


def test_without_metrics_the_usual_ones_are_compared(kgprobe: Command, files: list[Path], tmp_path: Path) -> None:
    assert kgprobe("report", *files, "-o", tmp_path / "page.html").code == 0
    header = _carried(tmp_path / "page.html")
    assert {"PROBE(alpha=1,beta=0)", "PROBE(alpha=1,beta=0.8)", "MRR", "Hits@10"} <= {
        estimate["metric"] for estimate in header["estimates"]
    }


def test_so_many_queries_are_tested_only_when_asked(
    kgprobe: Command, files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgprobe.report.comparison_report._MOST_QUERIES", 299)
    page = tmp_path / "page.html"
    run = kgprobe("report", *files, "-o", page)
    assert "Request them with --metric" in run.err
    assert _carried(page)["estimates"] == []
    assert "Request them" in " ".join(_carried(page)["notes"])
    assert "Request them" not in kgprobe("report", *files, "-o", page, "-m", "MRR").err
    assert len(_carried(page)["estimates"]) == 3


def test_of_many_models_the_best_is_tested_against_the_others(kgprobe: Command, tmp_path: Path) -> None:
    for name, table in made_up(rows=200, models=7).items():
        table.write(tmp_path / f"{name}.parquet")
    page = tmp_path / "page.html"
    assert kgprobe("report", *sorted(tmp_path.glob("*.parquet")), "-o", page, "-m", "MRR", "-m", "MR").code == 0
    header = _carried(page)
    assert len(header["differences"]) == 2 * 6
    assert len({difference["first"] for difference in header["differences"]}) <= 2


def test_a_graph_gives_names_popularity_and_its_own(
    kgprobe: Command, ranks_file: Path, graph_dir: Path, tmp_path: Path
) -> None:
    run = kgprobe("report", ranks_file, "-g", graph_dir, "-o", tmp_path / "page.html", "-m", "MRR")
    assert run.code == 0
    header = _carried(tmp_path / "page.html")
    assert header["entities"] == ["e0", "e1", "e2", "e3"]
    assert header["relations"] == ["likes", "knows"]
    assert header["hasPopularity"] is True
    assert header["graph"]["name"] == "tiny"


def test_one_model_without_popularity_is_enough(kgprobe: Command, ranks_file: Path, tmp_path: Path) -> None:
    run = kgprobe("report", ranks_file, "-o", tmp_path / "page.html")
    assert run.code == 0
    assert "Popularity is not recorded" in run.err
    header = _carried(tmp_path / "page.html")
    assert header["hasPopularity"] is False
    assert header["differences"] == []


def test_one_query_is_enough(kgprobe: Command, tmp_path: Path) -> None:
    for name, rank in (("one", 1), ("two", 2)):
        kp.Ranks.from_columns(head=[0], relation=[0], tail=[1], side=["tail"], rank=[rank], candidates=[3]).write(
            tmp_path / f"{name}.parquet"
        )
    run = kgprobe("report", tmp_path / "one.parquet", tmp_path / "two.parquet", "-o", tmp_path / "page.html")
    assert run.code == 0
    assert _carried(tmp_path / "page.html")["queries"] == 1


def test_seeds_and_what_the_audit_finds_are_in_the_page(
    kgprobe: Command, seeded_file: Path, ranks_file: Path, graph_dir: Path, tmp_path: Path
) -> None:
    run = kgprobe("report", seeded_file, ranks_file, "-g", graph_dir, "-o", tmp_path / "page.html", "-m", "MRR")
    header = _carried(tmp_path / "page.html")
    assert run.code == 0
    assert [model["seeds"] for model in header["models"]] == [2, 1]
    unclean = [finding for finding in header["findings"] if finding["severity"] != "note"]
    assert ("the audit has" in run.err) == bool(unclean)


def test_every_missing_file_is_named(kgprobe: Command, ranks_file: Path, tmp_path: Path) -> None:
    missing = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    run = kgprobe("report", ranks_file, *missing, "-o", tmp_path / "page.html")
    assert (run.code, run.out) == (1, "")
    assert all(f"{path}: no such file" in run.err for path in missing)
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("name", ["report", "report.pdf", "."])
def test_other_kinds_of_files_are_refused(kgprobe: Command, ranks_file: Path, tmp_path: Path, name: str) -> None:
    run = kgprobe("report", ranks_file, "-o", name)
    assert run.code == 2
    assert "unknown file type for a report" in run.err
    assert "Remedy: choose one of .html, .md" in run.err


@pytest.mark.parametrize("ending", ["md", "tex", "csv", "json", "txt"])
def test_tables_are_written_too(kgprobe: Command, files: list[Path], tmp_path: Path, ending: str) -> None:
    table = tmp_path / f"table.{ending}"
    run = kgprobe("report", *files, "-o", table, "-m", "MRR", "--replicates", 200)
    assert (run.code, run.out) == (0, f"{table}\n")
    text = table.read_text(encoding="utf-8")
    value = kp.evaluate(kp.read_ranks(files[0]), "MRR")["MRR"]
    assert "model 0" in text
    assert (f"{value:.14f}"[:-1] if ending in ("csv", "json") else f"{value:.4f}") in text


def test_a_page_that_cannot_be_written_is_refused_before_the_work(kgprobe: Command) -> None:
    run = kgprobe("report", "missing.parquet", "-o", "/dev/null/page.html")
    assert run.code == 1
    assert "/dev/null/page.html: cannot be written" in run.err
    assert "missing.parquet" not in run.err


def test_an_unknown_metric_is_refused_before_the_work(kgprobe: Command, tmp_path: Path) -> None:
    run = kgprobe("report", "missing.parquet", "-o", tmp_path / "page.html", "-m", "MRRR")
    assert run.code == 2
    assert "MRRR" in run.err
    assert "missing.parquet" not in run.err


@pytest.mark.parametrize(
    ("option", "value"), [("--level", "1.5"), ("--level", "0"), ("--level", "nan"), ("--replicates", "0")]
)
def test_a_request_that_makes_no_sense_is_refused(
    kgprobe: Command, ranks_file: Path, tmp_path: Path, option: str, value: str
) -> None:
    run = kgprobe("report", ranks_file, "-o", tmp_path / "page.html", option, value)
    assert run.code == 2
    assert "Traceback" not in run.err
    assert not (tmp_path / "page.html").exists()


def test_models_with_other_queries_are_refused_unless_asked_for_the_common_ones(
    kgprobe: Command, files: list[Path], tmp_path: Path
) -> None:
    table = kp.read_ranks(files[0])
    table.filter(np.arange(len(table)) < 250).write(files[0])
    run = kgprobe("report", *files, "-o", tmp_path / "page.html", "-m", "MRR")
    assert run.code == 1
    assert "--common" in run.err
    run = kgprobe("report", *files, "-o", tmp_path / "page.html", "-m", "MRR", "--common")
    assert run.code == 0
    assert "model 1: 50 queries that not all models have are left out." in run.err
    assert _carried(tmp_path / "page.html")["queries"] == 250


def test_ranks_that_are_intervals_are_taken_at_one_end_and_it_is_said(
    kgprobe: Command, interval_file: Path, tmp_path: Path
) -> None:
    for options, end in ((), "worst"), (("--at", "best"), "best"):
        path = tmp_path / f"{end}.html"
        run = kgprobe("report", interval_file, "-o", path, "-m", "MR", "--replicates", 100, *options)
        assert (run.code, "are intervals" in run.err) == (0, True)
        (text,) = re.findall(r'id="data">([^<]*)</script>', path.read_text(encoding="utf-8"))
        header, _ = unpack(base64.b64decode(text))
        assert header["at"] == end
        table = kp.read_ranks(interval_file)
        exact = table.at_best() if end == "best" else table.at_worst()
        (estimate,) = header["estimates"]
        low, high = (float(one.rank.mean()) for one in (table.at_best(), table.at_worst()))
        assert estimate["ends"] == ([low, high] if not options else [exact.rank.mean()] * 2)


def test_the_same_file_twice_is_refused(kgprobe: Command, ranks_file: Path, tmp_path: Path) -> None:
    run = kgprobe("report", ranks_file, ranks_file, "-o", tmp_path / "page.html")
    assert run.code == 2
    assert "twice" in run.err


def test_no_folder_of_this_machine_is_in_the_page(kgprobe: Command, tmp_path: Path) -> None:
    inputs = []
    for number, table in enumerate(made_up(rows=200, models=2, single=3).values()):
        path = tmp_path / f"run{number}" / "ranks.parquet"
        path.parent.mkdir()
        settings = {"checkpoint": str(tmp_path / "best.pt"), "files": [str(tmp_path / "a.csv")]}
        table.with_info(model="RotatE", settings=settings).write(path)
        inputs.append(path)
    page = tmp_path / "out" / "page.html"
    page.parent.mkdir()
    kgprobe("report", *inputs, "--replicates", 100, f"--output={page}")
    text = page.read_text(encoding="utf-8")
    header = _carried(page)
    assert str(tmp_path) not in text
    assert str(tmp_path) not in json.dumps(header)
    assert [model["name"] for model in header["models"]] == ["run0/ranks.parquet", "run1/ranks.parquet"]
    assert {model["file"] for model in header["models"]} == {"ranks.parquet"}
    assert header["command"] == "kgprobe report ranks.parquet ranks.parquet --replicates 100 --output=page.html"
    assert ["checkpoint", "best.pt"] in header["models"][0]["protocol"]
