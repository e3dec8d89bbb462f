import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgprobe.cli.openworld.sensitivity import Unlearned
from kgprobe.openworld import expected_scores, sensitivities
from kgprobe.openworld.world import OPEN_WORLD_METRICS

Command = Callable[..., Any]


def test_json_has_a_row_for_each_rate_and_metric(kgprobe: Command, graph_dir: Path) -> None:
    run = kgprobe("openworld", "sensitivity", "--graph", graph_dir, "--missing", "0.1,0.25", "-m", "MRR", "-f", "json")
    assert run.code == 0
    rows = json.loads(run.out)
    assert [(row["graph"], row["metric"], row["missing"]) for row in rows] == [
        ("tiny", "MRR", 0.1),
        ("tiny", "MRR", 0.25),
    ]
    expect = sensitivities.sensitivity(
        sensitivities.AnswerCounts.of_graph(_graph(graph_dir)), [0.1, 0.25], "MRR"
    ).to_rows()
    assert [row["shown"] for row in rows] == pytest.approx([row["shown"] for row in expect])
    assert "missing 0.1: true answers are expected to be at least 10 % of the candidates" in run.err


def _graph(path: Path) -> Any:
    import kgprobe

    return kgprobe.load_graph(path)


def test_the_table_leaves_out_what_is_the_same_everywhere(kgprobe: Command, graph_dir: Path) -> None:
    run = kgprobe("openworld", "sensitivity", "-g", graph_dir, "--missing", "0.25")
    lines = run.out.splitlines()
    assert re.split(r"\s{2,}", lines[0])[:4] == ["metric", "shown", "slope open", "slope closed"]
    assert "shown: share of a true improvement" in run.err
    assert len(lines) >= 2 + len(OPEN_WORLD_METRICS)
    both = kgprobe("openworld", "sensitivity", "-g", graph_dir, "--missing", "0.25", "--missing", "0.1")
    assert both.out.split()[:3] == ["metric", "missing", "shown"]


def test_every_option_reaches_the_theory(kgprobe: Command, graph_dir: Path) -> None:
    options = ("--strength", "0.5", "--sides", "tail", "--unlearned", "nothing", "-m", "MRR", "-f", "csv")
    run = kgprobe("openworld", "sensitivity", "-g", graph_dir, "--missing", "0.2", *options)
    (row,) = csv.DictReader(io.StringIO(run.out))
    assert (row["strength"], row["queries"], float(row["closed"])) == ("0.5", "2", 0.5)


def test_the_words_are_those_of_the_theory() -> None:
    assert [*Unlearned] == [*expected_scores.Unlearned]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--missing", "1"), "a missing rate must be at least 0 and below 1, not 1"),
        (("--missing", "0.1,lots"), "'lots' is not a number"),
        (("--missing", "0.1", "--strength", "0"), "the strength must be above 0 and at most 1, not 0"),
        (("--missing", "0.1", "-m", "MedianRank"), "MedianRank is no mean of scores"),
        (("--missing", "0.1", "-m", "MMR"), "unknown metric 'MMR'"),
        ((), "--missing"),
    ],
)
def test_what_makes_no_sense_is_refused(
    kgprobe: Command, graph_dir: Path, options: tuple[str, ...], problem: str
) -> None:
    run = kgprobe("openworld", "sensitivity", "-g", graph_dir, *options)
    assert run.code == 2
    assert problem in run.err
    assert "Traceback" not in run.err


def test_a_graph_without_test_facts_is_refused(kgprobe: Command, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("a\tr\tb\n", encoding="utf-8")
    run = kgprobe("openworld", "sensitivity", "-g", tmp_path, "--missing", "0.1")
    assert run.code == 1
    assert "no test triples" in run.err
