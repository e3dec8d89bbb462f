"""What compare, decide and report say about rank files with a planted defect."""

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
from planting import honest, planted, silent

QUICK = ("--replicates", "200", "--permutations", "200")
FEW = ("--replicates", "200")


@pytest.fixture(scope="module")
def nations(data: Path) -> kp.KnowledgeGraph:
    return kp.load_graph(data / "graphs/nations")


@pytest.fixture(scope="module")
def models(nations: kp.KnowledgeGraph) -> dict[str, kp.Ranks]:
    return honest(nations)


def sampled(ranks: kp.Ranks) -> kp.Ranks:
    """Ranked against five candidates only, so that every rank is good."""
    return planted(ranks, rank=np.ceil(ranks.rank * 5 / ranks.candidates), candidates=np.full(len(ranks), 5), ties=None)


def unfiltered(ranks: kp.Ranks) -> kp.Ranks:
    return planted(ranks, candidates=np.full(len(ranks), 14), rank=np.ones(len(ranks)), ties=None)


def late(ranks: kp.Ranks) -> kp.Ranks:
    """The rank of every target is one too high."""
    return planted(ranks, rank=np.minimum(np.floor(ranks.rank) + 1, ranks.candidates), ties=None)


DEFECTS = {
    "sampled": (sampled, "Exactly 5 candidates in every query (sampled candidates?)"),
    "unfiltered": (unfiltered, "Unfiltered: "),
    "late": (late, "No rank is better than 2"),
}


@pytest.fixture
def sound(models: dict[str, kp.Ranks], tmp_path: Path) -> list[Path]:
    """Three sound files, in which nothing but the queries, ranks and candidates is recorded."""
    paths = [tmp_path / f"{name}.parquet" for name in ("frequency", "CP", "RESCAL")]
    for path in paths:
        silent(models[path.stem]).with_info(model=path.stem).write(path)
    return paths


@pytest.fixture(params=DEFECTS)
def odd(request: Any, models: dict[str, kp.Ranks], tmp_path: Path) -> tuple[Path, str]:
    """A file with a defect, and what the audit says about it."""
    plant, said = DEFECTS[request.param]
    path = tmp_path / "odd.parquet"
    silent(plant(models["CP again"])).with_info(model="odd").write(path)
    return path, said


def carried(page: Path) -> dict[str, Any]:
    (text,) = re.findall(r'id="data">([^<]*)</script>', page.read_text(encoding="utf-8"))
    return unpack(base64.b64decode(text))[0]


def test_compare_marks_the_file_and_says_so_where_it_leads(
    kgprobe, sound: list[Path], odd: tuple[Path, str], data: Path
) -> None:
    path, said = odd
    done = kgprobe("compare", *sound, path, "-g", data / "graphs/nations", "-m", "MRR,Hits@1,MR", *QUICK)
    assert done.code == 0
    assert [line.startswith("odd *") for line in done.out.splitlines()[2:6]] == [False, False, False, True]
    assert f"`kgprobe check` objects to odd: {said}" in done.out
    assert "--exclude-flagged leaves out odd." in done.err
    leads = [line for line in done.err.splitlines() if " scores " in line]
    assert len(leads) == 3
    crowned = [line for line in leads if re.match(r"\S+: odd ", line)]
    assert len(crowned) == {"Unfiltered: ": 3}.get(said, len(crowned))
    assert all(f": odd (but `kgprobe check` objects: {said}" in line for line in crowned)


