import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgprobe.metrics import evaluate
from kgprobe.openworld.splits import split_world
from kgprobe.openworld.world_files import write_world
from kgprobe.openworld.world_ranks import RankPair, rank_worlds, read_pairs
from kgprobe.openworld.world_tasks import tail_task
from worlds import random_graph, random_world, rows

FEW = ("--least", 2, "--threads", 1)


@pytest.fixture
def world(tmp_path: Path) -> Path:
    write_world(random_world(), tmp_path / "w")
    return tmp_path / "w"


def test_models_are_ranked_in_both_worlds(kgprobe, world: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = kgprobe("openworld", "evaluate", "random", "entity-frequency", "-w", world, "-o", out, *FEW, "-f", "json")
    assert run.code == 0
    rows = json.loads(run.out)
    assert [(row["model"], row["checkpoint"]) for row in rows] == [("random", "final"), ("entity-frequency", "final")]
    for row in rows:
        pair = RankPair.read(out / row["model"], "final")
        assert row["MRR open"] == pytest.approx(evaluate(pair.open, "MRR")["MRR"])
        assert row["MRR closed"] == pytest.approx(evaluate(pair.closed, "MRR")["MRR"])
        assert row["PROBE(alpha=0,beta=0) closed"] > row["PROBE(alpha=0,beta=0) open"]


def test_what_is_ranked_is_kept_and_the_rest_goes_on(kgprobe, world: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = kgprobe("openworld", "evaluate", "random", "-w", world, "-o", out, *FEW)
    kept = out / "random" / "final.open.parquet"
    written = kept.stat().st_mtime_ns
    second = kgprobe("openworld", "evaluate", "random", "entity-frequency", "-w", world, "-o", out, *FEW)
    assert "1 of 2 checkpoints are already ranked" in second.err
    assert kept.stat().st_mtime_ns == written
    assert first.out.splitlines()[2].split() == second.out.splitlines()[2].split()
    kgprobe("openworld", "evaluate", "random", "-w", world, "-o", out, *FEW, "--force")
    assert kept.stat().st_mtime_ns > written


def test_ranks_of_something_else_are_replaced_by_force_only(kgprobe, world: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    kgprobe("openworld", "evaluate", "random", "-w", world, "-o", out, *FEW)
    run = kgprobe("openworld", "evaluate", "random", "-w", world, "-o", out, "--task", "all")
    assert (run.code, "another task" in run.err, "--force" in run.err) == (1, True, True)
    assert kgprobe("openworld", "evaluate", "random", "-w", world, "-o", out, "--task", "all", "--force").code == 0
    assert read_pairs(out / "random")["final"].closed.info.world.task["kind"] == "all"


def test_every_snapshot_of_a_run_is_ranked(kgprobe, world: Path, tmp_path: Path) -> None:
    options = ("--epochs", 2, "--dimension", 4, "--seeds", "0,1", "--set", "snapshot_every=1", "--threads", 1)
    assert kgprobe("train", "distmult", "-g", world, "-o", tmp_path / "run", "--device", "cpu", *options).code == 0
    run = kgprobe("openworld", "evaluate", tmp_path / "run", "-w", world, "-o", tmp_path / "out", *FEW, "-f", "json")
    assert run.code == 0
    assert [row["checkpoint"] for row in json.loads(run.out)] == ["epoch-00000", "epoch-00001", "epoch-00002"]
    pairs = read_pairs(tmp_path / "out" / "run")
    assert list(pairs) == ["epoch-00000", "epoch-00001", "epoch-00002"]
    assert all(set(pair.open.seed.tolist()) == {0, 1} for pair in pairs.values() if pair.open.seed is not None)
    assert pairs["epoch-00002"].open.seed is not None


def test_a_model_is_ranked_in_every_world_with_the_facts_that_it_learned(kgprobe, tmp_path: Path) -> None:
    plain = random_world()
    score = np.random.default_rng(0).random(150)
    correlated = split_world(random_graph(), 0.6, 0.5, 0, score, odds=np.inf, valid=0.2, name="correlated")
    other = random_world(seed=1)
    assert correlated.train.tolist() == plain.train.tolist()
    assert correlated.known.tolist() != plain.known.tolist()
    for name, world in {"plain": plain, "correlated": correlated, "other": other}.items():
        write_world(world, tmp_path / name)
    options = ("--epochs", 1, "--dimension", 4, "--device", "cpu", "--threads", 1)
    run = tmp_path / "run"
    assert kgprobe("train", "distmult", "-g", tmp_path / "plain", "-o", run, *options).code == 0

    def evaluated(name: str) -> Any:
        return kgprobe("openworld", "evaluate", run, "-w", tmp_path / name, "-o", tmp_path / f"of-{name}", *FEW)

    assert evaluated("plain").code == 0
    assert evaluated("correlated").code == 0
    expected = rank_worlds(run, correlated, tail_task(correlated, least_answers=2))
    assert rows(read_pairs(tmp_path / "of-correlated" / "run")["final"].open) == rows(expected.open)
    refused = evaluated("other")
    assert (refused.code, "of another graph" in refused.err) == (1, True)
    strict = kgprobe("rank", run, "-g", tmp_path / "correlated", "-o", tmp_path / "ranks.parquet")
    assert (strict.code, "of another graph" in strict.err) == (1, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--task", "all", "--facts", -1), "triples is -1"),
        (("--queries", 0, "--least", 0), "least_answers is 0"),
        (("--least", 99), "no tail query has 99 hard answers"),
        (("--metric", "nope"), "nope"),
        (("--correlated",), "only published worlds"),
    ],
    ids=["facts", "numbers", "answers", "metric", "correlated"],
)
def test_what_cannot_be_done_is_said(
    kgprobe, world: Path, tmp_path: Path, options: tuple[object, ...], message: str
) -> None:
    run = kgprobe("openworld", "evaluate", "random", "-w", world, "-o", tmp_path / "out", *options)
    assert run.code in (1, 2)
    assert message in run.err
    assert "Traceback" not in run.err


@pytest.mark.parametrize(("model", "message"), [("nope", "nope: no model"), ("w", "w: no model")])
def test_what_is_no_model(kgprobe, world: Path, tmp_path: Path, model: str, message: str) -> None:
    run = kgprobe("openworld", "evaluate", tmp_path / model, "-w", world, "-o", tmp_path / "out", *FEW)
    assert (run.code, message in run.err) == (1, True)


def test_a_published_folder_is_trained_on_and_evaluated(kgprobe, tmp_path: Path) -> None:
    """A graph that has training facts only, as models know it, fits the world of the same folder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    world = random_world(valid=0)
    folder = tmp_path / "published" / "density_60"
    write_world(world, folder)
    queries = sorted({(h, r) for h, r, _ in world.known.tolist()})
    hard = [(f, True) for f in world.known.tolist()] + [(f, False) for f in world.missing.tolist()]
    answers = [(queries.index((h, r)), t, known) for (h, r, t), known in hard if (h, r) in queries]
    query, tail, known = zip(*answers, strict=True)
    head, relation = zip(*queries, strict=True)
    for name in ("test", "missing"):
        (folder / f"{name}.parquet").unlink()
    pq.write_table(
        pa.table({"query": range(len(queries)), "head": head, "relation": relation}), folder / "test_queries.parquet"
    )
    pq.write_table(pa.table({"query": query, "tail": tail, "in_sparse": known}), folder / "test_answers.parquet")
    options = ("--epochs", 1, "--dimension", 4, "--device", "cpu", "--threads", 1)
    assert kgprobe("train", "distmult", "-g", folder, "-o", tmp_path / "run", *options).code == 0
    run = kgprobe("openworld", "evaluate", tmp_path / "run", "-w", folder, "-o", tmp_path / "out", "-f", "json")
    assert (run.code, len(json.loads(run.out))) == (0, 1)
    assert len(read_pairs(tmp_path / "out" / "run")["final"].closed) == len(answers)
