"""Models on clustered queries for tests: random line-ups, and weighted means straight from arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.comparison import Lineup, line_up
from kgprobe.comparison.estimator_families import EstimatorFamily, estimator_family
from kgprobe.comparison.estimators import Estimator, MeanPart
from kgprobe.metrics.rank_metrics import MRR
from kgprobe.ranks import Ranks, concatenate

Floats = NDArray[np.float64]

SMOOTH = [
    *("MRR", "MR", "HMR", "GMR", "Hits@3", "AMR", "AMRI", "ZMRR", "VarRank", "StdRank"),
    *(
        "PROBE(alpha=1,beta=0.6)",
        "PROBE(alpha=-1,beta=0)",
        "APROBE(alpha=0.5,beta=0.3)",
        "StratMRR(beta_e=0.5,beta_r=0.5)",
    ),
]

STEPS = ["MedianRank", "MADRank"]


def model(triples: int, seed: int, *, runs: int = 1, worse: float = 0.0) -> Ranks:
    """Both sides of triples with popularity that every model shares, ranked with some skill."""
    shared, own = np.random.default_rng(99), np.random.default_rng(seed)
    size = shared.integers(30, 60, 2 * triples)
    hard = np.repeat(shared.normal(size=triples), 2)
    popularity = {"entity_popularity": shared.choice([0, 0.001, 0.02, 0.3], 2 * triples)}
    popularity["relation_popularity"] = shared.choice([0.1, 0.4, 1.0], 2 * triples)
    relation = np.repeat(shared.integers(0, 3, triples), 2)
    tables = []
    for run in range(runs):
        latent = hard + worse + own.normal(size=2 * triples)
        tables.append(
            Ranks.from_columns(
                head=np.repeat(np.arange(triples), 2),
                relation=relation,
                tail=np.repeat(np.arange(triples), 2),
                side=np.tile(["head", "tail"], triples),
                rank=np.clip(np.floor(np.exp(1 + latent)), 1, size),
                candidates=size,
                ties=np.zeros(2 * triples, dtype=np.int64),
                seed=run,
                labels={"kind": np.repeat(np.where(np.arange(triples) % 3, "plain", "odd"), 2)},
                **popularity,
            )
        )
    return concatenate(tables) if runs > 1 else tables[0]


def lineup(triples: int, models: int = 2, *, runs: int = 1) -> Lineup:
    """Models that differ a little."""
    return line_up({f"model {i}": model(triples, i, runs=runs, worse=0.1 * i) for i in range(models)})


def weighted_mean(weight: Floats, *scores: Floats) -> Estimator:
    """The mean of a score over clusters, averaged over the runs; weights and scores are [clusters, queries]."""
    parts = tuple(
        MeanPart(MRR(), {"weight": weight.sum(axis=1), "score": (weight * score).sum(axis=1)}) for score in scores
    )
    by_cluster = weight.sum(axis=1)
    effective = [float(own.sum() ** 2 / np.square(own).sum()) for own in (weight, by_cluster)]
    return Estimator(parts, (1 / len(parts),) * len(parts), weight.size, effective[0], effective[1])


def mean_family(weight: Floats, *models: Floats | Sequence[Floats]) -> EstimatorFamily:
    """Weighted means of several models, each one score or one for each run."""
    runs: list[Any] = [own if isinstance(own, list | tuple) else [own] for own in models]
    return estimator_family([weighted_mean(weight, *own) for own in runs])
