"""Several models compared in one call: intervals of every metric and of every difference, and tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kgprobe.aggregate import Tie
from kgprobe.compare.estimator import estimators
from kgprobe.compare.family import Family, family
from kgprobe.compare.groups import grouped
from kgprobe.compare.inference import Pair, Plan, Question, about_the_method, about_these_runs
from kgprobe.compare.interval import Interval
from kgprobe.compare.lineup import Lineup
from kgprobe.compare.multiplicity import benjamini_hochberg, holm
from kgprobe.compare.outcome import Comparison, Difference, Estimate, Settings
from kgprobe.compare.requests import wrong_numbers
from kgprobe.errors import UsageError
from kgprobe.metrics import Metric, parse_all


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
    progress: Callable[[float], None] | None = None,
) -> Comparison:
    """Intervals of every metric of every model, and of their differences, with tests.

    Args:
        lineup: The models on the same queries.
        metrics: Names or metric values.
        by: Groupings whose groups are compared separately, such as ``relation`` or ``popularity:5``; weights are those
            among all queries.
        cluster: What queries that stand or fall together share: ``triple``, ``relation``, ``entity`` or ``query``.
        level: How often an interval should hold the true value.
        replicates: How many times clusters are drawn anew for the intervals.
        permutations: How many random swaps of two models for the p values.
        seeds: ``fixed`` speaks of these training runs, ``random`` of the method; by default of the method, where every
            model has at least two runs.
        pairs: ``all`` pairs of models, or the ``best`` of each metric against every other.
        tie: How ties are scored.
        seed: Makes the random draws repeatable.
        progress: Is told how many replicates and permutations have been done since it was last told.

    Example:
        >>> from kgprobe.compare.lineup import line_up
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
    wanted = parse_all(metrics)
    settings = Settings(cluster, level, replicates, permutations, seeds or lineup.usual_seeds, pairs, Tie(tie), seed)
    _check(settings, lineup, wanted)
    plan = Plan(level, replicates, permutations, seed)
    cells = grouped(lineup, by, lineup.clusters(cluster))
    made = [[estimators(lineup, model, m, cells=cells, tie=tie) for model in lineup.models] for m in wanted]
    estimates: list[Estimate] = []
    differences: list[Difference] = []
    for place, group in enumerate(cells.groups):
        families = [family([by_group[place] for by_group in models]) for models in made]
        questions = [Question(m, f, _PAIRS[pairs](m, f)) for m, f in zip(wanted, families, strict=True)]
        answers = _SEEDS[settings.seeds](questions, plan, progress)
        for question, answer in zip(questions, answers, strict=True):
            split = len(lineup.models)
            estimates += _estimates(lineup.models, question, answer.intervals[:split], group.name)
            differences += _differences(lineup.models, question, answer.intervals[split:], answer.p, group.name)
    return Comparison(estimates, _adjusted(differences), settings)


def _all_pairs(metric: Metric, models: Family) -> tuple[Pair, ...]:
    size = len(models.estimators)
    return tuple((i, j) for i in range(size) for j in range(i + 1, size))


def _best_pairs(metric: Metric, models: Family) -> tuple[Pair, ...]:
    values = models.estimate * (1 if metric.higher_is_better else -1)
    best = int(np.argmax(np.where(np.isnan(values), -np.inf, values)))
    return tuple((best, i) for i in range(len(values)) if i != best)


_PAIRS = {"all": _all_pairs, "best": _best_pairs}
_SEEDS = {"fixed": about_these_runs, "random": about_the_method}


def _check(settings: Settings, lineup: Lineup, metrics: Sequence[Metric]) -> None:
    single = lineup.single_runs
    counts = {"replicates": (settings.replicates, 100), "permutations": (settings.permutations, 1)}
    problems = [*wrong_numbers(level=settings.level, seed=settings.seed, **counts)]
    problems += [
        problem
        for wrong, problem in (
            (not metrics, "there is no metric to compare by"),
            (settings.pairs not in _PAIRS, f"pairs can be {' or '.join(_PAIRS)}, not '{settings.pairs}'"),
            (settings.seeds not in _SEEDS, f"seeds can be {' or '.join(_SEEDS)}, not '{settings.seeds}'"),
            (settings.seeds == "random" and single, f"random seeds need two runs of {', '.join(single)}"),
        )
        if wrong
    ]
    if problems:
        raise UsageError("the models cannot be compared like this", problems)


def _estimates(models: Sequence[str], question: Question, intervals: list[Interval], group: Any) -> list[Estimate]:
    made = []
    for model, one, interval in zip(models, question.family.estimators, intervals, strict=True):
        runs = one.run_values(one.sums)
        std = float(np.std(runs, ddof=1)) if len(runs) > 1 else None
        counts = (len(runs), one.queries, question.family.clusters, one.effective)
        made.append(Estimate(model, question.metric, one.estimate, interval, std, *counts, group))
    return made


def _differences(
    models: Sequence[str], question: Question, intervals: list[Interval], p_values: Any, group: Any
) -> list[Difference]:
    values = question.family.estimate
    return [
        Difference(models[i], models[j], question.metric, float(values[i] - values[j]), interval, float(p), group=group)
        for (i, j), interval, p in zip(question.pairs, intervals, p_values, strict=True)
    ]


def _adjusted(differences: list[Difference]) -> list[Difference]:
    p = [difference.p for difference in differences]
    adjusted = zip(differences, holm(p).tolist(), benjamini_hochberg(p).tolist(), strict=True)
    return [replace(difference, holm=by_holm, bh=by_bh) for difference, by_holm, by_bh in adjusted]
