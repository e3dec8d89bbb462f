"""Sums over the queries of each slice of a rank table, shared by several metrics, and the scores that they give."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kgprobe.aggregate import Grouping, KeyedSums, Statistic, Sums, Uniform
from kgprobe.aggregate.weighted_mean import weighted
from kgprobe.aggregate.weights import SettledWeight
from kgprobe.arrays import Flags, Floats, Ints, distinct, sum_by
from kgprobe.graph import KnowledgeGraph
from kgprobe.metrics.metric import DistributionMetric, MeanMetric, Metric, Term
from kgprobe.ranks import SampleInfo
from kgprobe.tables import Table, in_report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCALE = 256
"""Exponents by which sample weights are divided are multiples of this: squares and sums stay within double range."""

_VARIANCE = Statistic.chance_variance


@dataclass(frozen=True)
class Score:
    """The value of one metric on one group of queries.

    Attributes:
        metric: The metric.
        value: Its value; with several seeds, the mean over them. NaN where it is undefined: see ``reason``.
        low: The smallest value that the ranks allow: the value itself, unless ranks are intervals that do not determine
            it. With several seeds, the mean over them. NaN where the metric has no value, or is not monotone and ranks
            are intervals.
        high: The largest value, in the same way.
        std: Sample standard deviation over the seeds; None for a single seed, and where the value is not determined.
        seeds: Number of training runs with any query to evaluate.
        queries: Number of queries evaluated in a run (the largest, where runs differ).
        effective: Effective number of queries, (sum w)^2 / sum w^2, mean over seeds.
        left_out: Queries of a run that this metric leaves out because they have too few candidates.
        intervals: Queries of a run whose rank is an interval (the largest number of any run).
        empty_cells: Relations, entities or sides of a run without any weight, which a macro average leaves out.
        empty_seeds: Training runs without any weight, which are left out.
        reason: Why the value is not a finite number; None where it is.
        level: Where ranks are estimates from a sample of candidates, the confidence level of the interval from ``low``
            to ``high``; else None.
        sample: The sample of candidates that was ranked in place of all; None if all were, or if it is not known.
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
    empty_cells: int = 0
    empty_seeds: int = 0
    reason: str | None = None
    level: float | None = None
    sample: SampleInfo | None = None
    group: dict[str, Any] = field(default_factory=dict)

    @property
    def is_range(self) -> bool:
        """Whether the ranks are intervals that do not determine the value, so that it has only a range."""
        return self.level is None and self.low < self.high

    @property
    def note(self) -> str | None:
        """What the value leaves out, and why, and whether candidates were sampled; None where there is nothing."""
        left_out = {
            f"{self.left_out:,} queries with {self.metric.left_out}": self.left_out,
            f"{self.empty_cells:,} groups of the macro average without any weight": self.empty_cells,
            f"{self.empty_seeds:,} training runs without any weight": self.empty_seeds,
        }
        said = [f"{what} left out" for what, count in left_out.items() if count]
        return "; ".join([*said, *([self.sample.warning] if self.sample else [])]) or None

    def __repr__(self) -> str:
        group = "".join(f", {column}={name!r}" for column, name in self.group.items())
        value = _shown(self) if self.low < self.high else f"{self.value:.6g}"
        return f"Score({self.metric}: {value}{group}, {self.queries:,} {'query' if self.queries == 1 else 'queries'})"


