"""A decision map of 6 models x 3 seeds x 41,000 queries over 41 x 33 perspectives, against a loop over its points.

Run: python benchmarks/decision.py [--rows 41000] [--models 6] [--seeds 3] [--repeat 3]
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from numpy.typing import NDArray

import kgprobe as kp
from kgprobe.comparison import Lineup, line_up
from kgprobe.comparison.estimators import difference, estimator
from kgprobe.decision import decide, decision_map
from kgprobe.metrics.popularity_metrics import PROBE
from machine import best_of, describe, peak_allocation

ALPHAS, BETAS = np.linspace(-1, 1, 41), np.linspace(0, 0.8, 33)

_LOOPED = 10

"""Points at which the loop is measured."""


def random_lineup(rows: int, models: int, seeds: int) -> Lineup:
    """Both sides of every triple, ranks that models and seeds share in part, popularity as uneven as in real graphs."""
    rng = np.random.default_rng(0)
    triples = rows // 2
    candidates = rng.integers(14_000, 14_541, 2 * triples)
    ease = rng.normal(size=2 * triples)
    common = {
        "head": np.repeat(np.arange(triples), 2),
        "relation": np.repeat(rng.integers(0, 237, triples), 2),
        "tail": np.repeat(np.arange(triples) + triples, 2),
        "side": np.tile(["head", "tail"], triples),
        "candidates": candidates,
        "entity_popularity": rng.power(0.3, 2 * triples) * 1e-2 + 1e-6,
        "relation_popularity": rng.uniform(1e-3, 1, 2 * triples),
    }

    def run(luck: NDArray[np.float64]) -> kp.Ranks:
        hardness = 1 / (1 + np.exp(ease + luck))
        return kp.Ranks.from_columns(rank=np.ceil(candidates**hardness), **common)

    def model(skill: float) -> kp.Ranks:
        own = rng.normal(skill, 0.5, 2 * triples)
        return kp.merge_seeds({seed: run(own + rng.normal(0, 0.2, 2 * triples)) for seed in range(seeds)})

    return line_up({f"model {m}": model(0.02 * m) for m in range(models)})


def looped(lineup: Lineup, points: int) -> NDArray[np.float64]:
    """Standard errors of all differences at some points, one metric and pair after another."""
    clusters = lineup.clusters("triple")
    found = np.zeros((points, len(lineup.models), len(lineup.models)))
    for p in range(points):
        metric = PROBE(alpha=float(ALPHAS[p]), beta=float(BETAS[p]))
        each = [estimator(lineup, model, metric, clusters=clusters) for model in lineup.models]
        for i, first in enumerate(each):
            for j, second in enumerate(each[:i]):
                both = difference(first, second)
                moved = (both.columns - both.columns.mean(axis=0)) @ both.gradient(both.sums)
                found[p, i, j] = found[p, j, i] = math.sqrt(
                    np.square(moved).sum() * clusters.count / (clusters.count - 1)
                )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=41_000)
    parser.add_argument("--models", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print(describe())
    lineup = random_lineup(options.rows, options.models, options.seeds)
    memory, _ = peak_allocation(lambda: decision_map(lineup, ALPHAS[::20], BETAS[::16]))
    ours, plane = best_of(options.repeat, lambda: decision_map(lineup, ALPHAS, BETAS, seeds="fixed"))
    theirs, errors = best_of(1, lambda: looped(lineup, _LOOPED))
    per_point = theirs / _LOOPED
    found = np.stack([plane.errors[:, :, p, p] for p in range(_LOOPED)])
    points = len(ALPHAS) * len(BETAS)
    print(
        f"{options.models} models x {options.seeds} seeds x {options.rows:,} queries x {points:,} points: "
        f"map {ours:.2f} s (+{memory:.0f} MiB)   loop {per_point * points:.0f} s ({per_point:.3f} s a point)   "
        f"ratio {per_point * points / ours:.0f}x   largest difference {np.abs(found - errors).max():.1e}"
    )
    moment, decision = best_of(1, lambda: decide(lineup, 0.5, 0.4))
    print(f"one decision: {moment:.2f} s: {decision}")


if __name__ == "__main__":
    main()
