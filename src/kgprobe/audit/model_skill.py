"""Skill of each model on each query, and cells of queries where one model is an outlier.

A model is expected to be as much better or worse than the others on one side as it is on the other: what it is on
the other side says what it can do. It stands apart in a cell by its distance from the other models' median or from
this expectation, whichever is smaller, so that neither a weak model nor a strong one is accused of being so.

Ranks that are shuffled over the rows of a file keep every mean, but agree with no other model's. So does an honest
model that knows something else than the others, and is therefore better or worse than they are: it is suspected only
where it is about as good, which it can hardly be at queries that have nothing to do with those the others are good at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kgprobe.arrays import Flags, Floats, Ints
from kgprobe.audit.view import AuditedRun, View

_FEWEST_CANDIDATES = 5

"""Among fewer candidates, a rank says little about a model."""

_ABLE = 0.1

"""A model whose skill is below this share of the way from chance to the first place says nothing about others."""


@dataclass(frozen=True)
class Skills:
    """The skill of several models at the queries that all of them have.

    Attributes:
        models: Their names.
        scales: Two scales [2, models, queries]: the logarithm of the rank, to which every place counts, and the
            reciprocal rank, to which the first places count. A fault of the ranks shows on both.
        reciprocal_rank: The mean reciprocal rank over the runs [models, queries], as people know it.
        relation: The relation of each query.
        predicts_tail: Whether the tail is asked for.
    """

    models: tuple[str, ...]
    scales: Floats
    reciprocal_rank: Floats
    relation: Ints
    predicts_tail: Flags

    def without(self, model: int) -> Skills:
        """The other models."""
        kept = np.arange(len(self.models)) != model
        names = tuple(name for name, keep in zip(self.models, kept, strict=True) if keep)
        return replace(self, models=names, scales=self.scales[:, kept], reciprocal_rank=self.reciprocal_rank[kept])

    @cached_property
    def cells(self) -> QueryCells:
        """The queries by relation and side."""
        values, which, size = np.unique(self.relation * 2 + self.predicts_tail, return_inverse=True, return_counts=True)
        return QueryCells(values // 2, values % 2 == 1, which, size)


@dataclass(frozen=True)
class QueryCells:
    """Queries grouped by relation and side.

    Attributes:
        relation: The relation of each cell.
        predicts_tail: The side of each cell.
        which: The cell of each query.
        size: The number of queries of each cell.
    """

    relation: Ints
    predicts_tail: Flags
    which: Ints
    size: Ints

    def mean(self, values: Floats) -> Floats:
        """The mean of each cell."""
        return np.asarray(np.bincount(self.which, weights=values, minlength=len(self.size)) / self.size)


def skills_of(view: View) -> Skills:
    """The skills of the models that have exact ranks and are better than chance.

    Example:
        >>> from kgprobe.audit.view import prepare
        >>> from kgprobe.ranks import Ranks
        >>> ranks = Ranks.from_columns(
        ...     head=[0, 1], relation=[0, 0], tail=[1, 0], side=["tail"] * 2, rank=[1, 2], candidates=[9, 9]
        ... )
        >>> np.sort(skills_of(prepare({"mine": ranks}, None)).scales).round(3).tolist()
        [[[0.513, 1.0]], [[0.271, 1.0]]]
    """
    exact = [model for model, runs in view.runs.items() if not any(run.intervals for run in runs)]
    able = {model: scales for model in exact if _is_able(scales := _scales(view.runs[model]))}
    shared = np.all([~np.isnan(scales[0]) for scales in able.values()] or [np.zeros(len(view.queries), bool)], axis=0)
    reciprocal = [_over_runs([1 / run.rank for run in view.runs[model]])[shared] for model in able]
    return Skills(
        tuple(able),
        np.stack([scales[:, shared] for scales in able.values()], axis=1) if able else np.empty((2, 0, 0)),
        np.stack(reciprocal) if able else np.empty((0, 0)),
        view.queries.relation[shared],
        view.queries.predicts_tail[shared],
    )


def _is_able(scales: Floats) -> bool:
    known = scales[0][~np.isnan(scales[0])]
    return bool(len(known) and known.mean() >= _ABLE)


def _scales(runs: tuple[AuditedRun, ...]) -> Floats:
    """Both scales [2, queries], mean over the runs; NaN where a run has no rank or few candidates."""
    from scipy.special import digamma, gammaln  # slow to load, and the rest of the audit does without

    logarithm, reciprocal = [], []
    for run in runs:
        size = np.where(run.candidates >= _FEWEST_CANDIDATES, run.candidates, np.nan)
        by_chance = gammaln(size + 1) / size
        logarithm.append(1 - np.log(run.rank) / by_chance)
        by_chance = (digamma(size + 1) + np.euler_gamma) / size
        reciprocal.append((1 / run.rank - by_chance) / (1 - by_chance))
    return np.stack([_over_runs(logarithm), _over_runs(reciprocal)])


def _over_runs(values: list[Floats]) -> Floats:
    return np.asarray(np.mean(values, axis=0))


_SMALL = 5

"""Cells with fewer queries do not tell what a model can do."""

_INFORMATIVE = 0.1

_FEWEST_CELLS = 3

_LEAST_NOISE = 0.02

_ROBUST = 1.4826

"""The standard deviation of a normal distribution is this many of its median absolute deviations."""


@dataclass(frozen=True)
class Outlier:
    """How far each model stands apart, for groups of queries [models, groups].

    Attributes:
        distance: Signed skill by which it stands apart; 0 where it is within the others.
        noise: How large a distance is usual there: how much the other models differ, how unsteady the model is on the
            other side, and what the number of queries leaves open.
    """

    distance: Floats
    noise: Floats

    @property
    def strength(self) -> Floats:
        """The distance in units of the noise."""
        return np.asarray(np.abs(self.distance) / np.maximum(self.noise, _LEAST_NOISE))


def outliers(scale: Floats, cells: QueryCells) -> tuple[Outlier, Outlier]:
    """Where models stand in every cell, and on the head and the tail side as wholes.

    Args:
        scale: The skill of at least three models [models, queries].
        cells: The cells of the queries.

    Example:
        One model of four is perfect at the tails of relation 0, where the others know little.

        >>> rng = np.random.default_rng(0)
        >>> which = np.repeat(np.arange(8), 50)
        >>> cells = QueryCells(np.arange(8) // 2, np.arange(8) % 2 == 1, which, np.full(8, 50))
        >>> scale = np.repeat(rng.random(8), 50) * 0.5 + rng.normal(0, 0.1, (4, 400))
        >>> scale[3, which == 1] = 1.0
        >>> in_cells, _ = outliers(scale, cells)
        >>> np.argwhere(in_cells.strength > 4).tolist()
        [[3, 1]]
    """
    means = np.stack([cells.mean(skill) for skill in scale])
    side = cells.predicts_tail.astype(np.int64)
    weight = cells.size / np.bincount(side, weights=cells.size, minlength=2)[side]

    def by_side(values: Floats) -> Floats:
        return np.asarray(np.bincount(side, weights=values * weight, minlength=2), dtype=np.float64)

    side_means = np.stack([by_side(mean) for mean in means])
    in_cells, on_sides = [], []
    for i, mean in enumerate(means):
        others = np.delete(means, i, axis=0)
        middle = np.median(others, axis=0)
        expected, unsteady = _expectation(mean, middle, cells)
        error = _standard_error(scale[i] - np.median(np.delete(scale, i, axis=0), axis=0), cells)
        variance = unsteady**2 + error**2
        in_cells.append(_standing(mean, expected, others, variance))
        rest = np.delete(side_means, i, axis=0)
        on_sides.append(_standing(side_means[i], by_side(expected), rest, by_side(variance * weight)))
    return _stacked(in_cells), _stacked(on_sides)


def _expectation(mean: Floats, middle: Floats, cells: QueryCells) -> tuple[Floats, Floats]:
    """What a model should reach in every cell judged by the other side, and how far it usually is from that."""
    expected, unsteady = mean.copy(), np.ones_like(mean)  # where nothing can be expected, nothing is amiss
    telling = (cells.size >= _SMALL) & (middle > _INFORMATIVE)
    for tail in (False, True):
        use = telling & (cells.predicts_tail != tail)
        use = use if use.sum() >= _FEWEST_CELLS else telling
        if use.sum() < _FEWEST_CELLS:
            continue
        weight = np.sqrt(cells.size[use])
        reached = _weighted_median(mean[use] / middle[use], weight)
        if reached > 1:  # the better model leaves less of the way to go, not more than all of it behind
            left = max(_weighted_median((1 - mean[use]) / np.maximum(1 - middle[use], _LEAST_NOISE), weight), 0.0)
            prediction = 1 - left * (1 - middle)
        else:
            prediction = max(reached, 0.0) * middle
        here = cells.predicts_tail == tail
        expected[here] = prediction[here]
        unsteady[here] = _ROBUST * np.median(np.abs(mean - prediction)[use])
    return expected, unsteady


def _standing(mean: Floats, expected: Floats, others: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Distance and noise of one model."""
    middle = np.median(others, axis=0)
    raw, adjusted = mean - middle, mean - expected
    distance = np.where(raw * adjusted > 0, np.sign(raw) * np.minimum(np.abs(raw), np.abs(adjusted)), 0.0)
    ordered = np.sort(others, axis=0)
    few = len(others) <= 3
    # Of many others, one may itself be at fault in the same place.
    low, high = (ordered[0], ordered[-1]) if few else (ordered[1], ordered[-2])
    spread = ordered.std(axis=0, ddof=1) if few else _ROBUST * np.median(np.abs(ordered - middle), axis=0)
    return np.where((mean < low) | (mean > high), distance, 0.0), np.sqrt(spread**2 + variance)


def _standard_error(difference: Floats, cells: QueryCells) -> Floats:
    mean = cells.mean(difference)
    variance = np.maximum(cells.mean(difference**2) - mean**2, 0.0)
    return np.sqrt(variance / np.maximum(cells.size - 1, 1))


def _weighted_median(values: Floats, weight: Floats) -> float:
    order = np.argsort(values)
    cumulative = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(cumulative, cumulative[-1] / 2)])


