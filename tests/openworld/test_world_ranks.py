from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgprobe.errors import DataError, UsageError
from kgprobe.openworld.world import OpenWorld
from kgprobe.openworld.world_ranks import (
    RankedCheckpoint,
    RankPair,
    checkpoints_of,
    pair_paths,
    rank_worlds,
    read_pairs,
)
from kgprobe.openworld.world_tasks import WorldTask, all_task, tail_task
from kgprobe.predict import Dot
from kgprobe.ranks import Ranks, merge_seeds
from kgprobe.resources import Resources
from ranking import Vectors
from support import take, with_columns
from worlds import Dense, as_set, changed, random_world, ranks_by_loops, rows

SIDES = {"tail": ("tail",), "both": ("tail", "head")}


def task_of(world: OpenWorld, kind: str) -> WorldTask:
    return tail_task(world, 12, 2) if kind == "tail" else all_task(world)


def pair_of(kind: str = "tail", seed: int = 0) -> RankPair:
    world = random_world(seed)
    return rank_worlds(Dense.random(world, seed), world, task_of(world, kind), name="dense")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["tail", "all"])
def test_ranks_of_both_worlds_are_those_of_a_loop(kind: str, seed: int) -> None:
    world = random_world(seed)
    model, task = Dense.random(world, seed), task_of(world, kind)
    pair = rank_worlds(model, world, task)
    seen = as_set(world.train) | as_set(world.valid) | as_set(world.known)
    true = seen | as_set(world.missing)
    hard = as_set(task.known) | as_set(task.missing)
    sides = SIDES[task.sides]
    assert rows(pair.open) == ranks_by_loops(model, task.known, sides, seen, world.num_entities)
    assert rows(pair.closed) == ranks_by_loops(model, hard, sides, true, world.num_entities)
    assert (pair.open.ties > 0).any()
    assert (pair.open.rank[:] > pair.closed.rank[pair.closed_rows]).any()


@pytest.mark.parametrize("kind", ["tail", "all"])
def test_open_and_closed_ranks_differ_by_the_missing_answers_above(kind: str) -> None:
    world = random_world(1)
    model, task = Dense.random(world, 1), task_of(world, kind)
    pair = rank_worlds(model, world, task)
    opened, closed, missing = rows(pair.open), rows(pair.closed), as_set(world.missing)
    for (*fact, side), (rank, ties, candidates) in opened.items():
        target = (fact[0], fact[1], fact[2])
        own = model.of(target, side, fact[2] if side == "tail" else fact[0])
        lost = [e for e in range(world.num_entities) if changed(target, side, e) in missing]
        above = sum(model.of(target, side, e) > own for e in lost)
        equal = sum(model.of(target, side, e) == own for e in lost)
        assert closed[(*target, side)] == (rank - above - equal / 2, ties - equal, candidates - len(lost))


def test_a_model_of_vectors_is_ranked_alike_on_every_kind_of_resources() -> None:
    world = random_world(2)
    draw = np.random.default_rng(0).integers(-2, 3, (2, 12, 3, 4)).astype(np.float32)
    model = Vectors(Dot(), draw, draw[0, :, 0])
    one, other = (
        rank_worlds(model, world, all_task(world), resources=r) for r in (None, Resources(threads=1, shards=3))
    )
    dense = Dense(np.einsum("hrd,td->hrt", draw[1], model.table))
    loops = ranks_by_loops(dense, world.known, ["tail"], as_set(world.graph.triples()), 12)
    assert rows(one.open) == rows(other.open)
    assert rows(one.closed) == rows(other.closed)
    assert {row: value for row, value in rows(one.open).items() if row[3] == "tail"} == loops


def test_rank_files_say_what_they_are_of() -> None:
    world = random_world()
    pair = rank_worlds("random", world, tail_task(world, 5, 2, seed=3), name="mine")
    for which, table in (("open", pair.open), ("closed", pair.closed)):
        about = table.info.world
        assert (about.world, about.sides, about.train_share) == (which, "tail", world.train_share)
        assert about.split == {**world.settings, "name": "random-0.6"}
        assert about.task == {"kind": "tail", "queries": 5, "least_answers": 2, "least_known": 1, "seed": 3}
        assert (table.info.model, table.info.graph_hash) == ("mine", world.graph.content_hash)
    assert (pair.open.info.filtered, pair.closed.info.filtered) == (
        ("train", "valid", "test"),
        ("train", "valid", "test", "missing"),
    )
    assert pair.open.info.filter_hash == world.open_filter.hash != pair.closed.info.filter_hash


