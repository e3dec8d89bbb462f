"""How often 95 % intervals hold the true value, and how often tests reject models that are alike: by simulation.

Run: python benchmarks/interval_coverage.py [--sets 2000] [--replicates 1000]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from kgprobe.comparison.estimator_families import EstimatorFamily, bootstrap, estimator_family
from kgprobe.comparison.estimators import Estimator, MeanPart
from kgprobe.comparison.inference import Hypotheses, about_the_method, about_these_runs
from kgprobe.comparison.intervals import Interval, tails
from kgprobe.comparison.pair_tests import Correction
from kgprobe.comparison.results import ComparisonSettings
from kgprobe.metrics.rank_metrics import MRR
from machine import describe

Floats = NDArray[np.float64]

ENTITIES = 10_000

SCORES: dict[str, Callable[[Floats], Floats]] = {
    "alpha = 1": lambda rank: (1 / rank - 1 / ENTITIES) / (1 - 1 / ENTITIES),
    "alpha = 0": lambda rank: 1 - np.log(rank) / math.log(ENTITIES),
    "alpha = -1": lambda rank: 1 - (rank - 1) / (ENTITIES - 1),
    "Hits@1": lambda rank: (rank == 1).astype(np.float64),
}


@dataclass(frozen=True)
class World:
    """A kind of test set and of models.

    Attributes:
        score: What is averaged.
        triples: How many test triples, each with two queries.
        spread: How different the popularity weights are: the standard deviation of their logs.
        hardness: How far down the ranks are.
        seeds: How many training runs a model has.
        between: How much training runs differ as a whole.
        within: How much they differ on a query.
        apart: By how much each model has worse ranks than the one before.
    """

    score: str
    triples: int
    spread: float = 0.0
    hardness: float = 1.0
    seeds: int = 1
    between: float = 0.0
    within: float = 0.7
    apart: float = 0.0

    def sets(self, number: int, models: int, rng: np.random.Generator) -> Iterator[tuple[Floats, Floats]]:
        """Weights [triples, 2] and scores [models, seeds, triples, 2], which share what makes a triple hard."""
        for _ in range(number):
            popularity = rng.normal(size=(self.triples, 2))
            triple = 0.7 * rng.normal(size=(self.triples, 1)) + 0.4 * popularity + self.hardness
            own = self.within * rng.normal(size=(models, self.seeds, self.triples, 2))
            run = self.between * rng.normal(size=(models, self.seeds, 1, 1))
            side = 0.5 * rng.normal(size=(models, 1, self.triples, 1))
            apart = self.apart * np.arange(models)[:, None, None, None]
            rank = np.clip(np.floor(np.exp(1.8 * (triple + own + run + side + apart))), 1, ENTITIES)
            yield np.exp(self.spread * popularity), SCORES[self.score](rank)

    def truth(self) -> float:
        """The value on endless queries and training runs."""
        large = replace(self, triples=200_000, apart=0.0)
        rounds = 10 if not self.between else 400
        large = large if not self.between else replace(large, triples=5_000)
        sums = [(w.sum() * s.size / w.size, (w * s).sum()) for w, s in large.sets(rounds, 1, np.random.default_rng(7))]
        weight, score = np.sum(sums, axis=0)
        return float(score / weight)


def estimators(weight: Floats, score: Floats, clustered: bool = True) -> list[Estimator]:
    """The weighted mean of each model, clustered by triple or not at all."""
    shape = (len(weight), 2) if clustered else (weight.size, 1)
    flat = weight.reshape(shape)
    by_cluster = flat.sum(axis=1)
    effective = [float(own.sum() ** 2 / np.square(own).sum()) for own in (weight, by_cluster)]
    made = []
    for runs in score:
        parts = [
            MeanPart(MRR(), {"weight": by_cluster, "score": (flat * run.reshape(shape)).sum(axis=1)}) for run in runs
        ]
        factors = (1 / len(parts),) * len(parts)
        made.append(Estimator(tuple(parts), factors, weight.size, effective[0], effective[1]))
    return made


def share(intervals: list[Interval] | list[tuple[float, float]], truth: float) -> str:
    ends = [(one.low, one.high) if isinstance(one, Interval) else one for one in intervals]
    return f"{100 * np.mean([low <= truth <= high for low, high in ends]):.1f}" if ends else "-"


def normal(one: EstimatorFamily) -> tuple[float, float]:
    influence = one.influence
    assert influence is not None
    half = 1.96 * math.sqrt(np.square(influence[:, 0]).sum() * one.clusters / (one.clusters - 1))
    return one.estimate[0] - half, one.estimate[0] + half


def values(world: World, number: int, plan: ComparisonSettings) -> str:
    """Coverage for a single model, by several methods."""
    truth = world.truth()
    drawn = list(world.sets(number, 1, np.random.default_rng(1)))
    families = [estimator_family(estimators(*one)) for one in drawn]
    ours = [answer.intervals[0] for answer in about_these_runs([Hypotheses(MRR(), one, ()) for one in families], plan)]
    made = bootstrap(families, replicates=plan.replicates, seed=plan.seed)
    percentile = [tails(replicates.values[:, 0], plan.level) for replicates in made]
    alone = [estimator_family(estimators(*one, clustered=False)) for one in drawn]
    ignoring = [answer.intervals[0] for answer in about_these_runs([Hypotheses(MRR(), one, ()) for one in alone], plan)]
    effective = np.mean([one.estimators[0].effective for one in families])
    trusted = [one for one in ours if one.trusted]
    return (
        f"| {world.score} | {world.triples:,} | {effective:,.0f} | {truth:.3f} | {share(ours, truth)} "
        f"| {share(list(map(normal, families)), truth)} | {share(percentile, truth)} | {share(ignoring, truth)} "
        f"| {100 * len(trusted) / len(ours):.0f} | {share(trusted, truth)} |"
    )


def differences(world: World, number: int, plan: ComparisonSettings) -> str:
    """Coverage of the difference of two models that are alike, and how often the test finds one."""
    questions = [
        Hypotheses(MRR(), estimator_family(estimators(*one)), ((0, 1),))
        for one in world.sets(number, 2, np.random.default_rng(2))
    ]
    judge = about_the_method if world.seeds > 1 else about_these_runs
    answers = judge(questions, plan)
    rejected = np.mean([answer.tests.p[0] <= 0.05 for answer in answers])
    effective = np.mean([question.family.estimators[0].effective for question in questions])
    level = share([answer.tests.intervals[0] for answer in answers], 0.0)
    single = share([answer.intervals[0] for answer in answers], world.truth())
    return (
        f"| {world.score} | {world.triples:,} | {effective:,.0f} | {world.seeds} | {world.between:g} | {single} "
        f"| {level} | {100 * rejected:.1f} |"
    )


def families(world: World, number: int, plan: ComparisonSettings, models: int = 6) -> str:
    """All pairs of six models, with max-t and Holm: false findings, coverage of all intervals at once, and power."""
    pairs = tuple(combinations(range(models), 2))
    questions = [
        Hypotheses(MRR(), estimator_family(estimators(*one)), pairs)
        for one in world.sets(number, models, np.random.default_rng(3))
    ]
    judge = about_the_method if world.seeds > 1 else about_these_runs
    truth = [replace(world, hardness=world.hardness + world.apart * i).truth() for i in range(models)]
    true = [truth[i] - truth[j] for i, j in pairs] if world.apart else [0.0] * len(pairs)
    cells = []
    for correction in (Correction.max_t, Correction.holm):
        tests = [answer.tests for answer in judge(questions, replace(plan, correction=correction))]
        for one in tests:
            excluding = [not interval.low <= 0 <= interval.high for interval in one.intervals]
            assert excluding == one.significant
        any_found = np.mean([any(one.significant) for one in tests])
        found = np.mean([np.mean(one.significant) for one in tests])
        held = [
            all(interval.low <= value <= interval.high for interval, value in zip(one.intervals, true, strict=True))
            for one in tests
        ]
        cells += [f"{100 * any_found:.1f}", f"{100 * found:.1f}", f"{100 * np.mean(held):.1f}"]
    return f"| {world.score} | {world.triples:,} | {world.seeds} | {world.apart:g} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=2000)
    parser.add_argument("--replicates", type=int, default=1000)
    parser.add_argument("--only-families", action="store_true", help="only the table of six models")
    options = parser.parse_args()
    plan = ComparisonSettings(replicates=options.replicates, permutations=options.replicates)
    print(describe())
    print(f"{options.sets:,} simulated test sets in each row, {options.replicates:,} replicates; coverage in %\n")
    if not options.only_families:
        single_models(options.sets, plan)
    print("\n| score | triples | seeds | apart | max-t: any | pairs | coverage | Holm: any | pairs | coverage |")
    print("| --- |" + " ---: |" * 9)
    for world in (
        *(World(score, triples, spread) for score in SCORES for triples, spread in ((110, 0.0), (600, 1.2))),
        *(World("alpha = 1", 600, 0.5, apart=apart) for apart in (0.02, 0.05, 0.1)),
        *(World("Hits@1", 2000, apart=apart) for apart in (0.02, 0.05)),
        *(World("alpha = 1", 300, 0.5, seeds=seeds, between=0.03) for seeds in (3, 5)),
        World("alpha = 1", 300, 0.5, seeds=5, between=0.03, apart=0.1),
    ):
        print(families(world, options.sets, plan), flush=True)


def single_models(sets: int, plan: ComparisonSettings) -> None:
    """Coverage of the interval of one model, and of the difference of two."""
    print(
        "| score | triples | effective queries | truth | bootstrap-t | normal | percentile | not clustered "
        "| trusted | coverage of those |"
    )
    print("| --- |" + " ---: |" * 9)
    for score, hardness in (
        ("alpha = 1", 1.0),
        ("alpha = 1", -0.5),
        ("alpha = 0", 1.0),
        ("Hits@1", 1.0),
        ("alpha = -1", 1.0),
    ):
        for triples, spread in ((110, 0.0), (250, 0.8), (600, 1.2), (2000, 0.0), (5000, 1.2)):
            print(values(World(score, triples, spread, hardness), sets, plan), flush=True)
    print("\n| score | triples | effective queries | seeds | between | coverage | of differences | rejected at 5 % |")
    print("| --- |" + " ---: |" * 7)
    for score in SCORES:
        for triples, spread in ((110, 0.0), (600, 1.2), (2000, 0.0)):
            print(differences(World(score, triples, spread), sets, plan), flush=True)
    for seeds in (2, 3, 5):
        for between in (0.0, 0.03, 0.1, 0.3):
            print(differences(World("alpha = 1", 300, 0.5, seeds=seeds, between=between), sets, plan), flush=True)


if __name__ == "__main__":
    main()
