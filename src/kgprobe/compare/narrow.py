"""Medians of draws are near that of all queries: ranks that are far from all of them need not be told apart.

The share of the weight below a rank varies between draws of n clusters by at most 0.5 / sqrt(n) (its standard
deviation), so a window of eight times that around one half holds the median of every draw, for all that can be seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kgprobe.compare.estimator import Estimator
from kgprobe.compare.parts import DistributionPart
from kgprobe.metrics.base import Metric
from kgprobe.metrics.plain import IMedianRank, MADRank, MedianRank

Floats = NDArray[np.float64]
Ends = tuple[float, float]
_DEVIATIONS = 8
_MEDIANS: set[type[Metric]] = {MedianRank, IMedianRank, MADRank}


def narrowed(estimators: Sequence[Estimator]) -> list[Estimator]:
    """The same values from fewer ranks, those of all models that are far off counted as equal.

    Args:
        estimators: A metric without derivative, of several models on the same clusters.
    """
    parts = [part for one in estimators for part in one.parts if isinstance(part, DistributionPart)]
    if not all(type(part.metric) in _MEDIANS for part in parts):
        return list(estimators)
    centres, halves = (list(ends) for ends in zip(*map(_ends, parts), strict=True))
    low, high = _hull(centres)
    if isinstance(parts[0].metric, MADRank):  # distances reach from any centre to the ends of what holds half
        far = max(_hull(halves)[1] - low, high - _hull(halves)[0])
        low, high = low - far, high + far
    kept = iter([part.within(low, high) for part in parts])
    return [replace(one, parts=tuple(next(kept) for _ in one.parts)) for one in estimators]


def _ends(part: DistributionPart) -> tuple[Ends, Ends]:
    """Between which ranks medians of draws are, and between which ranks more than half of every draw is."""
    ranks = part.ranks
    by_cluster, by_rank = (np.asarray(part.columns.sum(axis=axis)) for axis in (1, 0))
    room = _DEVIATIONS / 2 * math.sqrt(np.square(by_cluster).sum()) / by_cluster.sum()
    share = np.cumsum(by_rank) / by_rank.sum()
    low, high = (ranks[min(int(np.searchsorted(share, at)), len(ranks) - 1)] for at in (0.5 - room, 0.5 + room))
    distance = np.sort(np.abs(np.subtract.outer([low, high], ranks)).ravel())
    below = np.concatenate([[0.0], share])
    within = below[np.searchsorted(ranks, low + distance, "right")] - below[np.searchsorted(ranks, high - distance)]
    reach = distance[min(int(np.searchsorted(within, 0.5 + room)), len(distance) - 1)]
    return (float(low), float(high)), (float(high - reach), float(low + reach))


def _hull(intervals: Sequence[Ends]) -> Ends:
    return min(low for low, _ in intervals), max(high for _, high in intervals)
