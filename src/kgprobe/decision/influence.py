"""Score surfaces of every model, and the influence of each cluster of queries on them.

The score of a run is a weighted mean, so its influences are ``w (f - score) / sum w``, added up by cluster. Adding up
is a product with a sparse matrix that holds the weights, for all models and several alphas at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from kgprobe.aggregate import PopularityWeight, Tie, surface, tied_score
from kgprobe.aggregate.weights import scaled_exp
from kgprobe.arrays import Flags, Floats
from kgprobe.comparison.lineup import Clusters, Lineup
from kgprobe.metrics.evaluation import read_column
from kgprobe.ranks import Ranks
from kgprobe.transform import AffinePower


@dataclass(frozen=True)
class ModelSurface:
    """PROBE of a model over a grid.

    Attributes:
        runs: The value of every training run, [runs, alphas, betas].
        effective: The effective number of queries for each beta, the mean over the runs.
        left_out: Queries that say nothing, having a single candidate.
    """

    runs: Floats
    effective: Floats
    left_out: int

    @property
    def mean(self) -> Floats:
        """The mean over the runs: the value of ``kgprobe eval``."""
        return np.asarray(self.runs.mean(axis=0))

    @property
    def std(self) -> Floats:
        """The sample standard deviation over the runs; NaN where there is one run only."""
        if len(self.runs) == 1:
            return np.full(self.runs.shape[1:], np.nan)
        return np.asarray(self.runs.std(axis=0, ddof=1))


def model_surface(
    lineup: Lineup, model: str, alphas: ArrayLike, betas: ArrayLike, *, tie: Tie | str = Tie.mean
) -> ModelSurface:
    """PROBE of one model of a line-up over a grid.

    Example:
        >>> from kgprobe.comparison.lineup import line_up
        >>> from kgprobe.ranks import Ranks
        >>> ranks = Ranks.from_columns(
        ...     head=[0, 0], relation=[0, 0], tail=[1, 1], side=["head", "tail"], rank=[1, 2], candidates=[5, 5]
        ... )
        >>> model_surface(line_up({"mine": ranks}), "mine", [1.0, 0.0], [0.0]).mean.round(4).tolist()
        [[0.6875], [0.7847]]
    """
    found = [surface(run, alphas, betas, tie=tie) for run in lineup.runs[model]]
    return ModelSurface(
        runs=np.stack([np.asarray(grid) for grid in found]),
        effective=np.mean([grid.effective for grid in found], axis=0),
        left_out=max(grid.left_out for grid in found),
    )


@dataclass(frozen=True)
class ScoreLine:
    """A line through the plane: alpha moves and beta stays, or the other way round.

    Attributes:
        lineup: The models.
        tie: How ties are scored.
        alpha: The alpha that stays; None where it moves.
        beta: The beta that stays; None where it moves.
    """

    lineup: Lineup
    tie: Tie | str
    alpha: float | None = None
    beta: float | None = None

    def scores(self, model: str, values: Floats) -> Floats:
        """PROBE of a model where the one that moves has these values."""
        grid = (values, [self.beta]) if self.alpha is None else ([self.alpha], values)
        return model_surface(self.lineup, model, *grid, tie=self.tie).mean.ravel()

    def difference(self, first: str, second: str) -> Callable[[Floats], Floats]:
        """How far the first model is above the second, as a function of what moves."""
        return lambda values: self.scores(first, values) - self.scores(second, values)


_TABLE, _MOST_ALPHAS = 1 << 20, 8

"""Numbers in a table of scores that stays in the cache, and alphas in it: more would waste products between them."""


@dataclass(frozen=True)
class Weights:
    """What every query of a run counts.

    Attributes:
        counted: The queries with more than one candidate.
        log: The log of the weight at beta 1; 0 where the query is not counted.
    """

    counted: Flags
    log: Floats

    @classmethod
    def of(cls, run: Ranks, popular: bool) -> Weights:
        """The weights of a run; its popularity is looked at only where beta needs it."""
        counted, log = run.candidates > 1, np.zeros(len(run))
        if popular:
            unpopularity = PopularityWeight(1.0, 1.0)
            columns = {name: read_column(run, name)[counted] for name in unpopularity.columns}
            log[counted] = np.log(unpopularity.weights(columns, np.ones(int(counted.sum()))))
        return cls(counted, log)

    def same_as(self, other: Weights) -> bool:
        """Whether every query counts the same under both."""
        return np.array_equal(self.counted, other.counted) and np.array_equal(self.log, other.log)

    def at(self, beta: float) -> Floats:
        """The weight of every query, the largest being 1."""
        weights = np.zeros(len(self.log))
        weights[self.counted] = scaled_exp(beta * self.log[self.counted])
        return weights


@dataclass(frozen=True)
class _Run:
    """A training run of the model with that number."""

    model: int
    weights: Weights
    ranks: Ranks


@dataclass(frozen=True)
class _Strand:
    """Runs of one model that share their weights, so that their scores can be averaged query by query."""

    model: int
    weights: Weights
    runs: Sequence[_Run]
    factor: float

    def scores(self, alpha: float, tie: Tie) -> Floats:
        """The score of every query, the mean over the runs; 0 where it is not counted."""
        total = np.zeros(len(self.weights.log))
        for run in self.runs:
            total += tied_score(AffinePower(alpha), run.ranks, tie)
        return np.where(self.weights.counted, total / len(self.runs), 0.0)


class Influences:
    """Influences of the clusters of a line-up on the scores of its models.

    Args:
        lineup: The models.
        clusters: Which queries stand or fall together.
        popular: Whether any beta other than 0 will be asked for.
        tie: How ties are scored.

    Example:
        >>> from kgprobe.comparison.lineup import line_up
        >>> ranks = Ranks.from_columns(
        ...     head=[0, 0], relation=[0, 0], tail=[1, 2], side=["tail"] * 2, rank=[1, 3], candidates=[3, 3]
        ... )
        >>> lineup = line_up({"mine": ranks})
        >>> influences = Influences(lineup, lineup.clusters("triple"), popular=False)
        >>> [table[:, 0, 0].tolist() for _, _, table in influences.tables(np.array([1.0]), np.array([0.0]))]
        [[0.25, -0.25]]
    """

    def __init__(self, lineup: Lineup, clusters: Clusters, *, popular: bool, tie: Tie | str = Tie.mean) -> None:
        self.clusters, self.tie, self.models = clusters, Tie(tie), len(lineup.models)
        strands: list[_Strand] = []
        for model, tables in enumerate(lineup.runs.values()):
            runs = [_Run(model, Weights.of(ranks, popular), ranks) for ranks in tables]
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
            moved = by_cluster @ own
            moved -= np.multiply.outer(weight, moved.sum(axis=0) / weight.sum())
            moved /= weight.sum()
            table += moved.reshape(len(weight), alphas, len(strands)) @ self._shares(strands)
        return table

    def _shares(self, strands: Sequence[_Strand]) -> Floats:
        """What every strand counts in every model, [strands, models]."""
        shares = np.zeros((len(strands), self.models))
        shares[np.arange(len(strands)), [strand.model for strand in strands]] = [strand.factor for strand in strands]
        return shares

    def _summing(self, weights: Floats) -> Any:
        """The sparse matrix that adds up weighted queries by cluster."""
        from scipy import sparse  # takes long to import

        shape = (self.clusters.count, len(weights))
        return sparse.csr_array((weights[self._order], self._order, self._ends), shape=shape)


class _Weighted(Protocol):
    @property
    def weights(self) -> Weights: ...


W = TypeVar("W", bound=_Weighted)


def _by_weights(items: Sequence[W]) -> list[list[W]]:
    """Those whose weights are the same, together."""
    groups: list[list[W]] = []
    for item in items:
        alike = next((group for group in groups if group[0].weights.same_as(item.weights)), None)
        if alike is None:
            groups.append([item])
        else:
            alike.append(item)
    return groups
