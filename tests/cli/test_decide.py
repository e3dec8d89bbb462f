import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

import kgprobe as kp
from planes import queries_of, ranked

QUICK = ("--replicates", "200")

TRIPLES = 400


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """One model is right or far off, another always middling, a third always bad."""
    rng = np.random.default_rng(0)
    models = {
        "sharp": np.where(rng.random(2 * TRIPLES) < 0.5, 1, 75 + np.arange(2 * TRIPLES) % 25),
        "even": np.where(np.arange(2 * TRIPLES) % 80, rng.integers(8, 13, 2 * TRIPLES), 40),
        "bad": rng.integers(70, 100, 2 * TRIPLES),
    }
    paths = {name: tmp_path / f"{name}.parquet" for name in models}
    for name, rank in models.items():
        ranked(TRIPLES, rank).with_info(model=name).write(paths[name])
    return paths


@pytest.fixture
def plain_files(files: dict[str, Path]) -> dict[str, Path]:
    """The same without popularity."""
    for path in files.values():
        table = kp.read_ranks(path)
        kp.Ranks(table.to_arrow().drop_columns(["entity_popularity", "relation_popularity"]), table.info).write(path)
    return files


def test_one_point_is_answered_in_a_sentence_and_a_table(kgprobe, files: dict[str, Path]) -> None:
    done = kgprobe("decide", *files.values(), "--alpha", 1, "--beta", 0, *QUICK)
    assert (done.code, done.err) == (0, "")
    sentence, _, heading, _, *rows = done.out.splitlines()
    assert sentence.startswith("For alpha 1 and beta 0, pick sharp: its PROBE 0.")
    assert "even comes next" in sentence
    assert heading.split()[:3] == ["place", "model", "value"]
    assert not {"alpha", "beta", "std", "seeds", "trusted"} & set(heading.split())
    assert [row.split()[:2] for row in rows] == [["1", "sharp"], ["2", "even"], ["3", "bad"]]


def test_the_data_of_one_point_agree_with_eval(kgprobe, files: dict[str, Path]) -> None:
    rows = json.loads(kgprobe("decide", *files.values(), "--alpha", -1, "--beta", 0.8, *QUICK, "-f", "json").out)
    options = ("-m", "PROBE(alpha=-1,beta=0.8)", "-f", "json")
    expected = {row["model"]: row["value"] for row in json.loads(kgprobe("eval", *files.values(), *options).out)}
    assert {row["model"]: row["value"] for row in rows} == pytest.approx(expected, rel=1e-12)
    assert [row["model"] for row in rows] == ["even", "sharp", "bad"]
    assert rows[1]["lead"] == pytest.approx(expected["even"] - expected["sharp"], rel=1e-9)
    assert rows[1]["lead_low"] < rows[1]["lead"] < rows[1]["lead_high"]


def test_many_points_are_answered_by_places_shares_and_crossings(kgprobe, files: dict[str, Path]) -> None:
    done = kgprobe("decide", *files.values(), "--alpha", "1,-1", "--beta", "0,0.4", *QUICK)
    assert done.code == 0
    (answer,), places, models, crossings = (part.splitlines() for part in done.out.split("\n\n"))
    assert answer == "sharp wins on 50 % of the plane, even on 50 %; significantly sharp on 50 %, even on 50 %."
    assert places[0].split() == ["alpha", "model", "beta=0", "beta=0.4"]
    assert [[*line.split()[:2], *line.split()[3::2]] for line in places[2:]] == [
        ["1", "sharp", "1", "1"],
        ["1", "even", "2", "2"],
        ["1", "bad", "3", "3"],
        ["-1", "sharp", "2", "2"],
        ["-1", "even", "1", "1"],
        ["-1", "bad", "3", "3"],
    ]
    value = kp.evaluate(kp.read_ranks(files["bad"]), "PROBE(alpha=-1,beta=0)")
    assert places[-1].split()[2] == f"{next(iter(value.values())):.4f}"
    assert models[0].split() == ["model", "wins", "significant_wins", "pareto", "may_be_pareto"]
    assert [line.split() for line in models[2:]] == [
        ["sharp", "0.5000", "0.5000", "yes", "yes"],
        ["even", "0.5000", "0.5000", "yes", "yes"],
        ["bad", "0.0000", "0.0000", "no", "no"],
    ]
    assert crossings[0].split() == ["equal", "beta=0", "beta=0.4"]
    assert crossings[2].startswith("sharp = even")
    assert "Places in [brackets] are not statistically distinguishable at the 95 % level" in done.err
    assert "(sampling of queries, all places simultaneously)" in done.err


