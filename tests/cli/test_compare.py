import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.cli import console
from reporting import compiled
from support import with_columns
from terminal import run_on_terminal

QUICK = ("--replicates", "200", "--permutations", "200")


@pytest.fixture
def models(tmp_path: Path) -> list[Path]:
    """Three models on the same 120 triples: one good, one a little worse, one bad."""
    rng = np.random.default_rng(5)
    triples = np.arange(120).repeat(2)
    paths = []
    for name, worse in (("good", 0.0), ("similar", 0.1), ("bad", 30.0)):
        table = kp.Ranks.from_columns(
            head=triples,
            relation=triples % 2,
            tail=triples + 500,
            side=np.tile(["head", "tail"], 120),
            rank=np.minimum(rng.geometric(1 / (3 + worse), 240), 90),
            candidates=np.full(240, 90),
        ).with_info(model=name)
        paths.append(tmp_path / f"{name}.parquet")
        table.write(paths[-1])
    return paths


def test_the_table_and_below_it_who_leads(kgprobe, models: list[Path]) -> None:
    done = kgprobe("compare", *models, "-m", "MRR,MR", *QUICK)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].split() == ["model", "MRR", "MR", "↓"]
    assert [line.split()[0] for line in lines[2:5]] == ["good", "similar", "bad"]
    assert any(line.startswith("† not significantly worse than the best") for line in lines)
    assert [line.split(":")[0] for line in done.err.splitlines()] == ["MRR", "MR"]
    assert all(" scores " in line and line.endswith("): not significant") for line in done.err.splitlines())
    assert "\x1b" not in done.out


@pytest.mark.parametrize("order", [(0, 2), (2, 0)], ids=["best first", "best last"])
def test_being_ahead_is_positive_whatever_the_order_and_the_direction(
    kgprobe, models: list[Path], order: tuple[int, int]
) -> None:
    done = kgprobe("compare", *(models[i] for i in order), "-m", "MRR,MR", *QUICK)
    for line in done.err.splitlines():
        assert re.search(
            r": good scores [\d.]+ (higher|lower) than bad \(95 % simultaneous CI [\d.]+ to [\d.]+, adjusted p .*\): "
            "significant$",
            line,
        ), line


def test_equal_models_share_the_first_place_and_what_has_no_value_leads_nobody(
    kgprobe, models: list[Path], tmp_path: Path
) -> None:
    copy, empty = tmp_path / "copy.parquet", tmp_path / "empty.parquet"
    good = kp.read_ranks(models[0])
    good.with_info(model="copy").write(copy)
    with_columns(good, rank=np.ones(240), candidates=np.ones(240, dtype=int)).with_info(model="empty").write(empty)
    done = kgprobe("compare", models[0], copy, "-m", "MRR", *QUICK)
    assert "share the first place\n" in done.err
    assert done.err.count("(but `kgprobe check` warns: good and copy are copies of each other") == 2
    assert "No model is significantly worse than another" in done.out
    none = kgprobe("compare", models[0], empty, "-m", "PROBE", *QUICK)
    assert none.code == 0
    assert "nan" not in none.err
    three = kgprobe("compare", empty, models[0], models[2], "-m", "PROBE(alpha=1)", *QUICK)
    assert "good scores 0.4281 higher than bad" in three.err
    assert "nan" not in three.err


