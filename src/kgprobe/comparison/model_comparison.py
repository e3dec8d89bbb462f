"""Compare several models: confidence intervals of every metric and every difference, and p-values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any

import numpy as np

from kgprobe.aggregate import Tie
from kgprobe.arrays import Floats
from kgprobe.comparison.estimator_families import EstimatorFamily, Replicates, bootstrap, estimator_family
from kgprobe.comparison.estimators import Estimator, estimators
from kgprobe.comparison.intervals import (
    Component,
    ContrastRuns,
    Interval,
    IntervalEvidence,
    Uncertainty,
    bootstrap_interval,
)
from kgprobe.comparison.lineup import Clusters, Group, GroupCells, Lineup, grouped
from kgprobe.comparison.permutation_tests import PAIRS, Pair, different_candidates, permutation_tests
from kgprobe.comparison.resampling import MOST_UNITS, random_groups
from kgprobe.comparison.results import (
    Comparison,
    ComparisonSettings,
    Difference,
    Estimate,
    benjamini_hochberg,
    holm,
    sets_differ,
)
from kgprobe.errors import DataError, UsageError
from kgprobe.metrics import Metric, parse_all
from kgprobe.resources import Progress

_MANY_ROWS, _ROWS_PER_DRAW = 1_000_000, 5_000
"""Scores of more rows are worth reporting; one draw takes about as long as the scores of so many rows."""


def wrong_settings(lineup: Lineup, *, seeds: str, level: Any, seed: Any, **counts: tuple[Any, int]) -> Iterator[str]:
    """Check the arguments of a comparison; one sentence for each problem.

    Args:
        lineup: The models.
        seeds: ``fixed`` or ``random``.
        level: Between 0 and 1.
        seed: A whole number of at least 0.
        counts: Other whole numbers by name, each with its smallest allowed value.
    """
    if not isinstance(level, Real) or not 0 < float(level) < 1:
        yield f"level must be between 0 and 1, not {_shown(level)}"
    for name, (given, least) in {**counts, "seed": (seed, 0)}.items():
        if not isinstance(given, Integral) or int(given) < least:
            yield f"{name} must be a whole number, at least {least}, not {_shown(given)}"
    if seeds not in _SEEDS:
        yield f"seeds can be {' or '.join(_SEEDS)}, not '{seeds}'"
    if seeds == "random" and lineup.single_runs:
        yield f"random seeds need two runs of {', '.join(lineup.single_runs)}"


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) and math.isfinite(value) else repr(value)


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
        intervals: The interval of every model, then of every difference.
        p: The p-value of every difference.
    """

    intervals: list[Interval]
    p: Floats


def about_these_runs(
    questions: Sequence[Hypotheses], settings: ComparisonSettings, progress: Progress | None = None
) -> list[Inference]:
    """Intervals by bootstrap and p-values by permutation: other queries, the same training runs."""
    families = [question.family for question in questions]
    made = bootstrap(families, replicates=settings.replicates, seed=settings.seed, progress=progress)
    intervals = [
        _bootstrapped(question, replicates, settings.level)
        for question, replicates in zip(questions, made, strict=True)
    ]
    pairs = [question.pairs for question in questions]
    p = permutation_tests(families, pairs, permutations=settings.permutations, seed=settings.seed, progress=progress)
    return [Inference(*found) for found in zip(intervals, p, strict=True)]


def _bootstrapped(question: Hypotheses, replicates: Replicates, level: float) -> list[Interval]:
    precision = question.precision()
    return [
        bootstrap_interval(
            contrast.estimate,
            error,
            replicates.of(contrast.factors()),
            level=level,
            limits=contrast.limits,
            evidence=evidence,
        )
        for contrast, error, evidence in zip(question.contrasts(), precision.errors, precision.evidence, strict=True)
    ]


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
            (contrast, _over_runs(contrast, covariance, evidence.freedom(known.clusters)), evidence)
            for contrast, evidence in zip(question.contrasts(), known.evidence, strict=True)
        ]
        intervals = [
            uncertainty.interval(contrast.estimate, level=settings.level, limits=contrast.limits, evidence=evidence)
            for contrast, uncertainty, evidence in found
        ]
        differences = found[len(question.family.estimators) :]
        p = [uncertainty.probability(contrast.estimate) for contrast, uncertainty, _ in differences]
        answers.append(Inference(intervals, np.array(p)))
    return answers


def _run_covariance(family: EstimatorFamily) -> Floats | None:
    """The covariance of the values of all training runs over draws of queries, [runs, runs]; None if it needs draws."""
    influence = family.by_run().influence
    if influence is None:
        return None
    return influence.T @ influence * (family.clusters / max(family.clusters - 1, 1))


