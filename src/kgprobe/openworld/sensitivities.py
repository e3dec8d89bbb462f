"""`sensitivity`: the share of a true improvement that each metric is expected to show on an incomplete graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from kgprobe.aggregate import Statistic, Sums
from kgprobe.arrays import Floats, Ints, distinct, sum_by
from kgprobe.errors import DataError, UsageError
from kgprobe.graph import GraphLike, KnowledgeGraph, as_graph
from kgprobe.metrics import Metric, parse_all
from kgprobe.metrics.metric import MeanMetric
from kgprobe.openworld.expected_scores import (
    Expectation,
    Unknown,
    Unlearned,
    chance_level,
    closed_chance,
    closed_mean,
    expected,
    expected_closed,
)
from kgprobe.openworld.world import OPEN_WORLD_METRICS
from kgprobe.predict.queries import KnownFilter, RankedTriples
from kgprobe.tables import Table
from kgprobe.transform import TopK, Transformer

_COLUMNS: Mapping[str, Callable[[KnowledgeGraph, Ints, Ints], npt.NDArray[np.generic]]] = {
    "entity_popularity": lambda graph, target, relation: graph.popularity.entity(target),
    "relation_popularity": lambda graph, target, relation: graph.popularity.relation(relation, target),
    "relation": lambda graph, target, relation: relation,
}


@dataclass(frozen=True, eq=False)
class AnswerCounts:
    """Numbers of known answers and of candidates of test queries.

    Attributes:
        name: Name of the graph.
        known: Number of known answers of each query, the target included.
        candidates: Number of candidates: the target, false entities, and missing answers.
        columns: Columns of a rank table that the weights of metrics depend on, by name.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[0, 0, 2]], num_entities=5)
        >>> counts = AnswerCounts.of_graph(graph)
        >>> counts.known.tolist(), counts.candidates.tolist()
        ([2.0, 1.0], [4.0, 5.0])
    """

    name: str
    known: Floats
    candidates: Floats
    columns: Mapping[str, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        problems = [] if self.known.size else ["there is no query"]
        if self.known.shape != self.candidates.shape:
            problems.append(f"{self.known.size:,} numbers of answers, but {self.candidates.size:,} of candidates")
        counts = {"known answers": self.known, "candidates": self.candidates}
        problems += [f"{name}: some queries have fewer than 1" for name, n in counts.items() if not (n >= 1).all()]
        if problems:
            raise DataError(f"{self.name}: these are not the counts of test queries", problems)

    @classmethod
    def of_graph(
        cls, graph: KnowledgeGraph, split: str = "test", sides: str = "both", columns: Iterable[str] = ()
    ) -> AnswerCounts:
        """Count the known answers of the queries of a split with the usual filter.

        Args:
            graph: The graph.
            split: The split.
            sides: "both", "head" or "tail".
            columns: Names of the columns to compute.

        Raises:
            DataError: The split has no triples, or the graph has no training triples.
        """
        ranked = RankedTriples.build(graph, split, sides)
        if graph.train_counts is not None:
            raise DataError(
                f"{graph.name}: the known answers cannot be counted",
                ["the graph has only counts of its training triples"],
                "use a graph with its training triples, or give AnswerCounts",
            )
        known = KnownFilter.build(graph, None, split).known
        assert known is not None  # it has at least the split itself
        head, relation, tail = np.tile(ranked.triples, (len(ranked.sides), 1)).T
        on_tail = np.repeat(np.array(ranked.sides) == "tail", len(ranked.triples))
        others = known.others(head, relation, tail, on_tail).astype(np.float64)
        target = np.where(on_tail, tail, head)
        own = {name: np.asarray(_COLUMNS[name](graph, target, relation), dtype=np.float64) for name in columns}
        return cls(graph.name, others + 1, graph.num_entities - others, own)

    def crowded(self, rate: float, share: float = 0.1) -> float:
        """The share of the queries whose true answers are expected to be at least this share of the candidates.

        Example:
            >>> AnswerCounts("tiny", np.array([1.0, 9.0]), np.array([100.0, 92.0])).crowded(rate=0.1)
            0.5
        """
        return float(np.mean(self.known / (1 - rate) >= share * self.candidates))


_ENOUGH = 1.0  # with more expected missing answers per query, rank 1 is often taken by one of them


def remarks(counts: AnswerCounts, readings: Sequence[MetricSensitivity]) -> Iterator[str]:
    """Warnings about the queries at every missing rate, and about the metrics that are affected.

    Args:
        counts: The queries.
        readings: The sensitivities of the metrics, sorted by missing rate.

    Example:
        >>> counts = AnswerCounts("tiny", np.array([1.0, 30.0]), np.array([100.0, 71.0]))
        >>> for warning in sensitivity(counts, 0.25, ["MRR", "Hits@80"]).warnings:
        ...     print(warning)
        Hits@80: every rank is a hit in 50.0 % of the queries, which have at most 80 candidates
        missing 0.25: true answers are expected to be at least 10 % of the candidates in 50.0 % of the queries
        missing 0.25: 5.2 missing answers per query are expected, which affect metrics dominated by rank 1: MRR
        missing 0.25: no improvement is visible in 50.0 % of the queries: Hits@80
    """
    for transformer in dict.fromkeys(reading.metric.transformer for reading in readings):
        if isinstance(transformer, TopK) and (share := float(np.mean(counts.candidates <= transformer.k))):
            named = _named([reading for reading in readings if reading.metric.transformer == transformer])
            yield f"{named}: every rank is a hit in {_percent(share)}, which have at most {transformer.k} candidates"
    for rate, own in groupby(readings, lambda reading: reading.missing):
        for remark in _at_rate(counts, rate, list(own)):
            yield f"missing {rate:g}: {remark}"


def _at_rate(counts: AnswerCounts, rate: float, readings: Sequence[MetricSensitivity]) -> Iterator[str]:
    missing = counts.known * (rate / (1 - rate))
    if share := counts.crowded(rate):
        yield f"true answers are expected to be at least 10 % of the candidates in {_percent(share)}"
    if share := float(np.mean(missing > counts.candidates - 1)):
        yield f"the rate cannot hold in {_percent(share)}: more answers would be missing than there are candidates"
    sharp = [reading for reading in readings if _is_sharp(reading.metric.transformer, float(counts.candidates.max()))]
    if sharp and (mean := float(missing.mean())) >= _ENOUGH:
        affected = f"which affect metrics dominated by rank 1: {_named(sharp)}"
        yield f"{mean:.1f} missing answers per query are expected, {affected}"
    for share in sorted({reading.flat for reading in readings} - {0.0}, reverse=True):
        named = _named([reading for reading in readings if reading.flat == share], readings)
        yield f"no improvement is visible in {_percent(share)}: {named}"
    if falling := [one for one in readings if not one.derivative * np.sign(one.closed_derivative) > 0]:
        yield f"a better model does not have a better expected score: {_named(falling)}"


def _is_sharp(transformer: Transformer, candidates: float) -> bool:
    """Whether rank 2 is worth at most half of rank 1, as for MRR, PROBE from alpha 1 on, and Hits@1."""
    first, second = transformer(np.array([1.0, 2.0]), np.full(2, max(candidates, 2.0)))
    return bool(second <= first / 2)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} % of the queries"


def _named(readings: Sequence[MetricSensitivity], among: Sequence[MetricSensitivity] = ()) -> str:
    """The names of the metrics; if they are most of ``among``, the names of the exceptions."""
    names, every = (list(dict.fromkeys(str(reading.metric) for reading in part)) for part in (readings, among))
    others = [name for name in every if name not in names]
    if 1 < len(every) < 2 * len(names):
        return f"all metrics but {', '.join(others)}" if others else "all metrics"
    return ", ".join(names)


_TINY = 1e-40
_VISIBLE = 1e-6  # an improvement is visible if at least this share of it shows


@dataclass(frozen=True)
class MetricSensitivity:
    """Expected value of one metric at one missing rate, and its derivative by the model strength.

    Attributes:
        metric: The metric.
        missing: The missing rate.
        strength: The share of the answers that the model has learned.
        derivative: Derivative of the expected value by the strength in the open world.
        closed_derivative: The same in the closed world.
        value: The expected value in the open world.
        closed_value: In the closed world.
        chance: The expected value of random ranks in the open world.
        flat: Share of the queries in which no improvement is visible (less than a millionth of it).
        queries: Number of queries.
    """

    metric: MeanMetric
    missing: float
    strength: float
    derivative: float
    closed_derivative: float
    value: float
    closed_value: float
    chance: float
    flat: float
    queries: int

    @property
    def shown(self) -> float:
        """The share of a true improvement that shows; NaN if there is none in the closed world either."""
        return self.derivative / self.closed_derivative if self.closed_derivative else float("nan")

    def to_row(self) -> dict[str, Any]:
        return {
            "metric": str(self.metric),
            "missing": self.missing,
            "strength": self.strength,
            "shown": self.shown,
            "slope": self.derivative,
            "closed_slope": self.closed_derivative,
            "open": self.value,
            "closed": self.closed_value,
            "chance": self.chance,
            "flat": self.flat,
            "queries": self.queries,
        }


@dataclass(frozen=True)
class Sensitivity(Table):
    """The result of `sensitivity`.

    Attributes:
        graph: Name of the graph.
        readings: The sensitivity of each metric at each missing rate.
        warnings: Warnings, one sentence each.
    """

    graph: str
    readings: tuple[MetricSensitivity, ...]
    warnings: tuple[str, ...]

    def to_rows(self) -> list[dict[str, Any]]:
        return [{"graph": self.graph} | reading.to_row() for reading in self.readings]

    def __repr__(self) -> str:
        metrics = len({reading.metric for reading in self.readings})
        rates = ", ".join(dict.fromkeys(f"{reading.missing:g}" for reading in self.readings))
        return f"Sensitivity({self.graph}, {metrics} metric{'s' * (metrics > 1)}, missing {rates})"

    def _shown_rows(self) -> list[dict[str, Any]]:
        kept = ("metric", "missing", "shown", "open", "closed", "flat")
        return [{name: row[name] for name in kept} for row in self.to_rows()]

    def _notes(self) -> tuple[str, ...]:
        return self.warnings


def sensitivity(
    graph: GraphLike | AnswerCounts,
    missing: float | Iterable[float],
    metrics: str | Metric | Iterable[str | Metric] = OPEN_WORLD_METRICS,
    strength: float = 0.9,
    split: str = "test",
    sides: str = "both",
    unlearned: Unlearned = Unlearned.below,
) -> Sensitivity:
    """Expected share of a true improvement that metrics show if triples are missing at random.

    The number of missing answers of a query is random given its known answers; see `Unknown`. For metrics that are a
    function of a mean, such as the geometric mean rank, the value is the function of the expected mean, which is
    accurate if there are many queries.

    Args:
        graph: A graph, its directory or name, or the answer counts of its test queries.
        missing: Missing rates: shares of all true triples that the graph lacks.
        metrics: Names or values of metrics that average scores.
        strength: The share of the true answers that the model has learned.
        split: The split whose triples are ranked.
        sides: "both", "head" or "tail".
        unlearned: The score of an unlearned answer.

    Raises:
        UsageError: A rate, the strength or a metric is invalid.
        DataError: The split has no triples, or the known answers cannot be counted.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[0, 0, 2]], num_entities=50)
        >>> found = sensitivity(graph, 0.5, ["MRR", "PROBE(alpha=-1)"])
        >>> [(str(reading.metric), round(reading.shown, 3)) for reading in found.readings]
        [('MRR', 0.6), ('PROBE(alpha=-1,beta=0)', 0.969)]
    """
    rates = [missing] if isinstance(missing, int | float) else list(missing)
    means = _checked(rates, parse_all(metrics), strength)
    columns = {column for metric in means for column in metric.weighting.columns} - {"candidates"}
    counts = graph if isinstance(graph, AnswerCounts) else AnswerCounts.of_graph(as_graph(graph), split, sides, columns)
    readings = [_read(metric, counts, rate, strength, unlearned) for rate in rates for metric in means]
    return Sensitivity(counts.name, tuple(readings), tuple(remarks(counts, readings)))


def _checked(rates: Sequence[float], metrics: Sequence[Metric], strength: float) -> list[MeanMetric]:
    problems = [f"a missing rate must be at least 0 and below 1, not {rate:g}" for rate in rates if not 0 <= rate < 1]
    problems += [] if rates else ["there is no missing rate"]
    problems += [] if 0 < strength <= 1 else [f"the strength must be above 0 and at most 1, not {strength:g}"]
    means = [metric for metric in metrics if isinstance(metric, MeanMetric)]
    problems += [f"{metric} is no mean of scores over queries" for metric in metrics if metric not in means]
    if problems:
        remedy = "use for example missing=0.25, strength=0.9 and the metric MRR"
        raise UsageError("the sensitivity cannot be computed", problems, remedy)
    return means


@dataclass(frozen=True, eq=False)
class _World:
    """One world (open or closed), by group of queries with equal counts.

    Attributes:
        at: Expected scores and derivatives.
        chance: Chance levels.
        variance: Variances of the score of a random rank.
        weight: Sums of the weights of the queries.
        squared: Sums of the squared weights.
    """

    at: Expectation
    chance: Floats
    variance: Floats
    weight: Floats
    squared: Floats

    def sums(self, score: Floats) -> Sums:
        """The sums from which a metric is computed, for this score of each group."""
        return Sums(
            weight=self.weight.sum(keepdims=True),
            squared_weight=self.squared.sum(keepdims=True),
            score=np.sum(self.weight * score, keepdims=True),
            chance_mean=np.sum(self.weight * self.chance, keepdims=True),
            chance_variance=np.sum(self.squared * self.variance, keepdims=True),
        )

    def value(self, metric: MeanMetric) -> float:
        return float(metric.finish(self.sums(self.at.value))[0])

    def derivative(self, metric: MeanMetric) -> float:
        """The derivative by complex-step differentiation, which is exact to machine precision for any metric."""
        sums = self.sums(self.at.value)
        step = _TINY * self.sums(self.at.derivative).score
        moved: Any = metric.finish(replace(sums, score=np.asarray(sums.score + 1j * step)))
        return float(moved[0].imag / _TINY)


def _read(
    metric: MeanMetric, counts: AnswerCounts, rate: float, strength: float, unlearned: Unlearned
) -> MetricSensitivity:
    counted = counts.candidates >= min(metric.fewest_candidates, 2)  # a sure hit counts as flat
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
    gains = open_world.at.derivative * np.sign(closed_world.at.derivative)
    least = _VISIBLE * np.abs(closed_world.at.derivative)
    return MetricSensitivity(
        metric=metric,
        missing=rate,
        strength=strength,
        derivative=open_world.derivative(metric),
        closed_derivative=closed_world.derivative(metric),
        value=open_world.value(metric),
        closed_value=closed_world.value(metric),
        chance=float(metric.finish(open_world.sums(open_world.chance))[0]),
        flat=float(np.mean((gains <= least)[group])),
        queries=len(known),
    )


def _variance(transformer: Transformer, sizes: Floats) -> Floats:
    unique, which = np.unique(sizes, return_inverse=True)
    return transformer.chance(unique)[1][which].reshape(sizes.shape)
