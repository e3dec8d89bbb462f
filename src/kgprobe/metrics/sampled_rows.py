"""Queries with samples of candidates: what was counted, and statistics that bound the score of each query.

A score that is linear in the rank has an unbiased estimate. Of any other score, statistics of the number of hits are
computed whose expectations are at most, and at least, the score (`sample_bounds`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kgprobe.aggregate import Tie
from kgprobe.arrays import Floats, Ints, distinct
from kgprobe.metrics.sample_bounds import RIDGES, SampleBounds, alike, hit_variance, open_rows, rows_at_a_time
from kgprobe.ranks import Ranks
from kgprobe.ranks.schema import estimated_rank
from kgprobe.transform import Transformer


@dataclass(frozen=True, eq=False)
class SampledRows:
    """What was counted for each query, once for the best and once for the worst reading of ties in the sample.

    Attributes:
        first: The best rank that the candidates allow that were all counted.
        size: The size of the sample.
        population: What it was drawn from.
        fewest: Sampled candidates that count as better: those with greater scores.
        most: The same at worst, with those of equal scores.
        hits: The same on average.
        squares: The sum of the squares of what is averaged.
        candidates: The number of all candidates.
    """

    first: Floats
    size: Ints
    population: Ints
    fewest: Ints
    most: Ints
    hits: Floats
    squares: Floats
    candidates: Floats

    @classmethod
    def of(cls, ranks: Ranks, tie: Tie) -> SampledRows:
        """The counts of a table."""
        greater, equal, size, population, more, same = (
            np.nan_to_num(ranks.numbers(name)).astype(np.int64)
            for name in (
                *("exact_greater", "exact_equal", "sample_size"),
                *("sampled_from", "sampled_greater", "sampled_equal"),
            )
        )
        known = np.isnan(ranks.numbers("sample_size"))  # rows of another table that was ranked in full
        # Equal scores count by one half in a mean rank, not at all in an optimistic one, fully in a pessimistic one.
        share = {Tie.mean: 0.5, Tie.optimistic: 0.0, Tie.pessimistic: 1.0}[tie]
        fewest = more + (same if tie is Tie.pessimistic else 0)
        most = more + (0 if tie is Tie.optimistic else same)
        return cls(
            first=np.where(
                known, ranks.rank + (2 * share - 1) / 2 * np.nan_to_num(ranks.ties), 1 + greater + share * equal
            ),
            size=size,
            population=population,
            fewest=fewest,
            most=most,
            hits=more + share * same,
            squares=more + share * share * same,
            candidates=ranks.candidates,
        )

    @property
    def rank(self) -> Floats:
        """The unbiased estimate of the rank."""
        none = np.zeros_like(self.first)
        return estimated_rank(self.first - 1, none, self.size, self.population, self.hits)

    def distinct(self, error: Floats) -> tuple[SampledRows, Floats, Ints]:
        """The distinct rows with another column, and the index of each row among them."""
        columns = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values, which = distinct([*(np.asarray(own, np.float64) for own in columns.values()), error], len(error))
        kept = (own.astype(old.dtype) for own, old in zip(values, columns.values(), strict=False))
        return SampledRows(*kept), values[-1], which


@dataclass(frozen=True, eq=False)
class RowBounds:
    """Statistics of each query whose expectations bound its score, and limits of the score.

    Larger is better here: scores of which smaller ones are better have the opposite sign.

    Attributes:
        upper: For each kind of bound, the statistic whose expectation is at least the score: [kinds, rows]. The kinds
            are those of `RIDGES`, and a line in the number of hits; for a linear score the line alone.
        upper_variance: Its estimated variance.
        lower: The statistic whose expectation is at most the score.
        lower_variance: Its estimated variance.
        best: The score at the best rank that the sample does not exclude at the error of each row.
        worst: The same at the worst rank.
        possible: The scores at the best and at the worst rank that are possible: [2, rows].
        upper_ends: The first upper statistic without any hit, and where all sampled candidates are hits: [2, rows].
        lower_ends: The same of the first lower statistic.
        upper_line: The upper line without any hit, and by how much a hit lowers it: [2, rows].
        lower_line: The same of the lower line.
    """

    upper: Floats
    upper_variance: Floats
    lower: Floats
    lower_variance: Floats
    best: Floats
    worst: Floats
    possible: Floats
    upper_ends: Floats
    lower_ends: Floats
    upper_line: Floats
    lower_line: Floats

    def at(self, rows: Ints) -> RowBounds:
        """The same of other rows."""
        return RowBounds(*(getattr(self, name)[..., rows] for name in self.__dataclass_fields__))


def bounds_of_rows(
    rows: SampledRows, transformers: Sequence[Transformer], error: Floats
) -> dict[Transformer, RowBounds]:
    """The bounds of several scores of every row.

    Args:
        rows: The counts.
        transformers: The scores.
        error: For every row, the probability that each of its exact limits may be wrong.
    """
    found = {transformer: _known_bounds(rows, transformer) for transformer in transformers}
    unknown = np.flatnonzero(open_rows(rows.population, rows.size))
    if not len(unknown):
        return found
    rounded, which = alike(rows.population[unknown], rows.size[unknown])
    for group in range(int(which.max()) + 1):
        own = unknown[which == group]
        bounds = SampleBounds(int(rounded[which == group][0]), int(rows.size[own[0]]))
        for part in rows_at_a_time(len(own), len(bounds.grid)):
            some = own[part]
            fewest, _ = bounds.limits(rows.fewest[some], error[some])
            _, most = bounds.limits(rows.most[some], error[some])
            scale = rows.population[some] / bounds.population
            left = rows.population[some] - rows.size[some]
            limits = (
                np.maximum(np.floor(fewest * scale), rows.fewest[some]),
                np.minimum(np.ceil(most * scale), left + rows.most[some]),
                rows.fewest[some],
                left + rows.most[some],
            )
            for transformer, into in found.items():
                ends = (_score(rows, transformer, rows.first[some] + better, some) for better in limits)
                into.best[some], into.worst[some], into.possible[0, some], into.possible[1, some] = ends
                if transformer.linear:
                    _put_line(rows, transformer, some, into)
                else:
                    _put_statistics(rows, transformer, bounds, some, into)
    return found


def _score(rows: SampledRows, transformer: Transformer, rank: Floats, some: Ints) -> Floats:
    """The score of ranks of some rows, [rows] or [rows, k], with the sign that makes larger ones better."""
    size = rows.candidates[some]
    size = size if rank.ndim == 1 else np.broadcast_to(size[:, None], rank.shape)
    return (1.0 if transformer.descending else -1.0) * transformer(np.clip(rank, 1, size), size)


def _known_bounds(rows: SampledRows, transformer: Transformer) -> RowBounds:
    """The bounds if the estimated rank were known; for a linear score, with the variance of the estimate."""
    everything = np.arange(len(rows.size))
    value = _score(rows, transformer, rows.rank, everything)
    kinds = 1 if transformer.linear else len(RIDGES) + 1
    variance = np.zeros((kinds, len(value)))
    if transformer.linear:
        below, above = (_score(rows, transformer, rows.first + step, everything) for step in (0, 1))
        scale = (above - below) * rows.population / np.maximum(rows.size, 1)
        own = np.square(scale) * hit_variance(rows.hits, rows.squares, rows.population, rows.size)
        variance[0] = np.where(open_rows(rows.population, rows.size), own, 0.0)
    statistic = np.tile(value, (kinds, 1))
    return RowBounds(
        upper=statistic,
        upper_variance=variance,
        lower=statistic.copy(),
        lower_variance=variance.copy(),
        best=value.copy(),
        worst=value.copy(),
        possible=np.tile(value, (2, 1)),
        upper_ends=np.tile(value, (2, 1)),
        lower_ends=np.tile(value, (2, 1)),
        upper_line=np.stack([value, np.zeros_like(value)]),
        lower_line=np.stack([value, np.zeros_like(value)]),
    )


def _put_line(rows: SampledRows, transformer: Transformer, some: Ints, into: RowBounds) -> None:
    """Set the line that a linear score is; without a sample, what is possible is all that is known."""
    best, worst = (
        _score(rows, transformer, rank, some) for rank in (rows.first[some], rows.first[some] + rows.population[some])
    )
    drawn = rows.size[some] > 0
    into.upper[0, some] = np.where(drawn, into.upper[0, some], best)
    into.lower[0, some] = np.where(drawn, into.lower[0, some], worst)
    by_hit = np.where(drawn, (best - worst) / np.maximum(rows.size[some], 1), 0.0)
    into.upper_line[:, some] = best, by_hit
    into.lower_line[:, some] = np.where(drawn, best, worst), by_hit


def _put_statistics(
    rows: SampledRows, transformer: Transformer, bounds: SampleBounds, some: Ints, into: RowBounds
) -> None:
    """Set the statistics of some rows for a score that is not linear."""
    at_best, at_worst = _grid_ranks(rows, some, bounds, transformer)
    first = rows.first[some, None]
    above = _score(rows, transformer, at_best, some)
    same = transformer.continuous and bool((rows.fewest[some] == rows.most[some]).all())
    below = above if same else _score(rows, transformer, at_worst, some)
    extremes = np.broadcast_to(np.array([0, bounds.size]), (len(some), 2))
    into.upper_ends[:, some] = bounds.statistics(above, extremes, RIDGES[0])[1].T
    into.lower_ends[:, some] = bounds.statistics(below, extremes, RIDGES[0])[0].T
    for kind, ridge in enumerate(RIDGES):
        low, low_variance, high, high_variance = bounds.bound(above, rows.fewest[some], ridge)
        if not same:
            low, low_variance, _, _ = bounds.bound(below, rows.most[some], ridge)
        into.lower[kind, some], into.lower_variance[kind, some] = low, low_variance
        into.upper[kind, some], into.upper_variance[kind, some] = high, high_variance
    # A line from the first value that is nowhere below, or nowhere above, the others.
    for values, into_kind, into_variance, line, hits, better, steepest in (
        (above, into.upper, into.upper_variance, into.upper_line, rows.fewest, at_worst - first, np.max),
        (below, into.lower, into.lower_variance, into.lower_line, rows.most, at_best - first, np.min),
    ):
        slope = steepest((values[:, 1:] - values[:, :1]) / better[:, 1:], axis=1)
        by_hit = slope * rows.population[some] / max(bounds.size, 1)
        unsampled = values[:, 0] if steepest is np.max else values[:, -1]
        line[:, some] = np.where(bounds.size, values[:, 0], unsampled), np.where(bounds.size, -by_hit, 0.0)
        into_kind[-1, some] = line[0, some] - line[1, some] * hits[some]
        variance = hit_variance(hits[some], hits[some], rows.population[some], rows.size[some])
        into_variance[-1, some] = np.square(by_hit) * variance


def _grid_ranks(rows: SampledRows, some: Ints, bounds: SampleBounds, transformer: Transformer) -> tuple[Floats, Floats]:
    """The ranks [rows, grid] at which the score is taken for an upper and for a lower bound.

    They differ where the score jumps: the best and the worst rank between two numbers of the grid.
    """
    better = bounds.grid * (rows.population[some, None] / bounds.population)
    first = rows.first[some, None]
    if transformer.continuous:
        return first + better, first + better
    better = np.rint(better)
    before = np.concatenate([np.full((len(some), 1), -1.0), better[:, :-1]], axis=1)
    return first + np.minimum(before + 1, better), first + better