def _drawn_covariance(replicates: Replicates) -> Floats:
    values = replicates.values
    return np.atleast_2d(np.cov(values[np.isfinite(values).all(axis=1)], rowvar=False))


def _over_runs(contrast: Contrast, covariance: Floats, freedom: float) -> Uncertainty:
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
    return Uncertainty.of(Component(max(variance, 0.0), freedom), models)


def _variance(influence: Floats) -> float:
    clusters = len(influence)
    return float(np.square(influence - influence.mean()).sum()) * clusters / max(clusters - 1, 1)


@np.errstate(over="ignore", invalid="ignore")  # a metric that overflows has no interval, and says so
def compare_models(
    lineup: Lineup,
    metrics: str | Metric | Iterable[str | Metric],
    *,
    by: str | Iterable[str] = (),
    cluster: str = "triple",
    level: float = 0.95,
    replicates: int = 10_000,
    permutations: int = 10_000,
    seeds: str | None = None,
    pairs: str = "all",
    tie: Tie | str = Tie.mean,
    seed: int = 0,
    allow_different_candidates: bool = False,
    progress: Progress | None = None,
) -> Comparison:
    """Confidence intervals of every metric of every model and of their differences, with p-values.

    Args:
        lineup: The models on the same queries.
        metrics: Names or metric values.
        by: Groupings whose groups are compared separately, such as ``relation`` or ``popularity:5``; weights are those
            in the whole table.
        cluster: What the queries of a cluster share: ``triple``, ``relation``, ``entity`` or ``query``.
        level: The confidence level of each interval.
        replicates: The number of bootstrap draws for the intervals.
        permutations: The number of random swaps of two models for the p-values.
        seeds: ``fixed`` compares these training runs, ``random`` the methods; the default is ``random`` where every
            model has at least two runs.
        pairs: ``all`` pairs of models, or the ``best`` of each metric against every other.
        tie: How ties are scored.
        seed: The seed of the random generator.
        allow_different_candidates: Also test models against each other whose candidate sets differ.
        progress: Called with the number of new bootstrap draws and permutations; scores of many queries count as draws,
            see `draws_of`.

    Example:
        >>> from kgprobe.comparison.lineup import line_up
        >>> from kgprobe.ranks import Ranks
        >>> def ranks(worse):
        ...     return Ranks.from_columns(
        ...         head=range(400), relation=[0] * 400, tail=[1] * 400, side=["tail"] * 400,
        ...         rank=[1 + i % 3 + worse * (i % 2) for i in range(400)], candidates=[9] * 400,
        ...     )
        >>> found = compare_models(line_up({"one": ranks(0), "other": ranks(1)}), "MRR", replicates=999)
        >>> [f"{e.model} {e.value:.3f} in [{e.interval.low:.2f}, {e.interval.high:.2f}]" for e in found.estimates]
        ['one 0.612 in [0.58, 0.64]', 'other 0.487 in [0.47, 0.51]']
        >>> found.differences[0].p < 0.001
        True
    """
    parsed = parse_all(metrics)
    settings = ComparisonSettings(
        cluster,
        level,
        replicates,
        permutations,
        seeds or lineup.usual_seeds,
        pairs,
        Tie(tie),
        seed,
        allow_different_candidates,
    )
    _check(settings, lineup, parsed)
    cells = grouped(lineup, by, lineup.clusters(cluster))
    questions = list(zip(*(_hypotheses(lineup, metric, cells, settings, progress) for metric in parsed), strict=True))
    estimates: list[Estimate] = []
    differences: list[Difference] = []
    for group, asked in zip(cells.groups, questions, strict=True):
        answers = _SEEDS[settings.seeds](asked, settings, progress)
        for question, answer in zip(asked, answers, strict=True):
            split = len(lineup.models)
            estimates += _estimates(lineup.models, question, answer.intervals[:split], group)
            tested = _differences(lineup.models, question, answer.intervals[split:], answer.p, group.name)
            differences += [*tested, *_not_tested(lineup.models, question, level, group.name)]
    if all(math.isnan(estimate.value) for estimate in estimates):
        problems = dict.fromkeys(f"{one.metric} of {one.model} is undefined: {one.reason}" for one in estimates)
        raise DataError("no metric has a value", problems)
    return Comparison(estimates, _adjusted(differences), settings)


