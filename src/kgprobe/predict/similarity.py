"""The two ways in which embedding models compare a query with a candidate, declared as values.

Each says what its score of record is and how far a float32 computation of it can be from that record, in whatever
order it adds up. With u = 2^-24, a sum of n float32 products is off by at most n u / (1 - n u) times the sum of their
absolute values; a sum of norms, which cancels nothing, by at most such a share of itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Doubles: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]

_UNIT = 2.0**-24
_SMALLEST = 2.0**-126
"""Numbers below this may be flushed to zero by a fast computation."""
_LARGE = 1e37
"""Beyond this a float32 computation may overflow half-way, and says nothing."""
_ROOT_SLACK = 32
"""Units in the last place that an approximate square root may cost; those in use cost 4 at most."""


@dataclass(frozen=True)
class Dot:
    """score = q . e. A bias of the candidates is one more coordinate, which is 1 in every query.

    The score of record adds the products in the order of the coordinates in float64 and is rounded to float32.

    Example:
        >>> Dot().record(np.float32([[1, 2]]), np.float32([[3, 4]])).tolist()
        [11.0]
    """

    def problem(self, dimension: int) -> str | None:
        """Why vectors of this many coordinates cannot be compared, if they cannot."""
        return None if dimension >= 1 else "the vectors have no coordinates"

    def record(self, queries: Floats, candidates: Floats) -> Floats:
        """The score of record of each pair of rows."""
        with np.errstate(over="ignore", invalid="ignore"):
            products = queries.astype(np.float64) * candidates.astype(np.float64)
            return _rounded(np.cumsum(products, axis=1, out=products)[:, -1])

    def extent(self, vectors: Floats) -> Doubles:
        """What the error of a score depends on, for each vector: its length."""
        squared: Doubles = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
        return np.sqrt(squared)

    def silent(self, query: Doubles, candidate: float, dimension: int) -> Flags:
        """Of which queries a float32 score says nothing, since it may have overflowed on the way.

        Args:
            query: Extents of the queries.
            candidate: The largest extent among the candidates.
            dimension: Number of coordinates.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return ~(query * candidate < _LARGE)

    def thresholds(self, own: Floats, query: Doubles, candidate: float, dimension: int) -> tuple[Floats, Floats]:
        """Between which float32 scores a candidate may beat, tie with or lose to a target.

        Args:
            own: Scores of record of the targets.
            query: Extent of the query of each target.
            candidate: The largest extent among the candidates.
            dimension: Number of coordinates.

        Returns:
            Below the first a candidate surely loses to the target, above the second it surely beats it.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            error = _share(dimension + 4) * query * candidate + 2 * dimension * _SMALLEST
            return _outward(own - error, own + error)


@dataclass(frozen=True)
class GroupNorm:
    """score = gamma - sum over groups of ``size`` neighbouring coordinates of || q_g - e_g ||_2.

    TransE-L1 has groups of 1, RotatE of 2 (real and imaginary part side by side), HousE of its block, TransE-L2 a
    single group of all coordinates. The score of record computes in float64, adds squares and norms in the order of
    the coordinates, and is rounded to float32.

    Attributes:
        size: Coordinates in a group; None for a single group of all.
        gamma: What is added; it changes no order, but scores are rounded after it is added.

    Example:
        >>> GroupNorm(size=2, gamma=12).record(np.float32([[3, 4, 1, 0]]), np.float32([[0, 0, 1, 2]])).tolist()
        [5.0]
    """

    size: int | None = 1
    gamma: float = 0.0

    def width(self, dimension: int) -> int:
        """Coordinates in a group of vectors with this many coordinates."""
        return dimension if self.size is None else self.size

    def groups(self, dimension: int) -> int:
        """Number of groups in vectors with this many coordinates."""
        return dimension // self.width(dimension)

    def problem(self, dimension: int) -> str | None:
        """Why vectors of this many coordinates cannot be compared, if they cannot."""
        if self.size is not None and self.size < 1:
            return f"groups of {self.size} coordinates"
        if dimension < 1:
            return "the vectors have no coordinates"
        if dimension % self.width(dimension):
            return f"{dimension} coordinates do not divide into groups of {self.size}"
        return None

    def record(self, queries: Floats, candidates: Floats) -> Floats:
        """The score of record of each pair of rows."""
        with np.errstate(over="ignore", invalid="ignore"):
            squared = np.square(queries.astype(np.float64) - candidates.astype(np.float64))
            dimension = squared.shape[1]
            grouped = squared.reshape(len(squared), self.groups(dimension), self.width(dimension))
            norms = np.sqrt(np.cumsum(grouped, axis=2)[:, :, -1])
            return _rounded(self.gamma - np.cumsum(norms, axis=1)[:, -1])

    def extent(self, vectors: Floats) -> Doubles:
        """What the error of a score depends on, for each vector: its largest coordinate."""
        largest: Doubles = np.maximum(vectors.max(axis=1), -vectors.min(axis=1)).astype(np.float64)
        return largest

    def silent(self, query: Doubles, candidate: float, dimension: int) -> Flags:
        """Of which queries a float32 score says nothing, since it may have overflowed on the way."""
        with np.errstate(over="ignore", invalid="ignore"):
            longest = np.sqrt(self.width(dimension)) * (query + candidate)
            clear: Flags = (longest < np.sqrt(_LARGE)) & (self.groups(dimension) * longest < _LARGE)
            return ~clear

    def thresholds(self, own: Floats, query: Doubles, candidate: float, dimension: int) -> tuple[Floats, Floats]:
        """As for `Dot`, for float32 scores without gamma: minus the sum of the norms."""
        width, groups = self.width(dimension), self.groups(dimension)
        share, lost = _share(groups + width / 2 + _ROOT_SLACK), groups * np.sqrt(width) * 2.0**-62
        with np.errstate(over="ignore", invalid="ignore"):
            distance = self.gamma - own.astype(np.float64)
            # The next float32 beyond the target's own score is at most this far away.
            step = 4 * _UNIT * np.abs(own.astype(np.float64)) + 2.0**-140
            near = (distance - step) * (1 - share) - lost
            far = (distance + step) * (1 + share) + lost
            return _outward(-far, -near)


Similarity: TypeAlias = Dot | GroupNorm


def _share(terms: float) -> float:
    return terms * _UNIT / (1 - terms * _UNIT)


def _rounded(scores: Doubles) -> Floats:
    with np.errstate(over="ignore"):
        return scores.astype(np.float32)


def _outward(low: Doubles, high: Doubles) -> tuple[Floats, Floats]:
    """Rounded away from each other, so that float32 keeps what float64 has promised; no number promises nothing."""
    below = np.nextafter(_rounded(low), np.float32(-np.inf))
    above = np.nextafter(_rounded(high), np.float32(np.inf))
    return np.where(np.isnan(below), np.float32(-np.inf), below), np.where(np.isnan(above), np.float32(np.inf), above)
