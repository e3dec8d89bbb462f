"""Medians of many distributions over the same ranks at once: one row of weights for each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kgprobe.metrics.base import DistributionMetric
from kgprobe.metrics.plain import IMedianRank, MADRank, MedianRank

Floats = NDArray[np.float64]
_ROUNDING = 1e-12


def medians(values: Floats, weight: Floats) -> Floats:
    """The value at which half of the weight is reached, or the mean of two where it is reached exactly.

    Args:
        values: In ascending order.
        weight: The weight of each, one row for each distribution.

    Example:
        >>> medians(np.array([1.0, 2.0, 9.0]), np.array([[1.0, 1.0, 1.0], [2.0, 0.0, 2.0]])).tolist()
        [2.0, 5.0]
    """
    cumulative = np.cumsum(weight, axis=1)
    half = cumulative[:, -1:] / 2
    lower = (cumulative < half * (1 - _ROUNDING)).sum(axis=1)
    upper = (cumulative <= half * (1 + _ROUNDING)).sum(axis=1)
    return np.asarray(values[lower] + values[np.minimum(upper, len(values) - 1)]) / 2


def deviations(values: Floats, weight: Floats) -> Floats:
    """The median distance from the median.

    Example:
        >>> deviations(np.array([1.0, 2.0, 9.0]), np.array([[1.0, 1.0, 1.0], [3.0, 0.0, 1.0]])).tolist()
        [1.0, 0.0]
    """
    centres, which = np.unique(medians(values, weight), return_inverse=True)
    found = np.empty(len(weight))
    for place, centre in enumerate(centres):  # few: most draws have one of a few medians
        distance = np.abs(values - centre)
        order, own = np.argsort(distance), which == place
        found[own] = medians(distance[order], weight[own][:, order])
    return found


def of_distributions(metric: DistributionMetric, ranks: Floats, weight: Floats) -> Floats:
    """A statistic of every row, at once where that is known how.

    Args:
        metric: The statistic.
        ranks: Distinct ranks in ascending order.
        weight: The weight of each, one row for each distribution.
    """
    if (at_once := _AT_ONCE.get(type(metric))) is not None:
        return at_once(ranks, weight)
    return np.array([metric.of_distribution(ranks[row > 0], row[row > 0]) for row in weight])


_AT_ONCE: dict[type[DistributionMetric], Callable[[Floats, Floats], Floats]] = {
    MedianRank: medians,
    IMedianRank: lambda ranks, weight: 1 / medians(ranks, weight),
    MADRank: deviations,
}
