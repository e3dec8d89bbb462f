"""Scorer protocols, and the dot-product and group-norm similarities with proven error bounds.

A similarity defines the canonical score of a query and a candidate (float64 in a fixed order, rounded to float32), and
bounds the error of any float32 computation of it, in whatever order that adds up. With u = 2^-24, a sum of n float32
products is off by at most n u / (1 - n u) times the sum of their absolute values; a sum of norms, in which nothing
cancels, by at most such a share of itself. If the embeddings are rounded first (to bfloat16, or to integers), the error
of a dot product also has the parts |q - q~| |e| and |q~| |e - e~|, by the inequality of Cauchy and Schwarz.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts, Flags, Floats
from kgprobe.errors import DataError
from kgprobe.predict.stored_arrays import StoredTable

Singles: TypeAlias = NDArray[np.float32]
Side: TypeAlias = Literal["head", "tail"]
SIDES: tuple[Side, Side] = ("tail", "head")
ScoreFunction: TypeAlias = Callable[[Side, AnyInts, AnyInts], Any]
_UNIT = 2.0**-24

_SMALLEST = 2.0**-126
"""Smaller numbers may be flushed to zero by a fast float32 computation."""

LARGE = 1e37
"""Beyond this an intermediate float32 result may overflow, so the score is not usable."""

_ROOT_SLACK = 32
"""Error of an approximate square root in units in the last place; the ones in use have at most 4."""

MIXED_UNIT = 2.0**-22
"""Error of one addition where products of bfloat16 are added in float32, relative to the largest partial sum.