def draws_of(lineup: Lineup, metrics: int, groups: int, draws: int) -> int:
    """The total of the progress of a comparison.

    Args:
        lineup: The models.
        metrics: The number of metrics.
        groups: The number of groups.
        draws: The bootstrap draws and permutations of a group.
    """
    return groups * draws + metrics * len(lineup.models) * _scored(lineup)


def _scored(lineup: Lineup) -> int:
    """The number of draws that take as long as the scores of a model, 0 where that is a moment."""
    return len(lineup) // _ROWS_PER_DRAW if len(lineup) > _MANY_ROWS else 0


def _hypotheses(
    lineup: Lineup, metric: Metric, cells: GroupCells, settings: ComparisonSettings, progress: Progress | None
) -> list[Hypotheses]:
    """One metric in each group; the columns of large groups are freed before those of the next metric are made."""
    by_model = []
    for model in lineup.models:
        by_model.append(estimators(lineup, model, metric, cells=cells, tie=settings.tie))
        if progress is not None and _scored(lineup):
            progress(_scored(lineup))
    families = [estimator_family(own) for own in zip(*by_model, strict=True)]
    different = {} if settings.allow_different_candidates else different_candidates(lineup)
    made = []
    for family in families:
        pairs = PAIRS[settings.pairs](family.estimate * (1 if metric.higher_is_better else -1), different)
        untested = {pair: different[pair] for pair in pairs if pair in different}
        tested = tuple(pair for pair in pairs if pair not in different)
        made.append(Hypotheses(metric, family, tested, untested).merged(settings))
    return made


_SEEDS = {"fixed": about_these_runs, "random": about_the_method}


def _check(settings: ComparisonSettings, lineup: Lineup, metrics: Sequence[Metric]) -> None:
    counts = {"replicates": (settings.replicates, 100), "permutations": (settings.permutations, 1)}
    problems = [] if metrics else ["metrics is empty"]
    if settings.pairs not in PAIRS:
        problems.append(f"pairs can be {' or '.join(PAIRS)}, not '{settings.pairs}'")
    problems += wrong_settings(lineup, seeds=settings.seeds, level=settings.level, seed=settings.seed, **counts)
    if problems:
        raise UsageError("invalid arguments of the comparison", problems)


def _estimates(models: Sequence[str], question: Hypotheses, intervals: list[Interval], group: Group) -> list[Estimate]:
    made = []
    for model, one, interval in zip(models, question.family.estimators, intervals, strict=True):
        runs = one.run_values(one.sums)
        std = float(np.std(runs, ddof=1)) if len(runs) > 1 else None
        counts = (len(runs), one.queries, group.clusters, one.effective)
        reason = _why_undefined(question.metric, one)
        made.append(Estimate(model, question.metric, one.estimate, interval, std, *counts, group.name, reason))
    return made


def _why_undefined(metric: Metric, one: Estimator) -> str | None:
    """Why the value of a model is not a finite number; None where it is."""
    reason = metric.why_undefined(one.estimate, one.fewest_queries, one.effective)
    return f"in a training run, {reason}" if reason and one.fewest_queries < one.queries else reason


def _differences(
    models: Sequence[str], question: Hypotheses, intervals: list[Interval], p_values: Any, group: Any
) -> list[Difference]:
    values = question.family.estimate
    reasons = [_why_undefined(question.metric, one) for one in question.family.estimators]
    made = []
    for (i, j), interval, p in zip(question.pairs, intervals, p_values, strict=True):
        named = [f"{models[k]}: {reasons[k]}" for k in (i, j) if reasons[k]]
        reason = "; ".join(named) or (None if math.isfinite(p) else "the variance overflows double precision")
        value = math.nan if named else float(values[i] - values[j])
        made.append(
            Difference(models[i], models[j], question.metric, value, interval, float(p), group=group, reason=reason)
        )
    return made


def _not_tested(
    models: Sequence[str], question: Hypotheses, level: float, group: dict[str, Any]
) -> Iterator[Difference]:
    """The differences between models with different candidate sets, without intervals and p-values."""
    values = question.family.estimate
    for (i, j), count in question.untested.items():
        reason = sets_differ(count)
        interval = Interval(math.nan, math.nan, level, "none", trusted=False, remark=reason)
        difference = Difference(models[i], models[j], question.metric, float(values[i] - values[j]), interval, math.nan)
        yield replace(difference, group=group, reason=reason, tested=False)


def _adjusted(differences: list[Difference]) -> list[Difference]:
    p = [difference.p for difference in differences]
    adjusted = zip(differences, holm(p).tolist(), benjamini_hochberg(p).tolist(), strict=True)
    return [replace(difference, holm=by_holm, bh=by_bh) for difference, by_holm, by_bh in adjusted]
