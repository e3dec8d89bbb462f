"""A metric of a model, or its difference between two, as a function of sums over clusters of queries.

Resampling clusters re-weighs their sums, so a thousand replicates are one matrix product ``counts @ columns``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.aggregate import Tie, distinct, sum_by, tied_rank, tied_score
from kgprobe.compare.lineup import Clusters, Lineup
from kgprobe.errors import UsageError
from kgprobe.metrics.accumulator import chance, read_column
from kgprobe.metrics.base import DistributionMetric, MeanMetric, Metric, Statistic, Sums
from kgprobe.ranks import Ranks

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Part(ABC):
    """The metric of one training run: which columns it reads, and what it makes of their sums."""

    columns: Any
    """An array or sparse matrix [clusters, columns]."""
    smooth: bool
    """Whether its value has a derivative, so that a standard error can be had from it."""

    @abstractmethod
    def value(self, sums: Any) -> Any:
        """The metric for sums [..., columns] of its own columns."""


class MeanPart(Part):
    """A metric that is a function of a few sums."""

    smooth = True

    def __init__(self, metric: MeanMetric, columns: dict[str, Floats]) -> None:
        self.metric, self.names = metric, tuple(columns)
        self.columns = np.stack(list(columns.values()), axis=1)

    def value(self, sums: Any) -> Any:
        """What the metric makes of the sums."""
        given = {name: sums[..., i] for i, name in enumerate(self.names)}
        missing = dict.fromkeys(("squared_weight", "score", "chance_mean", "chance_variance"), np.array(np.nan))
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.metric.finish(Sums(**(missing | given)))


class DistributionPart(Part):
    """A statistic of the distribution of ranks: it needs the weight of every rank that occurs."""

    smooth = False

    def __init__(self, metric: DistributionMetric, ranks: Floats, columns: Any) -> None:
        self.metric, self.ranks, self.columns = metric, ranks, columns

    def value(self, sums: Any) -> Any:
        """The statistic, replicate by replicate: none is a function of a few sums."""
        flat = np.asarray(sums).reshape(-1, len(self.ranks))
        values = [self.metric.of_distribution(self.ranks[row > 0], row[row > 0]) for row in flat]
        return np.array(values).reshape(np.shape(sums)[:-1])


@dataclass(frozen=True)
class Estimator:
    """A weighted sum of metrics of training runs: the mean over seeds, or the difference of two such means.

    Attributes:
        parts: The metric of every run.
        factors: What each counts: 1 / seeds, negative for the model that is subtracted.
        queries: How many queries are evaluated.
        effective: The effective number of queries, (sum w)^2 / sum w^2; of a difference the smaller.
        effective_clusters: The same of clusters.

    Example:
        >>> from kgprobe.compare.lineup import line_up
        >>> from kgprobe.metrics import parse
        >>> ranks = Ranks.from_columns(
        ...     head=[0, 0], relation=[0, 0], tail=[1, 2], side=["tail"] * 2, rank=[1, 2], candidates=[9, 9]
        ... )
        >>> lineup = line_up({"mine": ranks})
        >>> mrr = estimator(lineup, "mine", parse("MRR"), clusters=lineup.clusters("triple"))
        >>> mrr.estimate, mrr.value(np.array([[3.0, 1.0]]) @ mrr.columns).tolist()
        (0.75, [0.875])
    """

    parts: tuple[Part, ...]
    factors: tuple[float, ...]
    queries: int
    effective: float
    effective_clusters: float

    @cached_property
    def _layout(self) -> tuple[Any, list[NDArray[np.int64]]]:
        """All columns, and which of them each part reads; equal ones, such as weights, are kept once."""
        if not self.smooth:
            from scipy import sparse  # takes long to import, and few metrics need it

            widths = [part.columns.shape[1] for part in self.parts]
            ends = np.cumsum(widths)
            return sparse.hstack([sparse.csr_array(part.columns) for part in self.parts], format="csr"), [
                np.arange(end - width, end) for width, end in zip(widths, ends, strict=True)
            ]
        kept: list[Floats] = []
        reads: list[NDArray[np.int64]] = []
        for part in self.parts:
            own = []
            for column in part.columns.T:
                at = next((i for i, other in enumerate(kept) if np.array_equal(column, other)), len(kept))
                if at == len(kept):
                    kept.append(column)
                own.append(at)
            reads.append(np.array(own))
        return np.stack(kept, axis=1), reads

    @property
    def columns(self) -> Any:
        """An array [clusters, columns], sparse where the estimator is not smooth; the sums of it give the value."""
        return self._layout[0]

    @property
    def smooth(self) -> bool:
        """Whether the value has a derivative."""
        return all(part.smooth for part in self.parts)

    def run_values(self, sums: Any) -> Any:
        """The metric of every run, [..., runs], for sums [..., columns]."""
        return np.stack([part.value(sums[..., own]) for part, own in zip(self.parts, self._layout[1], strict=True)], -1)

    def value(self, sums: Any) -> Any:
        """The value for sums [..., columns] over re-weighted clusters."""
        return self.run_values(sums) @ np.array(self.factors)

    @cached_property
    def sums(self) -> Floats:
        """The sums over all clusters as they are."""
        clusters = self.columns.shape[0]
        if not self.smooth:
            return np.asarray(np.ones(clusters) @ self.columns)
        which = np.zeros(clusters, dtype=np.int64)
        return np.array([sum_by(which, column, 1)[0] for column in self.columns.T])

    @cached_property
    def estimate(self) -> float:
        """The value on the queries as they are: that of ``kgprobe eval``."""
        return float(self.value(self.sums))

    def gradient(self, sums: Any) -> Floats:
        """The derivative of the value by each sum, [..., columns], to the last digit (complex step)."""
        if not self.smooth:
            raise UsageError("the value of this metric has no derivative")
        step = 1e-30 * np.maximum(np.abs(sums), 1e-200)
        gradient = np.empty(np.shape(sums))
        for i in range(np.shape(sums)[-1]):
            moved = np.asarray(sums, dtype=np.complex128).copy()
            moved[..., i] += 1j * step[..., i]
            gradient[..., i] = self.value(moved).imag / step[..., i]
        return gradient


def estimator(
    lineup: Lineup,
    model: str,
    metric: Metric,
    *,
    clusters: Clusters,
    tie: Tie | str = Tie.mean,
    rows: Flags | None = None,
) -> Estimator:
    """The mean of a metric over the training runs of a model.

    Args:
        lineup: The models.
        model: One of them.
        metric: The metric.
        clusters: Which queries stand or fall together.
        tie: How ties are scored.
        rows: Which queries to evaluate; weights are those that they have among all.
    """
    runs = lineup.runs[model]
    kept = np.ones(len(lineup), dtype=bool) if rows is None else rows
    made = [_PARTS[isinstance(metric, MeanMetric)](run, metric, clusters, Tie(tie), kept) for run in runs]
    weights = [weight for _, weight in made]
    return Estimator(
        parts=tuple(part for part, _ in made),
        factors=(1 / len(runs),) * len(runs),
        queries=max(int((weight > 0).sum()) for weight in weights),
        effective=float(np.mean([_effective(weight) for weight in weights])),
        effective_clusters=float(
            np.mean([_effective(sum_by(clusters.codes, weight, clusters.count)) for weight in weights])
        ),
    )


def difference(first: Estimator, second: Estimator) -> Estimator:
    """How much the first value is above the second, on the same clusters."""
    return Estimator(
        parts=first.parts + second.parts,
        factors=first.factors + tuple(-factor for factor in second.factors),
        queries=min(first.queries, second.queries),
        effective=min(first.effective, second.effective),
        effective_clusters=min(first.effective_clusters, second.effective_clusters),
    )


def _effective(weight: Floats) -> float:
    largest = weight.max(initial=0.0)
    scaled = weight / largest if largest > 0 else weight
    squares = float(np.square(scaled).sum())
    return float(scaled.sum()) ** 2 / squares if squares > 0 else 0.0


def _mean_part(ranks: Ranks, metric: Any, clusters: Clusters, tie: Tie, rows: Flags) -> tuple[Part, Floats]:
    counted = (ranks.candidates > 1) | (not metric.needs_alternatives)
    weight = np.zeros(len(ranks))
    columns = {name: read_column(ranks, name)[counted] for name in metric.weighting.columns}
    weight[counted] = metric.weighting.weights(columns, np.ones(int(counted.sum())))
    weight[~rows] = 0.0
    amounts = {"weight": weight}
    for statistic in metric.statistics:
        amounts[statistic.name] = np.where(weight > 0, _SUMMED[statistic](ranks, metric.transformer, tie), 0.0) * (
            np.square(weight) if statistic is Statistic.chance_variance else weight
        )
    sums = {name: sum_by(clusters.codes, amount, clusters.count) for name, amount in amounts.items()}
    return MeanPart(metric, sums), weight


def _distribution_part(ranks: Ranks, metric: Any, clusters: Clusters, tie: Tie, rows: Flags) -> tuple[Part, Floats]:
    from scipy import sparse

    if tie is Tie.expected:
        raise UsageError(f"no exact expectation over ties is known for {metric}", remedy="use tie 'mean'")
    (values,), which = distinct([tied_rank(ranks, tie)], len(ranks))
    order = np.argsort(values)
    place = np.empty(len(values), dtype=np.int64)
    place[order] = np.arange(len(values))
    weight = rows.astype(np.float64)
    shape = (clusters.count, len(values))
    columns = sparse.coo_array((weight[rows], (clusters.codes[rows], place[which][rows])), shape=shape).tocsr()
    return DistributionPart(metric, values[order], columns), weight


_PARTS = {True: _mean_part, False: _distribution_part}


_SUMMED = {
    Statistic.score: lambda ranks, transformer, tie: tied_score(transformer, ranks, tie),
    Statistic.chance_mean: lambda ranks, transformer, tie: chance(ranks, transformer)[0],
    Statistic.chance_variance: lambda ranks, transformer, tie: chance(ranks, transformer)[1],
}