class Scores(Table, list[Score]):
    """The scores of a rank table, group by group: a list that is also a table.

    Attributes:
        graph: Gives the labels of relations, where queries are grouped by relation.

    Example:
        >>> from kgprobe.metrics import scores
        >>> from kgprobe.ranks import Ranks
        >>> ranks = Ranks.from_columns(
        ...     head=[0, 0], relation=[0, 0], tail=[1, 1], side=["head", "tail"], rank=[1, 2], candidates=[5, 5]
        ... )
        >>> found = scores(ranks, ["MRR", "MR"], by="side")
        >>> found
        Scores(MRR, MR in 2 groups by side)
        >>> found[-1]
        Score(MR: 2, side='tail', 1 query)
        >>> found.to_arrow().select(["side", "metric", "value"]).to_pylist()[0]
        {'side': 'head', 'metric': 'MRR', 'value': 1.0}
    """

    def __init__(self, scores: Iterable[Score] = (), graph: KnowledgeGraph | None = None) -> None:
        super().__init__(scores)
        self.graph = graph

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for every group and metric."""
        return [
            {
                **score.group,
                **self._relation_label(score.group),
                "metric": str(score.metric),
                **{name: getattr(score, name) for name in _NUMBERS},
                "note": score.note,
                "reason": score.reason,
            }
            for score in self
        ]

    def _relation_label(self, group: Mapping[str, Any]) -> dict[str, str]:
        if self.graph is None or self.graph.relation_labels is None or "relation" not in group:
            return {}
        return {"relation_label": self.graph.relation_label([group["relation"]])[0]}

    def plot(self) -> Figure:
        """Draw the scores with matplotlib, one panel per metric and one line per group."""
        figure: Figure = in_report("figures.score_figures").draw_scores(self)
        return figure

    def __repr__(self) -> str:
        metrics = ", ".join(dict.fromkeys(str(score.metric) for score in self))
        groups = {tuple(score.group.values()): score.group for score in self}
        by = ", ".join(dict.fromkeys(column for group in groups.values() for column in group))
        return f"Scores({metrics or 'none'}{f' in {len(groups):,} groups by {by}' if by else ''})"

    def __str__(self) -> str:
        return self._text()

    def _shown_rows(self) -> list[dict[str, Any]]:
        """One row for every group, with a column for every metric."""
        groups: dict[tuple[Any, ...], list[Score]] = {}
        for score in self:
            groups.setdefault(tuple(score.group.values()), []).append(score)
        return [
            self.named(own[0].group)
            | {str(score.metric): _shown(score) for score in own}
            | {"queries": max(score.queries for score in own)}
            for own in groups.values()
        ]

    def named(self, group: dict[str, Any]) -> dict[str, Any]:
        """A group with the name of its relation in place of the id, if the scores have a graph."""
        if self.graph is None or "relation" not in group:
            return group
        return group | {"relation": self.graph.relation_name([group["relation"]])[0]}

    def _notes(self) -> list[str]:
        """Why values are undefined, and what they leave out."""
        said = (f"{score.metric}: {text}" for score in self for text in (score.reason, score.note) if text)
        return list(dict.fromkeys(said))[:_FEW_NOTES]


def _shown(score: Score) -> float | str:
    if score.low < score.high:
        ends = f"{score.low:.4f} to {score.high:.4f}"
        return ends if score.is_range else f"{score.value:.4f} ({ends})"
    return score.value


_NUMBERS = ("value", "low", "high", "std", "seeds", "queries", "effective", "left_out", "intervals")
_FEW_NOTES = 5


@dataclass(frozen=True)
class CubeKey:
    """What metrics must have in common to share sums.

    Attributes:
        columns: The columns by which the sums are kept apart, to be weighted at the end.
        fewest_candidates: Queries with fewer candidates are left out.
        settled: The weights, where they are known from the start.
    """

    columns: tuple[str, ...]
    fewest_candidates: int
    settled: SettledWeight | None = None


class Cube:
    """Sums that several metrics share: over the same queries, kept apart by the same columns.

    Each cell is a combination of slice (seed, groups, macro cell), of the scale of the sample weights (the exponent of
    the power of two by which they were divided) and of the columns that weights depend on.
    """

    COUNT, LEFT_OUT, INTERVALS, WEIGHT, SQUARED, TERMS = range(6)

    def __init__(self, slices: int, key: CubeKey, terms: tuple[Term, ...]) -> None:
        self.slices, self.key, self.terms = slices, key, terms
        self.sums = KeyedSums(slices + 1 + len(key.columns), self.TERMS + len(terms))

    def add(self, keys: list[Floats], counted: Flags, intervals: Flags, weight: Floats, values: list[Floats]) -> None:
        """Add queries; those that are not counted only add to the number left out."""
        numbers = [flags.astype(np.float64) for flags in (counted, ~counted, intervals & (weight > 0))]
        terms = [weighted(statistic, own, weight) for (_, statistic), own in zip(self.terms, values, strict=True)]
        self.sums.add(keys, np.stack([*numbers, weight, np.square(weight), *terms]))

    def scores(self, metric: Metric, by: Sequence[Grouping]) -> list[Score]:
        """The scores of a metric, one for each group."""
        keys, sums = self.sums.keys, self.sums.sums
        if sums.shape[1] == 0:
            nothing = metric.why_undefined(math.nan, queries=0, weight=0.0)
            return [] if by else [Score(metric, math.nan, math.nan, math.nan, None, 0, 0, 0.0, 0, 0, reason=nothing)]
        cells, cell = distinct(keys[: self.slices], sums.shape[1])
        size = len(cells[0])
        sums = self._rescaled(sums, keys[self.slices], cell, size)
        values, effective = self._cell_values(metric, keys[self.slices + 1 :], sums, cell, size)
        filled = sum_by(cell, sums[self.WEIGHT], size) > 0
        runs, run = distinct(cells[: 1 + len(by)], size)

        def per_run(amount: Floats) -> Floats:
            return sum_by(run, np.where(filled, amount, 0.0), len(runs[0]))

        macro_cells = per_run(np.ones(size))
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            value = per_run(values) / macro_cells
            effective = np.where(macro_cells > 0, np.square(macro_cells) / per_run(1 / effective), 0.0)
        counts = {
            "queries": sum_by(run[cell], sums[self.COUNT], len(runs[0])),
            "left_out": sum_by(run[cell], sums[self.LEFT_OUT], len(runs[0])),
            "intervals": sum_by(run[cell], sums[self.INTERVALS], len(runs[0])),
            "empty_cells": (np.bincount(run, minlength=len(runs[0])) - macro_cells) * (self.slices > 1 + len(by)),
        }
        groups, group = distinct(runs[1:], len(value))
        names = zip(*groups, strict=True) if groups else [()]
        labels = [{g.name: g.label(code) for g, code in zip(by, codes, strict=True)} for codes in names]
        return [
            Score(
                metric,
                **summary,
                reason=metric.why_undefined(summary["value"], summary["queries"], summary["effective"]),
                group=label,
            )
            for label, summary in zip(
                labels, _over_seeds(group, value, effective, macro_cells > 0, counts), strict=True
            )
        ]

    def _rescaled(self, sums: Floats, scale: Floats, cell: Ints, size: int) -> Floats:
        """The sums with the sample weights of every slice on one scale: that of its largest."""
        if not scale.any():
            return sums
        weighing = sums[self.WEIGHT] > 0
        largest = np.full(size, -np.inf)
        np.maximum.at(largest, cell[weighing], scale[weighing])
        once = np.ldexp(1.0, np.where(weighing, scale - largest[cell], 0.0).astype(np.int64))
        squares = [self.SQUARED, *(self.TERMS + i for i, (_, s) in enumerate(self.terms) if s is _VARIANCE)]
        factors = np.ones_like(sums)
        factors[self.WEIGHT :] = once
        factors[squares] = np.square(once)
        with np.errstate(invalid="ignore"):  # a score that overflows, of a weight that vanishes
            return np.asarray(sums * factors)

    def _cell_values(
        self, metric: Metric, columns: list[Floats], sums: Floats, cell: Ints, size: int
    ) -> tuple[Floats, Floats]:
        """The value and the effective number of queries of every cell."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            if isinstance(metric, DistributionMetric):
                weights = (sum_by(cell, sums[row], size) for row in (self.WEIGHT, self.SQUARED))
                values = _distribution_values(metric, columns[0], sums[self.WEIGHT], cell, size)
                return values, Sums(*weights).effective
            assert isinstance(metric, MeanMetric)
            weighting = Uniform() if self.key.settled else metric.weighting
            slices = np.where(sums[self.WEIGHT] > 0, cell, -1)
            w = weighting.weights(dict(zip(self.key.columns, columns, strict=True)), sums[self.COUNT], slices)
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
    group: Ints, value: Floats, effective: Floats, weighs: Flags, counts: dict[str, Floats]
) -> list[dict[str, Any]]:
    """The fields of the `Score` of every group, besides its metric, its reason and its name."""
    size = int(group.max()) + 1
    most = {name: np.zeros(size) for name in counts}
    for name, count in counts.items():
        np.maximum.at(most[name], group, count)
    weighing = sum_by(group, weighs.astype(np.float64), size)
    evaluated = weighs | (weighing == 0)[group]  # leave out runs without any weight, unless none has any
    empty = np.bincount(group[~evaluated], minlength=size)
    group, value, effective = group[evaluated], value[evaluated], effective[evaluated]
    seeds = sum_by(group, np.ones_like(value), size)
    with np.errstate(invalid="ignore", over="ignore"):  # an infinite value has no deviation
        mean = sum_by(group, value, size) / seeds
        squares = sum_by(group, np.square(value - mean[group]), size)
    mean_effective = sum_by(group, effective, size) / seeds
    return [
        dict.fromkeys(("value", "low", "high"), float(mean[g]))
        | {
            "std": math.sqrt(squares[g] / (seeds[g] - 1)) if seeds[g] > 1 else None,
            "seeds": int(seeds[g]),
            "effective": float(mean_effective[g]),
            "empty_seeds": int(empty[g]),
        }
        | {name: int(count[g]) for name, count in most.items()}
        for g in range(size)
    ]
