"""Skill of each model on each query, and models that are outliers beside the others on some queries.

Skill is 0 for chance and 1 for rank 1. A model is expected to be as much better or worse than the other models on one
side as it is on the other side. Its distance from the others in a cell (relation and side) is that from their median or
that from this expectation, whichever is smaller. So neither a weak model nor a strong one is an outlier for that alone.

Shuffling the ranks of a file over its rows keeps every mean, but destroys the correlation with other models. A correct
model that has learned something else may be uncorrelated too, but it is then hardly as good as the others. So a model
is reported only if it is uncorrelated with the others and about as good.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kgprobe.arrays import Flags, Floats, Ints
from kgprobe.audit.view import AuditedRun, View

_FEWEST_CANDIDATES = 5  # with fewer candidates, a rank says little about a model
_ABLE = 0.1  # models with less mean skill are not compared with others


@dataclass(frozen=True)
class Skills:
    """The skill of several models on the queries that all of them rank.

    Attributes:
        models: Names of the models.
        scales: Skill on two scales [2, models, queries]: by the logarithm of the rank, to which all ranks contribute,
            and by the reciprocal rank, to which mainly the first ranks contribute. An error in the ranks shows on both.
        reciprocal_rank: Mean reciprocal rank over the runs [models, queries].
        relation: The relation of each query.
        predicts_tail: Whether the tail is the target.
    """

    models: tuple[str, ...]
    scales: Floats
    reciprocal_rank: Floats
    relation: Ints
    predicts_tail: Flags

    def without(self, model: int) -> Skills:
        kept = np.arange(len(self.models)) != model
        names = tuple(name for name, keep in zip(self.models, kept, strict=True) if keep)
        return replace(self, models=names, scales=self.scales[:, kept], reciprocal_rank=self.reciprocal_rank[kept])

    @cached_property
    def cells(self) -> QueryCells:
        values, which, size = np.unique(self.relation * 2 + self.predicts_tail, return_inverse=True, return_counts=True)
        return QueryCells(values // 2, values % 2 == 1, which, size)


@dataclass(frozen=True)
class QueryCells:
    """Queries grouped by relation and side.

    Attributes:
        relation: Relation of each cell.
        predicts_tail: Side of each cell.
        which: Cell of each query.
        size: Number of queries of each cell.
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
    reciprocal = [np.mean([1 / run.rank for run in view.runs[model]], axis=0)[shared] for model in able]
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
    """Skill on both scales [2, queries], mean over the runs; NaN if a run has no rank or too few candidates."""
    from scipy.special import digamma, gammaln  # slow to import, and not needed by the other checks

    logarithm, reciprocal = [], []
    for run in runs:
        size = np.where(run.candidates >= _FEWEST_CANDIDATES, run.candidates, np.nan)
        by_chance = gammaln(size + 1) / size
        logarithm.append(1 - np.log(run.rank) / by_chance)
        by_chance = (digamma(size + 1) + np.euler_gamma) / size
        reciprocal.append((1 / run.rank - by_chance) / (1 - by_chance))
    return np.stack([np.mean(logarithm, axis=0), np.mean(reciprocal, axis=0)])


_SMALL = 5  # cells with fewer queries are not used to judge the skill of a model
_INFORMATIVE = 0.1
_FEWEST_CELLS = 3
_LEAST_SPREAD = 0.02
_ROBUST = 1.4826  # standard deviation of a normal distribution, in median absolute deviations


@dataclass(frozen=True)
class OutlierScores:
    """How far each model is from the others, for groups of queries [models, groups].

    Attributes:
        distance: Signed difference of skill; 0 if the model is within the range of the others.
        spread: Typical distance: the differences between the other models, the variation of the model over cells of
            the other side, and the standard error.
    """

    distance: Floats
    spread: Floats

    @property
    def z_score(self) -> Floats:
        return np.asarray(np.abs(self.distance) / np.maximum(self.spread, _LEAST_SPREAD))


def outliers(scale: Floats, cells: QueryCells) -> tuple[OutlierScores, OutlierScores]:
    """Outlier scores of the models in every cell, and on the head and tail sides as a whole.

    Args:
        scale: The skill of at least three models [models, queries].
        cells: The cells of the queries.

    Example:
        One of four models is perfect on the tails of relation 0, where the others have little skill.

        >>> rng = np.random.default_rng(0)
        >>> which = np.repeat(np.arange(8), 50)
        >>> cells = QueryCells(np.arange(8) // 2, np.arange(8) % 2 == 1, which, np.full(8, 50))
        >>> scale = np.repeat(rng.random(8), 50) * 0.5 + rng.normal(0, 0.1, (4, 400))
        >>> scale[3, which == 1] = 1.0
        >>> in_cells, _ = outliers(scale, cells)
        >>> np.argwhere(in_cells.z_score > 4).tolist()
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
        expected, variation = _expectation(mean, np.median(others, axis=0), cells)
        error = _standard_error(scale[i] - np.median(np.delete(scale, i, axis=0), axis=0), cells)
        variance = variation**2 + error**2
        in_cells.append(_score(mean, expected, others, variance))
        rest = np.delete(side_means, i, axis=0)
        on_sides.append(_score(side_means[i], by_side(expected), rest, by_side(variance * weight)))
    return _stacked(in_cells), _stacked(on_sides)


def _expectation(mean: Floats, middle: Floats, cells: QueryCells) -> tuple[Floats, Floats]:
    """Expected skill of a model in every cell given its skill on the other side, and the typical deviation from it."""
    expected, variation = mean.copy(), np.ones_like(mean)  # without an expectation, no cell is an outlier
    telling = (cells.size >= _SMALL) & (middle > _INFORMATIVE)
    for tail in (False, True):
        use = telling & (cells.predicts_tail != tail)
        use = use if use.sum() >= _FEWEST_CELLS else telling
        if use.sum() < _FEWEST_CELLS:
            continue
        weight = np.sqrt(cells.size[use])
        reached = _weighted_median(mean[use] / middle[use], weight)
        if reached > 1:  # scale the distance to perfect skill, so that the expectation stays below 1
            left = max(_weighted_median((1 - mean[use]) / np.maximum(1 - middle[use], _LEAST_SPREAD), weight), 0.0)
            prediction = 1 - left * (1 - middle)
        else:
            prediction = max(reached, 0.0) * middle
        here = cells.predicts_tail == tail
        expected[here] = prediction[here]
        variation[here] = _ROBUST * np.median(np.abs(mean - prediction)[use])
    return expected, variation


def _score(mean: Floats, expected: Floats, others: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Distance and spread of one model."""
    middle = np.median(others, axis=0)
    raw, adjusted = mean - middle, mean - expected
    distance = np.where(raw * adjusted > 0, np.sign(raw) * np.minimum(np.abs(raw), np.abs(adjusted)), 0.0)
    ordered = np.sort(others, axis=0)
    few = len(others) <= 3
    # Among many other models, one may itself be wrong in the same cell.
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