Tensor cores may truncate, and may align the terms of a step to the largest of them before they add. Both stay within
2^-23 for each term; this allows twice as much.
"""


@dataclass(frozen=True, eq=False)
class Rounding:
    """What a fast pass of dot products loses before and while it adds up.

    Attributes:
        unit: Error of one addition, relative to the largest partial sum.
        query: |q - q~| for each query, if q~ is multiplied instead of q.
        candidate: The largest |e - e~| / |e| among the candidates, if e~ is multiplied instead of e.
    """

    unit: float = _UNIT
    query: Floats | float = 0.0
    candidate: float = 0.0


FLOAT32 = Rounding()


@dataclass(frozen=True)
class Dot:
    """score = q . e. A bias of the candidates is one more coordinate, which is 1 in every query.

    The canonical score adds the products in the order of the coordinates in float64 and is rounded to float32.

    Example:
        >>> Dot().canonical(np.float32([[1, 2]]), np.float32([[3, 4]])).tolist()
        [11.0]
    """

    def problem(self, dimension: int) -> str | None:
        """Why embeddings of this dimension cannot be compared; None if they can."""
        return None if dimension >= 1 else "the embeddings have no coordinates"

    def canonical(self, queries: Singles, candidates: Singles) -> Singles:
        """The canonical score of each pair of rows."""
        with np.errstate(over="ignore", invalid="ignore"):
            products = queries.astype(np.float64) * candidates.astype(np.float64)
            return _rounded(np.cumsum(products, axis=1, out=products)[:, -1])

    def magnitude(self, embeddings: Singles) -> Floats:
        """The number that bounds the error of a score, for each embedding: its L2 norm."""
        squared: Floats = np.einsum("ij,ij->i", embeddings, embeddings, dtype=np.float64)
        return np.sqrt(squared)

    def may_overflow(self, query: Floats, candidate: float, dimension: int) -> Flags:
        """Whether float32 scores may overflow on the way, for each query.

        Args:
            query: Magnitudes of the queries.
            candidate: The largest magnitude among the candidates.
            dimension: Number of coordinates.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return ~(query * candidate < LARGE)

    def slope(self, query: Floats, dimension: int, rounding: Rounding = FLOAT32) -> Floats:
        """The bound of the error of a fast score, for each query: a multiple of the candidate's magnitude.

        Example:
            >>> bounds = [Dot().slope(np.array([1.0]), 256, Rounding(MIXED_UNIT, 1e-3, share)) for share in (0, 1e-3)]
            >>> [f"{bound[0]:.5f}" for bound in bounds]
            ['0.00106', '0.00207']
        """
        added = _share(dimension + 16, rounding.unit)
        slope: Floats = rounding.query + (query + rounding.query) * (
            rounding.candidate + added * (1 + rounding.candidate)
        )
        return slope

    def thresholds(self, own: Singles, query: Floats, candidate: float, dimension: int) -> tuple[Singles, Singles]:
        """The interval of float32 scores in which a candidate cannot be compared with a target for certain.

        Args:
            own: Canonical scores of the targets.
            query: Magnitude of the query of each target.
            candidate: The largest magnitude among the candidates.
            dimension: Number of coordinates.

        Returns:
            Below the first a candidate certainly loses to the target, above the second it certainly beats it.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            error = self.slope(query, dimension) * candidate + self.lost(dimension)
            return _outward(own - error, own + error)

    def lost(self, dimension: int) -> float:
        """The part of the error that does not depend on the embeddings: products and sums that are flushed to zero."""
        return 2 * dimension * _SMALLEST


@dataclass(frozen=True)
class GroupNorm:
    """score = gamma - sum over groups of ``size`` neighbouring coordinates of || q_g - e_g ||_2.

    TransE-L1 has groups of 1, RotatE of 2 (real and imaginary part side by side), HousE of its block, TransE-L2 a
    single group of all coordinates. The canonical score is computed in float64, adds squares and norms in the order of
    the coordinates, and is rounded to float32.

    Attributes:
        size: Coordinates per group; None for a single group of all.
        gamma: The constant that is added. It changes no order, but scores are rounded after it is added.

    Example:
        >>> GroupNorm(size=2, gamma=12).canonical(np.float32([[3, 4, 1, 0]]), np.float32([[0, 0, 1, 2]])).tolist()
        [5.0]
    """

    size: int | None = 1
    gamma: float = 0.0

    def width(self, dimension: int) -> int:
        """Coordinates per group of embeddings of this dimension."""
        return dimension if self.size is None else self.size

    def groups(self, dimension: int) -> int:
        """Number of groups in embeddings of this dimension."""
        return dimension // self.width(dimension)

    def problem(self, dimension: int) -> str | None:
        """Why embeddings of this dimension cannot be compared; None if they can."""
        if self.size is not None and self.size < 1:
            return f"groups of {self.size} coordinates"
        if dimension < 1:
            return "the embeddings have no coordinates"
        if dimension % self.width(dimension):
            return f"{dimension} coordinates do not divide into groups of {self.size}"
        return None

    def canonical(self, queries: Singles, candidates: Singles) -> Singles:
        """The canonical score of each pair of rows."""
        with np.errstate(over="ignore", invalid="ignore"):
            squared = np.square(queries.astype(np.float64) - candidates.astype(np.float64))
            dimension = squared.shape[1]
            grouped = squared.reshape(len(squared), self.groups(dimension), self.width(dimension))
            norms = np.sqrt(np.cumsum(grouped, axis=2)[:, :, -1])
            return _rounded(self.gamma - np.cumsum(norms, axis=1)[:, -1])

    def magnitude(self, embeddings: Singles) -> Floats:
        """The number that bounds the error of a score, for each embedding: its largest absolute coordinate."""
        largest: Floats = np.maximum(embeddings.max(axis=1), -embeddings.min(axis=1)).astype(np.float64)
        return largest

    def may_overflow(self, query: Floats, candidate: float, dimension: int) -> Flags:
        """Whether float32 scores may overflow on the way, for each query; see `Dot.may_overflow`."""
        with np.errstate(over="ignore", invalid="ignore"):
            longest = math.sqrt(self.width(dimension)) * (query + candidate)
            clear: Flags = (longest < math.sqrt(LARGE)) & (self.groups(dimension) * longest < LARGE)
            return ~clear

    def thresholds(self, own: Singles, query: Floats, candidate: float, dimension: int) -> tuple[Singles, Singles]:
        """As `Dot.thresholds`, for float32 scores without gamma: minus the sum of the norms."""
        width, groups = self.width(dimension), self.groups(dimension)
        share, lost = _share(groups + width / 2 + _ROOT_SLACK), groups * np.sqrt(width) * 2.0**-62
        with np.errstate(over="ignore", invalid="ignore"):
            distance = self.gamma - own.astype(np.float64)
            # The next float32 beyond the target's own score is at most this far away.
            step = 4 * _UNIT * np.abs(own.astype(np.float64)) + 2.0**-140
            near = (distance - step) * (1 - share) - lost
            far = (distance + step) * (1 + share) + lost
            return _outward(-far, -near)


@dataclass(frozen=True)
class ClampedDot(Dot):
    """score = q . e, but at most ``limit`` and at least ``-limit``: scores beyond them tie.

    The canonical score is that of `Dot`. It is clamped when it is compared.

    Attributes:
        limit: The largest score.
    """

    limit: float = math.inf


@dataclass(frozen=True)
class FarthestNorm(GroupNorm):
    """score = the sum of norms of `GroupNorm`, without its minus: the farthest candidate is the best.

    The canonical score is that of `GroupNorm`; the smaller one wins.
    """


Similarity: TypeAlias = Dot | GroupNorm


def _share(terms: float, unit: float = _UNIT) -> float:
    """The relative error of a sum of so many terms; infinite if there are too many for a bound."""
    return terms * unit / (1 - terms * unit) if terms * unit < 1 else np.inf


def _rounded(scores: Floats) -> Singles:
    with np.errstate(over="ignore"):
        return scores.astype(np.float32)


def _outward(low: Floats, high: Floats) -> tuple[Singles, Singles]:
    """Round the bounds of an interval outward to float32; NaN becomes infinite."""
    below = np.nextafter(_rounded(low), np.float32(-np.inf))
    above = np.nextafter(_rounded(high), np.float32(np.inf))
    return np.where(np.isnan(below), np.float32(-np.inf), below), np.where(np.isnan(above), np.float32(np.inf), above)


@runtime_checkable
class Scorer(Protocol):
    """Scores all entities as the answer of each query; a larger score is better.

    The scores are compared as they are: two candidates tie when theirs are equal.

    Example:
        >>> class Distance:
        ...     def score(self, side, given, relation):
        ...         return -np.abs(np.arange(4) - given[:, None])
        >>> isinstance(Distance(), Scorer)
        True
    """

    def score(self, side: Side, given: AnyInts, relation: AnyInts) -> Any:
        """A matrix [queries, entities] (NumPy or torch): query i asks for the ``side`` of (given[i], relation[i])."""
        ...


@runtime_checkable
class EmbeddingScorer(Protocol):
    """Scores by comparing the embedding of a query with the embeddings of the candidates.

    Embeddings are float32. They must depend on the query alone, not on the other queries of the same call.

    Attributes:
        similarity: How two embeddings are compared.
    """

    similarity: Similarity

    def encode_queries(self, side: Side, given: AnyInts, relation: AnyInts) -> Any:
        """Embeddings [queries, dimension] of the queries that ask for the ``side`` of (given[i], relation[i])."""
        ...

    def candidates(self, side: Side) -> Any:
        """Embeddings [entities, dimension] of all entities as answers on the ``side``."""
        ...


@runtime_checkable
class RelationEmbeddingScorer(Protocol):
    """An `EmbeddingScorer` whose candidate embeddings depend on the relation; queries are grouped by relation."""

    similarity: Similarity

    def encode_queries(self, side: Side, given: AnyInts, relation: AnyInts) -> Any:
        """Embeddings [queries, dimension] of the queries that ask for the ``side`` of (given[i], relation[i])."""
        ...

    def candidates_for(self, side: Side, relation: int) -> Any:
        """Embeddings [entities, dimension] of all entities as answers on the ``side`` of the relation."""
        ...


AnyScorer: TypeAlias = Scorer | EmbeddingScorer | RelationEmbeddingScorer
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_TORCH_INTEGERS = ("int8", "int16", "int32", "int64", "uint8")
_INTEGERS = (*_TORCH_INTEGERS, "uint16", "uint32", "uint64")

_EXACT = 2**53
"""Up to here float64 represents every integer exactly."""


def as_array(values: Any) -> NDArray[Any]:
    """Convert an array, a list or a torch tensor on any device to NumPy; anything else becomes an array of objects."""
    if is_tensor(values):
        tensor = values.detach().cpu().resolve_conj().resolve_neg()
        values = (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()  # NumPy lacks bfloat16
    try:
        array = np.asarray(values)
    except (ValueError, TypeError):  # rows of different lengths, or not an array at all
        array = np.array(None)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def as_matrix(values: Any, rows: int, columns: int | None, what: str, remedy: str = "") -> Any:
    """Check for real numbers of the expected shape.

    Tensors stay where they are, tables in files are not read, and anything else becomes an array.

    Example:
        >>> as_matrix(np.eye(2), 3, None, "candidates")
        Traceback (most recent call last):
        ...
        kgprobe.errors.DataError: the model's candidates cannot be used
          - expected real numbers of shape [3, any], found float64 of shape [2, 2]
    """
    matrix = values if is_tensor(values) or isinstance(values, StoredTable) else as_array(values)
    shape = list(matrix.shape)
    fits = len(shape) == 2 and shape[0] == rows and columns in (None, shape[1])
    name = str(matrix.dtype).removeprefix("torch.")
    integers = _INTEGERS if isinstance(matrix.dtype, np.dtype) else _TORCH_INTEGERS
    problems = []
    if not fits or name not in (*_FLOATS, *integers):
        expected = f"[{rows}, {'any' if columns is None else columns}]"
        problems.append(f"expected real numbers of shape {expected}, found {matrix.dtype} of shape {shape}")
    elif name not in _FLOATS and bool(((matrix > _EXACT) | (matrix < -_EXACT)).any()):
        problems.append(f"integers beyond 2^53, which float64 cannot tell apart, in an array of shape {shape}")
    if problems:
        raise DataError(f"the model's {what} cannot be used", problems, remedy)
    return matrix


def as_embeddings(values: Any, rows: int, what: str, dimension: int | None = None) -> Singles:
    """Check for embeddings of the expected number and dimension, and convert them to float32."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(as_array(as_matrix(values, rows, dimension, what)), dtype=np.float32)


def is_tensor(values: Any) -> bool:
    """Whether this is a dense torch tensor, without importing torch."""
    return hasattr(values, "resolve_neg") and str(values.layout) == "torch.strided"
