"""Consistency of a metric: does its open-world value order models as its closed-world value does?"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.stats import spearmanr

from kgprobe.arrays import Floats, Ints, codes_of
from kgprobe.metrics import Metric
from kgprobe.openworld.bench_points import Points

_ROWS = 256  # number of points compared with all others at once


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Counts of ordered pairs of points by their two models, pairs of a point with itself included.

    Kendall's tau of any resample of models follows from these counts alone: a model that is drawn w times has w copies
    of its points, and every count is a quadratic form in w.

    Attributes:
        sizes: Number of points of each model.
        agreeing: Concordant minus discordant pairs [models, models].
        first_ties: Pairs tied in the first variable.
        second_ties: Pairs tied in the second variable.
        both_ties: Pairs tied in both.
    """

    sizes: Floats
    agreeing: Floats
    first_ties: Floats
    second_ties: Floats
    both_ties: Floats

    @classmethod
    def of(cls, first: Floats, second: Floats, model: Ints | None = None, models: int = 1) -> PairCounts:
        """Count the pairs of points.

        Args:
            first: First variable of every point.
            second: Second variable.
            model: Index of the model of each point; by default all points belong to one model.
            models: Number of models.

        Example:
            >>> counts = PairCounts.of(np.array([1.0, 2.0, 3.0, 3.0]), np.array([1.0, 3.0, 2.0, 4.0]))
            >>> counts.pairs, counts.tied, counts.discordant, round(counts.tau().item(), 4)
            (6, 1, 1, 0.5477)
        """
        group = np.zeros(len(first), dtype=np.int64) if model is None else model
        member = (group[:, None] == np.arange(models)).astype(np.float64)
        agreeing = np.zeros((models, models))
        for start in range(0, len(first), _ROWS):
            rows = slice(start, start + _ROWS)
            one, other = (np.sign(values[rows, None] - values) for values in (first, second))
            agreeing += member[rows].T @ ((one * other) @ member)
        codes = [np.unique(values, return_inverse=True)[1] for values in (first, second)]
        return cls(member.sum(axis=0), agreeing, *(_ties(code, group, models) for code in (*codes, *codes_of([codes]))))

    def tau(self, weights: Floats | None = None) -> Floats:
        """Kendall's tau-b for models with these multiplicities [..., models]; NaN where it is undefined."""
        drawn = self._whole if weights is None else weights
        pairs = self._unordered(np.outer(self.sizes, self.sizes), drawn)
        first, second = (self._unordered(ties, drawn) for ties in (self.first_ties, self.second_ties))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(_form(self.agreeing, drawn) / 2 / np.sqrt((pairs - first) * (pairs - second)))

    @property
    def pairs(self) -> int:
        return self._count(np.outer(self.sizes, self.sizes))

    @property
    def tied(self) -> int:
        """Pairs tied in at least one variable."""
        return self._count(self.first_ties + self.second_ties - self.both_ties)

    @property
    def discordant(self) -> int:
        return (self.pairs - self.tied - round(float(self.agreeing.sum() / 2))) // 2

    @property
    def _whole(self) -> Floats:
        return np.ones(len(self.sizes))

    def _count(self, ordered: Floats) -> int:
        return round(float(self._unordered(ordered, self._whole)))

    def _unordered(self, ordered: Floats, weights: Floats) -> Floats:
        """Unordered pairs without those of a point with itself; two copies of a point are a pair."""
        return np.asarray((_form(ordered, weights) - weights @ self.sizes) / 2)


def _ties(code: Ints, group: Ints, models: int) -> Floats:
    """Number of pairs with equal codes [models, models]."""
    count = np.zeros((models, int(code.max(initial=-1)) + 1))
    np.add.at(count, (group, code), 1)
    return np.asarray(count @ count.T)


def _form(matrix: Floats, weights: Floats) -> Floats:
    return np.asarray(((weights @ matrix) * weights).sum(axis=-1))


_DIGITS = 6


