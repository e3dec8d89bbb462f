from pathlib import Path
from typing import Any

import pytest

from benches import SMALL, SPLIT, made_pair, made_pairs, write_pairs
from kgprobe.errors import DataError
from kgprobe.openworld.bench import Points, Settings, find_pairs, read_bench
from kgprobe.openworld.bench.read import world_names

FEW = Settings(replicates=5)


def test_a_folder_of_models_is_read_in_the_order_of_training(tmp_path: Path) -> None:
    pairs = made_pairs(11, 3, queries=10)
    done: list[float] = []
    benches = read_bench([write_pairs(tmp_path, pairs)], SMALL, settings=FEW, watch=done.append)
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
        f"{tmp_path}/nowhere: there is no such folder",
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
    assert raised.value.problems == [f"model-0, epoch-{i}: there are two of this name" for i in (0, 5)]
