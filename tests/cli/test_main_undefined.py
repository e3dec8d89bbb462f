"""Commands on hostile tables: exit code 0 means that every number is there, or null with a reason beside it."""

import base64
import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.ranks import RanksInfo
from kgprobe.report.page.payload import unpack

SIZE = 8
HALF = np.arange(SIZE) % 2
TABLES: dict[str, dict[str, Any]] = {
    "plain": {},
    "empty": {"rows": 0},
    "one row": {"rows": 1},
    "one triple": {"rows": 2, "head": [0, 0], "tail": [1, 1], "relation": [0, 0]},
    "one candidate": {"candidates": [1] * SIZE, "rank": [1] * SIZE},
    "one candidate in a group": {"candidates": 1 + 8 * HALF, "rank": 1 + HALF},
    "one candidate in a run": {"candidates": 1 + 8 * HALF, "rank": 1 + HALF, "seed": HALF},
    "fewer candidates than k": {"candidates": [3] * SIZE},
    "as many candidates as a double counts": {"candidates": [2**53] * SIZE, "rank": [2.0**52] * SIZE},
    "equal ranks": {"rank": [2] * SIZE},
    "first": {"rank": [1] * SIZE},
    "last": {"rank": [9] * SIZE},
    "tied": {"rank": [5] * SIZE, "ties": [8] * SIZE},
    "intervals": {"worst_rank": [9] * SIZE},
    "two runs": {"seed": HALF, "head": np.arange(SIZE) // 2, "tail": [1] * SIZE, "side": ["tail"] * SIZE},
    "weights 0": {"weight": np.zeros(SIZE)},
    "weights 0 in a group": {"weight": HALF * 1.0},
    "weights overflow": {"weight": np.full(SIZE, 1e308)},
    "weights underflow": {"weight": np.full(SIZE, 5e-324)},
    "weights of both kinds": {"weight": np.where(HALF, 1e308, 1e-308)},
    "popularity null": {"entity_popularity": None, "relation_popularity": None},
    "popularity 0": {"entity_popularity": np.zeros(SIZE), "relation_popularity": np.zeros(SIZE)},
    "popularity tiny": {"entity_popularity": np.geomspace(5e-324, 1, SIZE)},
}
METRICS = [
    *("MRR", "MR", "AMR", "AMRI", "AMRR", "ZMR", "ZMRR", "Hits@10", "AHits@1", "AHits@10", "ZHits@10", "WMR", "nWMR"),
    *("PROBE", "PROBE(alpha=0,beta=0.8)", "PROBE(alpha=-1e300,beta=-1e300)", "APROBE(alpha=1e300)", "ZPROBE"),
    *("rawPROBE(alpha=400)", "rawPROBE(alpha=-400)", "StratMRR", "MedianRank", "StdRank", "MADRank", "HMR"),
]
NAMED = [part for name in METRICS for part in ("--metric", name)]
FAST = ["--replicates", "100"]
COMMANDS: dict[str, list[str]] = {
    "eval": ["eval", "A", *NAMED],
    "eval, groups": ["eval", "A", *NAMED, "--by", "side"],
    "eval, weights": ["eval", "A", *NAMED, "--weight", "weight"],
    "eval, weights and groups": ["eval", "A", *NAMED, "--weight", "weight", "--by", "side"],
    "eval, weights and macro": ["eval", "A", *NAMED, "--weight", "weight", "--macro", "side"],
    "surface": ["surface", "A"],
    "surface, extreme": ["surface", "A", "--alpha=-inf,-1e300,0,1e3,inf", "--beta=-1e300,0,1e3"],
    "decide": ["decide", "A", "B", *FAST, "--alpha", "1", "--beta", "0.5"],
    "decide, extreme": ["decide", "A", "B", *FAST, "--alpha", "inf", "--beta", "0"],
    "decide, map": ["decide", "A", "B", *FAST, "--alpha=-1,1", "--beta", "0,0.8"],
    "compare": ["compare", "A", "B", *NAMED, *FAST, "--permutations", "100"],
    "compare, groups": ["compare", "A", "B", *NAMED, *FAST, "--permutations", "100", "--by", "side"],
    "compare, one model": ["compare", "A", *NAMED, *FAST],
}
NOT_APPLICABLE = {"level", "sample", "objections", "std", "macro", "at", "note", "remark", "reason", "place"}
"""Null where the table has one run, an option is not given, there is no remark, or there is one model."""


def written(folder: Path, changes: dict[str, Any], model: str = "A") -> Path:
    """A rank file with the given columns."""
    columns = dict(changes)
    rows = columns.pop("rows", SIZE)
    numbers = np.arange(rows)
    base = {
        "head": numbers,
        "relation": numbers % 2,
        "tail": (numbers + 1) % 5,
        "side": np.where(numbers % 2, "tail", "head").tolist(),
        "rank": 1 + numbers % 3,
        "ties": [0] * rows,
        "candidates": [9] * rows,
        "entity_popularity": 0.1 + numbers / 20,
        "relation_popularity": 0.2 + numbers / 10,
    }
    labels = {"weight": columns.pop("weight", np.ones(rows))}
    path = folder / f"{model}.parquet"
    kp.Ranks.from_columns(**(base | columns), labels=labels, info=RanksInfo(model=model)).write(path)
    return path


def strict(text: str) -> Any:
    """JSON without NaN and Infinity, which the standard does not have."""
    return json.loads(text, parse_constant=pytest.fail)


def unexplained(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in which a number is null without a reason."""
    missing = [{key for key, value in row.items() if value is None} - NOT_APPLICABLE for row in rows]
    return [row for row, keys in zip(rows, missing, strict=True) if keys and not row.get("reason")]


@pytest.mark.parametrize("table", TABLES)
def test_a_number_is_there_or_there_is_a_reason(kgprobe, tmp_path: Path, table: str) -> None:
    paths = {model: str(written(tmp_path, TABLES[table], model)) for model in "AB"}
    for command, arguments in COMMANDS.items():
        if "weight" in TABLES[table] and "--weight" not in arguments:
            continue  # no other command reads the column
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            done = kgprobe(*[paths.get(argument, argument) for argument in arguments], "--format", "json")
        assert not shown, (command, [str(warning.message) for warning in shown])
        assert done.code in (0, 1), (command, done.err)
        if done.code == 0:
            rows = strict(done.out)
            assert rows
            assert unexplained(rows) == [], command
        else:
            assert done.out == ""
            assert done.err.startswith("Error: ")
            assert "nan" not in done.err.split()


@pytest.mark.parametrize("table", [table for table in TABLES if "weight" not in TABLES[table]])
def test_a_page_has_a_reason_for_every_estimate_without_a_value(kgprobe, tmp_path: Path, table: str) -> None:
    pytest.importorskip("plotly")
    paths = [written(tmp_path, TABLES[table], model) for model in "AB"]
    page = tmp_path / "page.html"
    done = kgprobe("report", *paths, "-o", page, *FAST, *NAMED)
    if done.code:
        assert done.code == 1
        assert not page.exists()
        return
    found = re.search(r'<script[^>]*id="data"[^>]*>([^<]+)<', page.read_text(encoding="utf-8"))
    assert found is not None
    header, _ = unpack(base64.b64decode(found[1]))
    entries = [*header["estimates"], *header["differences"]]
    assert entries
    assert unexplained(entries) == []


CAUSES = {
    "empty": "the table is empty",
    "one candidate": "every query has a single candidate",
    "popularity null": "entity popularity is not recorded",
    "popularity 0": "no evaluated query has any entity popularity above 0",
    "intervals": "ranks are intervals",
}


REFUSED = [(table, command) for table in CAUSES for command in ("surface", "decide", "decide, map")]
REFUSED = [one for one in REFUSED if one not in (("intervals", "decide"), ("intervals", "decide, map"))]


@pytest.mark.parametrize(("table", "command"), REFUSED)
def test_an_error_names_the_true_cause(kgprobe, tmp_path: Path, table: str, command: str) -> None:
    paths = {model: str(written(tmp_path, TABLES[table], model)) for model in "AB"}
    done = kgprobe(*[paths.get(argument, argument) for argument in COMMANDS[command]])
    assert done.code == 1
    assert CAUSES[table] in done.err
    if command == "surface":
        assert done.err.startswith(f"Error: {paths['A']}: ")


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ("empty", ["-m", "MRR"], "the table is empty"),
        ("empty", ["-m", "MRR", "--by", "side"], "the table is empty"),
        ("weights 0", ["-m", "MRR", "--weight", "weight"], "all sample weights are 0 (column 'weight')"),
        ("weights 0", ["-m", "MRR", "--weight", "weight", "--macro", "side"], "all sample weights are 0"),
        ("one candidate", ["-m", "PROBE(beta=0.8)"], "no metric has a value"),
        ("fewer candidates than k", ["-m", "AHits@10"], "AHits@10 is undefined: every query has at most 10 candidates"),
    ],
)
def test_where_nothing_can_be_computed_eval_fails(
    kgprobe, tmp_path: Path, table: str, options: list[str], message: str
) -> None:
    path = written(tmp_path, TABLES[table])
    done = kgprobe("eval", path, *options, "-f", "json")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"Error: {path}: ")
    assert message in done.err


def test_a_table_shows_a_dash_and_a_note_says_why(kgprobe, tmp_path: Path) -> None:
    path = written(tmp_path, TABLES["fewer candidates than k"])
    done = kgprobe("eval", path, "-m", "MRR,AHits@10")
    assert done.code == 0
    assert done.out.splitlines()[-1].split()[:3] == ["A", "AHits@10", "\N{EN DASH}"]
    assert "AHits@10 is undefined: every query has at most 10 candidates" in done.err
    compared = kgprobe("compare", path, "-m", "MRR,AHits@10", *FAST)
    assert "\N{EN DASH}" in compared.out
    assert "AHits@10 has no finite value: every query has at most 10 candidates." in compared.out


def test_what_is_left_out_is_named(kgprobe, tmp_path: Path) -> None:
    path = written(tmp_path, TABLES["weights 0 in a group"])
    done = kgprobe("eval", path, "-m", "MRR", "--weight", "weight", "--macro", "side", "-f", "json")
    assert strict(done.out)[0]["note"] == "1 groups of the macro average without any weight left out"
    assert "the macro average leaves out 1 groups without any weight" in done.err
    path = written(tmp_path, TABLES["one candidate in a group"])
    for command in (["surface"], ["decide", *FAST], ["compare", *FAST]):
        done = kgprobe(*command, path, "-f", "json")
        assert done.code == 0
        assert "4 queries with a single candidate" in done.err


def test_an_infinite_alpha_is_written_as_text(kgprobe, tmp_path: Path) -> None:
    rows = strict(kgprobe("surface", written(tmp_path, {}), "--alpha=-inf,1,inf", "--beta", "0", "-f", "json").out)
    assert [row["alpha"] for row in rows] == ["-inf", 1.0, "inf"]