def test_json_has_estimates_and_differences(kgprobe, models: list[Path]) -> None:
    done = kgprobe("compare", *models, "-m", "MRR", *QUICK, "-f", "json")
    rows = json.loads(done.out)
    assert done.err == ""
    assert [row["kind"] for row in rows] == ["estimate"] * 3 + ["difference"] * 3
    for path, row in zip(models, rows, strict=False):
        assert (row["ranks"], row["model"]) == (str(path), path.stem)
        assert row["value"] == pytest.approx(kp.evaluate(kp.read_ranks(path), "MRR")["MRR"], rel=1e-12)
        assert row["low"] < row["value"] < row["high"]
        assert (row["level"], row["std"], row["seeds"], row["queries"]) == (0.95, None, 1, 240)
        assert isinstance(row["trusted"], bool)
    pairs = [(row["first"], row["second"]) for row in rows[3:]]
    assert pairs == [("good", "similar"), ("good", "bad"), ("similar", "bad")]
    for row in rows[3:]:
        p = [row["p"], row["p_bh"], row["p_holm"]]
        assert 0 < p[0] <= 1
        assert p == pytest.approx(sorted(p), rel=1e-12)
        assert row["value"] == pytest.approx(
            next(r["value"] for r in rows if r.get("model") == row["first"])
            - next(r["value"] for r in rows if r.get("model") == row["second"])
        )
    assert rows[4]["p_holm"] < 0.05 < rows[3]["p_holm"]


def test_csv_has_the_same_numbers_as_json(kgprobe, models: list[Path]) -> None:
    rows = json.loads(kgprobe("compare", *models, "-m", "MRR", *QUICK, "-f", "json").out)
    read = list(csv.DictReader(io.StringIO(kgprobe("compare", *models, "-m", "MRR", *QUICK, "-f", "csv").out)))
    assert [float(row["value"]) for row in read] == [row["value"] for row in rows]
    assert [row["kind"] for row in read] == [row["kind"] for row in rows]


def test_pairs_are_a_second_table(kgprobe, models: list[Path]) -> None:
    done = kgprobe("compare", *models, "-m", "MRR", *QUICK, "--pairs")
    second = done.out.split("\n\n")[-1].splitlines()
    assert second[0].split() == ["first", "second", "metric", "value", "low", "high", "p", "p_adjusted", "significant"]
    assert [line.split()[:3] for line in second[2:]] == [
        ["good", "similar", "MRR"],
        ["good", "bad", "MRR"],
        ["similar", "bad", "MRR"],
    ]
    assert done.err == ""
    markdown = kgprobe("compare", *models, "-m", "MRR", *QUICK, "--pairs", "-f", "markdown").out
    assert "| first | second | metric |" in markdown


def test_latex_compiles(kgprobe, models: list[Path], tmp_path: Path) -> None:
    options = ("--letters", "--intervals", "--pairs", "-f", "latex")
    table = kgprobe("compare", *models, "-m", "MRR,MR", *QUICK, *options).out
    packages = table.splitlines()[0].removeprefix("% needs ")
    compiled(f"\\documentclass{{article}}\n{packages}\n\\begin{{document}}\n{table}\\end{{document}}\n", tmp_path)


def test_one_model_has_intervals_and_no_differences(kgprobe, models: list[Path]) -> None:
    done = kgprobe("compare", models[0], "-m", "MRR", *QUICK)
    assert (done.code, done.err) == (0, "")
    assert "[0." in done.out.splitlines()[2]
    assert "1st" not in done.out
    rows = json.loads(kgprobe("compare", models[0], *QUICK, "-f", "json").out)
    assert [row["kind"] for row in rows] == ["estimate"] * 7


def test_files_of_the_same_model_are_told_apart_by_path(kgprobe, models: list[Path], tmp_path: Path) -> None:
    again = tmp_path / "again.parquet"
    kp.read_ranks(models[0]).write(again)
    rows = json.loads(kgprobe("compare", models[0], again, "-m", "MRR", *QUICK, "-f", "json").out)
    assert [row["model"] for row in rows[:2]] == [str(models[0]), str(again)]
    assert (rows[0]["place"], rows[1]["place"]) == (1, 1)


def test_groups_corrections_and_the_other_options(kgprobe, models: list[Path]) -> None:
    options = (
        "--by",
        "side",
        "--correction",
        "bh",
        "--cluster",
        "relation",
        "--level",
        "0.9",
        "--seed",
        "3",
        "--tie",
        "mean",
    )
    rows = json.loads(kgprobe("compare", *models, "-m", "MRR", *QUICK, *options, "-f", "json").out)
    assert [row["side"] for row in rows[:6]] == ["head"] * 3 + ["tail"] * 3
    assert {row["level"] for row in rows} == {0.9}
    assert {row["clusters"] for row in rows[:6]} == {2}
    text = kgprobe("compare", *models, "-m", "MRR", *QUICK, *options).out
    assert "Benjamini-Hochberg over the 3 pairs of models, for each metric and group by itself" in text
    assert "clusters by relation" in text


