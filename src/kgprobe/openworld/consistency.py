"""How well open-world scores keep the closed-world order of models."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.stats import spearmanr

from kgprobe.arrays import Floats, Ints
from kgprobe.metrics import Metric
from kgprobe.openworld.bench_points import Points

_ROWS = 256  # points that are compared with all others at once


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Counts over ordered pairs of points by the models that both belong to, each point with itself included.

    As they are kept by model, Kendall's tau of any sample of whole models follows from them without another look at
    the points: a model that is drawn w times has w copies of its points, and every count is a quadratic form in w.

    Attributes:
        sizes: The number of points of each model.
        agreeing: Pairs in the same order less those in opposite order [models, models].
        first_ties: Pairs that the first measurement ties.
        second_ties: Pairs that the second ties.
        both_ties: Pairs that both tie.
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
            first: A measurement of every point.
            second: Another one.
            model: The number of the model of each point; without it all points belong together.
            models: How many models there are.

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
        both = np.unique(np.stack(codes), axis=1, return_inverse=True)[1].ravel()
        return cls(member.sum(axis=0), agreeing, *(_ties(code, group, models) for code in (*codes, both)))

    def tau(self, weights: Floats | None = None) -> Floats:
        """Kendall's tau-b of the points of models that are drawn so often [..., models]; NaN where it has no value."""
        drawn = self._whole if weights is None else weights
        pairs = self._unordered(np.outer(self.sizes, self.sizes), drawn)
        first, second = (self._unordered(ties, drawn) for ties in (self.first_ties, self.second_ties))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(_form(self.agreeing, drawn) / 2 / np.sqrt((pairs - first) * (pairs - second)))

    @property
    def pairs(self) -> int:
        """All pairs of points."""
        return self._count(np.outer(self.sizes, self.sizes))

    @property
    def tied(self) -> int:
        """Pairs that at least one of both measurements ties."""
        return self._count(self.first_ties + self.second_ties - self.both_ties)

    @property
    def discordant(self) -> int:
        """Pairs in opposite order."""
        return (self.pairs - self.tied - round(float(self.agreeing.sum() / 2))) // 2

    @property
    def _whole(self) -> Floats:
        return np.ones(len(self.sizes))

    def _count(self, ordered: Floats) -> int:
        return round(float(self._unordered(ordered, self._whole)))

    def _unordered(self, ordered: Floats, weights: Floats) -> Floats:
        """Every pair once, and none of a point with itself; copies of a point are pairs."""
        return np.asarray((_form(ordered, weights) - weights @ self.sizes) / 2)


def _ties(code: Ints, group: Ints, models: int) -> Floats:
    """Pairs of equal codes by the models of both."""
    count = np.zeros((models, int(code.max(initial=-1)) + 1))
    np.add.at(count, (group, code), 1)
    return np.asarray(count @ count.T)


def _form(matrix: Floats, weights: Floats) -> Floats:
    return np.asarray(((weights @ matrix) * weights).sum(axis=-1))


_DIGITS = 6


@dataclass(frozen=True, eq=False)
class Ranking:
    """For every model the checkpoint with the best open-world score, and its scores rounded as in the paper.

    Attributes:
        point: The number of that point.
        open: Its score in the open world; larger is better, whatever the metric.
        closed: Its score in the closed world, likewise.
    """

    point: Ints
    open: Floats
    closed: Floats

    @property
    def by_open(self) -> Ints:
        """The models from the best open-world score on; of equal ones the better in the closed world is first."""
        return np.lexsort((-self.closed, -self.open))

    @property
    def by_closed(self) -> Ints:
        """The models from the best closed-world score on; equal ones keep the order of the open world."""
        return np.lexsort((-self.open, -self.closed))

    @property
    def inverted(self) -> int:
        """Pairs of models in opposite order: the crossings of lines that join a model's places."""
        return PairCounts.of(self.open, self.closed).discordant

    @property
    def pairs(self) -> int:
        """All pairs of models."""
        return len(self.point) * (len(self.point) - 1) // 2


def ranking(points: Points, metric: int) -> Ranking:
    """Choose the best open-world checkpoint of every model by the metric of that number; the first of equal ones.

    Example:
        >>> from kgprobe.metrics import parse
        >>> values = np.array([[0.1, 0.4, 0.3, 0.2]])
        >>> points = Points(
        ...     (parse("MRR"),), ("a", "b"), np.array([0, 0, 1, 1]), ("1", "2", "1", "2"),
        ...     values, 1 - values, values[0], np.ones(1),
        ... )
        >>> found = ranking(points, 0)
        >>> found.point.tolist(), found.by_open.tolist(), found.by_closed.tolist(), found.inverted
        ([1, 2], [0, 1], [1, 0], 1)
    """
    sign = 1.0 if points.metrics[metric].higher_is_better else -1.0
    opened, closed = sign * points.open[metric], sign * points.closed[metric]
    own = [np.flatnonzero(points.model == number) for number in range(len(points.models))]
    best = np.array([places[opened[places].argmax()] for places in own])
    return Ranking(best, np.round(opened[best], _DIGITS), np.round(closed[best], _DIGITS))


_GRID = 101


