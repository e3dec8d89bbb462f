"""How much of a true improvement each metric would show on a graph that lacks facts, from answer counts alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.aggregate import distinct, sum_by
from kgprobe.errors import UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.metrics import Metric, parse_all
from kgprobe.metrics.base import MeanMetric, Statistic, Sums
from kgprobe.openworld.metrics import OPEN_WORLD_METRICS
from kgprobe.openworld.theory.closed import closed_chance, closed_mean, expected_closed
from kgprobe.openworld.theory.counts import AnswerCounts
from kgprobe.openworld.theory.expected import Expectation, Unlearned, chance_level, expected
from kgprobe.openworld.theory.hidden import Unknown
from kgprobe.openworld.theory.remarks import remarks
from kgprobe.transform import Transformer

Floats = NDArray[np.float64]

_TINY = 1e-40
_VISIBLE = 1e-6
"""Of less than this share of an improvement nothing is seen."""


@dataclass(frozen=True)
class Reading:
    """What is expected of one metric at one missing rate.

    Attributes:
        metric: The metric.
        missing: The missing rate.
        strength: The share of the answers that the model has learned.
        slope: How much the expected value gains per unit of strength in the open world.
        closed_slope: The same in the closed world.
        value: The expected value in the open world.
        closed_value: In the closed world.
        chance: The value expected of random ranks in the open world.
        flat: The share of the queries in which not a millionth of an improvement shows.
        queries: How many queries count.
    """

    metric: MeanMetric
    missing: float
    strength: float
    slope: float
    closed_slope: float
    value: float
    closed_value: float
    chance: float
    flat: float
    queries: int

    @property
    def shown(self) -> float:
        """The share of a true improvement that shows; NaN where there is none in the closed world either."""
        return self.slope / self.closed_slope if self.closed_slope else float("nan")

    def to_row(self) -> dict[str, Any]:
        """The reading as a row of a table."""
        return {
            "metric": str(self.metric),
            "missing": self.missing,
            "strength": self.strength,
            "shown": self.shown,
            "slope": self.slope,
            "closed_slope": self.closed_slope,
            "open": self.value,
            "closed": self.closed_value,
            "chance": self.chance,
            "flat": self.flat,
            "queries": self.queries,
        }


@dataclass(frozen=True)
class Sensitivity:
    """What is expected of every metric, and what to beware of.

    Attributes:
        graph: The graph.
        readings: One for each missing rate and metric.
        warnings: Sentences.
    """

    graph: str
    readings: tuple[Reading, ...]
    warnings: tuple[str, ...]

    def to_rows(self) -> list[dict[str, Any]]:
        """The readings as rows of a table."""
        return [{"graph": self.graph} | reading.to_row() for reading in self.readings]


def sensitivity(
    source: KnowledgeGraph | AnswerCounts,
    missing: float | Iterable[float],
    metrics: str | Metric | Iterable[str | Metric] = OPEN_WORLD_METRICS,
    strength: float = 0.9,
    split: str = "test",
    sides: str = "both",
    unlearned: Unlearned = Unlearned.below,
) -> Sensitivity:
    """How much of a true improvement would show, where facts are missing at random.

    The number of missing answers of a query is a random one given its known answers; see `Unknown`. Values of metrics
    that are no plain means, such as the geometric mean rank, are those of the expected mean, which they are near to
    when there are many queries.

    Args:
        source: A graph, or the counts of its test queries where that is all there is.
        missing: Missing rates: the share of all true facts that the graph lacks.
        metrics: Names or values of metrics that average scores.
        strength: The share of the true answers that the model has learned.
        split: The split whose facts are ranked.
        sides: "both", "head" or "tail".
        unlearned: What an unlearned answer scores.

    Raises:
        UsageError: A rate, the strength or a metric makes no sense here.
        DataError: The graph has no facts in the split, or its answers cannot be counted.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[0, 0, 2]], num_entities=50)
        >>> found = sensitivity(graph, 0.5, ["MRR", "PROBE(alpha=-1)"])
        >>> [(str(reading.metric), round(reading.shown, 3)) for reading in found.readings]
        [('MRR', 0.6), ('PROBE(alpha=-1,beta=0)', 0.969)]
    """
    rates = [missing] if isinstance(missing, int | float) else list(missing)
    means = _checked(rates, parse_all(metrics), strength)
    columns = {column for metric in means for column in metric.weighting.columns} - {"candidates"}
    counts = source if isinstance(source, AnswerCounts) else AnswerCounts.of_graph(source, split, sides, columns)
    readings = [_read(metric, counts, rate, strength, unlearned) for rate in rates for metric in means]
    return Sensitivity(counts.name, tuple(readings), tuple(remarks(counts, readings)))


def _checked(rates: Sequence[float], metrics: Sequence[Metric], strength: float) -> list[MeanMetric]:
    problems = [f"a missing rate must be at least 0 and below 1, not {rate:g}" for rate in rates if not 0 <= rate < 1]
    problems += [] if rates else ["there is no missing rate"]
    problems += [] if 0 < strength <= 1 else [f"the strength must be above 0 and at most 1, not {strength:g}"]
    means = [metric for metric in metrics if isinstance(metric, MeanMetric)]
    problems += [
        f"{metric} is no mean of scores, so nothing follows for it from its queries one by one"
        for metric in metrics
        if metric not in means
    ]
    if problems:
        remedy = "ask for example for a missing rate of 0.25, a strength of 0.9, and MRR"
        raise UsageError("the sensitivity cannot be told", problems, remedy)
    return means


@dataclass(frozen=True, eq=False)
class _World:
    """Expected scores by group of queries, the chance level and its variance, and the weights of the groups."""

    at: Expectation
    chance: Floats
    variance: Floats
    weight: Floats
    squared: Floats

    def sums(self, score: Floats) -> Sums:
        """What a metric sums, for this score of each group."""
        return Sums(
            weight=self.weight.sum(keepdims=True),
            squared_weight=self.squared.sum(keepdims=True),
            score=np.sum(self.weight * score, keepdims=True),
            chance_mean=np.sum(self.weight * self.chance, keepdims=True),
            chance_variance=np.sum(self.squared * self.variance, keepdims=True),
        )

    def value(self, metric: MeanMetric) -> float:
        """The expected value of the metric."""
        return float(metric.finish(self.sums(self.at.value))[0])

    def slope(self, metric: MeanMetric) -> float:
        """Its derivative: a step into the imaginary, which cancels nothing, so exact however the sums are used."""
        sums = self.sums(self.at.value)
        step = _TINY * self.sums(self.at.slope).score
        moved: Any = metric.finish(replace(sums, score=np.asarray(sums.score + 1j * step)))
        return float(moved[0].imag / _TINY)


def _read(metric: MeanMetric, counts: AnswerCounts, rate: float, strength: float, unlearned: Unlearned) -> Reading:
    counted = counts.candidates > 1 if metric.needs_alternatives else np.ones(len(counts.known), dtype=np.bool_)
    known, size = counts.known[counted], counts.candidates[counted]
    columns = {name: column[counted] for name, column in counts.columns.items()}
    (answers, candidates), group = distinct([known, size], len(known))
    f = metric.transformer
    hidden = Unknown(answers, np.full_like(answers, rate))
    fewer = np.maximum(candidates - hidden.mean(np.ones_like(answers)), 2.0)

    varies, zeros = Statistic.chance_variance in metric.statistics, np.zeros_like(candidates)

    def weights(sizes: Floats) -> tuple[Floats, Floats]:
        weight = metric.weighting.weights(columns | {"candidates": sizes[group]}, np.ones_like(known))
        return sum_by(group, weight, len(answers)), sum_by(group, np.square(weight), len(answers))

    open_world = _World(
        expected(f, hidden, candidates, strength, unlearned),
        chance_level(f, candidates),
        _variance(f, candidates) if varies else zeros,
        *weights(candidates),
    )
    chance = closed_chance(f, hidden, candidates)
    closed_world = _World(
        expected_closed(f, chance, strength, unlearned),
        chance,
        closed_mean(partial(_variance, f), hidden, candidates, 2.0) if varies else zeros,
        *weights(fewer),
    )
    gains = open_world.at.slope * np.sign(closed_world.at.slope)
    least = _VISIBLE * np.abs(closed_world.at.slope)
    return Reading(
        metric=metric,
        missing=rate,
        strength=strength,
        slope=open_world.slope(metric),
        closed_slope=closed_world.slope(metric),
        value=open_world.value(metric),
        closed_value=closed_world.value(metric),
        chance=float(metric.finish(open_world.sums(open_world.chance))[0]),
        flat=float(np.mean((gains <= least)[group])),
        queries=len(known),
    )


def _variance(transformer: Transformer, sizes: Floats) -> Floats:
    unique, which = np.unique(sizes, return_inverse=True)
    return transformer.chance(unique)[1][which].reshape(sizes.shape)
