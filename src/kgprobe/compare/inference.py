"""From families of estimators to intervals and p values, about these training runs or about the method."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kgprobe.compare.bootstrap import bootstrap
from kgprobe.compare.family import Family
from kgprobe.compare.interval import Evidence, Interval, bootstrap_interval
from kgprobe.compare.permutation import permutation_tests
from kgprobe.compare.resampling import Watch
from kgprobe.compare.seeds import Component, Runs, Uncertainty
from kgprobe.metrics import Metric

Floats = NDArray[np.float64]
Pair = tuple[int, int]


@dataclass(frozen=True)
class Question:
    """One metric of several models, and which of them to hold against each other.

    Attributes:
        metric: The metric.
        family: The models.
        pairs: The differences that are asked for, by the places of the models.
    """

    metric: Metric
    family: Family
    pairs: tuple[Pair, ...]

    def contrasts(self) -> list[Contrast]:
        """The models, then the differences."""
        low, high = self.metric.facts.low, self.metric.facts.high
        models = [Contrast(self.family, ((i, 1.0),), (low, high)) for i in range(len(self.family.estimators))]
        return models + [Contrast(self.family, ((i, 1.0), (j, -1.0)), (low - high, high - low)) for i, j in self.pairs]


@dataclass(frozen=True)
class Contrast:
    """The value of a model, or the difference of two.

    Attributes:
        family: The models.
        terms: The place of each model in it and what it counts.
        limits: The smallest and the largest possible value.
    """

    family: Family
    terms: tuple[tuple[int, float], ...]
    limits: tuple[float, float]

    def factors(self) -> Floats:
        """What every model of the family counts."""
        factors = np.zeros(len(self.family.estimators))
        for place, factor in self.terms:
            factors[place] = factor
        return factors

    @property
    def estimate(self) -> float:
        """Its value."""
        return sum(factor * self.family.estimators[place].estimate for place, factor in self.terms)

    def influence(self) -> Floats | None:
        """What each cluster adds to the deviation of the value; none without derivative."""
        by_model, factors = self.family.influence, self.factors()
        used = np.flatnonzero(factors)
        return None if by_model is None else by_model[:, used] @ factors[used]

    def evidence(self, influence: Floats | None) -> Evidence:
        """What its interval rests on."""
        own = [self.family.estimators[place] for place, _ in self.terms]
        queries, clusters = min(one.effective for one in own), min(one.effective_clusters for one in own)
        if influence is None:
            return Evidence(queries, clusters)
        weight, scale = own[0].columns[:, 0], max(abs(one.estimate) for one in own)
        return Evidence.of(queries, clusters, influence, weight, scale)


@dataclass(frozen=True)
class Answer:
    """What can be said to a question.

    Attributes:
        intervals: Of every model, then of every difference.
        p: The p value of every difference.
    """

    intervals: list[Interval]
    p: Floats


@dataclass(frozen=True)
class Plan:
    """How to find out.

    Attributes:
        level: The level of the intervals.
        replicates: How many times clusters are drawn anew.
        permutations: How many random swaps of two models.
        seed: Makes both repeatable.
    """

    level: float
    replicates: int
    permutations: int
    seed: int


def about_these_runs(questions: Sequence[Question], plan: Plan, watch: Watch | None = None) -> list[Answer]:
    """Intervals by bootstrap, p values by permutation: other queries, the same trained models."""
    families = [question.family for question in questions]
    made = bootstrap(families, replicates=plan.replicates, seed=plan.seed, watch=watch)
    intervals = [
        [_bootstrapped(contrast, replicates.of(contrast.factors()), plan.level) for contrast in question.contrasts()]
        for question, replicates in zip(questions, made, strict=True)
    ]
    pairs = [question.pairs for question in questions]
    p = permutation_tests(families, pairs, permutations=plan.permutations, seed=plan.seed, watch=watch)
    return [Answer(*found) for found in zip(intervals, p, strict=True)]


def _bootstrapped(contrast: Contrast, replicates: tuple[Floats, Floats | None], level: float) -> Interval:
    influence = contrast.influence()
    return bootstrap_interval(
        contrast.estimate,
        None if influence is None else math.sqrt(_variance(influence)),
        replicates,
        level=level,
        limits=contrast.limits,
        evidence=contrast.evidence(influence),
    )


def about_the_method(questions: Sequence[Question], plan: Plan, watch: Watch | None = None) -> list[Answer]:
    """Intervals and p values by the t distribution: other queries and other training runs of the same methods."""
    answers = []
    for question, covariance in zip(questions, _run_covariances(questions, plan, watch), strict=True):
        found = [(contrast, *_over_runs(contrast, covariance)) for contrast in question.contrasts()]
        intervals = [
            uncertainty.interval(contrast.estimate, level=plan.level, limits=contrast.limits, evidence=evidence)
            for contrast, uncertainty, evidence in found
        ]
        differences = found[len(question.family.estimators) :]
        p = [uncertainty.probability(contrast.estimate) for contrast, uncertainty, _ in differences]
        answers.append(Answer(intervals, np.array(p)))
    return answers


def _run_covariances(questions: Sequence[Question], plan: Plan, watch: Watch | None) -> Iterator[Floats]:
    """How the values of all training runs vary together between draws of queries, [runs, runs]."""
    families = [question.family.by_run() for question in questions]
    steps = [family for family in families if family.influence is None]
    drawn = bootstrap(steps, replicates=plan.replicates, seed=plan.seed, watch=watch)
    for family in families:
        if family.influence is None:
            values = next(drawn).values
            yield np.atleast_2d(np.cov(values[np.isfinite(values).all(axis=1)], rowvar=False))
        else:
            yield family.influence.T @ family.influence * (family.clusters / max(family.clusters - 1, 1))


def _over_runs(contrast: Contrast, covariance: Floats) -> tuple[Uncertainty, Evidence]:
    estimators = contrast.family.estimators
    ends = np.cumsum([len(estimator.parts) for estimator in estimators])
    weight = np.zeros(len(covariance))
    models = []
    for place, factor in contrast.terms:
        own = slice(ends[place] - len(estimators[place].parts), ends[place])
        weight[own] = factor * np.array(estimators[place].factors)
        values = estimators[place].run_values(estimators[place].sums)
        models.append(Runs(factor, values, covariance[own, own]))
    evidence = contrast.evidence(contrast.influence())
    used = np.flatnonzero(weight)
    variance = float(weight[used] @ covariance[np.ix_(used, used)] @ weight[used])
    queries = Component(max(variance, 0.0), evidence.freedom(contrast.family.clusters))
    return Uncertainty.of(queries, models), evidence


def _variance(influence: Floats) -> float:
    clusters = len(influence)
    return float(np.square(influence - influence.mean()).sum()) * clusters / max(clusters - 1, 1)
