"""Cells of queries in which a model stands further apart than models do.

A model is expected to be as much better or worse than the others on one side as it is on the other: what it is on
the other side says what it can do. It stands apart in a cell by its distance from the other models' median or from
this expectation, whichever is smaller, so that neither a weak model nor a strong one is accused of being so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kgprobe.compare.audit.skill import Cells
from kgprobe.compare.audit.view import Flags, Floats

_SMALL = 5
"""Cells with fewer queries do not tell what a model can do."""
_INFORMATIVE = 0.1
_FEWEST_CELLS = 3
_LEAST_NOISE = 0.02
_ROBUST = 1.4826
"""The standard deviation of a normal distribution is this many of its median absolute deviations."""


@dataclass(frozen=True)
class Standing:
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


def standings(scale: Floats, cells: Cells) -> tuple[Standing, Standing]:
    """Where models stand in every cell, and on the head and the tail side as wholes.

    Args:
        scale: The skill of at least three models [models, queries].
        cells: The cells of the queries.

    Example:
        One model of four is perfect at the tails of relation 0, where the others know little.

        >>> rng = np.random.default_rng(0)
        >>> which = np.repeat(np.arange(8), 50)
        >>> cells = Cells(np.arange(8) // 2, np.arange(8) % 2 == 1, which, np.full(8, 50))
        >>> scale = np.repeat(rng.random(8), 50) * 0.5 + rng.normal(0, 0.1, (4, 400))
        >>> scale[3, which == 1] = 1.0
        >>> in_cells, _ = standings(scale, cells)
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


def _expectation(mean: Floats, middle: Floats, cells: Cells) -> tuple[Floats, Floats]:
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


def _standard_error(difference: Floats, cells: Cells) -> Floats:
    mean = cells.mean(difference)
    variance = np.maximum(cells.mean(difference**2) - mean**2, 0.0)
    return np.sqrt(variance / np.maximum(cells.size - 1, 1))


def _weighted_median(values: Floats, weight: Floats) -> float:
    order = np.argsort(values)
    cumulative = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(cumulative, cumulative[-1] / 2)])


def _stacked(parts: list[tuple[Floats, Floats]]) -> Standing:
    distance, noise = (np.stack(columns) for columns in zip(*parts, strict=True))
    return Standing(distance, noise)


def apart(standing: tuple[Standing, Standing], least: tuple[float, float], strength: float) -> Flags:
    """Where a model stands apart on both scales, in the same direction, by enough skill and beyond the noise."""
    one, other = standing
    enough = (np.abs(one.distance) >= least[0]) & (np.abs(other.distance) >= least[1])
    beyond = np.minimum(one.strength, other.strength) >= strength
    return np.asarray(enough & beyond & (one.distance * other.distance > 0))