def test_differences_between_other_candidates_have_a_reason_and_no_test(
    kgprobe, sound: list[Path], models: dict[str, kp.Ranks], tmp_path: Path
) -> None:
    path = tmp_path / "odd.parquet"
    silent(sampled(models["CP again"])).with_info(model="odd").write(path)
    asked = ("-m", "MRR", *QUICK, "-f", "json")
    rows = json.loads(kgprobe("compare", *sound, path, *asked).out)
    assert {row["model"]: row["flagged"] for row in rows if row["kind"] == "estimate"} == {
        "frequency": False,
        "CP": False,
        "RESCAL": False,
        "odd": True,
    }
    assert [row["objections"] is None for row in rows if row["kind"] == "estimate"] == [True, True, True, False]
    count = int((models["CP"].candidates != 5).sum())
    untested = [row for row in rows if row["kind"] == "difference" and "odd" in (row["first"], row["second"])]
    assert len(untested) == 3
    for row in untested:
        assert [row[key] for key in ("p", "p_holm", "p_bh", "low", "high")] == [None] * 5
        assert (row["tested"], row["reason"]) == (False, f"candidate sets differ in {count:,} queries")
        assert isinstance(row["value"], float)
    tested = [row for row in rows if row["kind"] == "difference" and row not in untested]
    alone = json.loads(kgprobe("compare", *sound, path, *asked, "--exclude-flagged").out)
    exact = ("first", "second", "p", "p_holm", "p_bh", "tested", "reason")
    kept = [row for row in alone if row["kind"] == "difference"]
    assert [[row[key] for key in exact] for row in tested] == [[row[key] for key in exact] for row in kept]
    allowed = json.loads(kgprobe("compare", *sound, path, *asked, "--allow-different-candidates").out)
    assert all(row["tested"] and 0 < row["p"] <= 1 for row in allowed if row["kind"] == "difference")


def test_flagged_files_are_left_out_on_request_and_it_is_said(
    kgprobe, sound: list[Path], odd: tuple[Path, str], data: Path
) -> None:
    path, said = odd
    asked = ("-g", data / "graphs/nations", "-m", "MRR", *QUICK, "-f", "json")
    done = kgprobe("compare", *sound, path, *asked, "--exclude-flagged")
    assert done.code == 0
    assert json.loads(done.out) == json.loads(kgprobe("compare", *sound, *asked).out)
    assert f"odd is left out. `kgprobe check` objects to odd: {said}" in done.err
    few = kgprobe("compare", sound[0], path, *asked, "--exclude-flagged")
    assert (few.code, few.out) == (1, "")
    assert "only 1 of 2 models would be left" in few.err
    assert said in few.err
    assert "--exclude-flagged" in few.err


def test_decide_says_so_in_the_sentence_that_names_the_winner(
    kgprobe, sound: list[Path], odd: tuple[Path, str], data: Path
) -> None:
    path, said = odd
    asked = ("decide", *sound, path, "-g", data / "graphs/nations", "--beta", 0, *FEW)
    done = kgprobe(*asked, "--alpha", 1)
    answer = done.out.splitlines()[0].split(". ")[0]
    assert done.code == 0
    assert answer.count("odd ") == answer.count(f"odd (but `kgprobe check` objects: {said}")
    rows = json.loads(kgprobe(*asked, "--alpha", 1, "-f", "json").out)
    assert {row["model"]: row["flagged"] for row in rows} == {
        "frequency": False,
        "CP": False,
        "RESCAL": False,
        "odd": True,
    }
    if rows[0]["model"] == "odd":
        assert f"odd (but `kgprobe check` objects: {said}" in answer
        assert "it is not tested against any other model, because candidate sets differ in" in answer
        assert all(row["holm"] is None and not row["tested"] for row in rows[1:])
    kept = kgprobe(*asked, "--alpha", 1, "--exclude-flagged")
    assert "odd" not in kept.out
    assert "odd is left out." in kept.err


def test_the_map_marks_the_file_and_calls_no_lead_over_other_candidates_significant(
    kgprobe, sound: list[Path], models: dict[str, kp.Ranks], tmp_path: Path
) -> None:
    path = tmp_path / "odd.parquet"
    silent(sampled(models["CP again"])).with_info(model="odd").write(path)
    asked = ("decide", *sound, path, "--alpha", "1,0", "--beta", 0, *FEW)
    done = kgprobe(*asked)
    assert "odd *" in done.out
    assert "`kgprobe check` objects to odd: " in done.err
    rows = json.loads(kgprobe(*asked, "-f", "json").out)
    assert {row["model"] for row in rows if row["record"] == "model" and row["flagged"]} == {"odd"}
    for row in rows:
        if row["record"] == "point" and row["model"] == "odd":
            assert row["reason"].startswith("candidate sets differ in ")
            assert (row["best_place"], row["worst_place"]) == (1, 4)


