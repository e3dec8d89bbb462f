"""Intervals and tests of 6 models on 41,000 queries, against loops over replicates, in one run.

Run: python benchmarks/compare.py [--queries 41000] [--replicates 10000]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import kgprobe as kp
from kgprobe.comparison import Lineup, line_up
from kgprobe.comparison.model_comparison import compare_models
from kgprobe.comparison.resampling import critical_value
from machine import describe, peak_memory

Floats = NDArray[np.float64]

ONE = "PROBE(alpha=1,beta=0.4)"

EIGHT = [
    *("MRR", "Hits@1", "Hits@10", "AMRI", ONE),
    *("PROBE(alpha=-1,beta=0.4)", "PROBE(alpha=0,beta=0.8)", "ZPROBE(alpha=1,beta=0)"),
]


def models(queries: int, number: int, seeds: int = 1) -> Lineup:
    """Both sides of as many triples, ranked by models that agree in part."""
    rng = np.random.default_rng(0)
    triples = queries // 2
    size = 14_541
    common = rng.normal(size=(triples, 1)) + rng.normal(size=(triples, 2))
    entity, relation = rng.power(0.3, 2 * triples) * 1e-2, rng.random(2 * triples)

    def table(model: int) -> kp.Ranks:
        runs = []
        for seed in range(seeds):
            latent = common + rng.normal(size=common.shape) + 0.05 * model
            runs.append(
                kp.Ranks.from_columns(
                    head=np.repeat(np.arange(triples), 2),
                    relation=np.zeros(2 * triples, dtype=np.int64),
                    tail=np.repeat(np.arange(triples), 2),
                    side=np.tile(["head", "tail"], triples),
                    rank=np.clip(np.floor(np.exp(2 + 1.5 * latent)), 1, size).ravel(),
                    candidates=np.full(2 * triples, size),
                    entity_popularity=entity,
                    relation_popularity=relation,
                    seed=seed,
                )
            )
        return kp.concatenate(runs)

    return line_up({f"model {i}": table(i) for i in range(number)})


def plain_loop(lineup: Lineup, replicates: int) -> Floats:
    """What one would write first: draw triples, gather both of their queries, average."""
    ranks = lineup.first
    alpha, beta = 1.0, 0.4
    score = (ranks.rank**-alpha - ranks.candidates**-alpha) / (1 - ranks.candidates**-alpha)
    popularity = [ranks.numbers(name) for name in ("entity_popularity", "relation_popularity")]
    weight = np.prod([(own + own[own > 0].min()) ** -beta for own in popularity], axis=0)
    rng = np.random.default_rng(0)
    triples = len(ranks) // 2
    values = np.empty(replicates)
    for i in range(replicates):
        drawn = rng.integers(triples, size=triples)
        rows = np.concatenate([2 * drawn, 2 * drawn + 1])
        values[i] = np.average(score[rows], weights=weight[rows])
    return values


def scipy_loop(lineup: Lineup, replicates: int) -> object:
    """The same with scipy, which draws triples and is given the sums of each."""
    from scipy import stats

    ranks = lineup.first
    score = (1 / ranks.rank).reshape(-1, 2).sum(axis=1)
    weight = np.full(len(score), 2.0)

    def ratio(s: Floats, w: Floats, axis: int) -> Floats:
        return np.asarray(s.sum(axis=axis) / w.sum(axis=axis))

    return stats.bootstrap(
        (score, weight), ratio, paired=True, n_resamples=replicates, method="percentile", vectorized=True, batch=50
    )


@dataclass(frozen=True)
class Cost:
    """Seconds on the clock, and of all cores together: the latter hardly hang on what else the machine does."""

    clock: float
    cores: float

    def __str__(self) -> str:
        return f"{self.clock:6.2f} s ({self.cores:6.2f} s of cores)"

    def times(self, factor: float) -> Cost:
        """What so many times the work would cost."""
        return Cost(self.clock * factor, self.cores * factor)

    def against(self, ours: Cost) -> str:
        """This cost, and how many times ours it is."""
        return f"{self}, ratio {self.clock / ours.clock:.1f}x ({self.cores / ours.cores:.1f}x of cores)"


def cost(work: Callable[[], object]) -> Cost:
    clock, cores = time.perf_counter(), time.process_time()
    work()
    return Cost(time.perf_counter() - clock, time.process_time() - cores)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=41_000)
    parser.add_argument("--replicates", type=int, default=10_000)
    options = parser.parse_args()
    times = {"replicates": options.replicates, "permutations": options.replicates}
    print(describe())
    print(f"{options.queries:,} queries, {options.replicates:,} replicates and permutations, clustered by triple")
    six = models(options.queries, 6)
    one = models(options.queries, 1)
    few = max(options.replicates // 50, 100)
    ours = cost(lambda: compare_models(one, ONE, **times))
    loop = cost(lambda: plain_loop(one, few)).times(options.replicates / few)
    scipys = cost(lambda: scipy_loop(one, few)).times(options.replicates / few)
    print(f"one model, one weighted metric, studentised interval   {ours}")
    print(f"  plain loop over replicates, no standard errors       {loop.against(ours)}")
    print(f"  scipy.stats.bootstrap, no weights, percentiles       {scipys.against(ours)}")
    memory, seconds = peak_memory(lambda: cost(lambda: compare_models(six, EIGHT, **times)))
    print(f"6 models, 8 metrics, all 15 pairs with tests           {seconds}, +{memory:,.0f} MiB")
    rest = {"the best against the others": {"pairs": "best"}, "in five groups by popularity": {"by": ["popularity:5"]}}
    for name, change in rest.items():
        print(f"  {name:53s}{cost(lambda change=change: compare_models(six, EIGHT, **times, **change))}")
    seeded = models(options.queries, 6, seeds=3)
    for kind in ("random", "fixed"):
        seconds = cost(lambda kind=kind: compare_models(seeded, EIGHT, seeds=kind, **times))
        print(f"  with three seeds each, {kind:30s}{seconds}")
    influence = np.random.default_rng(0).normal(size=(options.queries // 2, 441))
    seconds = cost(lambda: critical_value(influence, replicates=2_000))
    print(f"critical value of a band, 21 x 21 points, 2,000 draws  {seconds}")


if __name__ == "__main__":
    main()