def test_popularity_is_that_of_the_training_triples() -> None:
    world = random_world()
    pair = rank_worlds("random", world, tail_task(world, 5, 2))
    for table in (pair.open, pair.closed):
        expected = world.graph.popularity.entity(table.target)
        np.testing.assert_array_equal(table.numbers("entity_popularity"), expected)


def test_progress_counts_every_rank_of_both_worlds() -> None:
    world, seen = random_world(), []
    task = all_task(world)
    rank_worlds("random", world, task, progress=seen.append)
    assert sum(seen) == pytest.approx(task.ranked)


@pytest.mark.parametrize("kind", ["tail", "all"])
def test_a_pair_is_read_as_it_was_written(tmp_path: Path, kind: str) -> None:
    pair = pair_of(kind)
    pair.write(tmp_path / "new", "epoch-00050")
    again = RankPair.read(tmp_path / "new", "epoch-00050")
    assert again.open.to_arrow().equals(pair.open.to_arrow(), check_metadata=True)
    assert again.closed.to_arrow().equals(pair.closed.to_arrow(), check_metadata=True)
    assert again.require_answers == (kind == "tail")


def test_pairs_are_in_natural_order(tmp_path: Path) -> None:
    for name in ("epoch-10", "final", "epoch-5", "2"):
        pair_of().write(tmp_path, name)
    assert list(read_pairs(tmp_path)) == ["2", "epoch-5", "epoch-10", "final"]


def test_pairs_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no pairs of rank files") as caught:
        read_pairs(tmp_path)
    assert "no files NAME" in caught.value.problems[0]
    with pytest.raises(DataError, match="no pairs of rank files") as caught:
        read_pairs(tmp_path / "none")
    assert caught.value.problems == ["no such folder"]


def test_every_pair_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    for name in ("good", "half", "mixed", "swapped"):
        pair_of().write(tmp_path, name)
    pair_paths(tmp_path, "half")["closed"].unlink()
    pair_of(seed=1).closed.write(pair_paths(tmp_path, "mixed")["closed"])
    pair_of().open.write(pair_paths(tmp_path, "swapped")["closed"])
    with pytest.raises(DataError, match="3 of 4 pairs cannot be used") as caught:
        read_pairs(tmp_path)
    text = str(caught.value)
    assert "half.closed.parquet is not there" in text
    assert "mixed: these rank tables are not of one model in two worlds" in text
    assert "the table of the closed world was ranked in the open world" in text


def test_one_pair_that_cannot_be_used_is_said_as_it_is(tmp_path: Path) -> None:
    pair_of().write(tmp_path, "half")
    pair_paths(tmp_path, "half")["open"].unlink()
    with pytest.raises(DataError, match="half: no pair of rank files"):
        read_pairs(tmp_path)


def refused(opened: Ranks, closed: Ranks, **options: Any) -> list[str]:
    with pytest.raises(DataError, match="not of one model in two worlds") as caught:
        RankPair(opened, closed, **options)
    assert "kgprobe openworld evaluate" in caught.value.remedy
    return caught.value.problems


def test_what_is_known_must_be_true() -> None:
    pair = pair_of("all")
    known = take(pair.closed, sorted(set(range(len(pair.closed))) - set(pair.closed_rows[:3].tolist())))
    [problem] = refused(pair.open, known, require_answers=False)
    assert problem.startswith(f"3 of {len(pair.open)} rows of the open table are not in the closed one")


def test_every_query_needs_a_known_answer_unless_it_is_an_ordinary_test_set() -> None:
    pair = pair_of("all")
    asked = {(h, r) for h, r, _, side in rows(pair.closed) if side == "tail"}
    asked_heads = {(t, r) for _, r, t, side in rows(pair.closed) if side == "head"}
    known = {(h, r) for h, r, _, side in rows(pair.open) if side == "tail"}
    known_heads = {(t, r) for _, r, t, side in rows(pair.open) if side == "head"}
    without = len(asked - known) + len(asked_heads - known_heads)
    assert without > 0
    [problem] = refused(pair.open, pair.closed)
    assert problem == f"{without} of {len(asked) + len(asked_heads)} queries have no known answer"
    assert RankPair(pair.open, pair.closed, require_answers=False).closed_rows.min() >= 0


