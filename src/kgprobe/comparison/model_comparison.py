"""Compare several models: confidence intervals of every metric and every difference, and p-values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from kgprobe.aggregate import Tie
from kgprobe.comparison.estimator_families import estimator_family
from kgprobe.comparison.estimators import Estimator, estimators
from kgprobe.comparison.inference import Hypotheses, about_the_method, about_these_runs
from kgprobe.comparison.intervals import Interval
from kgprobe.comparison.lineup import Group, GroupCells, Lineup, grouped
from kgprobe.comparison.pair_tests import Correction, PairTests, benjamini_hochberg, correction_named, holm
from kgprobe.comparison.permutation_tests import PAIRS, Pair, different_candidates
from kgprobe.comparison.results import Comparison, ComparisonSettings, Difference, Estimate, sets_differ
from kgprobe.comparison.unknown_ranks import NamePair, both_ends, over_unknown_ranks
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
    correction: Correction | str = Correction.max_t,
    pairs: str | Sequence[NamePair] = "all",
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
        level: The confidence level of each interval, and with max-t of all intervals of differences by a metric.
        replicates: The number of bootstrap draws for the intervals.
        permutations: The number of random swaps of two models for the tests.
        seeds: ``fixed`` compares these training runs, ``random`` the methods; the default is ``random`` where every
            model has at least two runs.
        correction: The correction for multiple testing over all pairs of models, for each metric and group by itself:
            ``max-t`` (simultaneous intervals), ``holm``, ``bh`` or ``none``.
        pairs: Report ``all`` pairs of models, or the ``best`` of each metric against every other; or test only the
            given pairs of models.
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
    if lineup.worst:
        ends, opposite = both_ends(lineup)
        compared = compare_models(
            ends,
            parsed,
            by=by,
            cluster=cluster,
            level=level,
            replicates=replicates,
            permutations=permutations,
            seeds=seeds,
            correction=correction,
            pairs=opposite,
            tie=tie,
            seed=seed,
            allow_different_candidates=allow_different_candidates,
            progress=progress,
        )
        return over_unknown_ranks(lineup, compared)
    given = None if isinstance(pairs, str) else _positions(pairs, lineup)
    settings = ComparisonSettings(
        cluster,
        level,
        replicates,
        permutations,
        seeds or lineup.usual_seeds,
        pairs if isinstance(pairs, str) else "given",
        Tie(tie),
        seed,
        correction_named(correction),
        allow_different_candidates,
    )
    _check(settings, lineup, parsed, given)
    cells = grouped(lineup, by, lineup.clusters(cluster))
    questions = list(
        zip(*(_hypotheses(lineup, metric, cells, settings, given, progress) for metric in parsed), strict=True)
    )
    estimates: list[Estimate] = []
    differences: list[Difference] = []
    for group, asked in zip(cells.groups, questions, strict=True):
        answers = _SEEDS[settings.seeds](asked, settings, progress)
        for question, answer in zip(asked, answers, strict=True):
            estimates += _estimates(lineup.models, question, answer.intervals, group)
            tested = _differences(lineup.models, question, answer.tests, group.name)
            tested |= _not_tested(lineup.models, question, level, group.name)
            shown = _shown_pairs(question, settings.pairs) if given is None else given
            differences += [tested[pair] if pair in tested else tested[pair[::-1]].turned() for pair in shown]
    if all(math.isnan(estimate.value) for estimate in estimates):
        problems = dict.fromkeys(f"{one.metric} of {one.model} is undefined: {one.reason}" for one in estimates)
        raise DataError("no metric has a value", problems)
    return Comparison(estimates, differences, settings)


def draws_of(lineup: Lineup, metrics: int, groups: int, draws: int) -> int:
    """The total of the progress of a comparison.

    Args:
        lineup: The models.
        metrics: The number of metrics.
        groups: The number of groups.
        draws: The bootstrap draws and permutations of a group.
    """
    return groups * draws + metrics * (len(lineup.models) + len(lineup.worst)) * _scored(lineup)


def _scored(lineup: Lineup) -> int:
    """The number of draws that take as long as the scores of a model, 0 where that is a moment."""
    return len(lineup) // _ROWS_PER_DRAW if len(lineup) > _MANY_ROWS else 0


def _hypotheses(
    lineup: Lineup,
    metric: Metric,
    cells: GroupCells,
    settings: ComparisonSettings,
    pairs: tuple[Pair, ...] | None,
    progress: Progress | None,
) -> list[Hypotheses]:
    """One metric in each group; the columns of large groups are freed before those of the next metric are made."""
    by_model = []
    for model in lineup.models:
        by_model.append(estimators(lineup, model, metric, cells=cells, tie=settings.tie))
        if progress is not None and _scored(lineup):
            progress(_scored(lineup))
    families = [estimator_family(own) for own in zip(*by_model, strict=True)]
    different = {} if settings.allow_different_candidates else different_candidates(lineup)
    every = PAIRS["all"](np.empty(len(lineup.models)), ()) if pairs is None else pairs
    tested = tuple(pair for pair in every if pair not in different)
    untested = {pair: different[pair] for pair in every if pair in different}
    return [Hypotheses(metric, family, tested, untested).merged(settings) for family in families]


def _shown_pairs(question: Hypotheses, which: str) -> tuple[Pair, ...]:
    """The pairs of models to report."""
    values = question.family.estimate * (1 if question.metric.higher_is_better else -1)
    untested = {*question.untested, *(pair[::-1] for pair in question.untested)}
    return PAIRS[which](values, untested)


def _positions(pairs: Sequence[NamePair], lineup: Lineup) -> tuple[Pair, ...]:
    """The given pairs of models, by their positions."""
    named = [name for pair in pairs for name in pair]
    if unknown := [name for name in dict.fromkeys(named) if name not in lineup.models]:
        raise UsageError(f"`pairs` names unknown models: {', '.join(unknown)}")
    return tuple((lineup.models.index(first), lineup.models.index(second)) for first, second in pairs)


_SEEDS = {"fixed": about_these_runs, "random": about_the_method}


def _check(
    settings: ComparisonSettings, lineup: Lineup, metrics: Sequence[Metric], given: tuple[Pair, ...] | None
) -> None:
    counts = {"replicates": (settings.replicates, 100), "permutations": (settings.permutations, 1)}
    problems = [] if metrics else ["metrics is empty"]
    if given is None and settings.pairs not in PAIRS:
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


def _differences(models: Sequence[str], question: Hypotheses, tests: PairTests, group: Any) -> dict[Pair, Difference]:
    values = question.family.estimate
    reasons = [_why_undefined(question.metric, one) for one in question.family.estimators]
    by_holm, by_bh = holm(tests.p).tolist(), benjamini_hochberg(tests.p).tolist()
    made = {}
    for at, (i, j) in enumerate(question.pairs):
        p = float(tests.p[at])
        named = [f"{models[k]}: {reasons[k]}" for k in (i, j) if reasons[k]]
        made[i, j] = Difference(
            models[i],
            models[j],
            question.metric,
            value=math.nan if named else float(values[i] - values[j]),
            interval=tests.intervals[at],
            p=p,
            adjusted=float(tests.adjusted[at]),
            significant=tests.significant[at],
            tests=int((~np.isnan(tests.p)).sum()),
            holm=by_holm[at],
            bh=by_bh[at],
            group=group,
            reason="; ".join(named) or (None if math.isfinite(p) else "the variance overflows double precision"),
        )
    return made


def _not_tested(
    models: Sequence[str], question: Hypotheses, level: float, group: dict[str, Any]
) -> dict[Pair, Difference]:
    """The differences between models with different candidate sets, without intervals and p-values."""
    values = question.family.estimate
    made = {}
    for (i, j), count in question.untested.items():
        reason = sets_differ(count)
        made[i, j] = Difference(
            models[i],
            models[j],
            question.metric,
            value=float(values[i] - values[j]),
            interval=Interval(math.nan, math.nan, level, "none", trusted=False, remark=reason),
            p=math.nan,
            adjusted=math.nan,
            significant=False,
            tests=len(question.pairs),
            holm=math.nan,
            bh=math.nan,
            group=group,
            reason=reason,
            tested=False,
        )
    return made
