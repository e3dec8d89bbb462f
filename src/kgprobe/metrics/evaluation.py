"""Evaluate metrics on rank tables: `evaluate` and `scores` for tables and files, RankAccumulator for streams."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kgprobe.aggregate import (
    Grouping,
    KeyedSums,
    PopularityWeight,
    Sums,
    Tie,
    Uniform,
    Weighting,
    parse_groupings,
    tied_rank,
)
from kgprobe.aggregate.groups import ByColumn, ByQuantile
from kgprobe.aggregate.weighted_mean import query_values, weighted
from kgprobe.aggregate.weights import SettledWeight, read_column, settle
from kgprobe.arrays import Flags, Floats, Ints, distinct, natural, sum_by
from kgprobe.errors import DataError, UsageError
from kgprobe.graph import GraphLike, as_graph
from kgprobe.metrics.catalogue import parse_all
from kgprobe.metrics.metric import DistributionMetric, MeanMetric, Metric, Term
from kgprobe.ranks import End, RankFile, Ranks, refuse_intervals, validate

_MACRO = {"relation": "relation", "entity": "target", "side": "predicts_tail"}
"""What a macro average is taken by, and the attribute of `Ranks` that holds it."""

_MODERATE_BETA = 5.0
"""Up to this beta, weights relative to the largest that the table allows do not underflow."""


@dataclass(frozen=True)
class Score:
    """The value of one metric on one group of queries.

    Attributes:
        metric: The metric.
        value: Its value; with several seeds, the mean over them. NaN where no query is left, and where ranks are
            intervals that do not determine it.
        low: The smallest value that the ranks allow: the value itself, unless ranks are intervals that do not determine
            it. With several seeds, the mean over them. NaN where the metric has no value, or is not monotone and ranks
            are intervals.
        high: The largest value, in the same way.
        std: Sample standard deviation over the seeds; None for a single seed, and where the value is not determined.
        seeds: Number of training runs with any query to evaluate.
        queries: Number of queries evaluated in a run (the largest, where runs differ).
        effective: Effective number of queries, (sum w)^2 / sum w^2, mean over seeds.
        left_out: Queries of a run that this metric leaves out because they have a single candidate.
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