def test_many_groups_are_not_remarked_on_one_by_one(kgprobe, models: list[Path]) -> None:
    done = kgprobe("compare", *models, "-m", "MRR,MR,Hits@1,Hits@3", *QUICK, "--by", "side,relation")
    assert done.err == "--pairs shows the differences of 48 pairs of models\n"
    assert done.out.splitlines()[0].split()[:3] == ["side", "relation", "model"]


def test_latex_options(kgprobe, models: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "t.tex"
    options = ("--plain", "--caption", "All $n$ models.", "--label", "tab:all", *QUICK)
    kgprobe("compare", *models, "-m", "MRR", "-o", path, *options)
    text = path.read_text(encoding="utf-8")
    assert text == kgprobe("compare", *models, "-m", "MRR", "-f", "latex", *options).out
    assert r"\caption{All $n$ models.}" in text
    assert r"\label{tab:all}" in text
    assert not {"cellcolor", "resizebox", "gold"} & set(re.findall(r"\w+", text))
    packages = re.findall(r"usepackage\{(\w+)\}", text)
    assert packages == ["booktabs"]
    refused = kgprobe("compare", *models, "--plain", "--label", "x", "-o", tmp_path / "t.md")
    assert (refused.code, refused.out) == (2, "")
    assert "--plain, --label: only for LaTeX" in refused.err


@pytest.mark.parametrize("ending", ["md", "tex", "csv", "json", "txt"])
def test_a_file_is_written_instead(kgprobe, models: list[Path], tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"table.{ending}"
    done = kgprobe("compare", *models, "-m", "MRR", *QUICK, "-o", path)
    assert (done.code, done.out, done.err) == (0, "", f"wrote {path}\n")
    assert "similar" in path.read_text(encoding="utf-8")


def test_only_shared_queries_are_compared_on_request(kgprobe, models: list[Path], tmp_path: Path) -> None:
    fewer = tmp_path / "fewer.parquet"
    ranks = kp.read_ranks(models[1])
    ranks.filter(np.arange(len(ranks)) < 200).write(fewer)
    refused = kgprobe("compare", models[0], fewer, "-m", "MRR", *QUICK)
    assert (refused.code, refused.out) == (1, "")
    assert "--common" in refused.err
    done = kgprobe("compare", models[0], fewer, "-m", "MRR", *QUICK, "--common", "-f", "json")
    assert done.code == 0
    assert "40 queries of good that not all models have are left out." in done.err


def test_seeds_may_be_fixed_or_random(kgprobe, seeded_file: Path) -> None:
    def method(*options: str) -> str:
        return json.loads(kgprobe("compare", seeded_file, "-m", "MRR", *QUICK, *options, "-f", "json").out)[0]["method"]

    assert method("--seeds", "random") == method() == "t"
    assert method("--seeds", "fixed") != "t"


Change = Callable[[list[Path], Path], tuple[object, ...]]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (lambda m, t: (t / "none.parquet", t / "neither.parquet"), 1, "2 of 2 files cannot be used"),
        (lambda m, t: (m[0], m[0]), 2, "the same file is given twice"),
        (lambda m, t: (m[0], "-m", "MMR"), 2, "unknown metric 'MMR'"),
        (lambda m, t: (m[0], "-o", t / "table.docx"), 2, ".html, .md, .tex, .csv, .json, .txt"),
        (lambda m, t: (m[0], "-o", "/dev/null/table.md"), 1, "cannot be written"),
        (lambda m, t: (m[0], "--level", "1.5"), 2, "level must be between 0 and 1"),
        (lambda m, t: (m[0], "--replicates", "3"), 2, "replicates must be a whole number, at least 100, not 3"),
        (lambda m, t: (m[0], "--seed", "-1"), 2, "seed must be a whole number, at least 0, not -1"),
        (lambda m, t: (m[0], "--seeds", "random"), 2, "random seeds need two runs"),
        (lambda m, t: (m[0], "--by", "colour"), 2, "no column 'colour'"),
        (lambda m, t: (m[0], "-m", "PROBE(beta=1)"), 1, "popularity"),
        (lambda m, t: (m[0], "--graph", t / "nowhere"), 1, "no such graph"),
    ],
    ids=[
        "missing",
        "twice",
        "metric",
        "ending",
        "folder",
        "level",
        "replicates",
        "seed",
        "seeds",
        "by",
        "popularity",
        "graph",
    ],
)
def test_mistakes_are_named(
    kgprobe, models: list[Path], tmp_path: Path, arguments: Change, code: int, said: str
) -> None:
    done = kgprobe("compare", *arguments(models, tmp_path))
    assert (done.code, done.out) == (code, "")
    assert said in done.err


