"""A small graph, settings of a training that takes no time, and runs that are kept in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch

from kgprobe.graph import KnowledgeGraph
from kgprobe.train.run_directory import RunDirectory
from kgprobe.train.run_records import RunLog, environment
from kgprobe.train.setting_sources import from_values
from kgprobe.train.settings import Settings, resolve

TARGETS = ("PROBE(alpha=1,beta=0)", "MRR")


def small_graph(*, seed: int = 0, name: str = "small", entities: int = 12) -> KnowledgeGraph:
    """A random graph of two relations."""
    rng = np.random.default_rng(seed)
    heads, relations, tails = rng.integers(0, (entities, 2, entities), (90, 3)).T
    triples = np.unique(np.stack([heads, relations, tails], 1), axis=0)
    triples = rng.permutation(triples)
    return KnowledgeGraph.from_triples(
        train=triples[:50], valid=triples[50:60], test=triples[60:], name=name, num_entities=entities, num_relations=2
    )


def quick_settings(model: str = "complex", **changes: Any) -> Settings:
    """Settings of a training of a moment, with two targets and two seeds."""
    values: dict[str, Any] = {"dimension": 4, "epochs": 6, "validate_every": 2, "batch_size": 32, "patience": 0}
    values |= {"learning_rate": 0.05, "select": TARGETS, "seeds": (3, 8)}
    return resolve(model, [from_values("test", values | changes)]).settings


def begin(path: Path, graph: KnowledgeGraph | None = None, settings: Settings | None = None) -> RunDirectory:
    """A run that has just been created."""
    known = small_graph() if graph is None else graph
    return RunDirectory.create(path, settings or quick_settings(), known, environment(known, threads=1))


def assert_same_run(one: Path, other: Path) -> list[Path]:
    """Two folders of runs hold the same, but for how long it took; gives the files that are the same in all bytes."""
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(other) for path in other.rglob("*") if path.is_file())
    kept = [path for path in files if path.parts[0] in ("best", "snapshots", "settings.toml")]
    for path in kept:
        assert (one / path).read_bytes() == (other / path).read_bytes(), path
    for name in ("ranks.parquet", "ranks-mrr.parquet"):
        ranks, again = (pq.read_table(run / name) for run in (one, other))
        assert ranks.equals(again, check_metadata=True)
    log, again_log = ([{**row, "seconds": 0} for row in RunLog(run / "log.jsonl").rows()] for run in (one, other))
    assert log == again_log
    return kept


def some_tensors() -> dict[str, torch.Tensor]:
    """Tensors of every kind and shape that a state may have, with numbers that are easily lost."""
    return {
        "model.entity": torch.tensor([[0.1, -0.0, float("nan")], [float("inf"), 1e-45, 3e38]]),
        "model.twice": torch.tensor([1e-320, 1 / 3], dtype=torch.float64),
        "model.half": torch.tensor([0.1, -65504], dtype=torch.float16),
        "model.brain": torch.tensor([0.1, 1e38], dtype=torch.bfloat16),
        "optimiser.step": torch.tensor(7, dtype=torch.int64),
        "optimiser.flags": torch.tensor([True, False, True]),
        "optimiser.none": torch.empty(0, 3),
        "optimiser.transposed": torch.arange(6.0).reshape(2, 3).T,
        "optimiser.part": torch.arange(12.0).reshape(3, 4)[1:2],
    }


def bits(tensors: dict[str, torch.Tensor]) -> Iterator[tuple[str, torch.dtype, torch.Size, bytes]]:
    """The tensors down to their last bit."""
    for name in sorted(tensors):
        own = tensors[name].detach().contiguous()
        raw = own.reshape(-1).view(torch.uint8).numpy().tobytes() if own.numel() else b""
        yield name, own.dtype, own.shape, raw


def progress(epoch: int) -> dict[str, Any]:
    """What a state says about a training without validations."""
    selection = {"best": {target: [None, None] for target in TARGETS}, "waited": [0, 0]}
    times = {"seconds": 0.5, "training_seconds": 0.4}
    return {"epoch": epoch, "selection": selection, "rows": [], "steps": 2 * epoch, **times}


def row(epoch: int, *, seconds: float = 0.5) -> dict[str, Any]:
    """What a validation logs, for two seeds."""
    scores = {target: [epoch / 100, epoch / 200] for target in TARGETS}
    return {"epoch": epoch, "step": 2 * epoch, "seconds": seconds, "loss": [0.7, 0.6], "scores": scores}