def _stacked(parts: list[tuple[Floats, Floats]]) -> Outlier:
    distance, noise = (np.stack(columns) for columns in zip(*parts, strict=True))
    return Outlier(distance, noise)


def apart(standing: tuple[Outlier, Outlier], least: tuple[float, float], strength: float) -> Flags:
    """Where a model stands apart on both scales, in the same direction, by enough skill and beyond the noise."""
    one, other = standing
    enough = (np.abs(one.distance) >= least[0]) & (np.abs(other.distance) >= least[1])
    beyond = np.minimum(one.strength, other.strength) >= strength
    return np.asarray(enough & beyond & (one.distance * other.distance > 0))


_FEWEST_MODELS = 3

_FEWEST_QUERIES = 1000

_CLEAR = 0.2

"""The least correlation of the other models with each other; also 15 standard errors, so that none is clear."""

_CLEAR_ERRORS = 15

_NONE = 0.2

"""Whoever reaches this share of the others' correlation is of their kind; sound models have at least 0.25."""

_NONE_ERRORS = 3.5

_VARIES = 0.5

"""A model that varies less than this share of what is usual, such as a perfect one, leaves nothing to agree with."""

_AS_GOOD = (0.75, 1.25)

"""Skill as a share of the others' median, within which disagreement is implausible."""


