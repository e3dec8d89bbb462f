import json
from pathlib import Path

import pytest

from kgprobe.cli.console import parse_axis


def test_json_agrees_with_eval(kgprobe, data: Path) -> None:
    file = data / "published_ranks/umls/RotatE.parquet"
    rows = json.loads(
        kgprobe("surface", file, "--graph", "umls", "--alpha", "-1:1:1", "--beta", "0,0.8", "-f", "json").out
    )
    assert [(r["alpha"], r["beta"]) for r in rows] == [(a, b) for a in (-1.0, 0.0, 1.0) for b in (0.0, 0.8)]
    names = [f"PROBE(alpha={r['alpha']},beta={r['beta']})" for r in rows]
    options = [part for name in names for part in ("-m", name)]
    expected = json.loads(kgprobe("eval", file, "--graph", "umls", *options, "-f", "json").out)
    assert [r["value"] for r in rows] == pytest.approx([r["value"] for r in expected], rel=1e-12)
    assert [r["effective"] for r in rows] == pytest.approx([r["effective"] for r in expected], rel=1e-9)


def test_people_get_a_matrix(kgprobe, ranks_file: Path) -> None:
    lines = [line.split() for line in kgprobe("surface", ranks_file, "--alpha", "1,0", "--beta", "0").out.splitlines()]
    assert lines[0] == ["model", "alpha", "beta=0"]
    assert [line[:2] for line in lines[2:4]] == [["model", "1"], ["model", "0"]]
    assert lines[4] == ["model", "effective", "queries", "4"]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("-1:1:0.5", [-1.0, -0.5, 0.0, 0.5, 1.0]),
        ("1:-1:-1", [1.0, 0.0, -1.0]),
        ("0:0.3:0.1", [0.0, 0.1, 0.2, 0.3]),
        ("-inf,0,inf", [float("-inf"), 0.0, float("inf")]),
        ("2", [2.0]),
    ],
)
def test_axes(text: str, values: list[float]) -> None:
    assert parse_axis("alpha", text) == values


def test_ranks_that_are_intervals_need_an_end(kgprobe, interval_file: Path) -> None:
    done = kgprobe("surface", interval_file)
    assert (done.code, done.out) == (1, "")
    assert f"{interval_file}: 2 of 4 ranks are intervals" in done.err
    assert "--at best" in done.err


def test_each_end_has_its_surface(kgprobe, interval_file: Path) -> None:
    (wanted,) = json.loads(kgprobe("eval", interval_file, "-m", "PROBE", "-f", "json").out)
    for end, limit in (("best", "high"), ("worst", "low")):
        grid = ("--alpha", "1", "--beta", "0", "-f", "json")
        (row,) = json.loads(kgprobe("surface", interval_file, "--at", end, *grid).out)
        assert (row["value"], row["at"]) == (pytest.approx(wanted[limit], rel=1e-14), end)
