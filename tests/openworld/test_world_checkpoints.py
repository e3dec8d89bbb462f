from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kgprobe import DataError, UsageError
from kgprobe.openworld.evaluate import Checkpoint, checkpoints_of
from kgprobe.openworld.pair import RankPair, pair_paths, rank_worlds
from kgprobe.openworld.task import Task, all_task, tail_task
from kgprobe.openworld.world import OpenWorld
from worlds import Dense, random_world, rows


@pytest.fixture
def world() -> OpenWorld:
    return random_world()


@pytest.fixture
def task(world: OpenWorld) -> Task:
    return tail_task(world, 6, 2)


def scores_in(path: Path, world: OpenWorld, task: Task, seed: int) -> Dense:
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


def test_models_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="the same name") as caught:
        checkpoints_of(["a/run", "b/run", "c/other"], "out")
    assert caught.value.problems == ["a/run would be kept as run", "b/run would be kept as run"]


def test_what_is_ranked_is_kept_and_known_again(tmp_path: Path, world: OpenWorld, task: Task) -> None:
    model = scores_in(tmp_path / "mine.npz", world, task, 0)
    [checkpoint] = checkpoints_of([tmp_path / "mine.npz"], tmp_path / "out")
    assert not checkpoint.is_ranked(world, task)
    pair = checkpoint.rank(world, task)
    assert checkpoint.is_ranked(world, task)
    expected = rank_worlds(model, world, task)
    assert rows(pair.open) == rows(expected.open)
    assert rows(RankPair.read(tmp_path / "out" / "mine", "final").closed) == rows(expected.closed)
    assert pair.open.info.model == "mine"


def test_half_a_pair_is_ranked_again(tmp_path: Path, world: OpenWorld, task: Task) -> None:
    [checkpoint] = checkpoints_of(["random"], tmp_path)
    checkpoint.rank(world, task)
    pair_paths(checkpoint.folder, "final")["closed"].unlink()
    assert not checkpoint.is_ranked(world, task)


def test_several_training_runs_are_one_table(tmp_path: Path, world: OpenWorld, task: Task) -> None:
    models = {seed: scores_in(tmp_path / f"{seed}.npz", world, task, seed) for seed in (2, 9)}
    runs = {seed: str(tmp_path / f"{seed}.npz") for seed in models}
    pair = Checkpoint("two", "epoch-1", runs, tmp_path / "out").rank(world, task)
    assert pair.open.seed is not None
    assert pair.closed.seed is not None
    for seed, model in models.items():
        alone = rank_worlds(model, world, task)
        assert rows(pair.open.filter(pair.open.seed == seed)) == rows(alone.open)
        assert rows(pair.closed.filter(pair.closed.seed == seed)) == rows(alone.closed)


def problems_of(checkpoint: Checkpoint, world: OpenWorld, task: Task) -> str:
    with pytest.raises(DataError, match="something else") as caught:
        checkpoint.is_ranked(world, task)
    return "\n".join(caught.value.problems)


def test_ranks_of_something_else_are_never_taken_for_ones_own(tmp_path: Path, world: OpenWorld, task: Task) -> None:
    scores_in(tmp_path / "mine.npz", world, task, 0)
    [checkpoint] = checkpoints_of([tmp_path / "mine.npz"], tmp_path / "out")
    checkpoint.rank(world, task)
    assert "is of another task" in problems_of(checkpoint, world, all_task(world))
    assert "is of another split" in problems_of(checkpoint, replace(world, settings={"seed": 7}), task)
    assert "is of another set of facts" in problems_of(checkpoint, replace(world, missing=world.missing[1:]), task)
    scores_in(tmp_path / "mine.npz", world, task, 1)
    [retrained] = checkpoints_of([tmp_path / "mine.npz"], tmp_path / "out")
    assert "is of another model" in problems_of(retrained, world, task)


def test_a_folder_is_known_by_its_files(tmp_path: Path) -> None:
    def found() -> str:
        return checkpoints_of([tmp_path / "run"], "out")[0].hash

    touch(tmp_path / "run" / "best" / "weights")
    before = found()
    touch(tmp_path / "run" / ".lock")
    assert found() == before
    (tmp_path / "run" / "best" / "weights").write_bytes(b"1")
    assert found() != before
