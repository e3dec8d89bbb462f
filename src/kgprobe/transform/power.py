"""The paper's rank transformer: a power of the rank, raw or rescaled to run from 1 to 0."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kgprobe.transform.base import Floats, Transformer

SO_SMALL_THAT_LINEAR = 1e-18
"""Below this, |alpha| ln E cannot be told from 0 in double precision for any candidate count."""


@dataclass(frozen=True)
class Power(Transformer):
    """``f(r) = r ** -alpha`` (Eq. 1 of the paper): alpha 1 is the reciprocal rank, alpha -1 the rank itself.

    Example:
        >>> Power(0.5)(np.array([1.0, 4.0, 16.0]), np.array([20.0, 20.0, 20.0])).tolist()
        [1.0, 0.5, 0.25]
    """

    alpha: float

    def __post_init__(self) -> None:
        _refuse_nan(self.alpha)

    @property
    def steepness(self) -> float:
        """The power itself."""
        return abs(self.alpha)

    def __call__(self, rank: Floats, candidates: Floats) -> Floats:
        """The power of each rank; the candidate count plays no part."""
        return np.power(rank, -self.alpha)

    def mean_over(self, first: Floats, last: Floats, candidates: Floats) -> Floats:
        """The exact mean over a run of ranks; see the base class."""
        if math.isinf(self.alpha):
            return (first <= 1) / (last - first + 1) if self.alpha > 0 else np.where(last <= 1, 1.0, np.inf)
        return super().mean_over(first, last, candidates)


@dataclass(frozen=True)
class AffinePower(Transformer):
    """``f*(r) = (r^-alpha - E^-alpha) / (1 - E^-alpha)`` (Eq. 2): 1 for rank 1, 0 for the last of E candidates.

    Computed as ``expm1(alpha ln(E/r)) / expm1(alpha ln E)``, with r^-alpha taken out where alpha is positive so
    that nothing overflows: no cancellation at alpha near 0 nor at ranks near E, and never increasing in rank.
    alpha 0 is the limit ``ln(E/r) / ln E``; at +inf only rank 1 scores, at -inf all but the last rank score 1.
    A single candidate (E = 1) carries no information: the score is NaN.

    Example:
        >>> AffinePower(1.0)(np.array([1.0, 2.0, 5.0]), np.array([5.0, 5.0, 5.0])).round(3).tolist()
        [1.0, 0.375, 0.0]
        >>> AffinePower(0.0)(np.array([10.0]), np.array([100.0])).round(12).tolist()
        [0.5]
    """

    candidate_aware: ClassVar[bool] = True
    alpha: float

    def __post_init__(self) -> None:
        _refuse_nan(self.alpha)

    @property
    def steepness(self) -> float:
        """The power itself."""
        return abs(self.alpha)

    def __call__(self, rank: Floats, candidates: Floats) -> Floats:
        """The rescaled power of each rank."""
        with np.errstate(divide="ignore", invalid="ignore"):
            log_span = np.log1p(candidates - 1)
            log_left = np.log1p((candidates - rank) / rank)
            return self._of_logs(rank, log_left, log_span)

    def _of_logs(self, rank: Floats, log_left: Floats, log_span: Floats) -> Floats:
        alpha = self.alpha
        if alpha == math.inf:
            return np.where(log_span == 0, np.nan, np.where(rank == 1, 1.0, 0.0))
        if alpha == -math.inf:
            return np.where(log_span == 0, np.nan, np.where(log_left > 0, 1.0, 0.0))
        if abs(alpha) < SO_SMALL_THAT_LINEAR:
            return log_left / log_span
        if alpha < 0:
            return np.expm1(alpha * log_left) / np.expm1(alpha * log_span)
        return np.power(rank, -alpha) * (np.expm1(-alpha * log_left) / np.expm1(-alpha * log_span))

    def mean_over(self, first: Floats, last: Floats, candidates: Floats) -> Floats:
        """The exact mean over a run of ranks; see the base class."""
        if math.isinf(self.alpha):
            scoring = (first <= 1) if self.alpha > 0 else last - first + (last < candidates)
            return np.where(candidates == 1, np.nan, scoring / (last - first + 1))
        return super().mean_over(first, last, candidates)


def _refuse_nan(alpha: float) -> None:
    if math.isnan(alpha):
        raise ValueError("alpha is not a number")
