"""Evaluate metrics on rank tables: RankAccumulator for streams, `evaluate` and `scores` for tables."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.aggregate import (
    Grouping,
    KeyedSums,
    PopularityWeight,
    Tie,
    Uniform,
    Weighting,
    parse_groupings,
    tied_rank,
    tied_score,
)
from kgprobe.aggregate.groups import ByColumn, ByQuantile
from kgprobe.aggregate.weights import SettledWeight, settle
from kgprobe.arrays import Flags, Floats, distinct, sum_by
from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.metrics.catalogue import parse_all
from kgprobe.metrics.metric import DistributionMetric, MeanMetric, Metric, Statistic, Sums, Term
from kgprobe.ranks import End, RankFile, Ranks, refuse_intervals, validate
from kgprobe.transform import Transformer


@dataclass(frozen=True)
class CubeKey:
    """What metrics must have in common to share sums.

    Attributes:
        columns: The columns by which the sums are kept apart, to be weighed at the end.
        needs_alternatives: Whether queries with a single candidate are left out.
        settled: The weights, where they are known from the start.
    """

    columns: tuple[str, ...]
    needs_alternatives: bool
    settled: SettledWeight | None = None


@dataclass(frozen=True)
class Score:
    """The value of one metric on one group of queries.

    Attributes:
        metric: The metric.
        value: Its value; with several seeds, the mean over them. NaN where no query is left, and where ranks are
            intervals that leave it open.
        low: The smallest value that the ranks allow: the value itself, unless they leave it open. With several seeds,
            the mean over them. NaN where the metric has no value, or is not monotone and ranks are intervals.
        high: The largest, likewise.
        std: Sample standard deviation over the seeds; None for a single one, and where the value is open.
        seeds: Number of training runs with any query to evaluate.
        queries: Number of queries evaluated in a run (the largest, where runs differ).
        effective: Effective number of queries, (sum w)^2 / sum w^2, mean over seeds.
        left_out: Queries of a run that say nothing to this metric, having a single candidate.
        intervals: Queries of a run whose rank is an interval (the largest number of any run).
        group: The group's name by column.
    """

    metric: Metric
    value: float
    low: float
    high: float
    std: float | None
    seeds: int
    queries: int
    effective: float
    left_out: int
    intervals: int
    group: dict[str, Any] = field(default_factory=dict)


def between(best: Score, worst: Score) -> Score:
    """The score of ranks that are intervals, from the scores of their best and of their worst ends.

    Example:
        >>> from kgprobe.metrics.rank_metrics import MRR
        >>> ends = [Score(MRR(), v, v, v, None, 1, 10, 10.0, 0, 3) for v in (0.5, 0.25)]
        >>> score = between(*ends)
        >>> score.value, score.low, score.high
        (nan, 0.25, 0.5)
    """
    monotone = best.metric.facts.monotone
    if not best.intervals or (monotone and best.value == worst.value):
        return best
    low, high = sorted((best.value, worst.value)) if monotone else (math.nan, math.nan)
    return replace(best, value=math.nan, low=low, high=high, std=None)


class Cube:
    """Sums that several metrics share: over the same queries, kept apart by the same columns.

    Each cell is a combination of slice (seed, groups, macro cell) and of the columns that weights depend on.
    """

    COUNT, LEFT_OUT, INTERVALS, WEIGHT, SQUARED, TERMS = range(6)

    def __init__(self, slices: int, key: CubeKey, terms: tuple[Term, ...]) -> None:
        self.slices, self.key, self.terms = slices, key, terms
        self.sums = KeyedSums(slices + len(key.columns), self.TERMS + len(terms))

    def add(self, keys: list[Floats], counted: Flags, intervals: Flags, weight: Floats, values: list[Floats]) -> None:
        """Add queries; those that do not count leave only a trace of their number."""
        numbers = [flags.astype(np.float64) for flags in (counted, ~counted, intervals & (weight > 0))]
        base = [*numbers, weight, np.square(weight)]
        weighted = [
            np.where(counted, value, 0.0) * (np.square(weight) if statistic is Statistic.chance_variance else weight)
            for (_, statistic), value in zip(self.terms, values, strict=True)
        ]
        self.sums.add(keys, np.stack(base + weighted))


def finish_scores(metric: Metric, cube: Cube, by: Sequence[Grouping]) -> list[Score]:
    """The scores of a metric, one for each group."""
    keys, sums = cube.sums.keys, cube.sums.sums
    if sums.shape[1] == 0:
        return [] if by else [Score(metric, math.nan, math.nan, math.nan, None, 0, 0, 0.0, 0, 0)]
    cells, cell = distinct(keys[: cube.slices], sums.shape[1])
    size = len(cells[0])
    values, weight, squared = _cell_values(metric, cube, keys[cube.slices :], sums, cell, size)
    filled = sum_by(cell, sums[Cube.WEIGHT], size) > 0
    runs, run = distinct(cells[: 1 + len(by)], size)

    def per_run(amount: Floats) -> Floats:
        return sum_by(run, np.where(filled, amount, 0.0), len(runs[0]))

    with np.errstate(invalid="ignore", divide="ignore"):
        macro_cells = per_run(np.ones(size))
        value = per_run(values) / macro_cells
        effective = np.square(macro_cells) / per_run(squared / np.square(weight))
    numbers = [sum_by(run[cell], sums[row], len(runs[0])) for row in (Cube.COUNT, Cube.LEFT_OUT, Cube.INTERVALS)]
    groups, group = distinct(runs[1:], len(value))
    names = zip(*groups, strict=True) if groups else [()]
    labels = [{g.name: g.label(code) for g, code in zip(by, codes, strict=True)} for codes in names]
    return [
        Score(metric, **summary, group=label)
        for label, summary in zip(labels, _over_seeds(group, value, effective, *numbers), strict=True)
    ]


def _over_seeds(
    group: NDArray[np.int64], value: Floats, effective: Floats, count: Floats, left_out: Floats, intervals: Floats
) -> list[dict[str, Any]]:
    """What a score says of every group besides its metric and its name."""
    size = int(group.max()) + 1
    most_count, most_left_out, most_intervals = np.zeros((3, size))
    np.maximum.at(most_count, group, count)
    np.maximum.at(most_left_out, group, left_out)
    np.maximum.at(most_intervals, group, intervals)
    evaluated = (count > 0) | (most_count == 0)[group]  # a run without a query says nothing, unless none has any
    group, value, effective = group[evaluated], value[evaluated], effective[evaluated]
    seeds = sum_by(group, np.ones_like(value), size)
    mean = sum_by(group, value, size) / seeds
    with np.errstate(invalid="ignore", over="ignore"):  # an infinite value has no deviation
        squares = sum_by(group, np.square(value - mean[group]), size)
    mean_effective = sum_by(group, effective, size) / seeds
    return [
        dict.fromkeys(("value", "low", "high"), float(mean[g]))
        | {
            "std": math.sqrt(squares[g] / (seeds[g] - 1)) if seeds[g] > 1 else None,
            "seeds": int(seeds[g]),
            "queries": int(most_count[g]),
            "effective": float(mean_effective[g]),
            "left_out": int(most_left_out[g]),
            "intervals": int(most_intervals[g]),
        }
        for g in range(size)
    ]


def _cell_values(
    metric: Metric, cube: Cube, columns: list[Floats], sums: Floats, cell: NDArray[np.int64], size: int
) -> tuple[Floats, Floats, Floats]:
    """Value, sum of weights and sum of squared weights of every cell."""
    if isinstance(metric, DistributionMetric):
        order = np.lexsort((columns[0], cell))
        ends = np.cumsum(np.bincount(cell, minlength=size))[:-1]
        parts = zip(np.split(columns[0][order], ends), np.split(sums[Cube.WEIGHT][order], ends), strict=True)
        values = np.array([metric.of_distribution(rank, w) if w.any() else math.nan for rank, w in parts])
        return values, sum_by(cell, sums[Cube.WEIGHT], size), sum_by(cell, sums[Cube.SQUARED], size)
    assert isinstance(metric, MeanMetric)
    weighting = Uniform() if cube.key.settled else metric.weighting
    w = weighting.weights(dict(zip(cube.key.columns, columns, strict=True)), sums[Cube.COUNT])

    def total(row: int, factor: Floats) -> Floats:
        return sum_by(cell, factor * sums[row], size)

    def term(statistic: Statistic, factor: Floats) -> Floats:
        wanted = (metric.transformer, statistic)
        known = wanted in cube.terms
        return total(Cube.TERMS + cube.terms.index(wanted), factor) if known else np.full(size, np.nan)

    collected = Sums(
        weight=total(Cube.WEIGHT, w),
        squared_weight=total(Cube.SQUARED, w * w),
        score=term(Statistic.score, w),
        chance_mean=term(Statistic.chance_mean, w),
        chance_variance=term(Statistic.chance_variance, w * w),
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        return metric.finish(collected), collected.weight, collected.squared_weight


MACRO = ("relation", "entity", "side")


class RankAccumulator:
    """Takes rank tables one after the other and gives the same values as `evaluate` on all of them at once.

    Args:
        metrics: Names or metric values.
        by: Groupings whose groups are evaluated separately (already learned where they need it).
        macro: Average per relation, entity or side first; None is the mean over queries.
        tie: How ties are scored.
        weight: A label column with sample weights that multiply the metrics' own.
        settled: Weights of the whole table, where it could be looked at before: saves memory.
        at: The end, ``best`` or ``worst``, at which ranks that are intervals are taken; without it they are refused.

    Example:
        >>> part = dict(relation=[0], tail=[1], side=["tail"], candidates=[9])
        >>> first, second = RankAccumulator(["MRR"]), RankAccumulator(["MRR"])
        >>> first.update(Ranks.from_columns(head=[0], rank=[1], **part))
        >>> second.update(Ranks.from_columns(head=[1], rank=[2], **part))
        >>> first.merge(second)
        >>> first.compute()
        {'MRR': 0.75}
    """

    def __init__(
        self,
        metrics: str | Metric | Iterable[str | Metric],
        *,
        by: Sequence[Grouping] = (),
        macro: str | None = None,
        tie: Tie | str = Tie.mean,
        weight: str | None = None,
        settled: Iterable[SettledWeight] = (),
        at: End | str | None = None,
    ) -> None:
        if macro is not None and macro not in MACRO:
            raise UsageError(f"macro '{macro}' is not known", [f"it can be {', '.join(MACRO)}"])
        self.metrics = parse_all(metrics)
        self.by, self.macro, self.weight = list(by), macro, weight
        self._settled = {(weight.weighting, weight.needs_alternatives): weight for weight in settled}
        self.tie, self.at = Tie(tie), None if at is None else End(at)
        unfit = [str(m) for m in self.metrics if isinstance(m, DistributionMetric)]
        if self.tie is Tie.expected and unfit:
            raise UsageError(f"no exact expectation over ties is known for {', '.join(unfit)}", remedy="use tie 'mean'")
        self.reset()

    def reset(self) -> None:
        """Forget everything that was added."""
        self._cubes = self._build_cubes()

    def _build_cubes(self) -> dict[CubeKey, Cube]:
        terms: dict[CubeKey, dict[Term, None]] = {}
        for metric in self.metrics:
            terms.setdefault(self._cube_key(metric), {}).update(dict.fromkeys(metric.terms))
        slices = 1 + len(self.by) + (self.macro is not None)
        return {key: Cube(slices, key, tuple(wanted)) for key, wanted in terms.items()}

    def _cube_key(self, metric: Metric) -> CubeKey:
        weighting = metric.weighting if isinstance(metric, MeanMetric) else None
        settled = self._settled.get((weighting, metric.needs_alternatives)) if weighting else None
        return CubeKey(() if settled else metric.columns, metric.needs_alternatives, settled)

    def update(self, ranks: Ranks) -> None:
        """Add the queries of a table."""
        if self.at is None:
            refuse_intervals(ranks)
        intervals = ranks.intervals
        ranks = ranks if self.at is None else self.at.of(ranks)
        slices = self._slices(ranks)
        sample_weight = self._sample_weight(ranks)
        by_chance: Callable[[Transformer], tuple[Floats, Floats]] = cache(
            lambda transformer: chance(ranks, transformer)
        )

        @cache
        def statistic(term: Term) -> Floats:
            transformer, wanted = term
            if wanted is Statistic.score:
                return tied_score(transformer, ranks, self.tie)
            return by_chance(transformer)[wanted is Statistic.chance_variance]

        parts: list[tuple[Cube, list[Floats], NDArray[np.bool_], Floats, list[Floats]]] = []
        for cube in self._cubes.values():
            counted = (ranks.candidates > 1) | (not cube.key.needs_alternatives)
            weight = np.where(counted, sample_weight, 0.0)
            if cube.key.settled is not None:
                columns = {name: read_column(ranks, name)[counted] for name in cube.key.settled.weighting.columns}
                weight[counted] *= cube.key.settled(columns)
            keys = [*slices, *(_key(ranks, column, self.tie) for column in cube.key.columns)]
            parts.append((cube, keys, counted, weight, [statistic(term) for term in cube.terms]))
        for cube, keys, counted, weight, values in parts:  # only now: a table that is refused leaves no trace
            cube.add(keys, counted, intervals, weight, values)

    def merge(self, other: RankAccumulator) -> None:
        """Add all that another accumulator with the same settings has collected."""
        if self._settings != other._settings:
            raise UsageError("accumulators with different settings do not merge")
        for key, cube in self._cubes.items():
            cube.sums.merge(other._cubes[key].sums)
        for grouping, source in zip(self.by, other.by, strict=True):
            if isinstance(grouping, ByColumn) and isinstance(source, ByColumn):
                grouping.labels.update(source.labels)

    @property
    def _settings(self) -> tuple[object, ...]:
        edges = [grouping.edges.tolist() if isinstance(grouping, ByQuantile) else None for grouping in self.by]
        scales = [{name: v.tolist() for name, v in w.reference.items()} for w in self._settled.values()]
        return self.metrics, [g.name for g in self.by], edges, self.macro, self.tie, self.at, self.weight, scales

    def compute(self) -> dict[str, float]:
        """The value of every metric by canonical name; groups need `scores`."""
        if self.by:
            raise UsageError("with groups a metric has many values", remedy="call scores()")
        return {str(score.metric): score.value for score in self.scores()}

    def scores(self) -> list[Score]:
        """Everything that is known, group by group in ascending order, metric by metric."""
        found = [
            score
            for metric in self.metrics
            for score in finish_scores(metric, self._cubes[self._cube_key(metric)], self.by)
        ]
        return sorted(found, key=lambda score: [sortable(name) for name in score.group.values()])

    def _slices(self, ranks: Ranks) -> list[Floats]:
        seed = np.zeros(len(ranks)) if ranks.seed is None else ranks.seed.astype(np.float64)
        macro = [] if self.macro is None else [_macro_key(ranks, self.macro)]
        return [seed, *(grouping.codes(ranks) for grouping in self.by), *macro]

    def _sample_weight(self, ranks: Ranks) -> Floats:
        if self.weight is None:
            return np.ones(len(ranks))
        try:
            weight = np.asarray(ranks.column(self.weight).to_numpy(), dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(f"column '{self.weight}' holds weights that are no numbers") from None
        if not (np.isfinite(weight) & (weight >= 0)).all():
            raise DataError(f"column '{self.weight}' holds weights that are negative or no numbers")
        return weight


def _macro_key(ranks: Ranks, macro: str) -> Floats:
    keys = {"relation": ranks.relation, "entity": ranks.target, "side": ranks.predicts_tail}
    return keys[macro].astype(np.float64)


def sortable(value: Any) -> tuple[int, float, list[str | int]]:
    """Numbers before text, and numbers within text by their size: band 2 comes before band 10."""
    if isinstance(value, int | float):
        return 0, float(value), []
    return 1, 0.0, [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", str(value))]


def _key(ranks: Ranks, column: str, tie: Tie) -> Floats:
    return tied_rank(ranks, tie) if column == "rank" else read_column(ranks, column)


def read_column(ranks: Ranks, column: str) -> Floats:
    """A column that weights depend on, which must be recorded in every row."""
    values = ranks.numbers(column)
    unknown = int(np.isnan(values).sum())
    if unknown:
        raise DataError(
            f"{column.replace('_', ' ')} is not recorded in {unknown:,} of {len(ranks):,} rows",
            ["metrics with a beta other than 0 weigh queries by it"],
            "give the graph with --graph, or use beta=0",
        )
    return values


def chance(ranks: Ranks, transformer: Transformer) -> tuple[Floats, Floats]:
    """Mean and variance of the score of a random rank, for every query."""
    (sizes,), which = distinct([ranks.candidates], len(ranks))
    mean, variance = transformer.chance(sizes)
    return mean[which], variance[which]


_MODERATE_BETA = 5.0


def scores(
    ranks: Ranks | RankFile,
    metrics: str | Metric | Iterable[str | Metric],
    *,
    graph: KnowledgeGraph | None = None,
    by: Iterable[str] = (),
    macro: str | None = None,
    tie: Tie | str = Tie.mean,
    weight: str | None = None,
) -> list[Score]:
    """Evaluate a rank table or file, with groups, seeds and effective sample sizes.

    Where ranks are intervals, so is the value of a metric: it lies between ``low`` and ``high``, which are reached.

    Args:
        ranks: A table, or a file, which is streamed.
        metrics: Names or metric values.
        graph: Where the popularity of the targets comes from; without it, the table's own columns are used.
        by: Groupings such as ``relation``, ``side``, ``popularity:5`` or a label column.
        macro: Average per ``relation``, ``entity`` or ``side`` first.
        tie: How ties are scored: ``mean``, ``expected``, ``optimistic`` or ``pessimistic``.
        weight: A label column with sample weights.

    Example:
        >>> table = Ranks.from_columns(
        ...     head=[0, 0], relation=[0, 0], tail=[1, 1], side=["head", "tail"], rank=[1, 2], candidates=[5, 5]
        ... )
        >>> [(score.group["side"], score.value) for score in scores(table, ["MRR"], by=["side"])]
        [('head', 1.0), ('tail', 0.5)]
    """
    validate(ranks, graph)
    source = ranks if graph is None else ranks.with_popularity(graph.popularity)
    groupings = parse_groupings(by)
    ends = tuple(End) if "worst_rank" in source.column_names else (End.best,)
    if len(ends) > 1:
        _refuse_by_rank([*(grouping.name for grouping in groupings), weight])
    for grouping in groupings:
        grouping.learn(source)
    wanted = parse_all(metrics)
    settled = settle(source, filter(None, map(_to_settle, wanted)), read_column)
    accumulators = [
        RankAccumulator(wanted, by=groupings, macro=macro, tie=tie, weight=weight, settled=settled, at=end)
        for end in ends
    ]
    for batch in source.batches():
        for accumulator in accumulators:
            accumulator.update(batch)
    found = [accumulator.scores() for accumulator in accumulators]
    return [between(best, worst) for best, worst in zip(found[0], found[-1], strict=True)]


def _refuse_by_rank(columns: Iterable[str | None]) -> None:
    """Refuse groups and sample weights that change with a rank: the ends of a metric would not be its limits."""
    if named := [column for column in columns if column in ("rank", "worst_rank")]:
        raise UsageError(
            f"ranks that may be intervals neither group nor weigh: {', '.join(named)}",
            remedy="use at_best() or at_worst(), which have exact ranks",
        )


def _to_settle(metric: Metric) -> tuple[Weighting, bool] | None:
    weighting = metric.weighting if isinstance(metric, MeanMetric) else None
    if not isinstance(weighting, PopularityWeight) or not weighting.columns:
        return None
    # A larger beta could leave nothing but zeros beside a heaviest weight that no query has.
    moderate = max(abs(weighting.beta_e), abs(weighting.beta_r)) <= _MODERATE_BETA
    return (weighting, metric.needs_alternatives) if moderate else None


def evaluate(
    ranks: Ranks | RankFile,
    metrics: str | Metric | Iterable[str | Metric],
    *,
    graph: KnowledgeGraph | None = None,
    macro: str | None = None,
    tie: Tie | str = Tie.mean,
    weight: str | None = None,
) -> dict[str, float]:
    """The value of each metric by canonical name; see `scores` for the arguments and for more detail.

    Example:
        >>> table = Ranks.from_columns(
        ...     head=[0, 0], relation=[0, 0], tail=[1, 1], side=["head", "tail"], rank=[1, 2], candidates=[5, 5]
        ... )
        >>> evaluate(table, ["MRR", "Hits@1", "PROBE(alpha=1)"])
        {'MRR': 0.75, 'Hits@1': 0.5, 'PROBE(alpha=1,beta=0)': 0.6875}
    """
    refuse_intervals(ranks)
    found = scores(ranks, metrics, graph=graph, macro=macro, tie=tie, weight=weight)
    return {str(score.metric): score.value for score in found}