def test_a_single_model_with_unknown_ranks_has_a_range(kgprobe, interval_file: Path) -> None:
    done = kgprobe("compare", interval_file, "-m", "MRR", *QUICK)
    assert done.code == 0
    low, high = (
        next(iter(kp.evaluate(kp.read_ranks(interval_file), "MRR", at=end).values())) for end in ("worst", "best")
    )
    assert f"{low:.4f} to {high:.4f}" in done.out


def test_progress_is_shown_on_a_terminal(models: list[Path]) -> None:
    command = [sys.executable, "-m", "kgprobe", "compare", *map(str, models), "-m", "MRR", "--replicates", "20000"]
    assert "comparing" in run_on_terminal(command)


def large(path: Path, seed: int, triples: int) -> None:
    """A model on many triples, in batches of rows, with its own ranks and ties."""
    shared, rng = np.random.default_rng(0), np.random.default_rng(seed)
    ids = np.arange(triples).repeat(2)
    popularity = shared.integers(1, 500, 2 * triples) / 100_000
    kp.Ranks.from_columns(
        head=ids,
        relation=ids % 300,
        tail=ids * 7 % 1_000_000,
        side=np.tile(["head", "tail"], triples),
        rank=np.minimum(rng.geometric(0.02, 2 * triples), 900_000) + 0.0,
        candidates=1_000_000 - shared.integers(0, 50, 2 * triples),
        ties=np.zeros(2 * triples, dtype=np.int64),
        entity_popularity=popularity,
        relation_popularity=popularity * 50,
    ).with_info(model=path.stem).write(path)


@pytest.mark.slow
def test_two_files_of_a_million_rows_take_little_memory(tmp_path: Path) -> None:
    """Peak memory of the process: 100 bytes for each row, and 450 MB for the program and the draws."""
    paths = [tmp_path / f"{name}.parquet" for name in ("one", "other")]
    for seed, path in enumerate(paths):
        large(path, seed, 500_000)
    code = (
        "import atexit, re, runpy, sys; "
        "atexit.register(lambda: print('peak', re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])); "
        "sys.argv = ['kgprobe', *sys.argv[1:]]; runpy.run_module('kgprobe', run_name='__main__')"
    )
    asked = [sys.executable, "-c", code, "compare", *map(str, paths), *QUICK]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    peak = int(re.search(r"peak (\d+)", done.stdout)[1]) * 1024
    assert peak < 2 * 1_000_000 * 100 + 450e6


def test_long_work_is_announced_once_with_a_remedy(monkeypatch, capsys) -> None:
    clock = iter([1.0, 1.5, 3.0, 9.0])
    monkeypatch.setattr("kgprobe.cli.console.time.monotonic", lambda: next(clock))
    done = []
    progress = console.announcing("comparing", 100, "fewer --replicates take less", done.append)
    for share in (1, 1, 1, 1):
        progress(share)
    assert capsys.readouterr().err == "comparing will take about 100 s; fewer --replicates take less\n"
    assert done == [1, 1, 1, 1]


