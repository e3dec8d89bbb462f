"""Data of the open world that cannot be used: the message names the file and a way out, and nothing is computed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benches import made_pair, made_pairs, write_pairs
from kgprobe.openworld.world_files import write_world
from kgprobe.openworld.world_ranks import RankPair
from kgprobe.ranks import Ranks
from worlds import random_world

Command = Callable[..., Any]


def refused(run: Any, *messages: object, code: int = 1) -> None:
    assert (run.code, run.out) == (code, "")
    assert [str(message) for message in messages if str(message) not in run.err] == []
    assert "Remedy: " in run.err
    assert "Traceback" not in run.err


def without(ranks: Ranks, head: int, tails: tuple[int, ...]) -> Ranks:
    return ranks.filter(~((ranks.head == head) & np.isin(ranks.tail, tails)))


def unanswered(pair: RankPair) -> dict[str, Ranks]:
    return {"open": without(pair.open, 3, tuple(pair.open.tail.tolist()))}


def not_true(pair: RankPair) -> dict[str, Ranks]:
    return {"closed": without(pair.closed, 3, (100,))}


def of_another_model(pair: RankPair) -> dict[str, Ranks]:
    return {"closed": made_pair(1.0, queries=15, model="other").closed}


def of_other_queries(pair: RankPair) -> dict[str, Ranks]:
    return {"closed": made_pair(1.0, queries=12, model="model-1").closed}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (unanswered, "1 of 15 queries have no known answer"),
        (not_true, "1 of 60 rows of the open table are not in the closed one, but known answers must be"),
        (of_another_model, "the open table has the model 'model-1', the closed one 'other'"),
        (of_other_queries, "12 of 60 rows of the open table are not in the closed one"),
    ],
)
def test_rank_tables_that_do_not_go_together(
    kgprobe: Command, tmp_path: Path, change: Callable[[RankPair], dict[str, Ranks]], problem: str
) -> None:
    pairs = made_pairs(2, 2, queries=15)
    runs = write_pairs(tmp_path / "runs", pairs)
    for world, table in change(pairs["model-1"]["epoch-5"]).items():
        table.write(runs / "model-1" / f"epoch-5.{world}.parquet")
    refused(kgprobe("openworld", "bench", runs), runs / "model-1" / "epoch-5", problem, "kgprobe openworld evaluate")


def test_tables_of_other_queries_are_not_compared(kgprobe: Command, tmp_path: Path) -> None:
    """Each pair is sound, and says that it is of the same world and task."""
    runs = write_pairs(tmp_path, made_pairs(2, 1, queries=15))
    odd = made_pair(1.0, queries=16, model="model-1")
    for world in ("open", "closed"):
        table = getattr(odd, world)
        about = replace(table.info.world, task={"queries": 15})
        table.with_info(world=about).write(runs / "model-1" / f"epoch-0.{world}.parquet")
    refused(kgprobe("openworld", "bench", runs), "model-1, epoch-0: its queries are not those", "same queries")


def test_a_world_whose_known_facts_are_missing(kgprobe: Command, tmp_path: Path) -> None:
    world = random_world()
    write_world(world, tmp_path / "w")
    facts = np.concatenate([world.known[:1], world.missing[1:]])
    columns = dict(zip(("head", "relation", "tail"), facts.T, strict=True))
    pq.write_table(pa.table(columns), tmp_path / "w" / "missing.parquet")
    run = kgprobe("openworld", "evaluate", "random", "-w", tmp_path / "w", "-o", tmp_path / "out")
    refused(run, tmp_path / "w", "1 triples are in both known and missing", "give every triple once")


def test_a_published_query_without_a_known_answer(kgprobe: Command, tmp_path: Path) -> None:
    files = {
        "entities": {"id": range(6)},
        "relations": {"id": range(1)},
        "train": {"head": [0, 5], "relation": [0, 0], "tail": [1, 0]},
        "test_queries": {"query": [0, 1], "head": [0, 5], "relation": [0, 0]},
        "test_answers": {"query": [0, 0, 1], "tail": [2, 3, 4], "in_sparse": [True, False, False]},
    }
    for name, columns in files.items():
        pq.write_table(
            pa.table({key: pa.array(values) for key, values in columns.items()}), tmp_path / f"{name}.parquet"
        )
    run = kgprobe("openworld", "evaluate", "random", "-w", tmp_path, "-o", tmp_path / "out")
    refused(run, tmp_path, "test_answers.parquet: by in_sparse, queries 1 have no known answer")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sensitivity", "-g", "family-tree", "--missing", "1"), "at least 0 and below 1, not 1"),
        (("sensitivity", "-g", "family-tree", "--missing", "-0.1,1.5"), "not 1.5"),
        (("split", "family-tree", "--density", "0", "-o", "w"), "density is 0.0"),
        (("split", "family-tree", "--density", "1.01", "-o", "w"), "density is 1.01"),
    ],
    ids=["all", "several", "no-density", "more-than-all"],
)
def test_missing_rates_that_none_can_be(
    kgprobe: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(kgprobe("openworld", *arguments), message, code=2)
    assert not list(tmp_path.iterdir())