@dataclass(frozen=True)
class Agreement:
    """Whether the open and the closed world order points alike; NaN where there is too little to say.

    Attributes:
        points: The number of points.
        tau: Kendall's tau-b.
        rho: Spearman's correlation.
        pairs: All pairs of points.
        discordant: Those in opposite order.
        tied: Those that either world ties.
        tau_mrr: Kendall's tau-b between the open-world value and the closed-world MRR.
    """

    points: int
    tau: float
    rho: float
    pairs: int
    discordant: int
    tied: int
    tau_mrr: float

    @classmethod
    def of(cls, opened: Floats, closed: Floats, mrr: Floats) -> Agreement:
        """Compare two worlds in which larger is better.

        Example:
            >>> three = np.array([1.0, 2.0, 3.0])
            >>> Agreement.of(three, np.array([1.0, 3.0, 2.0]), three)
            Agreement(points=3, tau=0.3333333333333333, rho=0.5, pairs=3, discordant=1, tied=0, tau_mrr=1.0)
        """
        counts = PairCounts.of(opened, closed)
        varies = min(np.ptp(values) if len(values) else 0.0 for values in (opened, closed)) > 0
        return cls(
            points=len(opened),
            tau=float(counts.tau()),
            rho=float(spearmanr(opened, closed).statistic) if varies else math.nan,
            pairs=counts.pairs,
            discordant=counts.discordant,
            tied=counts.tied,
            tau_mrr=float(PairCounts.of(opened, mrr).tau()),
        )


@dataclass(frozen=True)
class Consistency:
    """One metric in two worlds; NaN where there is too little to say.

    Attributes:
        metric: The metric.
        every: Agreement over all points.
        late: Agreement over the late points: those of models that have learned something.
        residual: Standard deviation of the closed-world value around its best monotone fit on the open-world value,
            as a share of the closed-world range (late points).
        spread: Standard deviation between models of the open-world value at equal closed-world value, as a share of
            the open-world gain over the closed-world range that the models share (late points).
        inverted: Pairs of models in opposite order, each at its best open-world checkpoint.
        model_pairs: All pairs of models.
        discrimination: Open-world values of the models' last checkpoints, largest less smallest.
        gap: Closed-world value less open-world value of the last checkpoints, mean over models, where 1 is the
            distance from chance to perfect.
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
        """A flat row; None where there is no number."""
        row = {
            "metric": str(self.metric),
            "points": self.every.points,
            "tau": self.every.tau,
            "rho": self.every.rho,
            "discordant": self.every.discordant,
            "tied": self.every.tied,
            "pairs": self.every.pairs,
            "tau_mrr": self.every.tau_mrr,
            "late_points": self.late.points,
            "late_tau": self.late.tau,
            "late_rho": self.late.rho,
            "late_discordant": self.late.discordant,
            "late_tied": self.late.tied,
            "late_pairs": self.late.pairs,
            "late_tau_mrr": self.late.tau_mrr,
            "residual": self.residual,
            "spread": self.spread,
            "inverted": self.inverted,
            "model_pairs": self.model_pairs,
            "discrimination": self.discrimination,
            "gap": self.gap,
        }
        return {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in row.items()}


def consistency(points: Points, metric: int, late: float = 0.5) -> Consistency:
    """All statistics of the metric of that number.

    Args:
        points: The points.
        metric: The number of the metric.
        late: Points with a larger closed-world MRR are late.
    """
    kind = points.metrics[metric]
    sign = 1.0 if kind.higher_is_better else -1.0
    opened, closed = sign * points.open[metric], sign * points.closed[metric]
    kept = points.mrr > late
    found = ranking(points, metric)
    last = points.last
    return Consistency(
        metric=kind,
        every=Agreement.of(opened, closed, points.mrr),
        late=Agreement.of(opened[kept], closed[kept], points.mrr[kept]),
        residual=residual(opened[kept], closed[kept]),
        spread=spread(opened[kept], closed[kept], points.model[kept]),
        inverted=found.inverted,
        model_pairs=found.pairs,
        discrimination=float(np.ptp(opened[last])),
        gap=float((closed[last] - opened[last]).mean() / abs(points.room[metric])),
    )


def residual(opened: Floats, closed: Floats) -> float:
    """Standard deviation of closed around its best increasing fit on open, as a share of the range of closed.

    Example:
        >>> round(residual(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])), 4)
        0.2041
    """
    if len(closed) < 2 or np.ptp(closed) == 0:
        return math.nan
    _, which, count = np.unique(opened, return_inverse=True, return_counts=True)
    fit = isotonic_regression(np.bincount(which, closed) / count, weights=count).x  # equal x have one fitted value
    return float(np.sqrt(np.mean(np.square(closed - fit[which]))) / np.ptp(closed))


def spread(opened: Floats, closed: Floats, model: Ints) -> float:
    """Standard deviation between models of open at equal closed, as a share of the gain of open.

    Every model with at least two closed-world values is drawn as a line, open over closed; the lines are compared on
    a grid over the range of closed that they share.

    Example:
        >>> closed, model = np.array([0.0, 1.0, 0.0, 1.0]), np.array([0, 0, 1, 1])
        >>> round(spread(np.array([0.0, 0.5, 0.1, 0.6]), closed, model), 4)
        0.1414
    """
    lines = []
    for number in np.unique(model):
        places, which, count = np.unique(closed[model == number], return_inverse=True, return_counts=True)
        if len(places) > 1:
            lines.append((places, np.bincount(which, opened[model == number]) / count))
    if len(lines) < 2:
        return math.nan
    low, high = max(places[0] for places, _ in lines), min(places[-1] for places, _ in lines)
    grid = np.linspace(low, high, _GRID)
    values = np.array([np.interp(grid, *line) for line in lines])
    gain = float((values[:, -1] - values[:, 0]).mean())
    return float(values.std(axis=0, ddof=1).mean() / gain) if low < high and gain > 0 else math.nan
