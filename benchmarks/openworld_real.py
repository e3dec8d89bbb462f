"""Hold estimates of closed-world scores of real models against the truth, which a world that is complete knows.

    python benchmarks/openworld_real.py pairs/75 --missing 0.25 --entities 6004 [--odds 1] [--metric MRR]

FOLDER holds the pairs of several models in one world, as `kgprobe openworld evaluate` and benchmarks/openworld.py write
them; the last pair of each model is taken. For each metric it prints how far the open values, and the estimates made
from them, are from the closed ones; in how many models the interval holds the truth; and how many pairs of models stand
in the wrong order by open values and by estimates.
"""

from __future__ import annotations

import argparse
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import kgprobe as kp
from kgprobe.openworld import estimate_closed
from kgprobe.openworld.benches import find_pairs
from kgprobe.openworld.world_ranks import RankPair
from machine import describe

METRICS = ("Hits@1", "MRR", "PROBE(alpha=0.5,beta=0)", "PROBE(alpha=0,beta=0)", "PROBE(alpha=-0.5,beta=0)", "Hits@10")


def last_pairs(folder: Path) -> dict[str, RankPair]:
    """The last pair of every model in a folder."""
    last = {found.model: found for found in find_pairs([folder])}
    return {model: found.read() for model, found in last.items()}


def wrong_orders(found: NDArray[np.float64], truth: NDArray[np.float64]) -> int:
    """Pairs that two lists of values put in different orders."""
    return sum((found[i] - found[j]) * (truth[i] - truth[j]) < 0 for i, j in combinations(range(len(truth)), 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--missing", type=float, required=True)
    parser.add_argument("--entities", type=int, required=True)
    parser.add_argument("--odds", type=float, default=1.0)
    parser.add_argument("--metric", action="append")
    given = parser.parse_args()
    print(describe())
    pairs = last_pairs(given.folder)
    metrics = given.metric or METRICS
    found = estimate_closed(
        {model: pair.open for model, pair in pairs.items()},
        metrics,
        missing=given.missing,
        entities=given.entities,
        odds=given.odds,
        curve=False,
    )
    truth = {model: kp.evaluate(pair.closed, metrics) for model, pair in pairs.items()}
    print("| metric | open error | estimate error | ratio | truth in interval | wrong orders, open | estimated |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for metric in truth[next(iter(truth))]:
        own = [estimate for estimate in found.estimates if str(estimate.metric) == metric]
        closed = np.array([truth[estimate.model][metric] for estimate in own])
        opened, estimated = np.array([e.open for e in own]), np.array([e.closed for e in own])
        held = sum(e.low <= value <= e.high for e, value in zip(own, closed, strict=True))
        errors = np.abs(opened - closed).mean(), np.abs(estimated - closed).mean()
        cells = [f"{errors[0]:.4f}", f"{errors[1]:.4f}", f"{errors[1] / max(errors[0], 1e-12):.2f}"]
        orders = [str(wrong_orders(values, closed)) for values in (opened, estimated)]
        print(f"| {' | '.join([metric, *cells, f'{held} of {len(own)}', *orders])} |")


if __name__ == "__main__":
    main()
