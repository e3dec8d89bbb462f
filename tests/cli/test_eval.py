import csv
import io
import json
from pathlib import Path

import pytest

from kgprobe.ranks import Ranks

DASH = "\N{EN DASH}"
ROW = ["ranks", "model", "metric", "value", "std", "seeds", "queries"]


def test_json_rows_are_flat_and_exact(kgprobe, ranks_file: Path) -> None:
    done = kgprobe("eval", ranks_file, "-m", "mrr", "-m", "Hits@1", "--format", "json")
    assert done.code == 0
    rows = json.loads(done.out)
    assert [row["metric"] for row in rows] == ["MRR", "Hits@1"]
    assert rows[0]["value"] == (1 + 1 / 2 + 1 / 3 + 1 / 1.5) / 4
    assert {key: rows[0][key] for key in ROW if key != "value"} == {
        "ranks": str(ranks_file),
        "model": "model",
        "metric": "MRR",
        "std": None,
        "seeds": 1,
        "queries": 4,
    }
    assert rows[0]["effective"] == 4.0
    assert rows[0]["tie"] == "mean"


def test_seeds_are_averaged_with_their_deviation(kgprobe, seeded_file: Path) -> None:
    (row,) = json.loads(kgprobe("eval", seeded_file, "-m", "MR", "-f", "json").out)
    assert (row["value"], row["seeds"], row["queries"]) == ((7.5 / 4 + 8.5 / 4) / 2, 2, 4)
    assert row["std"] == pytest.approx(0.25 / 2**0.5)


def test_groups_become_columns_with_labels_of_the_graph(kgprobe, ranks_file: Path, graph_dir: Path) -> None:
    done = kgprobe("eval", ranks_file, "-m", "MR", "--by", "relation,side", "--graph", graph_dir, "-f", "json")
    rows = json.loads(done.out)
    assert [(r["relation"], r["relation_label"], r["side"], r["value"]) for r in rows] == [
        (0, "likes", "head", 1.0),
        (0, "likes", "tail", 2.0),
        (1, "knows", "head", 3.0),
        (1, "knows", "tail", 1.5),
    ]


def test_ties_and_macro_are_options_of_every_metric(kgprobe, ranks_file: Path) -> None:
    def value(*options: str) -> float:
        return json.loads(kgprobe("eval", ranks_file, "-m", "Hits@1", "-f", "json", *options).out)[0]["value"]

    assert value() == 0.25
    assert value("--tie", "expected") == 0.375
    assert value("--tie", "optimistic") == 0.5
    assert value("--macro", "side") == 0.25


def test_csv_markdown_latex_and_table(kgprobe, ranks_file: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(kgprobe("eval", ranks_file, "-m", "MR", "-f", "csv").out)))
    assert float(rows[0]["value"]) == 7.5 / 4
    assert "| model | MR | 1.8750 |" in kgprobe("eval", ranks_file, "-m", "MR", "-f", "markdown").out
    latex = kgprobe("eval", ranks_file, "-m", "MR", "-f", "latex").out
    assert latex.startswith(r"\begin{tabular}")
    assert r"model & MR & 1.8750" in latex
    table = kgprobe("eval", ranks_file, "-m", "MR").out.splitlines()
    assert table[0].split() == ["model", "metric", "value", "queries", "effective"]


def test_without_metrics_the_usual_ones_are_shown(kgprobe, ranks_file: Path) -> None:
    names = [row["metric"] for row in json.loads(kgprobe("eval", ranks_file, "-f", "json").out)]
    assert {"MRR", "Hits@10", "PROBE(alpha=1,beta=0)"} <= set(names)


def test_single_candidates_are_counted_in_a_note(kgprobe, tmp_path: Path) -> None:
    path = tmp_path / "one.parquet"
    Ranks.from_columns(
        head=[0, 1], relation=[0, 0], tail=[1, 0], side=["tail"] * 2, rank=[1, 2], candidates=[1, 3]
    ).write(path)
    done = kgprobe("eval", path, "-m", "PROBE(alpha=0)", "-m", "MRR", "-f", "json")
    probe, mrr = json.loads(done.out)
    assert (probe["queries"], probe["left_out"], mrr["queries"], mrr["left_out"]) == (1, 1, 2, 0)
    assert "1 queries with a single candidate" in done.err


def test_published_values_of_the_paper(kgprobe, data: Path) -> None:
    done = kgprobe(
        "eval", data / "published_ranks/wn18rr/RotatE.parquet", "--graph", "wn18rr",
        "--metric", "PROBE(alpha=0.5,beta=0)", "--format", "json",
    )  # fmt: skip
    (row,) = json.loads(done.out)
    assert (row["model"], row["seeds"], row["queries"], f"{row['value']:.4f}") == ("RotatE", 3, 6268, "0.5213")


