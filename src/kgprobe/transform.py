"""Step 2, transformation: rank transformers, which turn a rank into a score. They are values with parameters.

The mean of a score over a run of ranks is a sum for short runs. For a long run it is the sum of the first ranks plus
the integral over the rest with the end corrections of Gregory's formula, which needs no derivative, so one routine
serves every transformer. All terms have the same sign, so nothing cancels.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kgprobe.arrays import Floats
from kgprobe.errors import UsageError

Function = Callable[[Floats, Floats], Floats]

_GREGORY = np.array(
    [
        *(1 / 2, 1 / 12, 1 / 24, 19 / 720, 3 / 160, 863 / 60480, 275 / 24192),
        *(33953 / 3628800, 8183 / 1036800, 3250433 / 479001600),
    ]
)
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(16)
_E_FOLDS_PER_PANEL = 4.0

_SHORT_SHARE = 2.0**-15
"""A run that is shorter than this share of its last rank is summed: quadrature nodes would be too close together."""

_CELLS = 1 << 20
"""Function values held in memory at a time."""

_MOST_CELLS = 1 << 27
"""Function values of one mean, beyond which it is refused: it would take gigabytes of memory."""

SO_SMALL_THAT_LINEAR = 1e-18
"""Below this, |alpha| ln E cannot be distinguished from 0 in double precision for any candidate count."""


_ONLY_RANK_ONE = 1100.0
"""Above this alpha, ``2 ** -alpha`` is 0 in double precision: of whole ranks, only rank 1 scores."""


class Transformer(ABC):
    """A function of rank and candidate count; subclasses are frozen dataclasses."""

    optimum: ClassVar[float] = 1.0
    """The score of rank 1."""

    higher_is_better: ClassVar[bool] = True
    candidate_aware: ClassVar[bool] = False
    continuous: ClassVar[bool] = True
    """Whether neighbouring ranks have neighbouring scores: not a step at some rank."""

    @property
    def linear(self) -> bool:
        """Whether the score is linear in the rank, so that the score of an unbiased estimate is unbiased."""
        return False

    @property
    def descending(self) -> bool:
        """Whether a worse rank never has a larger score; otherwise it never has a smaller one."""
        return self.higher_is_better

    @abstractmethod
    def __call__(self, rank: Floats, candidates: Floats) -> Floats:
        """The score of each rank among that many candidates."""

    @property
    def steepness(self) -> float:
        """The largest power of the rank by which the score may vary, for the numerical integration."""
        return 1.0

    def mean_over(self, first: Floats, last: Floats, candidates: Floats) -> Floats:
        """The exact mean of the score over the ranks ``first .. last``: its expectation over a tie group.

        Example:
            >>> Power(1.0).mean_over(np.array([1.0]), np.array([2.0]), np.array([10.0])).tolist()
            [0.75]
        """
        return mean_over_range(self, first, last, candidates, self.steepness)

    def chance(self, candidates: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of the score of a uniformly random rank, for each candidate count.

        Example:
            >>> mean, variance = Identity().chance(np.array([4.0]))
            >>> mean.item(), variance.item()
            (2.5, 1.25)
        """
        if math.isinf(self.steepness):  # every score is 0 or 1 (or infinite)
            mean = self.mean_over(np.ones_like(candidates), candidates, candidates)
            return mean, mean * np.abs(1 - mean)
        sizes, which = np.unique(candidates, return_inverse=True)
        first = np.ones_like(sizes)
        mean = self.mean_over(first, sizes, sizes)
        by_size = dict(zip(sizes.tolist(), mean.tolist(), strict=True))

        def squared_deviation(rank: Floats, size: Floats) -> Floats:
            unique, inverse = np.unique(size, return_inverse=True)
            centre = np.array([by_size[s] for s in unique.tolist()])[inverse].reshape(size.shape)
            return np.asarray(np.square(self(rank, size) - centre))

        variance = mean_over_range(squared_deviation, first, sizes, sizes, 2 * self.steepness)
        return mean[which], variance[which]


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
    def descending(self) -> bool:
        return self.alpha >= 0

    @property
    def linear(self) -> bool:
        return self.alpha == -1

    @property
    def steepness(self) -> float:
        return _steepness(self.alpha)

    def __call__(self, rank: Floats, candidates: Floats) -> Floats:
        with np.errstate(over="ignore"):  # infinite where double precision ends
            return np.power(rank, -self.alpha)

    def mean_over(self, first: Floats, last: Floats, candidates: Floats) -> Floats:
        if math.isinf(self.steepness):
            return (first <= 1) / (last - first + 1) if self.alpha > 0 else np.where(last <= 1, 1.0, np.inf)
        return super().mean_over(first, last, candidates)


