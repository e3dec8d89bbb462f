import json
from pathlib import Path

import pytest

from kgprobe.graph import load_graph
from kgprobe.openworld.world_files import read_world
from kgprobe.openworld.world_ranks import rank_worlds
from kgprobe.openworld.world_tasks import all_task
from worlds import random_graph


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    random_graph().write(tmp_path / "graph")
    return tmp_path / "graph"


def test_a_graph_becomes_a_world(kgprobe, graph: Path, tmp_path: Path) -> None:
    run = kgprobe("openworld", "split", graph, "-o", tmp_path / "w", "--valid", 0.2, "--seed", 3, "-f", "json")
    assert run.code == 0
    world = read_world(tmp_path / "w")
    assert {row["part"]: row["facts"] for row in json.loads(run.out)} == world.sizes
    assert {row["part"]: row["share"] for row in json.loads(run.out)} == {
        part: pytest.approx(share) for part, share in world.shares.items() if part != "hard_missing"
    }
    assert sum(world.sizes.values()) == 150
    assert (world.settings["seed"], world.settings["valid"], world.settings["score"]) == (3, 0.2, None)
    assert len(load_graph(tmp_path / "w").triples("valid")) > 0
    assert "no tail query has 10 hard answers" in run.err


def test_answers_of_the_tail_queries_are_shown_where_there_are_some(kgprobe, tmp_path: Path) -> None:
    run = kgprobe("openworld", "split", "family-tree", "-o", tmp_path / "w", "-f", "json")
    assert "500 tail queries have at least 10 hard answers" in run.err
    answers = {row["part"]: row["answers per tail query"] for row in json.loads(run.out)}
    assert answers["known"] + answers["missing"] >= 10
    assert list(answers) == ["train", "known", "missing"]


@pytest.mark.parametrize("score", ["popularity", "ranks"])
def test_what_is_hidden_may_depend_on_a_score(kgprobe, graph: Path, tmp_path: Path, score: str) -> None:
    kgprobe("openworld", "split", graph, "-o", tmp_path / "plain")
    plain = read_world(tmp_path / "plain")
    if score == "ranks":
        score = str(tmp_path / "ranks.parquet")
        rank_worlds("entity-frequency", plain, all_task(plain)).closed.write(score)
    run = kgprobe("openworld", "split", graph, "-o", tmp_path / "w", "--score", score, "--odds", "inf")
    assert run.code == 0
    world = read_world(tmp_path / "w")
    assert world.train.tolist() == plain.train.tolist()
    assert world.missing.tolist() != plain.missing.tolist()
    assert (world.settings["score"], world.settings["odds"]) == (score, "inf")


def test_a_score_without_odds_is_said_to_do_nothing(kgprobe, graph: Path, tmp_path: Path) -> None:
    run = kgprobe("openworld", "split", graph, "-o", tmp_path / "w", "--score", "popularity")
    assert (run.code, "the score has no effect" in run.err) == (0, True)


def test_numbers_that_make_no_sense_are_all_listed(kgprobe, graph: Path, tmp_path: Path) -> None:
    run = kgprobe("openworld", "split", graph, "-o", tmp_path / "w", "--density", 2, "--train", 0, "--odds", 0)
    assert run.code == 2
    assert [name in run.err for name in ("density is 2", "train_share is 0", "odds is 0")] == [True] * 3
    assert not (tmp_path / "w").exists()


def test_no_graph_is_overwritten(kgprobe, graph: Path) -> None:
    run = kgprobe("openworld", "split", "family-tree", "-o", graph)
    assert (run.code, "would be overwritten" in run.err) == (1, True)
    assert len(load_graph(graph).triples()) == 150


@pytest.mark.parametrize(
    ("arguments", "message"), [(["nope"], "no such graph"), (["graph", "--score", "nope"], "no such file")]
)
def test_what_is_not_there(
    kgprobe, graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    run = kgprobe("openworld", "split", *arguments, "-o", "w")
    assert (run.code, message in run.err) == (1, True)
