"""A metric of a model, or its difference between two, as a function of sums over clusters of queries.

Resampling clusters re-weighs their sums, so a thousand replicates are one matrix product ``counts @ columns``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.aggregate import Tie, sum_by
from kgprobe.compare.groups import Cells, whole
from kgprobe.compare.lineup import Clusters, Lineup
from kgprobe.compare.parts import MeanPart, Part, part_of
from kgprobe.errors import UsageError
from kgprobe.metrics.base import Metric

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


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
        >>> from kgprobe.ranks import Ranks
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
    def _layout(self) -> tuple[Any, list[Places]]:
        """All columns, and which of them each part reads; equal ones, such as weights, are kept once."""
        if not self.smooth:
            from scipy import sparse  # takes long to import, and few metrics need it

            widths = [part.columns.shape[1] for part in self.parts]
            ends = np.cumsum(widths)
            return sparse.hstack([sparse.csr_array(part.columns) for part in self.parts], format="csr"), [
                np.arange(end - width, end) for width, end in zip(widths, ends, strict=True)
            ]
        return joined([part.columns for part in self.parts])

    @property
    def columns(self) -> Any:
        """An array [clusters, columns], sparse where the estimator is not smooth; the sums of it give the value."""
        return self._layout[0]

    @property
    def reads(self) -> list[Places]:
        """Which of the columns each part reads."""
        return self._layout[1]

    @property
    def smooth(self) -> bool:
        """Whether the value has a derivative."""
        return all(part.smooth for part in self.parts)

    def run_values(self, sums: Any) -> Any:
        """The metric of every run, [..., runs], for sums [..., columns]."""
        return np.stack([part.value(sums[..., own]) for part, own in zip(self.parts, self.reads, strict=True)], -1)

    def value(self, sums: Any) -> Any:
        """The value for sums [..., columns] over re-weighted clusters."""
        return self.run_values(sums) @ np.array(self.factors)

    def by_run(self) -> list[Estimator]:
        """The metric of every run alone."""
        return [replace(self, parts=(part,), factors=(1.0,)) for part in self.parts]

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
    lineup: Lineup, model: str, metric: Metric, *, clusters: Clusters, tie: Tie | str = Tie.mean
) -> Estimator:
    """The mean of a metric over the training runs of a model.

    Args:
        lineup: The models.
        model: One of them.
        metric: The metric.
        clusters: Which queries stand or fall together.
        tie: How ties are scored.
    """
    return estimators(lineup, model, metric, cells=whole(clusters), tie=tie)[0]


def estimators(
    lineup: Lineup, model: str, metric: Metric, *, cells: Cells, tie: Tie | str = Tie.mean
) -> list[Estimator]:
    """The same for each group of queries; weights are those that they have among all.

    Args:
        lineup: The models.
        model: One of them.
        metric: The metric.
        cells: The groups, and which of their queries stand or fall together.
        tie: How ties are scored.
    """
    made = [part_of(run, metric, cells.clusters, Tie(tie)) for run in lineup.runs[model]]
    weights = [weight for _, weight in made]
    by_cell = [sum_by(cells.clusters.codes, weight, cells.clusters.count) for weight in weights]
    return [
        Estimator(
            parts=tuple(part.on(group.cells) for part, _ in made),
            factors=(1 / len(made),) * len(made),
            queries=max(int((weight[group.queries] > 0).sum()) for weight in weights),
            effective=float(np.mean([_effective(weight[group.queries]) for weight in weights])),
            effective_clusters=float(np.mean([_effective(weight[group.cells]) for weight in by_cell])),
        )
        for group in cells.groups
    ]


def difference(first: Estimator, second: Estimator) -> Estimator:
    """How much the first value is above the second, on the same clusters."""
    return Estimator(
        parts=first.parts + second.parts,
        factors=first.factors + tuple(-factor for factor in second.factors),
        queries=min(first.queries, second.queries),
        effective=min(first.effective, second.effective),
        effective_clusters=min(first.effective_clusters, second.effective_clusters),
    )


def condensed(given: Estimator) -> Estimator:
    """The same value from fewer columns, where runs differ in their scores alone and the value is linear in them."""
    parts = [part for part in given.parts if isinstance(part, MeanPart) and part.linear]
    if len(parts) < max(2, len(given.parts)) or len(set(given.factors)) > 1:
        return given
    first, score = parts[0], parts[0].names.index("score")
    others = [np.delete(part.columns, score, axis=1) for part in parts]
    if not all(np.array_equal(others[0], other) for other in others[1:]):
        return given
    columns = dict(zip(first.names, first.columns.T, strict=True))
    columns["score"] = np.mean([part.columns[:, score] for part in parts], axis=0)
    return replace(given, parts=(MeanPart(first.metric, columns),), factors=(sum(given.factors),))


def joined(tables: Sequence[Any]) -> tuple[Floats, list[Places]]:
    """All columns that occur, each once, and where those of every table are among them.

    Example:
        >>> columns, places = joined([np.array([[1.0, 5.0]]), np.array([[1.0, 6.0]])])
        >>> columns.tolist(), [place.tolist() for place in places]
        ([[1.0, 5.0, 6.0]], [[0, 1], [0, 2]])
    """
    kept: dict[bytes, int] = {}
    columns: list[Floats] = []
    places = []
    for table in tables:
        own = []
        for column in table.T:
            at = kept.setdefault(column.tobytes(), len(columns))
            if at == len(columns):
                columns.append(column)
            own.append(at)
        places.append(np.array(own))
    return np.stack(columns, axis=1), places


def _effective(weight: Floats) -> float:
    largest = weight.max(initial=0.0)
    scaled = weight / largest if largest > 0 else weight
    squares = float(np.square(scaled).sum())
    return float(scaled.sum()) ** 2 / squares if squares > 0 else 0.0
