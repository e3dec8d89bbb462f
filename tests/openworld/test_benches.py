from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import kendalltau

from benches import SMALL, SPLIT, made_pair, made_pairs, made_points, write_pairs
from kgprobe.errors import DataError, UsageError
from kgprobe.metrics import parse
from kgprobe.metrics.popularity_metrics import PROBE
from kgprobe.openworld import Bench, read_bench
from kgprobe.openworld.bench_points import Points
from kgprobe.openworld.benches import (
    BenchSettings,
    TauDifference,
    bench,
    comparisons,
    find_pairs,
    sentences,
    tau_differences,
    world_names,
)
from kgprobe.openworld.world import OPEN_WORLD_METRICS


def test_a_bench_has_a_row_for_each_metric() -> None:
    found = bench(made_pairs(), SMALL, world="mine", settings=BenchSettings(replicates=20))
    rows = found.to_rows()
    assert [row["metric"] for row in rows] == [str(metric) for metric in found.points.metrics]
    assert {row["world"] for row in rows} == {"mine"}
    assert repr(found) == "Bench(4 models, 12 points, 6 metrics)"
    assert len(found.verdict) == len({(one.late, one.against) for one in found.differences}) > 0


def test_a_gentle_metric_is_more_consistent_than_a_sharp_one() -> None:
    rows = {row["metric"]: row for row in bench(made_pairs(6, 4, queries=60), ["PROBE(alpha=-1)", "Hits@1"]).to_rows()}
    gentle, sharp = rows["PROBE(alpha=-1,beta=0)"], rows["Hits@1"]
    assert gentle["tau"] > sharp["tau"] + 0.05
    assert gentle["discordant"] < sharp["discordant"]
    assert gentle["gap"] < sharp["gap"]


def _notes(model: list[int], mrr: list[float]) -> list[str]:
    values = [0.1 * i for i in range(len(model))]
    return Bench.of(made_points(values, values, model, mrr=mrr), settings=BenchSettings(replicates=5)).notes


