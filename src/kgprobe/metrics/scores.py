"""From sums to scores: weights applied, groups and macro cells averaged, seeds summarised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.aggregate import Grouping, KeyedSums, Uniform, distinct, sum_by
from kgprobe.aggregate.settled import SettledWeight
from kgprobe.metrics.base import DistributionMetric, MeanMetric, Metric, Statistic, Sums, Term

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


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
        >>> from kgprobe.metrics.plain import MRR
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


def finish(metric: Metric, cube: Cube, by: Sequence[Grouping]) -> list[Score]:
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