@dataclass(frozen=True, eq=False)
class Ranking:
    """The checkpoint of every model with the best open-world value, with its values rounded as in the paper.

    Attributes:
        point: Index of that point.
        open: Its value in the open world, with the sign changed if lower is better.
        closed: Its value in the closed world, likewise.
    """

    point: Ints
    open: Floats
    closed: Floats

    @property
    def by_open(self) -> Ints:
        """Models sorted by open-world value, best first; ties by closed-world value."""
        return np.lexsort((-self.closed, -self.open))

    @property
    def by_closed(self) -> Ints:
        """Models sorted by closed-world value, best first; ties by open-world value."""
        return np.lexsort((-self.open, -self.closed))

    @property
    def inverted(self) -> int:
        """Number of pairs of models in opposite order in the two worlds."""
        return PairCounts.of(self.open, self.closed).discordant

    @property
    def pairs(self) -> int:
        return len(self.point) * (len(self.point) - 1) // 2


def ranking(points: Points, metric: int) -> Ranking:
    """Choose the best open-world checkpoint of every model by the metric of this index; the first of ties.

    Example:
        >>> from kgprobe.metrics import parse
        >>> values = np.array([[0.1, 0.4, 0.3, 0.2]])
        >>> points = Points(
        ...     (parse("MRR"),), ("a", "b"), np.array([0, 0, 1, 1]), ("1", "2", "1", "2"),
        ...     values, 1 - values, values[0], np.ones(1),
        ... )
        >>> result = ranking(points, 0)
        >>> result.point.tolist(), result.by_open.tolist(), result.by_closed.tolist(), result.inverted
        ([1, 2], [0, 1], [1, 0], 1)
    """
    sign = 1.0 if points.metrics[metric].higher_is_better else -1.0
    opened, closed = sign * points.open[metric], sign * points.closed[metric]
    own = [np.flatnonzero(points.model == number) for number in range(len(points.models))]
    best = np.array([rows[opened[rows].argmax()] for rows in own])
    return Ranking(best, np.round(opened[best], _DIGITS), np.round(closed[best], _DIGITS))


_GRID = 101


@dataclass(frozen=True)
class Agreement:
    """Agreement of the open-world and closed-world orders of points; NaN where undefined.

    Attributes:
        points: Number of points.
        tau: Kendall's tau-b.
        rho: Spearman's rank correlation.
        discordant: Number of discordant pairs of points.
        tied: Number of pairs tied in either world.
        pairs: Number of pairs.
        tau_mrr: Kendall's tau-b between the open-world value and the closed-world MRR.
    """

    points: int
    tau: float
    rho: float
    discordant: int
    tied: int
    pairs: int
    tau_mrr: float

    @classmethod
    def of(cls, opened: Floats, closed: Floats, mrr: Floats) -> Agreement:
        """Compare two worlds in which larger values are better.

        Example:
            >>> three = np.array([1.0, 2.0, 3.0])
            >>> Agreement.of(three, np.array([1.0, 3.0, 2.0]), three)
            Agreement(points=3, tau=0.3333333333333333, rho=0.5, discordant=1, tied=0, pairs=3, tau_mrr=1.0)
        """
        counts = PairCounts.of(opened, closed)
        varies = min(np.ptp(values) if len(values) else 0.0 for values in (opened, closed)) > 0
        return cls(
            points=len(opened),
            tau=float(counts.tau()),
            rho=float(spearmanr(opened, closed).statistic) if varies else math.nan,
            discordant=counts.discordant,
            tied=counts.tied,
            pairs=counts.pairs,
            tau_mrr=float(PairCounts.of(opened, mrr).tau()),
        )