@dataclass(frozen=True)
class AffinePower(Transformer):
    """``f*(r) = (r^-alpha - E^-alpha) / (1 - E^-alpha)`` (Eq. 2): 1 for rank 1, 0 for the last of E candidates.

    Computed as ``expm1(alpha ln(E/r)) / expm1(alpha ln E)``, with r^-alpha factored out where alpha is positive so
    that nothing overflows: no cancellation at alpha near 0 or at ranks near E, and never increasing in rank.
    alpha 0 is the limit ``ln(E/r) / ln E``; at +inf only rank 1 scores 1, at -inf all but the last rank do.
    With a single candidate (E = 1) the score is NaN.

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
    def linear(self) -> bool:
        return self.alpha == -1

    @property
    def steepness(self) -> float:
        return _steepness(self.alpha)

    def __call__(self, rank: Floats, candidates: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
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
        if math.isinf(self.steepness):
            scoring = (first <= 1) if self.alpha > 0 else last - first + (last < candidates)
            return np.where(candidates == 1, np.nan, scoring / (last - first + 1))
        return super().mean_over(first, last, candidates)


def _steepness(alpha: float) -> float:
    return math.inf if alpha > _ONLY_RANK_ONE else abs(alpha)


def _refuse_nan(alpha: float) -> None:
    if math.isnan(alpha):
        raise ValueError("alpha is not a number")


@dataclass(frozen=True)
class TopK(Transformer):
    """1 for a rank of at most k, else 0.

    Example:
        >>> TopK(5)(np.array([1.0, 5.0, 5.5]), np.array([9.0, 9.0, 9.0])).tolist()
        [1.0, 1.0, 0.0]
    """

    continuous: ClassVar[bool] = False
    k: int

    def __call__(self, rank: Floats, candidates: Floats) -> Floats:
        return np.where(rank <= self.k, 1.0, 0.0)

    def mean_over(self, first: Floats, last: Floats, candidates: Floats) -> Floats:
        return np.clip(np.minimum(last, self.k) - first + 1, 0, None) / (last - first + 1)

    def chance(self, candidates: Floats) -> tuple[Floats, Floats]:
        mean = np.minimum(self.k / candidates, 1.0)
        return mean, mean * (1 - mean)


@dataclass(frozen=True)
class Identity(Transformer):
    """The rank itself, as in the mean rank: lower is better."""

    higher_is_better: ClassVar[bool] = False

    @property
    def linear(self) -> bool:
        return True

    def __call__(self, rank: Floats, candidates: Floats) -> Floats:
        return rank

    def mean_over(self, first: Floats, last: Floats, candidates: Floats) -> Floats:
        return (first + last) / 2

    def chance(self, candidates: Floats) -> tuple[Floats, Floats]:
        return (candidates + 1) / 2, (candidates * candidates - 1) / 12


@dataclass(frozen=True)
class Log(Transformer):
    """``ln r``, whose mean is the log of the geometric mean rank: lower is better."""

    optimum: ClassVar[float] = 0.0
    higher_is_better: ClassVar[bool] = False

    def __call__(self, rank: Floats, candidates: Floats) -> Floats:
        return np.log(rank)


@dataclass(frozen=True)
class InverseLog(Transformer):
    """``ln 2 / ln(1 + r)``: the log-MRR transformer of Yang et al. (2022), 1 for rank 1."""

    def __call__(self, rank: Floats, candidates: Floats) -> Floats:
        return math.log(2) / np.log1p(rank)


def mean_over_range(f: Function, first: Floats, last: Floats, candidates: Floats, steepness: float) -> Floats:
    """The mean of ``f(rank, candidates)`` over the integers ``first .. last``, for each run of ranks.

    Args:
        f: A smooth function of rank.
        first: First rank of each run.
        last: Last rank of each run.
        candidates: Candidate count of each run.
        steepness: ``f`` varies no faster than rank to the power of plus or minus this.

    Example:
        >>> harmonic = lambda rank, _: 1 / rank
        >>> one = np.ones(1)
        >>> round(1e9 * mean_over_range(harmonic, one, 1e9 * one, one, 1.0).item(), 9)
        21.300481502
    """
    first, last, candidates = np.broadcast_arrays(first, last, candidates)
    lead = int(64 + 8 * steepness)
    result = np.empty(first.shape)
    short = last - first < np.maximum(2 * lead, last * _SHORT_SHARE)
    result[short] = _direct(f, first[short], last[short], candidates[short])
    result[~short] = _long(f, first[~short], last[~short], candidates[~short], lead, steepness)
    return result


def _direct(f: Function, first: Floats, last: Floats, candidates: Floats) -> Floats:
    result = np.empty(first.shape)
    single = first == last
    result[single] = f(first[single], candidates[single])
    rest = np.flatnonzero(~single)
    if rest.size == 0:
        return result
    length = (last[rest] - first[rest]).astype(np.int64) + 1
    _refuse_many(int(length.max()))
    per_slice = max(1, _CELLS // int(length.max()))
    for start in range(0, rest.size, per_slice):
        rows, n = rest[start : start + per_slice], length[start : start + per_slice]
        offset = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
        values = f(np.repeat(first[rows], n) + offset, np.repeat(candidates[rows], n))
        result[rows] = np.add.reduceat(values, np.cumsum(n) - n) / n
    return result


def _refuse_many(cells: int) -> None:
    if cells > _MOST_CELLS:
        raise UsageError(
            f"alpha is too far from 0 for so many candidates: the mean over all ranks has {cells:,} terms",
            remedy="use an alpha closer to 0, or its limits inf and -inf",
        )


def _long(f: Function, first: Floats, last: Floats, candidates: Floats, lead: int, steepness: float) -> Floats:
    result = np.empty(first.shape)
    if first.size == 0:
        return result
    panels = int(np.ceil((1 + steepness) * np.log(last / first).max() / _E_FOLDS_PER_PANEL))
    _refuse_many(max(lead, panels * _NODES.size))
    per_slice = max(1, _CELLS // max(lead, panels * _NODES.size))
    for start in range(0, first.size, per_slice):
        rows = slice(start, start + per_slice)
        size = candidates[rows, None]
        head = f(first[rows, None] + np.arange(lead), size).sum(axis=1)
        tail = _gregory(f, first[rows, None] + lead, last[rows, None], size, panels)
        result[rows] = (head + tail) / (last[rows] - first[rows] + 1)
    return result


def _gregory(f: Function, first: Floats, last: Floats, candidates: Floats, panels: int) -> Floats:
    width = np.log1p((last - first) / first) / panels
    corner = width * np.arange(panels)
    u = (corner[:, :, None] + width[:, :, None] * (_NODES + 1) / 2).reshape(len(first), -1)
    x = first + first * np.expm1(u)
    total = (f(x, candidates) * x * np.tile(_NODE_WEIGHTS, panels)).sum(axis=1) * width[:, 0] / 2
    steps = np.arange(_GREGORY.size)
    ends = f(np.concatenate([first + steps, last - steps], axis=1), candidates)
    ascending, descending = ends[:, : steps.size], ends[:, steps.size :]
    for coefficient in _GREGORY:
        total = total + coefficient * (ascending[:, 0] + descending[:, 0])
        ascending = ascending[:, :-1] - ascending[:, 1:]
        descending = descending[:, :-1] - descending[:, 1:]
    return np.asarray(total)