def test_a_larger_filter_makes_no_number_larger() -> None:
    pair = pair_of()
    row = int(pair.closed_rows[4])
    candidates, rank = pair.closed.candidates.copy(), pair.closed.rank.copy()
    candidates[row], rank[row] = pair.open.candidates[4] + 5, pair.open.rank[4] + 0.5
    worse = with_columns(pair.closed, candidates=candidates.astype(int), rank=rank)
    problems = refused(pair.open, worse)
    assert [problem.split(" in the")[0] for problem in problems] == [
        "1 answers have a larger rank",
        "1 answers have a larger worst_rank",
        "1 answers have a larger candidates",
    ]
    assert all("row 4 " in problem for problem in problems)


def test_tables_of_different_origin_are_refused_with_all_that_differs() -> None:
    pair = pair_of()
    other = pair.closed.with_info(
        model="other",
        graph="elsewhere",
        graph_hash="0",
        world=replace(pair.closed.info.world, split={}, task={}),
    )
    assert len(refused(pair.open, other)) == 5


def test_the_order_of_the_rows_does_not_matter() -> None:
    pair = pair_of()
    order = np.random.default_rng(0).permutation(len(pair.closed))
    mixed = RankPair(pair.open, take(pair.closed, order.tolist()))
    np.testing.assert_array_equal(mixed.closed.target[mixed.closed_rows], pair.open.target)
    np.testing.assert_array_equal(mixed.closed.rank[mixed.closed_rows], pair.closed.rank[pair.closed_rows])


def test_training_runs_are_told_apart() -> None:
    one, two = (pair_of("tail"), pair_of("tail"))
    merged = RankPair(merge_seeds({0: one.open, 5: two.open}), merge_seeds({0: one.closed, 5: two.closed}))
    assert len(merged.open) == 2 * len(one.open)
    assert "only one of the two tables has training seeds" in refused(merged.open, one.closed)
    problems = refused(merged.open, merge_seeds({0: one.closed, 4: two.closed}))
    assert problems[0].startswith(f"{len(one.open)} of {len(merged.open)} rows of the open table")


def test_an_empty_table_has_no_score() -> None:
    pair = pair_of()
    assert refused(take(pair.open, []), pair.closed)[0] == "the open table has no rows"


def test_a_model_of_another_graph_is_refused_as_when_it_is_ranked(tmp_path: Path) -> None:
    np.savez(tmp_path / "scores.npz", tail=np.zeros((3, 3), dtype=np.float32))
    world = random_world()
    with pytest.raises(DataError, match=r"scores\.npz"):
        rank_worlds(tmp_path / "scores.npz", world, tail_task(world, 5, 2))


@pytest.fixture
def checkpoint_world() -> OpenWorld:
    return random_world()


@pytest.fixture
def task(checkpoint_world: OpenWorld) -> WorldTask:
    return tail_task(checkpoint_world, 6, 2)


def scores_in(path: Path, world: OpenWorld, task: WorldTask, seed: int) -> Dense:
    """Write the scores of a model for the queries of a task."""
    model = Dense.random(world, seed)
    head, relation, _ = np.concatenate([task.known, task.missing]).T
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, tail=model.score("tail", head, relation).astype(np.float32))
    return model


