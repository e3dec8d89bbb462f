"""Models that were ranked in both worlds, made up: scores of answers are normal, the better the model the larger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kgprobe.metrics import parse_all
from kgprobe.openworld.bench_points import Points
from kgprobe.openworld.world_ranks import RankPair
from kgprobe.ranks import Ranks, RanksInfo, WorldInfo

KNOWN, MISSING, ENTITIES = 4, 4, 400

SPLIT = {"name": "made-up", "density": 0.75, "seed": 0}

SMALL = ("MRR", "Hits@10", "pMRR(p=0.25)", "PROBE(alpha=1)", "PROBE(alpha=-1)", "MR")


def made_pair(skill: float, *, queries: int = 40, seed: int = 0, model: str = "made", split: Any = None) -> RankPair:
    """A checkpoint: every query has some known and some missing answers with normal scores around its skill."""
    rng = np.random.default_rng(seed)
    answers = KNOWN + MISSING
    scores = rng.normal(skill, 1, (queries, answers))
    wrong = ENTITIES - answers
    above = 1 + (rng.normal(0, 1, (queries, wrong))[:, None, :] > scores[:, :, None]).sum(axis=2)
    missing_above = (scores[:, None, KNOWN:] > scores[:, :KNOWN, None]).sum(axis=2)

    def table(rank: Any, own: int, filtered: int, world: str) -> Ranks:
        about = WorldInfo(world, sides="tail", split=split or SPLIT, task={"queries": queries})
        info = RanksInfo(model=model, graph="made-up", world=about)
        return Ranks.from_columns(
            head=np.repeat(np.arange(queries), own),
            relation=np.zeros(queries * own, dtype=int),
            tail=100 + np.tile(np.arange(own), queries),
            side=["tail"] * (queries * own),
            rank=rank.ravel(),
            candidates=np.full(queries * own, ENTITIES - filtered + 1),
            info=info,
        )

    return RankPair(
        table(above[:, :KNOWN] + missing_above, KNOWN, KNOWN, "open"), table(above, answers, answers, "closed")
    )


def made_pairs(models: int = 4, checkpoints: int = 3, **choices: Any) -> dict[str, dict[str, RankPair]]:
    """Models of rising skill, each better at every checkpoint."""
    return {
        f"model-{i}": {
            f"epoch-{5 * j}": made_pair(0.5 + 1.2 * j + 0.25 * i, seed=10 * i + j, model=f"model-{i}", **choices)
            for j in range(checkpoints)
        }
        for i in range(models)
    }


def write_pairs(folder: Path, pairs: dict[str, dict[str, RankPair]]) -> Path:
    """A folder for each model, with a pair of files for each checkpoint."""
    for model, own in pairs.items():
        for checkpoint, pair in own.items():
            pair.write(folder / model, checkpoint)
    return folder


def made_points(opened: Any, closed: Any, model: Any, metric: str = "MRR", mrr: Any = None) -> Points:
    """Points of one metric with given values; all of them late, unless the MRR is given."""
    values = np.array([opened, closed], dtype=float)
    codes = np.array(model)
    return Points(
        metrics=tuple(parse_all([metric])),
        models=tuple(f"m{i}" for i in range(int(codes.max()) + 1)),
        model=codes,
        checkpoints=tuple(str(i) for i in range(len(codes))),
        open=values[:1],
        closed=values[1:],
        mrr=np.linspace(0.6, 0.9, len(codes)) if mrr is None else np.array(mrr, dtype=float),
        room=np.ones(1),
        queries=7,
    )
