import csv
import io
import json
import re
import sys
from pathlib import Path

import pytest

from kgprobe.ranks import RankFile, Ranks, read_ranks
from terminal import run_on_terminal

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
    assert table[0].split() == ["model", "metric", "value"]
    assert table[-1] == "4 queries"
    assert latex.endswith("% 4 queries\n")


def test_several_models_are_rows_and_metrics_are_columns(kgprobe, ranks_file: Path, seeded_file: Path) -> None:
    done = kgprobe("eval", ranks_file, seeded_file, "-m", "MR,MRR")
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[0] == ["model", "MR", "MRR"]
    assert [line[:2] for line in lines[2:4]] == [[name(ranks_file), "1.8750"], [name(seeded_file), "2.0000"]]
    assert lines[3][2] == "±0.1768"
    assert "4 queries in each row" in done.out
    assert "Several training runs of each model; ± is the standard deviation over them" in done.out


def test_parts_of_a_wide_table_repeat_the_model_alone(ranks_file: Path, seeded_file: Path) -> None:
    metrics = "MR,MRR,Hits@1,Hits@3,Hits@5,Hits@10,AMRI"
    command = [sys.executable, "-m", "kgprobe", "eval", str(ranks_file), str(seeded_file), "-m", metrics]
    shown = re.sub(r"\x1b\[[\d;?]*\w", "", run_on_terminal(command, results=True, columns=60))
    headings = [line.split() for line in shown.splitlines() if line.startswith("model") and "." not in line]
    assert len(headings) > 1
    assert [word for line in headings for word in line[1:]] == metrics.split(",")


def name(path: Path) -> str:
    return RankFile(path).info.model or path.stem


def test_groups_are_rows_with_their_number_of_queries(kgprobe, ranks_file: Path, graph_dir: Path) -> None:
    done = kgprobe("eval", ranks_file, "-m", "MR,Hits@1", "--by", "relation", "--graph", graph_dir)
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[0] == ["model", "relation", "relation_label", "MR", "Hits@1"]
    assert lines[2] == ["model", "0", "likes", "1.5000", "0.5000"]
    uneven = kgprobe("eval", ranks_file, "-m", "MR", "--by", "candidates:2").out.splitlines()
    assert uneven[0].split() == ["model", "candidates", "queries", "MR"]
    assert "queries in each row" not in uneven[-1]


def test_files_with_the_same_model_name_are_told_apart_by_their_path(kgprobe, ranks_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    read_ranks(ranks_file).write(other)
    out = kgprobe("eval", ranks_file, other, "-m", "MR").out
    assert str(ranks_file) in out
    assert str(other) in out


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
    assert "1 query with a single candidate" in done.err


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
    assert "PROBE(alpha=1,beta=1): effective sample size 1 % of the queries" in done.out
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
    assert [line.split() for line in lines[2:5]] == [
        ["lists", "MR", "1.7500", "to", "2.5000"],
        ["lists", "Hits@1", "0.2500"],
        ["lists", "StdRank", DASH],
    ]
    assert lines[-1] == "Ranks of up to 2 queries are intervals, so that some values are"
    markdown = kgprobe("eval", interval_file, "-m", "MR", "-f", "markdown").out
    assert "| lists | MR | 1.7500 to 2.5000 |" in markdown
    settled = kgprobe("eval", interval_file, "-m", "Hits@1")
    assert settled.err == ""
    exact = json.loads(kgprobe("eval", ranks_file, "-m", "MR", "-f", "json").out)[0]
    assert (exact["low"], exact["high"], exact["intervals"]) == (exact["value"], exact["value"], 0)


def test_bands_of_ranks_that_may_be_intervals_make_no_sense(kgprobe, interval_file: Path) -> None:
    done = kgprobe("eval", interval_file, "-m", "MR", "--by", "rank:2")
    assert (done.code, done.out) == (2, "")
    assert "cannot be used as groups or sample weights" in done.err