def _stacked(parts: list[tuple[Floats, Floats]]) -> OutlierScores:
    distance, spread = (np.stack(columns) for columns in zip(*parts, strict=True))
    return OutlierScores(distance, spread)


def is_outlier(scores: tuple[OutlierScores, OutlierScores], least: tuple[float, float], z_score: float) -> Flags:
    """Where a model is an outlier on both scales: same direction, large enough distance, large enough z-score."""
    one, other = scores
    far = (np.abs(one.distance) >= least[0]) & (np.abs(other.distance) >= least[1])
    unusual = np.minimum(one.z_score, other.z_score) >= z_score
    return np.asarray(far & unusual & (one.distance * other.distance > 0))


_FEWEST_MODELS = 3
_FEWEST_QUERIES = 1000
_CLEAR = 0.2  # the other models must correlate with each other by at least this
_CLEAR_ERRORS = 15  # and by this many standard errors
_NONE = 0.2  # share of the others' correlation that an uncorrelated model stays below; correct models have 0.25 or more
_NONE_ERRORS = 3.5
_VARIES = 0.5  # a model whose skill varies less than this share of the others', such as a perfect one, is not judged
_AS_GOOD = (0.75, 1.25)  # skill as a share of the others' median within which no correlation is implausible


@dataclass(frozen=True)
class UncorrelatedModel:
    """A model whose ranks are uncorrelated with those of the others.

    Attributes:
        model: Index of the model.
        side: "head", "tail" or "both".
        queries: Number of queries concerned.
        own: Largest correlation of the model with another one.
        others: Median correlation of the others with each other.
    """

    model: int
    side: str
    queries: int
    own: float
    others: float


def uncorrelated_models(skills: Skills) -> Iterator[UncorrelatedModel]:
    """Models that correlate with no other model, on both sides or on one, although they are as good.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> hard = rng.random(4000)
        >>> scale = np.stack([hard, hard, rng.permutation(hard)]) + rng.normal(0, 0.1, (3, 4000))
        >>> side = np.arange(4000) < 2000
        >>> skills = Skills(("A", "B", "shuffled"), np.stack([scale, scale]), scale, np.zeros(4000, int), side)
        >>> [(found.model, found.side) for found in uncorrelated_models(skills)]
        [(2, 'both')]
    """
    if len(skills.models) < _FEWEST_MODELS:
        return
    scale = skills.scales[0]
    within = np.stack([skill - skills.cells.mean(skill)[skills.cells.which] for skill in scale])
    tail = skills.predicts_tail
    found = {
        side: _on_side(scale[:, queries], within[:, queries], side)
        for side, queries in {"both": tail | ~tail, "head": ~tail, "tail": tail}.items()
        if queries.sum() >= _FEWEST_QUERIES
    }
    on_both = found.get("both", {})
    yield from on_both.values()
    for side in ("head", "tail"):
        yield from (one for model, one in found.get(side, {}).items() if model not in on_both)


def _on_side(scale: Floats, within: Floats, side: str) -> dict[int, UncorrelatedModel]:
    queries = scale.shape[1]
    error = 1 / np.sqrt(queries)
    correlation, level, spread = _correlations(within), scale.mean(axis=1), within.std(axis=1)
    found = {}
    for model in range(len(scale)):
        rest = np.arange(len(scale)) != model
        among_others = correlation[np.ix_(rest, rest)]
        others = float(np.median(among_others[np.triu_indices(len(among_others), 1)]))
        own = float(correlation[model, rest].max())
        clear = others >= max(_CLEAR, _CLEAR_ERRORS * error)
        none = own < min(_NONE * others, _NONE_ERRORS * error)
        as_good = _AS_GOOD[0] <= level[model] / np.median(level[rest]) <= _AS_GOOD[1]
        if clear and none and as_good and spread[model] >= _VARIES * np.median(spread[rest]):
            found[model] = UncorrelatedModel(model, side, queries, own, others)
    return found


def _correlations(within: Floats) -> Floats:
    """Pearson correlations; 0 for a model with constant skill in each cell."""
    centred = within - within.mean(axis=1, keepdims=True)
    length = np.sqrt((centred**2).sum(axis=1, keepdims=True))
    unit = np.divide(centred, length, out=np.zeros_like(centred), where=length > 0)
    return np.asarray(unit @ unit.T)