def test_places_that_noise_leaves_open_are_in_brackets(kgprobe, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for name in ("a", "b"):
        ranked(TRIPLES, rng.integers(1, 30, 2 * TRIPLES)).write(tmp_path / f"{name}.parquet")
    done = kgprobe("decide", tmp_path / "a.parquet", tmp_path / "b.parquet", "--alpha", "1,0", "--beta", 0, *QUICK)
    cells = [line.split(maxsplit=3)[3] for line in done.out.split("\n\n")[1].splitlines()[2:]]
    assert sorted(cells) == ["1 [1-2]", "1 [1-2]", "2 [1-2]", "2 [1-2]"]


def test_the_data_of_many_points_are_flat_and_whole(kgprobe, files: dict[str, Path]) -> None:
    arguments = ("decide", *files.values(), "--alpha", "1:-1:-1", "--beta", "0,0.4", *QUICK)
    rows = json.loads(kgprobe(*arguments, "-f", "json").out)
    kinds = [row["record"] for row in rows]
    assert [kinds.count(kind) for kind in ("point", "model", "crossing")] == [18, 3, 2]
    surface = ("--alpha", "1:-1:-1", "--beta", "0,0.4", "-f", "json")
    expected = json.loads(kgprobe("surface", *files.values(), *surface).out)
    found = {(row["model"], row["alpha"], row["beta"]): row["value"] for row in rows if row["record"] == "point"}
    assert found == pytest.approx({(r["model"], r["alpha"], r["beta"]): r["value"] for r in expected}, rel=1e-12)
    for row in rows:
        if row["record"] == "crossing":
            metric = f"PROBE(alpha={row['alpha']!r},beta={row['beta']!r})"
            both = [
                kp.evaluate(kp.read_ranks(files[row[key]]), metric)[str(kp.parse(metric))]
                for key in ("first", "second")
            ]
            assert both[0] == pytest.approx(both[1], abs=1e-9)
    table = list(csv.DictReader(io.StringIO(kgprobe(*arguments, "-f", "csv").out)))
    assert [row["record"] for row in table] == kinds
    assert float(table[0]["value"]) == rows[0]["value"]


def test_along_beta_alone(kgprobe, tmp_path: Path) -> None:
    """One model is better on the rare targets, the other on the common ones, by a little more."""
    columns = queries_of(TRIPLES) | {
        "entity_popularity": [0.001, 0.1] * TRIPLES,
        "relation_popularity": [0.5] * 2 * TRIPLES,
    }
    paths = []
    for name, rank in {"rare": [5, 50], "common": [70, 2]}.items():
        paths.append(tmp_path / f"{name}.parquet")
        kp.Ranks.from_columns(rank=rank * TRIPLES, candidates=[100] * 2 * TRIPLES, **columns).write(paths[-1])
    rows = json.loads(kgprobe("decide", *paths, "--alpha", 0, "--beta", "0,0.8", *QUICK, "-f", "json").out)
    (crossing,) = [row for row in rows if row["record"] == "crossing"]
    expected = np.log(np.log(50 / 2) / np.log(70 / 5)) / np.log(0.101 / 0.002)
    assert crossing == {
        "record": "crossing",
        "first": "rare",
        "second": "common",
        "beta": pytest.approx(expected, abs=1e-9),
        "alpha": 0.0,
    }
    table = kgprobe("decide", *paths, "--alpha", 0, "--beta", "0,0.8", *QUICK).out.split("\n\n")[3]
    assert "alpha=0.000" in table
    assert f"beta={expected:.4g}" in table


@pytest.mark.parametrize("kind", ["markdown", "latex"])
def test_other_formats_keep_the_sentence_apart(kgprobe, files: dict[str, Path], kind: str) -> None:
    done = kgprobe("decide", *files.values(), "--alpha", 1, "--beta", 0, *QUICK, "-f", kind)
    assert done.err.startswith("For alpha 1 and beta 0, pick sharp")
    assert "For alpha" not in done.out


def test_one_model_only(kgprobe, files: dict[str, Path]) -> None:
    point = kgprobe("decide", files["even"], "--alpha", 1, "--beta", 0, *QUICK)
    assert (point.code, "there is no other model to pick" in point.out) == (0, True)
    plane = kgprobe("decide", files["even"], *QUICK)
    assert (plane.code, plane.out.splitlines()[0]) == (0, "There is only one model to choose from.")


def test_without_popularity_only_beta_0_can_be_asked(kgprobe, plain_files: dict[str, Path]) -> None:
    done = kgprobe("decide", *plain_files.values())
    assert (done.code, done.out) == (1, "")
    assert "beta other than 0 needs the popularity of the targets" in done.err
    assert "--graph" in done.err
    assert kgprobe("decide", *plain_files.values(), "--alpha", "1,0", "--beta", 0, *QUICK).code == 0
    point = kgprobe("decide", *plain_files.values(), "--alpha", 1, "--beta", 0, *QUICK)
    assert "for alpha" in point.out
    assert "for beta" not in point.out


def test_different_queries_are_refused_or_left_out(kgprobe, files: dict[str, Path]) -> None:
    table = kp.read_ranks(files["even"])
    table.take(np.arange(len(table) - 10)).write(files["even"])
    refused = kgprobe("decide", *files.values(), "--alpha", 1, "--beta", 0, *QUICK)
    assert (refused.code, "--common" in refused.err) == (1, True)
    done = kgprobe("decide", *files.values(), "--alpha", 1, "--beta", 0, "--common", *QUICK)
    assert done.code == 0
    assert "10 queries of sharp that not all models have are left out." in done.err


def test_betas_that_leave_few_queries_are_remarked_on(kgprobe, files: dict[str, Path]) -> None:
    done = kgprobe("decide", *files.values(), "--alpha", 1, "--beta", "0,5", *QUICK)
    assert "beta 5: the effective sample size of" in done.err
    assert "beta 0: the effective sample size" not in done.err


def test_other_candidates_and_few_runs_are_remarked_on(kgprobe, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    paths = [tmp_path / "one.parquet", tmp_path / "other.parquet"]
    for path, candidates in zip(paths, (100, 90), strict=True):
        runs = {run: ranked(TRIPLES, rng.integers(1, 90, 2 * TRIPLES), candidates) for run in range(3)}
        kp.merge_seeds(runs).write(path)
    done = kgprobe("decide", *paths, "--alpha", 1, "--beta", 0, *QUICK)
    assert "is not tested against" in done.err
    assert "because candidate sets differ in 800 queries" in done.err
    assert "With 3 training runs of a model, only large differences are significant" in done.err
    fixed = kgprobe("decide", *paths, "--alpha", "1,0", "--beta", 0, "--seeds", "fixed", *QUICK)
    assert "kgprobe check" in fixed.err
    assert "training runs of a model" not in fixed.err


@pytest.mark.parametrize(("alpha", "code"), [("1", 1), ("1,0", 1)], ids=["point", "map"])
def test_a_model_without_any_query_that_counts_is_refused(
    kgprobe, files: dict[str, Path], alpha: str, code: int
) -> None:
    size = 2 * TRIPLES
    ranked(TRIPLES, np.ones(size), candidates=1).with_info(model="even").write(files["even"])
    done = kgprobe("decide", *files.values(), "--alpha", alpha, "--beta", 0, *QUICK)
    assert (done.code, done.out) == (code, "")
    assert "candidate" in done.err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--alpha", "much"), "--alpha much: not numbers"),
        (("--level", "2"), "level must be between 0 and 1"),
        (("--seeds", "random"), "random seeds need two runs of sharp, even, bad"),
        (("--replicates", "0"), "replicates must be a whole number, at least 1, not 0"),
        (("--seed", "-1"), "seed must be a whole number, at least 0, not -1"),
        (("--seed", "-1", "--alpha", "1", "--beta", "0"), "seed must be a whole number, at least 0, not -1"),
        (("--alpha", "inf,0"), "alphas must be a list of different finite numbers"),
    ],
    ids=["axis", "level", "seeds", "replicates", "seed", "seed of one point", "infinite"],
)
def test_requests_that_make_no_sense(kgprobe, files: dict[str, Path], options: tuple[str, ...], complaint: str) -> None:
    done = kgprobe("decide", *files.values(), *options)
    assert (done.code, done.out) == (2, "")
    assert complaint in done.err


def test_the_published_order_on_wn18rr(kgprobe, data: Path) -> None:
    """Last of six where only the top counts, first where the whole ranking does; and what of it is beyond noise."""
    files = sorted((data / "published_ranks/wn18rr").glob("*.parquet"))
    arguments = (
        *("decide", *files, "--graph", data / "graphs/wn18rr", "--seeds", "fixed"),
        "--allow-different-candidates",
    )
    rows = json.loads(kgprobe(*arguments, "-f", "json").out)
    house = {
        row["alpha"]: (row["place"], row["best_place"], row["worst_place"])
        for row in rows
        if row["record"] == "point" and row["model"] == "HousE" and row["beta"] == 0
    }
    assert (house[1.0], house[-1.0]) == ((6, 6, 6), (1, 1, 2))
    at_this_point = kgprobe(*arguments, "--alpha", -1, "--beta", 0, "--replicates", 2000).out
    assert at_this_point.startswith("For alpha -1 and beta 0, pick HousE: its PROBE 0.9346 is significantly higher")
