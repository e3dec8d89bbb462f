"""How much of a true improvement each metric would show on an incomplete graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from kgprobe.arrays import Floats, Ints, distinct, sum_by
from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.metrics import Metric, parse_all
from kgprobe.metrics.metric import MeanMetric, Statistic, Sums
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
from kgprobe.predict.filters import KnownFilter
from kgprobe.predict.queries import RankedTriples
from kgprobe.transform import Hits, Transformer

_COLUMNS: Mapping[str, Callable[[KnowledgeGraph, Ints, Ints], npt.NDArray[np.generic]]] = {
    "entity_popularity": lambda graph, target, relation: graph.popularity.entity(target),
    "relation_popularity": lambda graph, target, relation: graph.popularity.relation(relation, target),
    "relation": lambda graph, target, relation: relation,
}


@dataclass(frozen=True, eq=False)
class AnswerCounts:
    """Test queries, each by its number of known answers and of candidates.

    Attributes:
        name: The graph.
        known: The known answers of each query, the target among them.
        candidates: What the filter leaves: the target, false entities, and true ones that are missing.
        columns: What the weights of metrics depend on, by the name of the column of a rank table.

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
        too_few = {"known answers": self.known, "candidates": self.candidates}
        problems += [f"{name}: some queries have less than 1" for name, n in too_few.items() if not (n >= 1).all()]
        if problems:
            raise DataError(f"{self.name}: these are not the counts of test queries", problems)

    @classmethod
    def of_graph(
        cls, graph: KnowledgeGraph, split: str = "test", sides: str = "both", columns: Iterable[str] = ()
    ) -> AnswerCounts:
        """Count the answers that the usual filter knows for the facts of a split.

        Args:
            graph: The graph.
            split: The split.
            sides: "both", "head" or "tail".
            columns: The columns that are wanted.

        Raises:
            DataError: The split has no facts, or the training triples are absent.
        """
        facts = RankedTriples.build(graph, split, sides)
        if graph.train_counts is not None:
            raise DataError(
                f"{graph.name}: the known answers cannot be counted",
                ["only counts of the training triples are here, not the triples"],
                "use a graph that has its training triples, or give AnswerCounts of your own",
            )
        known = KnownFilter.build(graph, None, split).known
        assert known is not None  # it has at least the split itself
        head, relation, tail = np.tile(facts.triples, (len(facts.sides), 1)).T
        on_tail = np.repeat(np.array(facts.sides) == "tail", len(facts.triples))
        others = known.others(head, relation, tail, on_tail).astype(np.float64)
        target = np.where(on_tail, tail, head)
        wanted = {name: np.asarray(_COLUMNS[name](graph, target, relation), dtype=np.float64) for name in columns}
        return cls(graph.name, others + 1, graph.num_entities - others, wanted)

    def crowded(self, rate: float, share: float = 0.1) -> float:
        """The share of the queries whose true answers are expected to be this share of the candidates, or more.

        Example:
            >>> AnswerCounts("tiny", np.array([1.0, 9.0]), np.array([100.0, 92.0])).crowded(rate=0.1)
            0.5
        """
        return float(np.mean(self.known / (1 - rate) >= share * self.candidates))


_ENOUGH = 1.0  # from this many expected missing answers per query on, rank 1 is often taken by one of them


def remarks(counts: AnswerCounts, readings: Sequence[MetricSensitivity]) -> Iterator[str]:
    """Sentences about the counts at every missing rate, and about the metrics that suffer from them.

    Args:
        counts: The queries.
        readings: What is expected of the metrics, by missing rate.

    Example:
        >>> from kgprobe.openworld.sensitivities import sensitivity
        >>> counts = AnswerCounts("tiny", np.array([1.0, 30.0]), np.array([100.0, 71.0]))
        >>> for warning in sensitivity(counts, 0.25, ["MRR", "Hits@80"]).warnings:
        ...     print(warning)
        Hits@80: every rank is a hit in 50.0 % of the queries, which have at most 80 candidates
        missing 0.25: true answers are expected to be at least 10 % of the candidates in 50.0 % of the queries
        missing 0.25: 5.2 missing answers per query are expected, which weigh most where rank 1 counts most: MRR
        missing 0.25: nothing of an improvement shows in 50.0 % of the queries: Hits@80
    """
    for transformer in dict.fromkeys(reading.metric.transformer for reading in readings):
        if isinstance(transformer, Hits) and (share := float(np.mean(counts.candidates <= transformer.k))):
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
        most = "missing answers per query are expected, which weigh most where rank 1 counts most"
        yield f"{mean:.1f} {most}: {_named(sharp)}"
    for share in sorted({reading.flat for reading in readings} - {0.0}, reverse=True):
        named = _named([reading for reading in readings if reading.flat == share], readings)
        yield f"nothing of an improvement shows in {_percent(share)}: {named}"
    if falling := [reading for reading in readings if not reading.slope * np.sign(reading.closed_slope) > 0]:
        yield f"a better model does not expect a better score: {_named(falling)}"


def _is_sharp(transformer: Transformer, candidates: float) -> bool:
    """Whether rank 2 is worth at most half of rank 1, as for MRR, PROBE from alpha 1 on, and Hits@1."""
    first, second = transformer(np.array([1.0, 2.0]), np.full(2, max(candidates, 2.0)))
    return bool(second <= first / 2)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} % of the queries"


def _named(readings: Sequence[MetricSensitivity], among: Sequence[MetricSensitivity] = ()) -> str:
    """The metrics of readings; where these are most of some, the others are named."""
    names, every = (list(dict.fromkeys(str(reading.metric) for reading in part)) for part in (readings, among))
    others = [name for name in every if name not in names]
    if 1 < len(every) < 2 * len(names):
        return f"all metrics but {', '.join(others)}" if others else "all metrics"
    return ", ".join(names)


_TINY = 1e-40
_VISIBLE = 1e-6  # of less than this share of an improvement nothing is seen


@dataclass(frozen=True)
class MetricSensitivity:
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
    readings: tuple[MetricSensitivity, ...]
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


def _read(
    metric: MeanMetric, counts: AnswerCounts, rate: float, strength: float, unlearned: Unlearned
) -> MetricSensitivity:
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
    return MetricSensitivity(
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
