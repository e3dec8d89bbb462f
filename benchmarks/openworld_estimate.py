"""How far closed-world estimates are from the truth, and how often their intervals hold it: by simulation.

    python benchmarks/openworld_estimate.py [--repeats 8] [--queries 300] [--processes 2]

Every row is a kind of world and of model. For every metric it has the mean absolute error of the estimate over that of
the naive value, which takes missing facts for false ones, and the share of 95 % intervals that hold the truth. The
second table is about answers that are missing more often where the model ranks them low: what comes out of it where
nothing of it is known, and where the odds are. The world of the third is one for which the estimate is not made: how
well a model does hangs on how many answers a query has.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kgprobe.metrics import RankAccumulator
from kgprobe.openworld import estimate_closed
from kgprobe.ranks import Ranks
from machine import describe
from simulated_worlds import Gaussian, Learned, Scored, simulate

sys.path.append(str(Path(__file__).parents[1] / "tests"))

Floats = NDArray[np.float64]

METRICS = {
    "MRR": "MRR",
    "PROBE 0.5": "PROBE(alpha=0.5,beta=0)",
    "PROBE 0": "PROBE(alpha=0,beta=0)",
    "PROBE -0.5": "PROBE(alpha=-0.5,beta=0)",
    "Hits@1": "Hits@1",
    "Hits@10": "Hits@10",
}

MODELS: Mapping[str, Scored] = {
    "learned 0.5": Learned(0.5),
    "learned 0.9": Learned(0.9),
    "Gaussian": Gaussian(3.5),
    "Gaussian, queries differ": Gaussian(2.5, between=1.0),
}

HARDER: Mapping[str, Scored] = {"Gaussian, worse where answers are many": Gaussian(4.0, hardness=0.5)}

KINDS = {"family": "11 to 49", "few": "few", "mixed": "mixed"}

RATES = (0.1, 0.2, 0.35)

ODDS = (2.0, 4.0, 10.0)


@dataclass(frozen=True)
class Job:
    """A kind of world and of model, and the odds that are assumed of it."""

    kind: str
    model: str
    rate: float
    odds: float = 1.0
    assumed: float = 1.0
    queries: int = 300


def run(job: tuple[Job, int]) -> Floats:
    """For every metric: error of the estimate, of the naive value, and whether the interval holds the truth."""
    setting, seed = job
    model = (MODELS | HARDER)[setting.model]
    world, entities = simulate(seed, model, setting.rate, kind=setting.kind, queries=setting.queries, odds=setting.odds)
    found = estimate_closed(
        {"model": world.open},
        METRICS.values(),
        missing=setting.rate,
        entities=entities,
        odds=setting.assumed,
        seed=seed,
    )
    truth = evaluated(world.closed)
    return np.array(
        [
            (one.closed - true, one.open - true, one.low <= true <= one.high)
            for one, true in zip(found.estimates, truth, strict=True)
        ]
    )


def evaluated(ranks: Ranks) -> list[float]:
    accumulator = RankAccumulator(METRICS.values())
    accumulator.update(ranks)
    return list(accumulator.compute().values())


def study(jobs: Sequence[Job], repeats: int, processes: int) -> Iterable[tuple[Job, Floats]]:
    """Each job with what was found: [repeat, metric, (error, naive error, covered)]."""
    with get_context("spawn").Pool(processes) as pool:
        found = pool.imap(run, ((job, seed) for job in jobs for seed in range(repeats)))
        for job in jobs:
            yield job, np.array([next(found) for _ in range(repeats)])


def cells(found: Floats) -> str:
    """Ratio of mean absolute errors and coverage of every metric."""
    error, naive = np.abs(found[:, :, :2]).mean(axis=0).T
    covered = found[:, :, 2].mean(axis=0)
    ratio = np.divide(error, naive, out=np.full(len(error), np.inf), where=naive > 0)
    return " | ".join(f"{r:.2f} / {100 * c:.0f}" for r, c in zip(ratio, covered, strict=True))


def print_table(title: str, columns: Sequence[str], rows: Iterable[tuple[Sequence[str], Floats]], total: bool) -> None:
    """Print a table while it is made, with a row of all together."""
    print(f"\n{title}\n\n| {' | '.join([*columns, *METRICS])} |")
    print("|" + " --- |" * len(columns) + " ---: |" * len(METRICS))
    everything = []
    for names, found in rows:
        print(f"| {' | '.join([*names, cells(found)])} |", flush=True)
        everything.append(found)
    if total:
        print(f"| {' | '.join(['all', *[''] * (len(columns) - 1), cells(np.concatenate(everything))])} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    print(describe())
    print(
        f"{given.repeats} simulated worlds of {given.queries} queries in each row; error / naive error, coverage in %"
    )

    def at_random(models: Iterable[str]) -> Iterable[tuple[Sequence[str], Floats]]:
        jobs = [Job(kind, model, rate, queries=given.queries) for kind in KINDS for model in models for rate in RATES]
        for job, found in study(jobs, given.repeats, given.processes):
            yield (KINDS[job.kind], job.model, f"{job.rate:g}"), found

    def correlated() -> Iterable[tuple[Sequence[str], Floats]]:
        jobs = [
            Job("family", model, 0.2, odds, assumed, given.queries)
            for model in ("learned 0.9", "Gaussian")
            for odds in ODDS
            for assumed in (1.0, odds)
        ]
        for job, found in study(jobs, given.repeats, given.processes):
            yield (job.model, f"{job.odds:g}", f"{job.assumed:g}"), found

    columns = ("answers", "model", "missing rate")
    print_table("Missing at random", columns, at_random(MODELS), total=True)
    print_table(
        "Missing by rank: 11 to 49 answers, missing rate 0.2",
        ("model", "odds", "odds assumed"),
        correlated(),
        total=False,
    )
    print_table("Outside of what is assumed", columns, at_random(HARDER), total=True)


if __name__ == "__main__":
    main()
