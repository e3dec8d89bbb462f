"""What can be ranked: scorer protocols, and the dot and group-norm similarities with sound error bounds.

Each says what its score of record is and how far a float32 computation of it can be from that record, in whatever
order it adds up. With u = 2^-24, a sum of n float32 products is off by at most n u / (1 - n u) times the sum of their
absolute values; a sum of norms, which cancels nothing, by at most such a share of itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts, Flags, Floats
from kgprobe.errors import DataError

Singles: TypeAlias = NDArray[np.float32]

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

    def record(self, queries: Singles, candidates: Singles) -> Singles:
        """The score of record of each pair of rows."""
        with np.errstate(over="ignore", invalid="ignore"):
            products = queries.astype(np.float64) * candidates.astype(np.float64)
            return _rounded(np.cumsum(products, axis=1, out=products)[:, -1])

    def extent(self, vectors: Singles) -> Floats:
        """What the error of a score depends on, for each vector: its length."""
        squared: Floats = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
        return np.sqrt(squared)

    def silent(self, query: Floats, candidate: float, dimension: int) -> Flags:
        """Of which queries a float32 score says nothing, since it may have overflowed on the way.

        Args:
            query: Extents of the queries.
            candidate: The largest extent among the candidates.
            dimension: Number of coordinates.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return ~(query * candidate < _LARGE)

    def thresholds(self, own: Singles, query: Floats, candidate: float, dimension: int) -> tuple[Singles, Singles]:
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

    def record(self, queries: Singles, candidates: Singles) -> Singles:
        """The score of record of each pair of rows."""
        with np.errstate(over="ignore", invalid="ignore"):
            squared = np.square(queries.astype(np.float64) - candidates.astype(np.float64))
            dimension = squared.shape[1]
            grouped = squared.reshape(len(squared), self.groups(dimension), self.width(dimension))
            norms = np.sqrt(np.cumsum(grouped, axis=2)[:, :, -1])
            return _rounded(self.gamma - np.cumsum(norms, axis=1)[:, -1])

    def extent(self, vectors: Singles) -> Floats:
        """What the error of a score depends on, for each vector: its largest coordinate."""
        largest: Floats = np.maximum(vectors.max(axis=1), -vectors.min(axis=1)).astype(np.float64)
        return largest

    def silent(self, query: Floats, candidate: float, dimension: int) -> Flags:
        """Of which queries a float32 score says nothing, since it may have overflowed on the way."""
        with np.errstate(over="ignore", invalid="ignore"):
            longest = np.sqrt(self.width(dimension)) * (query + candidate)
            clear: Flags = (longest < np.sqrt(_LARGE)) & (self.groups(dimension) * longest < _LARGE)
            return ~clear

    def thresholds(self, own: Singles, query: Floats, candidate: float, dimension: int) -> tuple[Singles, Singles]:
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


def _rounded(scores: Floats) -> Singles:
    with np.errstate(over="ignore"):
        return scores.astype(np.float32)


def _outward(low: Floats, high: Floats) -> tuple[Singles, Singles]:
    """Rounded away from each other, so that float32 keeps what float64 has promised; no number promises nothing."""
    below = np.nextafter(_rounded(low), np.float32(-np.inf))
    above = np.nextafter(_rounded(high), np.float32(np.inf))
    return np.where(np.isnan(below), np.float32(-np.inf), below), np.where(np.isnan(above), np.float32(np.inf), above)


Side: TypeAlias = Literal["head", "tail"]

SIDES: tuple[Side, Side] = ("tail", "head")

ScoreFunction: TypeAlias = Callable[[Side, AnyInts, AnyInts], Any]


