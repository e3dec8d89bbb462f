import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgprobe.openworld import estimate_closed
from kgprobe.openworld.world_files import write_world
from kgprobe.openworld.world_ranks import rank_worlds
from kgprobe.openworld.world_tasks import all_task
from kgprobe.ranks import read_ranks
from simulated_worlds import Gaussian, Learned, simulate_models
from worlds import Dense, random_world

Command = Callable[..., Any]

FAST = ("--draws", 4, "--no-curve")


@pytest.fixture
def models(tmp_path: Path) -> tuple[list[Path], int]:
    """The ranks of two models in one world, and its number of entities."""
    worlds, entities = simulate_models(0, [Learned(0.9), Gaussian(1.0)], 0.2, size=np.repeat([3, 9], [60, 15]))
    paths = [tmp_path / "better.parquet", tmp_path / "worse.parquet"]
    for path, world in zip(paths, worlds, strict=True):
        world.open.write(path)
    return paths, entities


def test_json_has_what_the_library_finds(kgprobe: Command, models: tuple[list[Path], int]) -> None:
    paths, entities = models
    options = ("--missing", "0.1:0.3", "--entities", entities, "-m", "MRR", *FAST, "-f", "json")
    run = kgprobe("openworld", "estimate", *paths, *options)
    assert run.code == 0
    tables = {path.stem: read_ranks(path) for path in paths}
    found = estimate_closed(tables, "MRR", missing=(0.1, 0.3), entities=entities, draws=4, curve=False)
    rows = json.loads(run.out)
    assert [row["kind"] for row in rows] == ["estimate", "estimate", "order"]
    for row, expect in zip(rows, found.to_rows(), strict=True):
        assert {name: row[name] for name in ("closed", "low", "high", "missing", "missing_high")} == pytest.approx(
            {name: expect[name] for name in ("closed", "low", "high", "missing", "missing_high")}
        )
    assert "each true triple is missing with probability 0.1 to 0.3" in run.err


def test_the_table_is_followed_by_how_long_the_order_holds(kgprobe: Command, models: tuple[list[Path], int]) -> None:
    paths, entities = models
    run = kgprobe(
        "openworld", "estimate", *paths, "--missing", "0.2", "--entities", entities, "-m", "MRR", "--draws", 4
    )
    assert run.code == 0
    assert run.out.split()[:2] == ["model", "metric"]
    assert "first" in run.out
    assert "holds_up_to" in run.out.replace(" ", "_")
    assert "better before worse by MRR: this order holds up to a missing rate of at least 0.50" in run.err


def test_several_odds_stand_side_by_side(kgprobe: Command, models: tuple[list[Path], int]) -> None:
    (path, _), entities = models
    options = ("--missing", "0.2", "--entities", entities, "-m", "MRR", "--odds", "0.5,1,2", *FAST)
    rows = list(csv.DictReader(io.StringIO(kgprobe("openworld", "estimate", path, *options, "-f", "csv").out)))
    assert [float(row["odds"]) for row in rows] == [0.5, 1.0, 2.0]
    closed = [float(row["closed"]) for row in rows]
    assert closed == sorted(closed, reverse=True)
    assert closed[0] > closed[2]
    assert kgprobe("openworld", "estimate", path, *options).out.split()[0] == "odds"


def test_a_table_has_no_columns_that_nobody_asked_for(kgprobe: Command, models: tuple[list[Path], int]) -> None:
    paths, entities = models
    run = kgprobe("openworld", "estimate", *paths, "--missing", "0.2", "--entities", entities, "-m", "MRR", *FAST)
    assert "probability" in run.out
    assert "up_to" not in run.out


def test_the_seed_repeats_a_run(kgprobe: Command, models: tuple[list[Path], int]) -> None:
    (path, _), entities = models

    def low(seed: int) -> float:
        options = ("--missing", "0.2", "--entities", entities, "-m", "MRR", *FAST, "-f", "json", "--seed", seed)
        run = kgprobe("openworld", "estimate", path, *options)
        return float(json.loads(run.out)[0]["low"])

    assert low(0) == low(0) != low(1)


def test_a_graph_tells_as_much_as_its_number_of_entities(kgprobe: Command, tmp_path: Path) -> None:
    world = random_world(0)
    write_world(world, tmp_path / "world")
    ranks = tmp_path / "model.parquet"
    rank_worlds(Dense.random(world), world, all_task(world)).open.write(ranks)
    options = ("--missing", "0.4", "-m", "MRR", *FAST, "-f", "json")
    by_graph = kgprobe("openworld", "estimate", ranks, "--graph", tmp_path / "world", *options)
    by_number = kgprobe("openworld", "estimate", ranks, "--entities", world.num_entities, *options)
    assert by_graph.code == 0
    assert json.loads(by_graph.out)[0]["closed"] == json.loads(by_number.out)[0]["closed"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--missing", "1"), "the missing rate is 1.0"),
        (("--missing", "-0.1"), "the missing rate is -0.1"),
        (("--missing", "much"), "--missing much: invalid missing rate"),
        (("--missing", "0.1:0.2:0.3"), "--missing 0.1:0.2:0.3: invalid missing rate"),
        (("--missing", "0.3:0.1"), "missing rates from 0.3 to 0.1"),
        (("--missing", "0.2", "--odds", "0"), "the odds of missing answers are 0"),
        (("--missing", "0.2", "--odds", "high"), "--odds high"),
        (("--missing", "0.2", "--held-out", "0"), "the held-out share is 0"),
        (("--missing", "0.2", "--level", "1"), "level is 1.0"),
        (("--missing", "0.2", "--draws", "2"), "draws is 2"),
        (("--missing", "0.2", "--seed", "-1"), "seed is -1"),
    ],
)
def test_impossible_requests_leave_with_2(
    kgprobe: Command, ranks_file: Path, options: tuple[str, ...], problem: str
) -> None:
    run = kgprobe("openworld", "estimate", ranks_file, "--entities", 4, *options)
    assert (run.code, run.out) == (2, "")
    assert problem in run.err


def test_ranks_alone_leave_with_2(kgprobe: Command, ranks_file: Path) -> None:
    run = kgprobe("openworld", "estimate", ranks_file, "--missing", "0.2")
    assert run.code == 2
    assert "give the graph, or the number of its entities" in " ".join(run.err.split())


def test_ranks_with_intervals_leave_with_1(kgprobe: Command, interval_file: Path) -> None:
    run = kgprobe("openworld", "estimate", interval_file, "--missing", "0.2", "--entities", 4)
    assert run.code == 1
    assert "lists: 2 of 4 ranks" in run.err
    assert "--at worst or --at best" in run.err
    one_end = kgprobe("openworld", "estimate", interval_file, "--missing", "0.2", "--entities", 4, "--at", "worst")
    assert one_end.code == 0


def test_ranks_of_other_entities_leave_with_1(kgprobe: Command, ranks_file: Path) -> None:
    run = kgprobe("openworld", "estimate", ranks_file, "--missing", "0.2", "--entities", 3)
    assert run.code == 1
    assert "the ranks do not fit the graph" in run.err


def test_a_file_that_is_not_there_leaves_with_1(kgprobe: Command, tmp_path: Path) -> None:
    assert kgprobe("openworld", "estimate", tmp_path / "no.parquet", "--missing", "0.2", "--entities", 3).code == 1