@dataclass(frozen=True)
class Stranger:
    """A model whose ranks have nothing to do with those of the others.

    Attributes:
        model: Which of the models.
        side: "head" or "tail", or "both".
        queries: How many queries are concerned.
        own: The largest of its correlations with another model.
        others: The median correlation of the others with each other.
    """

    model: int
    side: str
    queries: int
    own: float
    others: float


def strangers(skills: Skills) -> Iterator[Stranger]:
    """The models that agree with nobody, on both sides or on one, though they are as good as the others.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> hard = rng.random(4000)
        >>> scale = np.stack([hard, hard, rng.permutation(hard)]) + rng.normal(0, 0.1, (3, 4000))
        >>> side = np.arange(4000) < 2000
        >>> skills = Skills(("A", "B", "shuffled"), np.stack([scale, scale]), scale, np.zeros(4000, int), side)
        >>> [(found.model, found.side) for found in strangers(skills)]
        [(2, 'both')]
    """
    if len(skills.models) < _FEWEST_MODELS:
        return
    scale = skills.scales[0]
    within = np.stack([skill - skills.cells.mean(skill)[skills.cells.which] for skill in scale])
    tail = skills.predicts_tail
    sides = {"both": tail | ~tail, "head": ~tail, "tail": tail}
    found = {
        side: _on_side(scale[:, queries], within[:, queries], side)
        for side, queries in sides.items()
        if queries.sum() >= _FEWEST_QUERIES
    }
    everywhere = found.get("both", {})
    yield from everywhere.values()
    for side in ("head", "tail"):
        yield from (stranger for model, stranger in found.get(side, {}).items() if model not in everywhere)


def _on_side(scale: Floats, within: Floats, side: str) -> dict[int, Stranger]:
    queries = scale.shape[1]
    error = 1 / np.sqrt(queries)
    correlation, level, spread = _correlations(within), scale.mean(axis=1), within.std(axis=1)
    found = {}
    for model in range(len(scale)):
        rest = np.arange(len(scale)) != model
        own, others = float(correlation[model, rest].max()), _median_of_pairs(correlation, rest)
        clear = others >= max(_CLEAR, _CLEAR_ERRORS * error)
        strange = own < min(_NONE * others, _NONE_ERRORS * error)
        as_good = _AS_GOOD[0] <= level[model] / np.median(level[rest]) <= _AS_GOOD[1]
        if clear and strange and as_good and spread[model] >= _VARIES * np.median(spread[rest]):
            found[model] = Stranger(model, side, queries, own, others)
    return found


def _correlations(within: Floats) -> Floats:
    """Pearson's, 0 where a model is the same everywhere in its cells."""
    centred = within - within.mean(axis=1, keepdims=True)
    length = np.sqrt((centred**2).sum(axis=1, keepdims=True))
    unit = np.divide(centred, length, out=np.zeros_like(centred), where=length > 0)
    return np.asarray(unit @ unit.T)


def _median_of_pairs(correlation: Floats, models: Flags) -> float:
    own = correlation[np.ix_(models, models)]
    return float(np.median(own[np.triu_indices(len(own), 1)]))
