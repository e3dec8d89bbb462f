"""PROBE of a model over a grid or along a line, and the influence of each cluster of queries on it.

The score of a run is a weighted mean, so the influence of a query is ``w (f - score) / sum w``. The sums by cluster are
a product with a sparse matrix that holds the weights, for all models and several alphas at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from kgprobe.aggregate import PopularityWeight, Sums, Tie, surface, tied_score
from kgprobe.aggregate.weights import log_weight, scaled_exp
from kgprobe.arrays import Flags, Floats
from kgprobe.comparison.lineup import Clusters, Lineup
from kgprobe.errors import UsageError, naming
from kgprobe.ranks import Ranks
from kgprobe.transform import AffinePower

_STEPS = 128
"""Pieces of a line; two crossings within one piece may be missed."""

_ROUNDING = 1e-14

_TABLE, _MOST_ALPHAS = 1 << 20, 8
"""Numbers in a table of scores that stays in the cache, and alphas in it."""


@dataclass(frozen=True)
class ModelSurface:
    """PROBE of a model over a grid.

    Attributes:
        runs: The value of every training run, [runs, alphas, betas].
        effective: The effective number of queries for each beta, the mean over the runs.
    """

    runs: Floats
    effective: Floats

    @property
    def mean(self) -> Floats:
        """The mean over the runs."""
        return np.asarray(self.runs.mean(axis=0))

    @property
    def std(self) -> Floats:
        """The sample standard deviation over the runs; NaN for a single run."""
        if len(self.runs) == 1:
            return np.full(self.runs.shape[1:], np.nan)
        return np.asarray(self.runs.std(axis=0, ddof=1))


def model_surface(
    lineup: Lineup, model: str, alphas: ArrayLike, betas: ArrayLike, *, tie: Tie | str = Tie.mean
) -> ModelSurface:
    """PROBE of one model of a line-up over a grid."""
    with naming(model):
        found = [surface(run, alphas, betas, tie=tie) for run in lineup.runs[model]]
    return ModelSurface(
        runs=np.stack([np.asarray(grid) for grid in found]),
        effective=np.mean([grid.effective for grid in found], axis=0),
    )


@dataclass(frozen=True)
class ScoreLine:
    """A line through the plane: either alpha or beta is fixed, and the other varies.

    Attributes:
        lineup: The models.
        tie: How ties are scored.
        alpha: The fixed alpha; None where it varies.
        beta: The fixed beta; None where it varies.
    """

    lineup: Lineup
    tie: Tie | str
    alpha: float | None = None
    beta: float | None = None

    def scores(self, model: str, values: Floats) -> Floats:
        """PROBE of a model at these values of the parameter that varies."""
        grid = (values, [self.beta]) if self.alpha is None else ([self.alpha], values)
        return model_surface(self.lineup, model, *grid, tie=self.tie).mean.ravel()

    def difference(self, first: str, second: str) -> Callable[[Floats], Floats]:
        """The difference between two models, as a function of the parameter that varies."""
        return lambda values: self.scores(first, values) - self.scores(second, values)


def samples(low: float, high: float) -> Floats:
    """Evenly spaced points, close enough to each other to find practically every crossing between them."""
    return np.linspace(low, high, _STEPS + 1)


def roots(difference: Callable[[Floats], Floats], points: Floats, values: Floats | None = None) -> Floats:
    """The points where a smooth function of one number changes its sign.

    Args:
        difference: The function.
        points: Ascending points; a crossing is found between two neighbours.
        values: The function at these points, if it is known.

    Example:
        >>> roots(lambda x: (x - 0.3) * (x + 0.5), samples(-1.0, 1.0)).round(9).tolist()
        [-0.5, 0.3]
    """
    from scipy.optimize import brentq  # slow to import

    values = difference(points) if values is None else values
    signed = np.abs(values) > _ROUNDING  # where it is 0, the neighbours give the sign
    points, values = points[signed], values[signed]
    changes = np.flatnonzero(np.sign(values[1:]) != np.sign(values[:-1]))
    ends = [(float(points[i]), float(points[i + 1])) for i in changes]
    return np.array([brentq(lambda x: float(difference(np.array([x]))[0]), *end, xtol=1e-14) for end in ends])


@dataclass(frozen=True)
class RunWeights:
    """The weights of the queries of a training run.

    Attributes:
        counted: The queries with more than one candidate.
        log: The log weight at beta 1; 0 where the query is not counted.
    """

    counted: Flags
    log: Floats

    @classmethod
    def of(cls, run: Ranks, popular: bool) -> RunWeights:
        """The weights of a run; popularity is only read where beta needs it."""
        factors = PopularityWeight(1.0, 1.0).factors if popular else {}
        counted = run.candidates > 1
        return cls(counted, log_weight({name: run.numbers(name) for name in factors}, counted, factors))

    def same_as(self, other: RunWeights) -> bool:
        return np.array_equal(self.counted, other.counted) and np.array_equal(self.log, other.log)

    def at(self, beta: float) -> Floats:
        """The weight of every query, the largest being 1."""
        weights = np.zeros(len(self.log))
        weights[self.counted] = scaled_exp(beta * self.log[self.counted])
        return weights


@dataclass(frozen=True)
class _Run:
    """A training run of the model at that position."""

    model: int
    weights: RunWeights
    ranks: Ranks


@dataclass(frozen=True)
class _Strand:
    """Runs of one model with the same weights, so that their scores can be averaged query by query."""

    model: int
    weights: RunWeights
    runs: Sequence[_Run]
    factor: float

    def scores(self, alpha: float, tie: Tie) -> Floats:
        """The mean score of every query over the runs; 0 where it is not counted."""
        total = np.zeros(len(self.weights.log))
        for run in self.runs:
            total += tied_score(AffinePower(alpha), run.ranks, tie)
        return np.where(self.weights.counted, total / len(self.runs), 0.0)


class Influences:
    """The influence of each cluster of a line-up on the scores of its models.

    Args:
        lineup: The models.
        clusters: The clusters of queries.
        popular: Whether any beta other than 0 will be used.
        tie: How ties are scored.
    """

    def __init__(self, lineup: Lineup, clusters: Clusters, *, popular: bool, tie: Tie | str = Tie.mean) -> None:
        self.clusters, self.tie, self.models = clusters, Tie(tie), len(lineup.models)
        strands: list[_Strand] = []
        for model, tables in enumerate(lineup.runs.values()):
            runs = [_Run(model, RunWeights.of(ranks, popular), ranks) for ranks in tables]
            strands += [_Strand(model, own[0].weights, own, len(own) / len(runs)) for own in _by_weights(runs)]
        self._strands = _by_weights(strands)
        self._order = np.argsort(clusters.codes, kind="stable")
        self._ends = np.concatenate([[0], np.cumsum(np.bincount(clusters.codes, minlength=clusters.count))])

    def tables(self, alphas: Floats, betas: Floats) -> Iterator[tuple[slice, int, Floats]]:
        """For some alphas and one beta after another, an array [clusters, alphas, models]."""
        width = len(self.clusters.codes) * self.models
        step = int(np.clip(_TABLE // max(width, 1), 1, _MOST_ALPHAS))
        for start in range(0, len(alphas), step):
            some = slice(start, min(start + step, len(alphas)))
            scores = [self._scores(strands, alphas[some]) for strands in self._strands]
            for j, beta in enumerate(betas):
                yield some, j, self._table(scores, float(beta), some.stop - some.start)

    def _scores(self, strands: Sequence[_Strand], alphas: Floats) -> Floats:
        """The scores of queries, [queries, alphas x strands]."""
        columns = [strand.scores(float(alpha), self.tie) for alpha in alphas for strand in strands]
        return np.stack(columns, axis=1)

    def _table(self, scores: list[Floats], beta: float, alphas: int) -> Floats:
        table = np.zeros((self.clusters.count, alphas, self.models))
        for strands, own in zip(self._strands, scores, strict=True):
            by_cluster = self._summing(strands[0].weights.at(beta))
            weight = by_cluster @ np.ones(len(self.clusters.codes))
            influence = by_cluster @ own
            influence -= np.multiply.outer(weight, Sums(weight.sum(), score=influence.sum(axis=0)).mean)
            influence /= weight.sum()
            table += influence.reshape(len(weight), alphas, len(strands)) @ self._shares(strands)
        return table

    def _shares(self, strands: Sequence[_Strand]) -> Floats:
        """The factor of every strand in every model, [strands, models]."""
        shares = np.zeros((len(strands), self.models))
        shares[np.arange(len(strands)), [strand.model for strand in strands]] = [strand.factor for strand in strands]
        return shares

    def _summing(self, weights: Floats) -> Any:
        """The sparse matrix that sums weighted queries by cluster."""
        from scipy import sparse  # slow to import

        shape = (self.clusters.count, len(weights))
        return sparse.csr_array((weights[self._order], self._order, self._ends), shape=shape)


class _Weighted(Protocol):
    @property
    def weights(self) -> RunWeights: ...


W = TypeVar("W", bound=_Weighted)


def _by_weights(items: Sequence[W]) -> list[list[W]]:
    """Group items with the same weights."""
    groups: list[list[W]] = []
    for item in items:
        alike = next((group for group in groups if group[0].weights.same_as(item.weights)), None)
        if alike is None:
            groups.append([item])
        else:
            alike.append(item)
    return groups


def curves(alphas: Floats, betas: Floats, difference: Floats) -> list[Floats]:
    """The curves along which a difference [alphas, betas] is 0: arrays [points, 2] of alpha and beta."""
    try:
        from contourpy import contour_generator
    except ImportError:
        raise UsageError("curves need contourpy", remedy="pip install 'kgprobe[report]'") from None
    if len(alphas) < 2 or len(betas) < 2 or not difference.any():
        return []
    rows, columns = np.argsort(alphas), np.argsort(betas)
    ordered = difference[np.ix_(rows, columns)]
    return [np.asarray(line) for line in contour_generator(alphas[rows], betas[columns], ordered.T).lines(0.0)]
