import base64
import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benches import SPLIT, made_pairs, write_pairs
from kgprobe.openworld.benches import BenchSettings, bench
from kgprobe.openworld.world import OPEN_WORLD_METRICS
from kgprobe.report.page.payload import unpack
from pages import made_up

Command = Callable[..., Any]

METRICS = ("pMRR(p=0.25)", "PROBE(alpha=0)", "MR")

CHOSEN = [argument for name in METRICS for argument in ("-m", name)]


@pytest.fixture
def pairs() -> dict[str, Any]:
    return made_pairs(3, 3, queries=15)


@pytest.fixture
def runs(pairs: dict[str, Any], tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "runs", pairs)


def _carried(path: Path) -> dict[str, Any]:
    (text,) = re.findall(r'id="data">([^<]*)</script>', path.read_text(encoding="utf-8"))
    return unpack(base64.b64decode(text))[0]


def test_json_has_every_statistic_difference_and_point(kgprobe: Command, runs: Path, pairs: dict[str, Any]) -> None:
    run = kgprobe("openworld", "bench", runs, *CHOSEN, "--late", 0.2, "--replicates", 50, "--seed", 3, "-f", "json")
    assert run.code == 0
    rows = json.loads(run.out)
    wanted = bench(pairs, METRICS, world="made-up", settings=BenchSettings(late=0.2, replicates=50, seed=3))
    kinds = {kind: [row for row in rows if row["kind"] == kind] for kind in ("consistency", "difference", "point")}
    assert kinds["consistency"] == [{"kind": "consistency", **row} for row in wanted.to_rows()]
    assert [row["difference"] for row in kinds["difference"]] == [one.value for one in wanted.differences]
    assert len(kinds["point"]) == 3 * 9


def test_the_table_has_the_default_metrics_and_ends_with_what_it_says(kgprobe: Command, runs: Path) -> None:
    run = kgprobe("openworld", "bench", runs, "--replicates", 20)
    assert run.code == 0
    lines = run.out.splitlines()
    assert [line.split()[0] for line in lines[3 : 3 + len(OPEN_WORLD_METRICS)]] == [
        str(metric) for metric in OPEN_WORLD_METRICS
    ]
    assert "9 points of 3 models, 60 known answers." in lines
    assert any(line.startswith("Over all points PROBE is more consistent than pMRR(p=0.25) at ") for line in lines)
    assert any("Intervals over 3 models are rough" in line for line in lines)


def test_worlds_are_kept_apart_and_said(kgprobe: Command, tmp_path: Path) -> None:
    for density in (0.65, 0.75):
        write_pairs(tmp_path / str(density), made_pairs(2, 2, queries=9, split=SPLIT | {"density": density}))
    run = kgprobe("openworld", "bench", tmp_path / "0.65", tmp_path / "0.75", "-m", "MRR", "--replicates", 5)
    assert run.code == 0
    assert "Worlds are evaluated separately" in run.out
    assert [line.split()[:3] for line in run.out.splitlines() if re.search(r"\bMRR +\d", line)] == [
        ["made-up", "(density=0.65)", "MRR"],
        ["made-up", "(density=0.75)", "MRR"],
    ]


@pytest.mark.parametrize("ending", ["md", "tex", "csv", "json", "txt"])
def test_a_file_has_the_kind_of_its_ending(ending: str, kgprobe: Command, runs: Path, tmp_path: Path) -> None:
    path = tmp_path / f"table.{ending}"
    run = kgprobe("openworld", "bench", runs, *CHOSEN, "--replicates", 5, "-o", path)
    assert (run.code, run.out, run.err) == (0, "", f"wrote {path}\n")
    text = path.read_text(encoding="utf-8")
    opening = {"md": "| ", "tex": r"\begin{tabular}", "csv": "kind,world,metric", "json": "[\n", "txt": " "}
    assert text.startswith(opening[ending])
    if ending == "csv":
        assert {row["kind"] for row in csv.DictReader(io.StringIO(text))} == {"consistency", "difference", "point"}


def test_a_page_is_written(kgprobe: Command, runs: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    assert kgprobe("openworld", "bench", runs, *CHOSEN, "--replicates", 5, "-o", path).code == 0
    header = _carried(path)
    assert header["openWorld"][0]["models"] == ["model-0", "model-1", "model-2"]
    assert header["command"].startswith(f"kgprobe openworld bench {runs.name} ")
    assert str(tmp_path) not in json.dumps(header)


def test_figures_are_drawn_world_by_world(kgprobe: Command, tmp_path: Path) -> None:
    for seed in (0, 1):
        write_pairs(tmp_path / f"runs/{seed}", made_pairs(2, 1, queries=9, split=SPLIT | {"seed": seed}))
    arguments = ["-m", "MRR", "--replicates", 5, "--figures", tmp_path / "figures", "--type", "svg"]
    assert kgprobe("openworld", "bench", tmp_path / "runs", *arguments).code == 0
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == [
        f"made-up-seed={seed}-{name}.svg" for seed in (0, 1) for name in ("rank-connections", "worlds")
    ]


def test_a_report_shows_the_open_world(kgprobe: Command, runs: Path, tmp_path: Path) -> None:
    for name, table in made_up(rows=100, models=2).items():
        table.write(tmp_path / f"{name}.parquet")
    files = sorted(tmp_path.glob("*.parquet"))
    page = tmp_path / "page.html"
    arguments = ["-m", "MRR", "--replicates", 100, "--open-world", runs / "model-0", "--open-world", runs / "model-1"]
    assert kgprobe("report", *files, "-o", page, *arguments).code == 0
    (world,) = _carried(page)["openWorld"]
    assert world["models"] == ["model-0", "model-1"]
    assert [metric["name"] for metric in world["metrics"]] == [str(metric) for metric in OPEN_WORLD_METRICS]
    refused = kgprobe("report", *files, "-o", tmp_path / "table.md", *arguments)
    assert refused.code == 2
    assert "only an HTML page can show open-world results" in refused.err


def test_half_a_pair_and_an_empty_folder_are_named_together(kgprobe: Command, runs: Path, tmp_path: Path) -> None:
    (runs / "model-1" / "epoch-5.closed.parquet").unlink()
    (tmp_path / "empty").mkdir()
    run = kgprobe("openworld", "bench", runs, tmp_path / "empty")
    assert (run.code, run.out) == (1, "")
    assert "epoch-5.open.parquet: its .closed.parquet is missing" in run.err
    assert "empty: no rank tables" in run.err
    assert "Traceback" not in run.err


def test_one_point_is_too_few(kgprobe: Command, tmp_path: Path) -> None:
    run = kgprobe("openworld", "bench", write_pairs(tmp_path, made_pairs(1, 1, queries=5)))
    assert run.code == 1
    assert "there is only one point" in run.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--late", 2], "late must be an MRR from 0 to 1, not 2.0"),
        (["--replicates", 0], "replicates must be at least 1"),
        (["--seed", -1], "seed must be at least 0, not -1"),
        (["-o", "bench.doc"], "unknown file type for a report"),
        (["--figures", "here", "--type", "doc"], "unknown file type for a figure"),
        (["-m", "nonsense"], "nonsense"),
    ],
    ids=["late", "replicates", "seed", "output", "figures", "metric"],
)
def test_requests_that_make_no_sense_are_refused(
    arguments: list[Any], complaint: str, kgprobe: Command, runs: Path
) -> None:
    run = kgprobe("openworld", "bench", runs, *arguments)
    assert run.code == 2
    assert complaint in run.err
    assert "Traceback" not in run.err