def test_notes_say_what_is_too_few() -> None:
    assert _notes([0, 0], [0.1, 0.2]) == [
        "There is only one model: its checkpoints are compared, without confidence intervals.",
        "No point is late: none of the 2 have a closed-world MRR above 0.5.",
    ]
    assert _notes([0, 0, 1], [0.1, 0.6, 0.7]) == [
        "Intervals over 2 models are rough: each model has a large influence.",
        "Only 2 of 3 points are late (have a closed-world MRR above 0.5): the statistics are rough.",
        "No model has two late checkpoints, so there is no spread at equal closed-world value.",
    ]
    assert _notes([i // 3 for i in range(15)], [0.9] * 15) == []


def test_settings_that_make_no_sense_are_all_named() -> None:
    with pytest.raises(UsageError) as raised:
        BenchSettings(late=2, replicates=0, level=1)
    assert len(raised.value.problems) == 3


FEW = BenchSettings(replicates=5)


def test_a_folder_of_models_is_read_in_the_order_of_training(tmp_path: Path) -> None:
    pairs = made_pairs(11, 3, queries=10)
    done: list[float] = []
    benches = read_bench([write_pairs(tmp_path, pairs)], SMALL, settings=FEW, progress=done.append)
    assert list(benches) == ["made-up"]
    points = benches["made-up"].points
    assert points.models == tuple(f"model-{i}" for i in range(11))
    assert points.checkpoints == ("epoch-0", "epoch-5", "epoch-10") * 11
    assert points.open.tolist() == Points.of(pairs, SMALL).open.tolist()
    assert sum(done) == 33


def test_folders_of_models_may_be_given_one_by_one(tmp_path: Path) -> None:
    write_pairs(tmp_path, made_pairs(3, 2))
    every = find_pairs([tmp_path])
    assert [(one.model, one.checkpoint) for one in every][:3] == [
        ("model-0", "epoch-0"), ("model-0", "epoch-5"), ("model-1", "epoch-0"),
    ]  # fmt: skip
    assert find_pairs([tmp_path / f"model-{i}" for i in range(3)]) == every
    assert find_pairs([tmp_path, tmp_path / "model-1"]) == every


def test_worlds_are_kept_apart(tmp_path: Path) -> None:
    for density in (0.65, 0.75):
        write_pairs(tmp_path / str(density), made_pairs(2, 2, split=SPLIT | {"density": density}))
    benches = read_bench([tmp_path], SMALL, settings=FEW)
    assert {name: len(bench.points) for name, bench in benches.items()} == {
        "made-up (density=0.65)": 4,
        "made-up (density=0.75)": 4,
    }


def test_tasks_are_kept_apart(tmp_path: Path) -> None:
    for queries in (20, 30):
        write_pairs(tmp_path / str(queries), made_pairs(2, 1, queries=queries))
    assert list(read_bench([tmp_path], SMALL, settings=FEW)) == [
        "made-up (task queries=20)",
        "made-up (task queries=30)",
    ]


@pytest.mark.parametrize(
    ("worlds", "names"),
    [
        ([{"name": "a", "seed": 1}, {"name": "b", "seed": 2}], ["a", "b"]),
        ([{"name": "a", "facts": 9, "kind": "all"}, {"name": "a", "kind": "tail"}], ["a (kind=all)", "a (kind=tail)"]),
        (
            [{"name": "a", "x": x, "y": y} for x, y in ((1, 1), (1, 2), (2, 1))],
            ["a (x=1, y=1)", "a (x=1, y=2)", "a (x=2, y=1)"],
        ),
        ([{"name": "a"}, {"name": "a", "seed": 1}], ["a", "a (seed=1)"]),
    ],
    ids=["names", "one-setting", "several-settings", "missing-setting"],
)
def test_names_tell_worlds_apart_and_say_no_more(worlds: list[dict[str, Any]], names: list[str]) -> None:
    assert world_names(worlds) == names


def test_everything_that_is_missing_is_named(tmp_path: Path) -> None:
    write_pairs(tmp_path / "runs", made_pairs(2, 2))
    (tmp_path / "runs" / "model-0" / "epoch-5.open.parquet").unlink()
    (tmp_path / "runs" / "model-1" / "epoch-0.closed.parquet").unlink()
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError) as raised:
        find_pairs([tmp_path / "runs", tmp_path / "empty", tmp_path / "nowhere"])
    assert raised.value.title == "some rank tables are missing"
    assert raised.value.problems == [
        f"{tmp_path}/runs/model-1/epoch-0.open.parquet: its .closed.parquet is missing",
        f"{tmp_path}/runs/model-0/epoch-5.closed.parquet: its .open.parquet is missing",
        f"{tmp_path}/empty: no rank tables named NAME.open.parquet and NAME.closed.parquet in it",
        f"{tmp_path}/nowhere: no such folder",
    ]


def test_all_files_that_do_not_go_together_are_named(tmp_path: Path) -> None:
    write_pairs(tmp_path, made_pairs(2, 2))
    for model in ("model-0", "model-1"):
        made_pair(1.0, queries=50, model=model).open.write(tmp_path / model / "epoch-0.open.parquet")
    with pytest.raises(DataError) as raised:
        read_bench([tmp_path], SMALL)
    titles = [problem for problem in raised.value.problems if not problem.startswith("  ")]
    assert [title.split(":")[0] for title in titles] == [str(tmp_path / f"model-{i}" / "epoch-0") for i in range(2)]


def test_two_folders_of_one_model_are_refused(tmp_path: Path) -> None:
    for part in ("a", "b"):
        write_pairs(tmp_path / part, made_pairs(1, 2))
    with pytest.raises(DataError) as raised:
        read_bench([tmp_path], SMALL)
    assert raised.value.problems == [f"model-0, epoch-{i}: this name occurs twice" for i in (0, 5)]


METRICS = ["pMRR(p=1)", "pMRR(p=0.25)", "PROBE(alpha=1)", "PROBE(alpha=-1)"]


def test_every_probe_meets_the_gentlest_power_and_its_own() -> None:
    found = [(str(first), str(second)) for first, second, _ in comparisons(OPEN_WORLD_METRICS)]
    probe = "PROBE(alpha={},beta=0)".format
    assert found == [
        *((probe(alpha), "pMRR(p=0.25)") for alpha in (2, 1, 0.5, 0, -0.5, -1)),
        (probe(1), "pMRR(p=1)"),
        (probe(0.5), "pMRR(p=0.5)"),
    ]
    assert not list(comparisons(made_points([0], [0], [0]).metrics))


@pytest.mark.parametrize("late", [False, True])
def test_intervals_are_those_of_a_loop_over_drawn_models(late: bool) -> None:
    points = Points.of(made_pairs(5, 4, queries=15), METRICS)
    settings = BenchSettings(replicates=200, seed=3, late=0.3)
    kept = points.mrr > 0.3 if late else points.mrr > -1
    assert not late or 5 < kept.sum() < len(points)
    rng = np.random.default_rng(3)
    draws = rng.multinomial(5, np.full(5, 0.2), size=200)
    taus = np.empty((200, 4))
    for number, draw in enumerate(draws):
        rows = [
            i for m, times in enumerate(draw) for _ in range(times) for i in np.flatnonzero(kept & (points.model == m))
        ]
        taus[number] = [kendalltau(points.open[k][rows], points.closed[k][rows]).statistic for k in range(4)]
    found = tau_differences(points, settings, late=late)
    assert [(str(one.first), str(one.second)) for one in found] == [
        ("PROBE(alpha=1,beta=0)", "pMRR(p=0.25)"),
        ("PROBE(alpha=-1,beta=0)", "pMRR(p=0.25)"),
        ("PROBE(alpha=1,beta=0)", "pMRR(p=1)"),
    ]
    whole = [kendalltau(points.open[k][kept], points.closed[k][kept]).statistic for k in range(4)]
    for one, (first, second) in zip(found, ((2, 1), (3, 1), (2, 0)), strict=True):
        assert one.late == late
        assert one.value == pytest.approx(whole[first] - whole[second], abs=1e-12)
        wanted = np.nanquantile(taus[:, first] - taus[:, second], [0.025, 0.975])
        assert [one.low, one.high] == pytest.approx(wanted.tolist(), abs=1e-9)


def test_the_same_seed_draws_the_same_models() -> None:
    points = Points.of(made_pairs(4, 2, queries=15), METRICS)
    one, again, other = (tau_differences(points, BenchSettings(replicates=50, seed=seed)) for seed in (1, 1, 2))
    assert one == again != other


def test_equal_candidates_make_probe_and_its_power_equal() -> None:
    found = tau_differences(Points.of(made_pairs(4, 3), METRICS), BenchSettings(replicates=100))
    assert {str(one.second): one.verdict for one in found if one.first == parse("PROBE(alpha=1)")}[
        "pMRR(p=1)"
    ] == "equal"


def test_one_model_has_no_interval() -> None:
    assert tau_differences(Points.of(made_pairs(1, 4), METRICS), BenchSettings()) == []


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [((0.01, 0.2), "more"), ((-0.2, -0.01), "less"), ((-0.1, 0.1), "undecided"), ((0.0, 0.2), "undecided")],
)
def test_a_verdict_needs_an_interval_beyond_zero(interval: tuple[float, float], verdict: str) -> None:
    assert TauDifference(PROBE(alpha=0), parse("MRR"), "MRR", False, 0.05, *interval).verdict == verdict


def test_sentences_name_every_alpha_once() -> None:
    def one(alpha: float, low: float, high: float, late: bool) -> TauDifference:
        return TauDifference(PROBE(alpha=alpha), parse("MRR"), "MRR", late, (low + high) / 2, low, high)

    found = [one(1, -0.2, -0.1, False), one(0.5, -0.1, 0.1, False), one(0, 0, 0, False), one(1, -0.2, -0.1, True)]
    assert sentences(found) == [
        "Over all points PROBE is more consistent than MRR at no alpha; less at 1; equally at 0; undecided at 0.5.",
        "Over late points PROBE is more consistent than MRR at no alpha; less at 1.",
    ]