def test_the_page_and_the_table_of_a_report_say_so(
    kgprobe, sound: list[Path], models: dict[str, kp.Ranks], data: Path, tmp_path: Path
) -> None:
    path, (plant, said) = tmp_path / "odd.parquet", DEFECTS["sampled"]
    silent(plant(models["CP again"])).with_info(model="odd").write(path)
    asked = ("report", *sound, path, "-g", data / "graphs/nations", "-m", "MRR", *FEW)
    done = kgprobe(*asked, "-o", tmp_path / "page.html")
    assert done.code == 0
    assert "--exclude-flagged leaves out odd." in done.err
    flags = {model["name"]: model["flag"] for model in carried(tmp_path / "page.html")["models"]}
    assert [name for name, flag in flags.items() if flag] == ["odd"]
    assert flags["odd"]["error"] is True
    assert flags["odd"]["reason"].startswith(said)
    kgprobe(*asked, "-o", tmp_path / "table.md")
    table = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert "| odd" in table
    assert said.split("(")[0] in table
    kgprobe(*asked, "-o", tmp_path / "page.html", "--exclude-flagged")
    header = carried(tmp_path / "page.html")
    assert [model["name"] for model in header["models"]] == ["frequency", "CP", "RESCAL"]
    assert [model["flag"] for model in header["models"]] == [None] * 3
    assert ["odd"] in [finding["models"] for finding in header["findings"]]


def test_of_two_files_that_differ_both_are_flagged(kgprobe, models: dict[str, kp.Ranks], tmp_path: Path) -> None:
    paths = [tmp_path / "one.parquet", tmp_path / "other.parquet"]
    for path, change in zip(paths, (silent, lambda ranks: silent(unfiltered(ranks))), strict=True):
        change(models["CP"]).with_info(model=path.stem).write(path)
    rows = json.loads(kgprobe("compare", *paths, "-m", "MRR", *QUICK, "-f", "json").out)
    assert [row["flagged"] for row in rows[:2]] == [True, True]
    assert rows[0]["objections"].startswith("other has more candidates than one")
    refused = kgprobe("decide", *paths, "--exclude-flagged", *FEW)
    assert (refused.code, refused.out) == (1, "")
    assert "only 0 of 2 models would be left" in refused.err


Command = Callable[..., Any]


@pytest.mark.parametrize("graph", [True, False], ids=["with graph", "without"])
def test_sound_files_are_not_objected_to(kgprobe: Command, data: Path, graph: bool) -> None:
    """Four of the published models; the others have warnings and errors for good reasons."""
    files = [data / f"published_ranks/wn18rr/{name}.parquet" for name in ("ComplEx", "HousE", "RNNLogic", "RotatE")]
    where = ("-g", data / "graphs/wn18rr") if graph else ()
    for asked in (
        ("compare", *files, *where, "-m", "MRR", *QUICK),
        ("decide", *files, *where, "--alpha", 1, "--beta", 0, *FEW),
    ):
        done = kgprobe(*asked)
        assert done.code == 0
        assert "kgprobe check" not in done.out + done.err
        assert "flagged" not in done.out + done.err
        assert "*" not in done.out
    rows = json.loads(kgprobe("compare", *files, *where, "-m", "MRR", *QUICK, "-f", "json").out)
    assert not any(row["flagged"] or row["objections"] for row in rows if row["kind"] == "estimate")


def test_python_has_the_same_arguments(models: dict[str, kp.Ranks]) -> None:
    tables = {
        "CP": silent(models["CP"]),
        "RESCAL": silent(models["RESCAL"]),
        "odd": silent(unfiltered(models["CP again"])),
    }
    report = kp.compare(tables, "MRR", replicates=200, permutations=200, exclude_flagged=True)
    assert report.lineup.models == ("CP", "RESCAL")
    assert "odd is left out" in str(report)
    assert kp.decide(tables, 1, 0, replicates=200, permutations=200).winner == "odd"
    assert kp.decide(tables, 1, 0, replicates=200, permutations=200, exclude_flagged=True).winner != "odd"
    plane = kp.decision_map(tables, [1.0], [0.0], replicates=200, allow_different_candidates=True)
    assert np.isfinite(plane.bands[0, 2]).all()
    assert np.isinf(kp.decision_map(tables, [1.0], [0.0], replicates=200).bands[0, 2]).all()
