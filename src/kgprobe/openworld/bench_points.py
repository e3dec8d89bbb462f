"""Points of a bench: the values of each metric in both worlds, for every model and checkpoint."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kgprobe.aggregate import Sums
from kgprobe.arrays import Floats, Ints
from kgprobe.errors import DataError
from kgprobe.metrics import Metric, evaluate, parse, parse_all
from kgprobe.metrics.metric import MeanMetric
from kgprobe.openworld.world import OPEN_WORLD_METRICS

if TYPE_CHECKING:
    from kgprobe.openworld.world_ranks import RankPair
    from kgprobe.ranks import Ranks


_MRR = parse("MRR")
_DIGITS = 12  # values are rounded, so that rounding errors do not break ties


@dataclass(frozen=True, eq=False)
class Points:
    """Values by metric and point; a point is a checkpoint of a model.

    Attributes:
        metrics: The metrics.
        models: The models.
        model: Index of the model of each point; points of a model are contiguous, in the order of training.
        checkpoints: The checkpoint of each point.
        open: Values in the open world [metrics, points].
        closed: Values in the closed world.
        mrr: The closed-world MRR of each point.
        room: Best value of each metric minus its value for random ranks, in the closed world; NaN if unknown.
        queries: Number of known answers that were ranked.
    """

    metrics: tuple[Metric, ...]
    models: tuple[str, ...]
    model: Ints
    checkpoints: tuple[str, ...]
    open: Floats
    closed: Floats
    mrr: Floats
    room: Floats
    queries: int = 0

    def __len__(self) -> int:
        return len(self.model)

    @property
    def last(self) -> Ints:
        """The last point of every model."""
        return np.array([np.flatnonzero(self.model == number)[-1] for number in range(len(self.models))])

    def to_rows(self) -> list[dict[str, Any]]:
        return [
            {
                "metric": str(metric),
                "model": self.models[self.model[point]],
                "checkpoint": checkpoint,
                "open": float(self.open[number, point]),
                "closed": float(self.closed[number, point]),
            }
            for number, metric in enumerate(self.metrics)
            for point, checkpoint in enumerate(self.checkpoints)
        ]

    @classmethod
    def of(
        cls, pairs: Mapping[str, Mapping[str, RankPair]], metrics: Iterable[str | Metric] = OPEN_WORLD_METRICS
    ) -> Points:
        """Evaluate rank tables given by model and checkpoint."""
        collector = Collector(metrics)
        for model, own in pairs.items():
            for checkpoint, pair in own.items():
                collector.add(model, checkpoint, pair)
        return collector.points()


class Collector:
    """Evaluates pairs one after another and keeps only their values, so that memory stays small.

    Args:
        metrics: The metrics, each a mean over all queries of a table.
    """

    def __init__(self, metrics: Iterable[str | Metric] = OPEN_WORLD_METRICS) -> None:
        self.metrics = tuple(dict.fromkeys(parse_all(metrics)))
        self._all = list(dict.fromkeys([*self.metrics, _MRR]))
        self._values: dict[str, dict[str, tuple[Floats, Floats]]] = {}
        self._queries: tuple[Ints, Ints] | None = None
        self._room = np.full(len(self.metrics), math.nan)
        self._problems: list[str] = []

    def add(self, model: str, checkpoint: str, pair: RankPair) -> None:
        queries = _queries(pair.open), _queries(pair.closed)
        if self._queries is None:
            self._queries = queries
            self._room = np.array([room(metric, pair.closed) for metric in self.metrics])
        own = self._values.setdefault(model, {})
        if not all(map(np.array_equal, queries, self._queries)):
            self._problems.append(f"{model}, {checkpoint}: its queries are not those of the first rank tables")
        elif checkpoint in own:
            self._problems.append(f"{model}, {checkpoint}: this name occurs twice")
        else:
            own[checkpoint] = self._evaluated(pair.open), self._evaluated(pair.closed)
            self._problems += [
                f"{model}, {checkpoint}: {metric} has no value"
                for metric, *values in zip(self._all, *own[checkpoint], strict=True)
                if not np.isfinite(values).all()
            ]

    def _evaluated(self, ranks: Ranks) -> Floats:
        values = evaluate(ranks, self._all)
        return np.round([values[str(metric)] for metric in self._all], _DIGITS)

    def points(self) -> Points:
        """All points; a DataError lists why rank tables cannot be compared."""
        names = [(model, checkpoint) for model, own in self._values.items() for checkpoint in own]
        problems = self._problems or ["there is only one point" if names else "there are no points"] * (len(names) < 2)
        if problems or self._queries is None:
            raise DataError(
                "these rank tables cannot be compared",
                problems,
                "give at least two models or checkpoints, all ranked on the same queries of the same world",
            )
        values = np.array([pair for own in self._values.values() for pair in own.values()])
        opened, closed = values.transpose(1, 2, 0)
        return Points(
            metrics=self.metrics,
            models=tuple(self._values),
            model=np.repeat(np.arange(len(self._values)), [len(own) for own in self._values.values()]),
            checkpoints=tuple(checkpoint for _, checkpoint in names),
            open=opened[: len(self.metrics)],
            closed=closed[: len(self.metrics)],
            mrr=closed[self._all.index(_MRR)],
            room=self._room,
            queries=self._queries[0].shape[1],
        )


def room(metric: Metric, ranks: Ranks) -> float:
    """The value of perfect ranks minus that of random ranks; NaN for metrics that weight queries or are no means.

    Example:
        >>> from kgprobe.ranks import Ranks
        >>> ranks = Ranks.from_columns(
        ...     head=[0, 1], relation=[0, 0], tail=[2, 2], side=["tail"] * 2, rank=[1, 1], candidates=[4, 4]
        ... )
        >>> [round(room(parse(name), ranks), 4) for name in ("Hits@1", "PROBE(alpha=-1)", "MR")]
        [0.75, 0.5, -1.5]
    """
    if not isinstance(metric, MeanMetric) or metric.weighting.columns:
        return math.nan
    candidates = ranks.candidates[metric.counted(ranks.candidates)]
    sizes, counts = np.unique(candidates, return_counts=True)
    mean, variance = (float(counts @ part) for part in metric.transformer.chance(sizes))
    total = float(counts.sum())

    def value(score: float) -> float:
        whole = (np.array([number]) for number in (total, total, score, mean, variance))
        with np.errstate(invalid="ignore", divide="ignore"):
            return float(metric.finish(Sums(*whole))[0])

    return value(metric.transformer.optimum * total) - value(mean)


def _queries(ranks: Ranks) -> Ints:
    """The sorted queries of a table [5, queries]."""
    seed = np.zeros(len(ranks), dtype=np.int64) if ranks.seed is None else ranks.seed
    columns = np.stack([ranks.head, ranks.relation, ranks.tail, ranks.predicts_tail.astype(np.int64), seed])
    return columns[:, np.lexsort(columns)]