def test_every_value_of_the_papers_tables_through_the_command_line(kgprobe, data: Path) -> None:
    with (data / "published_ranks/paper_tables.csv").open() as file:
        printed = list(csv.DictReader(file))
    assert len(printed) == 120
    wrong = []
    for graph in ("wn18rr", "umls"):
        mine = [row for row in printed if row["graph"] == graph]
        names = dict.fromkeys(f"PROBE(alpha={r['alpha']},beta={r['beta']})" for r in mine)
        options = [part for name in names for part in ("--metric", name)]
        files = [data / f"published_ranks/{graph}/{model}.parquet" for model in dict.fromkeys(r["model"] for r in mine)]
        rows = json.loads(kgprobe("eval", *files, "--graph", graph, *options, "--format", "json").out)
        found = {(row["model"], row["metric"]): f"{row['value']:.4f}" for row in rows}
        for r in mine:
            metric = f"PROBE(alpha={float(r['alpha']):g},beta={float(r['beta']):g})"
            if found[r["model"], metric] != f"{float(r['score']):.4f}":
                wrong.append((graph, r["model"], metric, found[r["model"], metric], r["score"]))
    assert wrong == []


def test_a_score_that_rests_on_few_queries_is_remarked_on(kgprobe, tmp_path: Path) -> None:
    path = tmp_path / "rare.parquet"
    columns = {"relation": [0] * 100, "tail": [1] * 100, "side": ["tail"] * 100, "rank": [1] * 100}
    Ranks.from_columns(
        head=range(100),
        candidates=[9] * 100,
        entity_popularity=[1e-6] + [0.5] * 99,
        relation_popularity=[0.5] * 100,
        **columns,
    ).write(path)
    done = kgprobe("eval", path, "-m", "PROBE(beta=1)")
    assert "has an effective sample size of 1 of 100" in done.err
    assert done.out.split()[-2:] == ["100", "1"]
    assert kgprobe("eval", path, "-m", "PROBE(beta=0)").err == ""


def test_ranks_that_are_intervals_have_metrics_that_are(kgprobe, interval_file: Path) -> None:
    done = kgprobe("eval", interval_file, "-m", "MR,Hits@1,StdRank", "-f", "json")
    assert done.code == 0
    keys = ("value", "low", "high", "std", "intervals", "queries")
    assert [[row[key] for key in keys] for row in json.loads(done.out)] == [
        [None, 7 / 4, 10 / 4, None, 2, 4],
        [0.25, 0.25, 0.25, None, 2, 4],
        [None, None, None, None, 2, 4],
    ]
    assert "lies between low and high" in done.err
    assert "StdRank is undefined: ranks are intervals" in done.err
    assert "Hits@1" not in done.err


def test_groups_without_intervals_are_exact(kgprobe, interval_file: Path) -> None:
    rows = json.loads(kgprobe("eval", interval_file, "-m", "MR", "--by", "relation", "-f", "json").out)
    assert [(row["value"], row["low"], row["high"], row["intervals"]) for row in rows] == [
        (1.5, 1.5, 1.5, 0),
        (None, 2.0, 3.5, 2),
    ]


def test_people_see_low_and_high_where_there_is_something_to_see(
    kgprobe, interval_file: Path, ranks_file: Path
) -> None:
    lines = kgprobe("eval", interval_file, "-m", "MR,Hits@1,StdRank").out.splitlines()
    assert lines[0].split() == ["model", "metric", "value", "low", "high", "queries", "effective", "intervals"]
    assert [line.split() for line in lines[2:]] == [
        ["lists", "MR", DASH, "1.7500", "2.5000", "4", "4", "2"],
        ["lists", "Hits@1", "0.2500", "0.2500", "0.2500", "4", "4", "2"],
        ["lists", "StdRank", DASH, DASH, DASH, "4", "4", "2"],
    ]
    markdown = kgprobe("eval", interval_file, "-m", "MR", "-f", "markdown").out
    assert f"| lists | MR | {DASH} | 1.7500 | 2.5000 | 4 |" in markdown
    settled = kgprobe("eval", interval_file, "-m", "Hits@1")
    assert settled.out.split()[:6] == ["model", "metric", "value", "queries", "effective", "intervals"]
    assert settled.err == ""
    exact = json.loads(kgprobe("eval", ranks_file, "-m", "MR", "-f", "json").out)[0]
    assert (exact["low"], exact["high"], exact["intervals"]) == (exact["value"], exact["value"], 0)


def test_bands_of_ranks_that_may_be_intervals_make_no_sense(kgprobe, interval_file: Path) -> None:
    done = kgprobe("eval", interval_file, "-m", "MR", "--by", "rank:2")
    assert (done.code, done.out) == (2, "")
    assert "cannot be used as groups or sample weights" in done.err