def touch(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")


def test_a_model_without_snapshots_has_one_checkpoint(tmp_path: Path) -> None:
    touch(tmp_path / "run" / "settings.toml")
    found = checkpoints_of([tmp_path / "run", "random", "mine/scores.npz"], "out")
    assert [(c.model, c.name, c.path) for c in found] == [
        ("run", "final", Path("out/run/final")),
        ("random", "final", Path("out/random/final")),
        ("scores", "final", Path("out/scores/final")),
    ]


def test_a_run_has_all_its_snapshots_and_each_all_its_seeds(tmp_path: Path) -> None:
    for epoch in (0, 100, 50):
        for seed in (3, 12):
            touch(tmp_path / f"snapshots/epoch-{epoch:05}/seed-{seed}.safetensors")
    found = checkpoints_of([tmp_path], "out")
    assert [c.name for c in found] == ["epoch-00000", "epoch-00050", "epoch-00100"]
    assert {seed: Path(run).parent.name for seed, run in found[1].runs.items()} == {3: "epoch-00050", 12: "epoch-00050"}


@pytest.mark.parametrize("name", ["seed-x", "seed-", "seed--1", "seed-1.5", f"seed-{2**63}", "seed-\u0661", "seed-00"])
def test_snapshots_that_are_not_named_after_a_seed(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "run" / "snapshots" / "epoch-00001"
    folder.mkdir(parents=True)
    for file in ("seed-3", name):
        (folder / f"{file}.safetensors").touch()
    with pytest.raises(DataError, match="invalid snapshots") as error:
        checkpoints_of([tmp_path / "run"], "out")
    assert error.value.problems == [f"snapshots/epoch-00001/{name}.safetensors is not named after a seed"]


def test_models_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="the same name") as caught:
        checkpoints_of(["a/run", "b/run", "c/other"], "out")
    assert caught.value.problems == ["a/run has the name run", "b/run has the name run"]


def test_what_is_ranked_is_kept_and_known_again(tmp_path: Path, checkpoint_world: OpenWorld, task: WorldTask) -> None:
    model = scores_in(tmp_path / "mine.npz", checkpoint_world, task, 0)
    [checkpoint] = checkpoints_of([tmp_path / "mine.npz"], tmp_path / "out")
    assert not checkpoint.is_ranked(checkpoint_world, task)
    pair = checkpoint.rank(checkpoint_world, task)
    assert checkpoint.is_ranked(checkpoint_world, task)
    expected = rank_worlds(model, checkpoint_world, task)
    assert rows(pair.open) == rows(expected.open)
    assert rows(RankPair.read(tmp_path / "out" / "mine", "final").closed) == rows(expected.closed)
    assert pair.open.info.model == "mine"


def test_half_a_pair_is_ranked_again(tmp_path: Path, checkpoint_world: OpenWorld, task: WorldTask) -> None:
    [checkpoint] = checkpoints_of(["random"], tmp_path)
    checkpoint.rank(checkpoint_world, task)
    pair_paths(checkpoint.folder, "final")["closed"].unlink()
    assert not checkpoint.is_ranked(checkpoint_world, task)


def test_several_training_runs_are_one_table(tmp_path: Path, checkpoint_world: OpenWorld, task: WorldTask) -> None:
    models = {seed: scores_in(tmp_path / f"{seed}.npz", checkpoint_world, task, seed) for seed in (2, 9)}
    runs = {seed: str(tmp_path / f"{seed}.npz") for seed in models}
    pair = RankedCheckpoint("two", "epoch-1", runs, tmp_path / "out").rank(checkpoint_world, task)
    assert pair.open.seed is not None
    assert pair.closed.seed is not None
    for seed, model in models.items():
        alone = rank_worlds(model, checkpoint_world, task)
        assert rows(pair.open.filter(pair.open.seed == seed)) == rows(alone.open)
        assert rows(pair.closed.filter(pair.closed.seed == seed)) == rows(alone.closed)


def problems_of(checkpoint: RankedCheckpoint, world: OpenWorld, task: WorldTask) -> str:
    with pytest.raises(DataError, match="something else") as caught:
        checkpoint.is_ranked(world, task)
    return "\n".join(caught.value.problems)


def test_ranks_of_something_else_are_never_taken_for_ones_own(
    tmp_path: Path, checkpoint_world: OpenWorld, task: WorldTask
) -> None:
    scores_in(tmp_path / "mine.npz", checkpoint_world, task, 0)
    [checkpoint] = checkpoints_of([tmp_path / "mine.npz"], tmp_path / "out")
    checkpoint.rank(checkpoint_world, task)
    assert "is of another task" in problems_of(checkpoint, checkpoint_world, all_task(checkpoint_world))
    assert "is of another split" in problems_of(checkpoint, replace(checkpoint_world, settings={"seed": 7}), task)
    assert "is of another set of triples" in problems_of(
        checkpoint, replace(checkpoint_world, missing=checkpoint_world.missing[1:]), task
    )
    scores_in(tmp_path / "mine.npz", checkpoint_world, task, 1)
    [retrained] = checkpoints_of([tmp_path / "mine.npz"], tmp_path / "out")
    assert "is of another model" in problems_of(retrained, checkpoint_world, task)


def test_a_folder_is_known_by_its_files(tmp_path: Path) -> None:
    def found() -> str:
        return checkpoints_of([tmp_path / "run"], "out")[0].hash

    touch(tmp_path / "run" / "best" / "weights")
    before = found()
    touch(tmp_path / "run" / ".lock")
    assert found() == before
    (tmp_path / "run" / "best" / "weights").write_bytes(b"1")
    assert found() != before