def test_short_work_is_not_announced(kgprobe, models: list[Path]) -> None:
    assert "will take about" not in kgprobe("compare", *models, *QUICK).err


@pytest.fixture
def lists(tmp_path: Path) -> list[Path]:
    """Ranks of top-10 lists: targets that are not listed have unknown ranks."""
    rng = np.random.default_rng(0)
    paths = []
    for name, most in (("strong", 4), ("weak", 12)):
        rank = rng.integers(1, most, 600)
        beyond = (rank > 10) | (rng.random(600) < 0.05)
        table = kp.Ranks.from_columns(
            head=range(600), relation=[0] * 600, tail=[600] * 600, side=["tail"] * 600, candidates=[100] * 600,
            rank=np.where(beyond, 11, rank), worst_rank=np.where(beyond, 100, rank),
        )  # fmt: skip
        paths.append(tmp_path / f"{name}.parquet")
        table.with_info(model=name).write(paths[-1])
    return paths


def test_unknown_ranks_give_ranges_and_verdicts_that_hold_whatever_they_are(kgprobe, lists: list[Path]) -> None:
    done = kgprobe("compare", *lists, "-m", "MRR,MR,Hits@3", *QUICK)
    assert done.code == 0
    assert " to " in done.out.splitlines()[2]
    first, second, third = done.err.splitlines()
    assert first.startswith("MRR: strong beats weak whatever the unknown ranks: it scores ")
    assert second.startswith("MR: the unknown ranks decide between strong and weak")
    assert third.startswith("Hits@3: strong scores ")  # the unknown ranks are all beyond 3
    rows = json.loads(kgprobe("compare", *lists, "-m", "MRR", *QUICK, "-f", "json").out)
    assert rows[0]["value"] is None
    assert rows[0]["least"] < rows[0]["most"]
    assert rows[-1]["significant"]
    page = lists[0].with_name("page.html")
    assert kgprobe("compare", *lists, "-m", "MRR", *QUICK, "-o", page).code == 0
    assert page.exists()


@pytest.mark.parametrize("end", ["best", "worst"])
def test_one_end_of_the_unknown_ranks_on_request(kgprobe, lists: list[Path], end: str) -> None:
    exact = [path.with_name(f"exact-{path.name}") for path in lists]
    for path, other in zip(lists, exact, strict=True):
        table = kp.read_ranks(path)
        (table.at_best() if end == "best" else table.at_worst()).write(other)
    for command in (["compare", "-m", "MRR"], ["decide", "--alpha", 1, "--beta", 0], ["eval", "-m", "MRR"]):
        quick = [] if command[0] == "eval" else QUICK if command[0] == "compare" else ["--replicates", 200]
        asked = json.loads(kgprobe(command[0], *lists, *command[1:], *quick, "--at", end, "-f", "json").out)
        known = json.loads(kgprobe(command[0], *exact, *command[1:], *quick, "-f", "json").out)
        for one, other in zip(asked, known, strict=True):
            apart = {key for key in one if one[key] != other[key]}
            assert apart <= {"ranks", "at", "objections"}  # files without intervals may look cut off


def test_pages_and_figures_name_the_option_for_unknown_ranks(kgprobe, lists: list[Path], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ranges = kgprobe("report", *lists, "-o", page, "--replicates", 100)
    assert (ranges.code, page.exists()) == (0, True)
    assert "Some ranks of strong, weak are intervals." in ranges.err
    page.unlink()
    done = kgprobe("report", *lists, "-o", page, "--at", "worst", "--replicates", 100)
    assert (done.code, page.exists()) == (0, True)
    assert "Some ranks of strong, weak are intervals; this page uses the worst end of each." in done.err
    assert kgprobe("figure", "rank-histogram", *lists, "-o", tmp_path / "a.pdf").code in (1, 2)