@runtime_checkable
class Scorer(Protocol):
    """Scores all entities as the answer of each query; a larger score is better.

    The scores themselves are the record: two candidates tie when theirs are equal.

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
    """Scores by comparing the vector of a query with the vectors of the candidates.

    The vectors are float32. They must depend on the query alone, not on what else is asked in the same call.

    Attributes:
        similarity: How two vectors are compared.
    """

    similarity: Similarity

    def encode_queries(self, side: Side, given: AnyInts, relation: AnyInts) -> Any:
        """The vectors [queries, dimension] of the queries that ask for the ``side`` of (given[i], relation[i])."""
        ...

    def candidates(self, side: Side) -> Any:
        """The vectors [entities, dimension] of all entities as answers on the ``side``."""
        ...


@runtime_checkable
class RelationEmbeddingScorer(Protocol):
    """An `EmbeddingScorer` whose candidates look different to every relation; queries are grouped by it."""

    similarity: Similarity

    def encode_queries(self, side: Side, given: AnyInts, relation: AnyInts) -> Any:
        """The vectors [queries, dimension] of the queries that ask for the ``side`` of (given[i], relation[i])."""
        ...

    def candidates_for(self, side: Side, relation: int) -> Any:
        """The vectors [entities, dimension] of all entities as answers on the ``side`` of the relation."""
        ...


AnyScorer: TypeAlias = Scorer | EmbeddingScorer | RelationEmbeddingScorer

_FLOATS = ("float16", "bfloat16", "float32", "float64")

_WHOLE_OF_TORCH = ("int8", "int16", "int32", "int64", "uint8")

_WHOLE = (*_WHOLE_OF_TORCH, "uint16", "uint32", "uint64")

_EXACT = 2**53

"""Up to here float64 holds every whole number."""


def as_array(values: Any) -> NDArray[Any]:
    """A NumPy array of an array, a list or a torch tensor on any device; of anything else, an array of objects.

    Example:
        >>> as_array([[1, 2]]).shape
        (1, 2)
    """
    if _is_tensor(values):
        tensor = values.detach().cpu().resolve_conj().resolve_neg()
        narrow = str(tensor.dtype) == "torch.bfloat16"  # which NumPy does not have
        values = (tensor.float() if narrow else tensor).numpy()
    try:
        array = np.asarray(values)
    except (ValueError, TypeError):  # rows of different lengths, or nothing that has rows
        array = np.array(None)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def as_matrix(values: Any, rows: int, columns: int | None, what: str, remedy: str = "") -> Any:
    """Real numbers of the expected shape: a tensor where it is, everything else as an array.

    Example:
        >>> as_matrix(np.eye(2), 3, None, "candidates")
        Traceback (most recent call last):
        ...
        kgprobe.errors.DataError: the model's candidates cannot be used
          - expected real numbers of shape [3, any], found float64 of shape [2, 2]
    """
    matrix = values if _is_tensor(values) else as_array(values)
    shape = list(matrix.shape)
    fits = len(shape) == 2 and shape[0] == rows and columns in (None, shape[1])
    problems = []
    if not fits or not _is_real(matrix.dtype):
        wanted = f"[{rows}, {'any' if columns is None else columns}]"
        problems.append(f"expected real numbers of shape {wanted}, found {matrix.dtype} of shape {shape}")
    elif not _is_floating(matrix.dtype) and bool(((matrix > _EXACT) | (matrix < -_EXACT)).any()):
        problems.append(f"whole numbers beyond 2^53, which are not told apart, in an array of shape {shape}")
    if problems:
        raise DataError(f"the model's {what} cannot be used", problems, remedy)
    return matrix


def as_vectors(values: Any, rows: int, what: str, dimension: int | None = None) -> Singles:
    """Vectors in rows, as many and as long as expected; float64 is rounded.

    Example:
        >>> as_vectors([[0.5, 2]], 1, "queries").dtype
        dtype('float32')
    """
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(as_array(as_matrix(values, rows, dimension, what)), dtype=np.float32)


def _is_tensor(values: Any) -> bool:
    """Whether this is a tensor of torch that has all its numbers; torch is not loaded to find out."""
    return hasattr(values, "resolve_neg") and str(values.layout) == "torch.strided"


def _is_real(dtype: Any) -> bool:
    """Whether these are real numbers that NumPy and torch both can compare, and float64 can hold."""
    name = str(dtype).removeprefix("torch.")
    return name in _FLOATS or name in (_WHOLE if isinstance(dtype, np.dtype) else _WHOLE_OF_TORCH)


def _is_floating(dtype: Any) -> bool:
    return str(dtype).removeprefix("torch.") in _FLOATS
