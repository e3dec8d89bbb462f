"""Inference on one metric of several models: intervals of values and tests of differences.

`about_these_runs` is about other queries and the same training runs, `about_the_method` about other training runs too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kgprobe.arrays import Floats
from kgprobe.comparison.estimator_families import EstimatorFamily, Replicates, bootstrap
from kgprobe.comparison.intervals import (
    Component,
    ContrastRuns,
    Interval,
    IntervalEvidence,
    Uncertainty,
    bootstrap_interval,
)
from kgprobe.comparison.lineup import Clusters
from kgprobe.comparison.pair_tests import NullDraws, PairDifference, PairTests, t_tests
from kgprobe.comparison.permutation_tests import Pair, permutation_tests
from kgprobe.comparison.resampling import MOST_UNITS, random_groups
from kgprobe.comparison.results import ComparisonSettings
from kgprobe.metrics import Metric
from kgprobe.resources import Progress


@dataclass(frozen=True)
class Hypotheses:
    """One metric of several models, and the pairs of models to compare.

    Attributes:
        metric: The metric.
        family: The models.
        pairs: The pairs to test, by the positions of the models.
        untested: Pairs with different candidate sets, with the number of queries in which these differ.
        unmerged: What was computed from all clusters, where the family has groups of clusters instead.
    """

    metric: Metric
    family: EstimatorFamily
    pairs: tuple[Pair, ...]
    untested: Mapping[Pair, int] = field(default_factory=dict)
    unmerged: Precision | None = None

    def merged(self, settings: ComparisonSettings) -> Hypotheses:
        """The same with random groups of clusters to draw from, if there are too many clusters to draw one by one."""
        groups = random_groups(self.family.clusters, settings.seed)
        if groups is None:
            return self
        merged = self.family.merged(Clusters(groups, MOST_UNITS))
        del groups  # as large as a column
        return replace(self, family=merged, unmerged=self.precision(over_runs=settings.seeds == "random"))

    def precision(self, *, over_runs: bool = False) -> Precision:
        """The precision of all contrasts, from all clusters; with the covariance of training runs if asked for."""
        if self.unmerged is not None:
            return self.unmerged
        found = [contrast.precision() for contrast in self.contrasts()]
        errors, evidence = [error for error, _ in found], [evidence for _, evidence in found]
        return Precision(self.family.clusters, errors, evidence, _run_covariance(self.family) if over_runs else None)

    def differences(self) -> list[PairDifference]:
        """The difference of each pair, with its standard error and effective sample sizes."""
        split, precision = len(self.family.estimators), self.precision()
        known = zip(self.contrasts()[split:], precision.errors[split:], precision.evidence[split:], strict=True)
        return [PairDifference(one.estimate, error, one.limits, evidence) for one, error, evidence in known]

    def contrasts(self) -> list[Contrast]:
        """One contrast for each model, then one for each pair."""
        low, high = self.metric.facts.low, self.metric.facts.high
        models = [Contrast(self.family, ((i, 1.0),), (low, high)) for i in range(len(self.family.estimators))]
        return models + [Contrast(self.family, ((i, 1.0), (j, -1.0)), (low - high, high - low)) for i, j in self.pairs]


@dataclass(frozen=True)
class Contrast:
    """The value of a model, or the difference of two.

    Attributes:
        family: The models.
        terms: The position and the factor of each model in the contrast.
        limits: The smallest and the largest possible value.
    """

    family: EstimatorFamily
    terms: tuple[tuple[int, float], ...]
    limits: tuple[float, float]

    def factors(self) -> Floats:
        """The factor of every model of the family."""
        factors = np.zeros(len(self.family.estimators))
        for place, factor in self.terms:
            factors[place] = factor
        return factors

    @property
    def estimate(self) -> float:
        return sum(factor * self.family.estimators[place].estimate for place, factor in self.terms)

    def influence(self) -> Floats | None:
        """The influence of each cluster on the value; None without derivative."""
        by_model, factors = self.family.influence, self.factors()
        used = np.flatnonzero(factors)
        return None if by_model is None else by_model[:, used] @ factors[used]

    def precision(self) -> tuple[float | None, IntervalEvidence]:
        """Its standard error, None without derivative, and the effective sample sizes of its interval."""
        influence = self.influence()
        evidence = self.evidence(influence)
        return (None if influence is None else math.sqrt(_variance(influence))), evidence

    def evidence(self, influence: Floats | None) -> IntervalEvidence:
        """The effective sample sizes of its interval."""
        own = [self.family.estimators[place] for place, _ in self.terms]
        queries, clusters = min(one.effective for one in own), min(one.effective_clusters for one in own)
        if influence is None:
            return IntervalEvidence(queries, clusters)
        weight, scale = own[0].columns[:, 0], max(abs(one.estimate) for one in own)
        return IntervalEvidence.of(queries, clusters, influence, weight, scale)


@dataclass(frozen=True)
class Precision:
    """How precise the values of a metric are, computed from all clusters without draws.

    Attributes:
        clusters: The number of clusters.
        errors: The standard error of each contrast; None without derivative.
        evidence: The effective sample sizes of each contrast.
        run_covariance: The covariance of the values of all training runs, [runs, runs]; None if it needs draws.
    """

    clusters: int
    errors: list[float | None]
    evidence: list[IntervalEvidence]
    run_covariance: Floats | None = None


@dataclass(frozen=True)
class Inference:
    """The results for one metric.

    Attributes:
        intervals: The interval of every model.
        tests: The tests of all pairs, with intervals of the differences.
    """

    intervals: list[Interval]
    tests: PairTests


def about_these_runs(
    questions: Sequence[Hypotheses], settings: ComparisonSettings, progress: Progress | None = None
) -> list[Inference]:
    """Intervals of values by bootstrap, and tests of differences by permutation: other queries, the same training runs.

    A metric without derivative has no standard error that would turn a permutation test into an interval: its
    differences are tested by bootstrap, and the p-value of the permutation test is given beside.
    """
    families = [question.family for question in questions]
    made = bootstrap(families, replicates=settings.replicates, seed=settings.seed, progress=progress)
    drawn = [
        (_bootstrapped(question, replicates, settings.level), _deviations(question, replicates))
        for question, replicates in zip(questions, made, strict=True)
    ]
    pairs = [question.pairs for question in questions]
    swaps = permutation_tests(
        families, pairs, permutations=settings.permutations, seed=settings.seed, progress=progress
    )
    answers = []
    for question, (intervals, deviations), swapped in zip(questions, drawn, swaps, strict=True):
        tests = (deviations or swapped).tests(question.differences(), settings.correction, settings.level)
        answers.append(Inference(intervals, replace(tests, p=swapped.p)))
    return answers


def _bootstrapped(question: Hypotheses, replicates: Replicates, level: float) -> list[Interval]:
    precision, models = question.precision(), question.contrasts()[: len(question.family.estimators)]
    return [
        bootstrap_interval(
            contrast.estimate,
            precision.errors[i],
            replicates.of(contrast.factors()),
            level=level,
            limits=contrast.limits,
            evidence=precision.evidence[i],
        )
        for i, contrast in enumerate(models)
    ]


def _deviations(question: Hypotheses, replicates: Replicates) -> NullDraws | None:
    """The distances of bootstrap draws from the differences, for a metric without derivative; None for others."""
    if replicates.covariance is not None:
        return None
    values, (first, second) = question.family.estimate, np.array(question.pairs, dtype=np.int64).reshape(-1, 2).T
    centred = replicates.values - values
    draws = np.abs(centred[:, first] - centred[:, second])
    return NullDraws(np.where(np.isnan(draws), np.inf, draws), np.abs(values[first] - values[second]), 1, None)


def about_the_method(
    questions: Sequence[Hypotheses], settings: ComparisonSettings, progress: Progress | None = None
) -> list[Inference]:
    """Intervals and p-values by the t distribution: other queries and other training runs of the same methods."""
    precisions = [question.precision(over_runs=True) for question in questions]
    steps = [q.family.by_run() for q, known in zip(questions, precisions, strict=True) if known.run_covariance is None]
    drawn = bootstrap(steps, replicates=settings.replicates, seed=settings.seed, progress=progress)
    answers = []
    for question, known in zip(questions, precisions, strict=True):
        covariance = _drawn_covariance(next(drawn)) if known.run_covariance is None else known.run_covariance
        found = [
            (
                contrast,
                Uncertainty.of(*variance_sources(contrast, covariance, evidence.freedom(known.clusters))),
                evidence,
            )
            for contrast, evidence in zip(question.contrasts(), known.evidence, strict=True)
        ]
        split = len(question.family.estimators)
        intervals = [
            uncertainty.interval(contrast.estimate, level=settings.level, limits=contrast.limits, evidence=evidence)
            for contrast, uncertainty, evidence in found[:split]
        ]
        uncertainties = [uncertainty for _, uncertainty, _ in found]
        normal = _normal_draws(question, covariance, uncertainties[:split], settings)
        tests = t_tests(question.differences(), uncertainties[split:], normal, settings.correction, settings.level)
        answers.append(Inference(intervals, tests))
    return answers


def _normal_draws(
    question: Hypotheses, covariance: Floats, models: Sequence[Uncertainty], settings: ComparisonSettings
) -> Floats:
    """Draws of the standardised differences from the normal distribution with their correlation, [draws, pairs]."""
    estimators = question.family.estimators
    weight = np.zeros((len(estimators), len(covariance)))
    ends = np.cumsum([len(one.parts) for one in estimators])
    for own, one, end in zip(weight, estimators, ends, strict=True):
        own[end - len(one.parts) : end] = one.factors
    known = np.array([math.isfinite(own.both.variance) for own in models])  # a model without value gets no draws
    used = weight[known].any(axis=0)
    own = weight[np.ix_(known, used)]
    total = own @ covariance[np.ix_(used, used)] @ own.T
    np.fill_diagonal(total, np.array([own.both.variance for own in models])[known])
    variances, axes = np.linalg.eigh(total)
    largest = np.abs(axes).argmax(axis=0)
    axes *= np.sign(axes[largest, np.arange(len(axes))])  # so that the order of the models does not matter
    normal = np.random.default_rng(settings.seed).standard_normal((settings.replicates, len(total)))
    values = np.zeros((settings.replicates, len(estimators)))
    values[:, known] = normal @ (axes * np.sqrt(np.maximum(variances, 0.0))).T
    first, second = np.array(question.pairs, dtype=np.int64).reshape(-1, 2).T
    differences = values[:, first] - values[:, second]
    spread = differences.std(axis=0)
    return np.asarray(differences / np.where(spread > 0, spread, 1.0))


def _run_covariance(family: EstimatorFamily) -> Floats | None:
    """The covariance of the values of all training runs over draws of queries, [runs, runs]; None if it needs draws."""
    influence = family.by_run().influence
    if influence is None:
        return None
    return influence.T @ influence * (family.clusters / max(family.clusters - 1, 1))


def _drawn_covariance(replicates: Replicates) -> Floats:
    values = replicates.values
    return np.atleast_2d(np.cov(values[np.isfinite(values).all(axis=1)], rowvar=False))


def variance_sources(contrast: Contrast, covariance: Floats, freedom: float) -> tuple[Component, list[ContrastRuns]]:
    """The variance of a contrast over draws of queries, and the training runs of its models.

    Args:
        contrast: The value of a model, or the difference of two.
        covariance: The covariance of the values of all training runs of the family, [runs, runs].
        freedom: The degrees of freedom of the variance over queries.
    """
    estimators = contrast.family.estimators
    ends = np.cumsum([len(estimator.parts) for estimator in estimators])
    weight = np.zeros(len(covariance))
    models = []
    for place, factor in contrast.terms:
        own = slice(ends[place] - len(estimators[place].parts), ends[place])
        weight[own] = factor * np.array(estimators[place].factors)
        values = estimators[place].run_values(estimators[place].sums)
        models.append(ContrastRuns(factor, values, covariance[own, own]))
    used = np.flatnonzero(weight)
    variance = float(weight[used] @ covariance[np.ix_(used, used)] @ weight[used])
    return Component(max(variance, 0.0), freedom), models


def _variance(influence: Floats) -> float:
    clusters = len(influence)
    return float(np.square(influence - influence.mean()).sum()) * clusters / max(clusters - 1, 1)