@dataclass(frozen=True)
class Consistency:
    """Statistics of one metric in two worlds; NaN where undefined.

    Attributes:
        metric: The metric.
        every: Agreement over all points.
        late: Agreement over the late points: those with a large closed-world MRR.
        residual: Standard deviation of the closed-world value around its isotonic regression on the open-world value,
            as a share of the closed-world range (late points).
        spread: Standard deviation between models of the open-world value at equal closed-world value, as a share of
            the open-world gain over the closed-world range that the models share (late points).
        inverted: Number of pairs of models in opposite order, each at its best open-world checkpoint.
        model_pairs: Number of pairs of models.
        discrimination: Range of the open-world values of the models' last checkpoints.
        gap: Closed-world minus open-world value of the last checkpoints, mean over models, as a share of the distance
            from chance to perfect.
    """

    metric: Metric
    every: Agreement
    late: Agreement
    residual: float
    spread: float
    inverted: int
    model_pairs: int
    discrimination: float
    gap: float

    def to_row(self) -> dict[str, Any]:
        """A flat row; None in place of NaN."""
        row = {
            "metric": str(self.metric),
            **asdict(self.every),
            **{f"late_{name}": value for name, value in asdict(self.late).items()},
            "residual": self.residual,
            "spread": self.spread,
            "inverted": self.inverted,
            "model_pairs": self.model_pairs,
            "discrimination": self.discrimination,
            "gap": self.gap,
        }
        return {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in row.items()}


def consistency(points: Points, metric: int, late: float = 0.5) -> Consistency:
    """All statistics of one metric.

    Args:
        points: The points.
        metric: Index of the metric.
        late: Points with a larger closed-world MRR are late.
    """
    kind = points.metrics[metric]
    sign = 1.0 if kind.higher_is_better else -1.0
    opened, closed = sign * points.open[metric], sign * points.closed[metric]
    kept = points.mrr > late
    order = ranking(points, metric)
    last = points.last
    return Consistency(
        metric=kind,
        every=Agreement.of(opened, closed, points.mrr),
        late=Agreement.of(opened[kept], closed[kept], points.mrr[kept]),
        residual=residual(opened[kept], closed[kept]),
        spread=spread(opened[kept], closed[kept], points.model[kept]),
        inverted=order.inverted,
        model_pairs=order.pairs,
        discrimination=float(np.ptp(opened[last])),
        gap=float((closed[last] - opened[last]).mean() / abs(points.room[metric])),
    )


def residual(opened: Floats, closed: Floats) -> float:
    """Standard deviation of closed around its isotonic regression on open, as a share of the range of closed.

    Example:
        >>> round(residual(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])), 4)
        0.2041
    """
    if len(closed) < 2 or np.ptp(closed) == 0:
        return math.nan
    _, which, count = np.unique(opened, return_inverse=True, return_counts=True)
    fit = isotonic_regression(np.bincount(which, closed) / count, weights=count).x  # ties in open have one fitted value
    return float(np.sqrt(np.mean(np.square(closed - fit[which]))) / np.ptp(closed))


def spread(opened: Floats, closed: Floats, model: Ints) -> float:
    """Standard deviation between models of open at equal closed, as a share of the gain of open.

    The open-world value of every model with at least two closed-world values is interpolated linearly over a grid of
    the range of closed that the models share.

    Example:
        >>> closed, model = np.array([0.0, 1.0, 0.0, 1.0]), np.array([0, 0, 1, 1])
        >>> round(spread(np.array([0.0, 0.5, 0.1, 0.6]), closed, model), 4)
        0.1414
    """
    lines = []
    for number in np.unique(model):
        values, which, count = np.unique(closed[model == number], return_inverse=True, return_counts=True)
        if len(values) > 1:
            lines.append((values, np.bincount(which, opened[model == number]) / count))
    if len(lines) < 2:
        return math.nan
    low, high = max(x[0] for x, _ in lines), min(x[-1] for x, _ in lines)
    grid = np.linspace(low, high, _GRID)
    values = np.array([np.interp(grid, *line) for line in lines])
    gain = float((values[:, -1] - values[:, 0]).mean())
    return float(values.std(axis=0, ddof=1).mean() / gain) if low < high and gain > 0 else math.nan