def evaluate(
    ranks: Ranks | RankFile,
    metrics: str | Metric | Iterable[str | Metric],
    *,
    graph: GraphLike | None = None,
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


def scores(
    ranks: Ranks | RankFile,
    metrics: str | Metric | Iterable[str | Metric],
    *,
    graph: GraphLike | None = None,
    by: Iterable[str] = (),
    macro: str | None = None,
    tie: Tie | str = Tie.mean,
    weight: str | None = None,
) -> list[Score]:
    """Evaluate a rank table or file, with groups, seeds and effective sample sizes.

    Where ranks are intervals, the value of a metric lies between ``low`` and ``high``, which are both possible values.

    Args:
        ranks: A table, or a file, which is streamed.
        metrics: Names or metric values.
        graph: Gives the popularity of the targets; without it, the table's own columns are used.
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
    graph = as_graph(graph)
    validate(ranks, graph)
    table = ranks if graph is None else ranks.with_popularity(graph.popularity)
    parsed = parse_all(metrics)
    to_settle = [moderate for metric in parsed if (moderate := _to_settle(metric))]
    groupings = parse_groupings(by) if by else []
    ends = tuple(End) if "worst_rank" in table.column_names else (End.best,)
    if len(ends) > 1:
        _refuse_by_rank([*(grouping.name for grouping in groupings), weight])
    for grouping in groupings:
        grouping.learn(table)
    settled = settle(table, to_settle)
    accumulators = [
        RankAccumulator(parsed, by=groupings, macro=macro, tie=tie, weight=weight, settled=settled, at=end)
        for end in ends
    ]
    for batch in table.batches():
        for accumulator in accumulators:
            accumulator.update(batch)
    found = [accumulator.scores() for accumulator in accumulators]
    return [between(best, worst) for best, worst in zip(found[0], found[-1], strict=True)]


def _refuse_by_rank(columns: Iterable[str | None]) -> None:
    """Refuse groups and sample weights that depend on a rank: the ends of a metric would not be its limits."""
    if named := [column for column in columns if column in ("rank", "worst_rank")]:
        raise UsageError(
            f"ranks that may be intervals cannot be used as groups or sample weights: {', '.join(named)}",
            remedy="use at_best() or at_worst(), which have exact ranks",
        )


def _to_settle(metric: Metric) -> tuple[Weighting, bool] | None:
    needs_alternatives = metric.needs_alternatives
    weighting = metric.weighting if isinstance(metric, MeanMetric) else None
    if not isinstance(weighting, PopularityWeight) or not weighting.columns:
        return None
    moderate = max(abs(weighting.beta_e), abs(weighting.beta_r)) <= _MODERATE_BETA
    return (weighting, needs_alternatives) if moderate else None


def between(best: Score, worst: Score) -> Score:
    """The score of ranks that are intervals, from the scores at their best and at their worst ends."""
    monotone = best.metric.facts.monotone
    if not best.intervals or (monotone and best.value == worst.value):
        return best
    low, high = sorted((best.value, worst.value)) if monotone else (math.nan, math.nan)
    return replace(best, value=math.nan, low=low, high=high, std=None)


class RankAccumulator:
    """Evaluate rank tables one after the other, with the same values as `evaluate` on all of them at once.

    Args:
        metrics: Names or metric values.
        by: Groupings whose groups are evaluated separately (already learned where they need it).
        macro: Average per relation, entity or side first; None is the mean over queries.
        tie: How ties are scored.
        weight: A label column with sample weights that multiply the metrics' own.
        settled: Weights of the whole table from `settle`, where it could be read before: this saves memory.
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
        if macro is not None and macro not in _MACRO:
            raise UsageError(f"unknown macro '{macro}'", [f"it can be {', '.join(_MACRO)}"])
        self.metrics = parse_all(metrics)
        self.by, self.macro, self.weight = list(by), macro, weight
        self._settled = {(weight.weighting, weight.needs_alternatives): weight for weight in settled}
        self.tie, self.at = Tie(tie), None if at is None else End(at)
        unfit = [str(m) for m in self.metrics if isinstance(m, DistributionMetric)]
        if self.tie is Tie.expected and unfit:
            raise UsageError(f"`tie='expected'` is not available for {', '.join(unfit)}", remedy="use `tie='mean'`")
        self.reset()

    def reset(self) -> None:
        """Remove everything that was added."""
        terms: dict[CubeKey, dict[Term, None]] = {}
        for metric in self.metrics:
            terms.setdefault(self._cube_key(metric), {}).update(dict.fromkeys(metric.terms))
        slices = 1 + len(self.by) + (self.macro is not None)
        self._cubes = {key: Cube(slices, key, tuple(own)) for key, own in terms.items()}

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
        slices, sample_weight = self._slices(ranks), self._sample_weight(ranks)
        values = query_values(ranks, self.tie)
        parts: list[tuple[Cube, list[Floats], Flags, Floats, list[Floats]]] = []
        for cube in self._cubes.values():
            counted = (ranks.candidates > 1) | (not cube.key.needs_alternatives)
            weight = np.where(counted, sample_weight, 0.0)
            if cube.key.settled is not None:
                columns = cube.key.settled.weighting.columns
                weight[counted] *= cube.key.settled({name: read_column(ranks, name, counted) for name in columns})
            keys = [*slices, *(_key(ranks, column, self.tie) for column in cube.key.columns)]
            parts.append((cube, keys, counted, weight, [values(*term) for term in cube.terms]))
        for cube, keys, counted, weight, own in parts:  # only now, so that a refused table changes nothing
            cube.add(keys, counted, intervals, weight, own)

    def merge(self, other: RankAccumulator) -> None:
        """Add the queries of another accumulator with the same settings."""
        if self._settings != other._settings:
            raise UsageError("accumulators with different settings cannot be merged")
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
        """The scores, group by group in ascending order, metric by metric."""
        cubes = [self._cubes[self._cube_key(metric)] for metric in self.metrics]
        found = [s for metric, cube in zip(self.metrics, cubes, strict=True) for s in cube.scores(metric, self.by)]
        return sorted(found, key=lambda score: [natural(name) for name in score.group.values()])

    def _slices(self, ranks: Ranks) -> list[Floats]:
        seed = np.zeros(len(ranks)) if ranks.seed is None else ranks.seed.astype(np.float64)
        macro = [] if self.macro is None else [getattr(ranks, _MACRO[self.macro]).astype(np.float64)]
        return [seed, *(grouping.codes(ranks) for grouping in self.by), *macro]

    def _sample_weight(self, ranks: Ranks) -> Floats:
        if self.weight is None:
            return np.ones(len(ranks))
        try:
            weight = np.asarray(ranks.column(self.weight).to_numpy(), dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(f"column '{self.weight}' holds weights that are not numbers") from None
        if not (np.isfinite(weight) & (weight >= 0)).all():
            raise DataError(f"column '{self.weight}' holds weights that are negative or not finite")
        return weight


def _key(ranks: Ranks, column: str, tie: Tie) -> Floats:
    return tied_rank(ranks, tie) if column == "rank" else read_column(ranks, column)


@dataclass(frozen=True)
class CubeKey:
    """What metrics must have in common to share sums.

    Attributes:
        columns: The columns by which the sums are kept apart, to be weighted at the end.
        needs_alternatives: Whether queries with a single candidate are left out.
        settled: The weights, where they are known from the start.
    """

    columns: tuple[str, ...]
    needs_alternatives: bool
    settled: SettledWeight | None = None


class Cube:
    """Sums that several metrics share: over the same queries, kept apart by the same columns.

    Each cell is a combination of slice (seed, groups, macro cell) and of the columns that weights depend on.
    """

    COUNT, LEFT_OUT, INTERVALS, WEIGHT, SQUARED, TERMS = range(6)

    def __init__(self, slices: int, key: CubeKey, terms: tuple[Term, ...]) -> None:
        self.slices, self.key, self.terms = slices, key, terms
        self.sums = KeyedSums(slices + len(key.columns), self.TERMS + len(terms))

    def add(self, keys: list[Floats], counted: Flags, intervals: Flags, weight: Floats, values: list[Floats]) -> None:
        """Add queries; those that are not counted only add to the number left out."""
        numbers = [flags.astype(np.float64) for flags in (counted, ~counted, intervals & (weight > 0))]
        terms = [weighted(statistic, own, weight) for (_, statistic), own in zip(self.terms, values, strict=True)]
        self.sums.add(keys, np.stack([*numbers, weight, np.square(weight), *terms]))

    def scores(self, metric: Metric, by: Sequence[Grouping]) -> list[Score]:
        """The scores of a metric, one for each group."""
        keys, sums = self.sums.keys, self.sums.sums
        if sums.shape[1] == 0:
            return [] if by else [Score(metric, math.nan, math.nan, math.nan, None, 0, 0, 0.0, 0, 0)]
        cells, cell = distinct(keys[: self.slices], sums.shape[1])
        size = len(cells[0])
        values, effective = self._cell_values(metric, keys[self.slices :], sums, cell, size)
        filled = sum_by(cell, sums[self.WEIGHT], size) > 0
        runs, run = distinct(cells[: 1 + len(by)], size)

        def per_run(amount: Floats) -> Floats:
            return sum_by(run, np.where(filled, amount, 0.0), len(runs[0]))

        with np.errstate(invalid="ignore", divide="ignore"):
            macro_cells = per_run(np.ones(size))
            value = per_run(values) / macro_cells
            effective = np.square(macro_cells) / per_run(1 / effective)
        counts = [sum_by(run[cell], sums[row], len(runs[0])) for row in (self.COUNT, self.LEFT_OUT, self.INTERVALS)]
        groups, group = distinct(runs[1:], len(value))
        names = zip(*groups, strict=True) if groups else [()]
        labels = [{g.name: g.label(code) for g, code in zip(by, codes, strict=True)} for codes in names]
        return [
            Score(metric, **summary, group=label)
            for label, summary in zip(labels, _over_seeds(group, value, effective, *counts), strict=True)
        ]

    def _cell_values(
        self, metric: Metric, columns: list[Floats], sums: Floats, cell: Ints, size: int
    ) -> tuple[Floats, Floats]:
        """The value and the effective number of queries of every cell."""
        with np.errstate(invalid="ignore", divide="ignore"):
            if isinstance(metric, DistributionMetric):
                weights = (sum_by(cell, sums[row], size) for row in (self.WEIGHT, self.SQUARED))
                values = _distribution_values(metric, columns[0], sums[self.WEIGHT], cell, size)
                return values, Sums(*weights).effective
            assert isinstance(metric, MeanMetric)
            weighting = Uniform() if self.key.settled else metric.weighting
            w = weighting.weights(dict(zip(self.key.columns, columns, strict=True)), sums[self.COUNT])
            rows = {name: self.TERMS + self.terms.index((metric.transformer, name)) for name in metric.statistics}
            terms = {
                statistic.name: sum_by(cell, weighted(statistic, sums[row], w), size) for statistic, row in rows.items()
            }
            weight, squared = sum_by(cell, w * sums[self.WEIGHT], size), sum_by(cell, w * w * sums[self.SQUARED], size)
            collected = Sums(weight, squared, **terms)
            return metric.finish(collected), collected.effective


def _distribution_values(metric: DistributionMetric, ranks: Floats, weight: Floats, cell: Ints, size: int) -> Floats:
    order = np.lexsort((ranks, cell))
    ends = np.cumsum(np.bincount(cell, minlength=size))[:-1]
    parts = zip(np.split(ranks[order], ends), np.split(weight[order], ends), strict=True)
    return np.array([float(metric.of_distribution(rank, w)) if w.any() else math.nan for rank, w in parts])


def _over_seeds(
    group: Ints, value: Floats, effective: Floats, count: Floats, left_out: Floats, intervals: Floats
) -> list[dict[str, Any]]:
    """The fields of the `Score` of every group, besides its metric and its name."""
    size = int(group.max()) + 1
    most_count, most_left_out, most_intervals = np.zeros((3, size))
    np.maximum.at(most_count, group, count)
    np.maximum.at(most_left_out, group, left_out)
    np.maximum.at(most_intervals, group, intervals)
    evaluated = (count > 0) | (most_count == 0)[group]  # leave out runs without a query, unless none has any
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
