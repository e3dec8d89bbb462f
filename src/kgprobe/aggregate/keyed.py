"""Sums over queries, kept apart by the values of a few columns: the mergeable state of every metric."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def distinct(columns: Sequence[Floats], rows: int) -> tuple[list[Floats], Codes]:
    """The distinct combinations of values, and which of them each row has. Hashes, never sorts.

    Example:
        >>> values, which = distinct([np.array([5.0, 5.0, 7.0]), np.array([1.0, 1.0, 1.0])], rows=3)
        >>> [v.tolist() for v in values], which.tolist()
        ([[5.0, 7.0], [1.0, 1.0]], [0, 0, 1])
    """
    which = np.zeros(rows, dtype=np.int64)
    values: list[Floats] = []
    for column in columns:
        if rows and (column == column[0]).all():  # a constant, such as the seed of a single run, tells nothing apart
            values.append(np.full(len(values[0]) if values else 1, column[0]))
            continue
        encoded = pa.array(column).dictionary_encode()
        own = np.asarray(encoded.dictionary.to_numpy(zero_copy_only=False), dtype=np.float64)
        if all(len(value) == 1 for value in values):  # nothing was told apart so far
            values = [np.full(len(own), value[0]) for value in values] + [own]
            which = encoded.indices.to_numpy().astype(np.int64)
            continue
        pairs = pa.array(which * len(own) + encoded.indices.to_numpy()).dictionary_encode()
        combination = pairs.dictionary.to_numpy()
        before, last = np.divmod(combination, max(len(own), 1))
        values = [value[before] for value in values] + [own[last]]
        which = pairs.indices.to_numpy().astype(np.int64)
    return values, which


def sum_by(which: Codes, amount: Floats, size: int) -> Floats:
    """The sum of the amounts of each of ``size`` groups, to the last digit or so whatever the order of the rows.

    Adding millions of numbers one by one loses digits, and loses others in another order. So each number is cut in
    two: a part on a grid so coarse that its sums are exact, and a remainder so small that its errors do not matter.

    Example:
        >>> sum_by(np.array([0, 1, 0]), np.array([1.0, 2.0, 3.0]), 3).tolist()
        [4.0, 2.0, 0.0]
    """
    largest = float(np.abs(amount).max(initial=0.0))
    if largest == 0 or not math.isfinite(largest):
        return np.asarray(np.bincount(which, weights=amount, minlength=size), dtype=np.float64)
    grid = math.ldexp(1.0, max(math.frexp(largest)[1] + len(amount).bit_length() - 52, -1000))
    coarse = np.rint(amount / grid) * grid
    exact = np.bincount(which, weights=coarse, minlength=size)
    return np.asarray(exact + np.bincount(which, weights=amount - coarse, minlength=size), dtype=np.float64)


class KeyedSums:
    """Adds up rows of numbers separately for every distinct combination of key values.

    Holds one row for each combination seen, so memory follows the number of combinations, not of queries.
    Addition is commutative, so batches may come in any order and partial results merge.

    Example:
        >>> sums = KeyedSums(keys=1, terms=1)
        >>> sums.add([np.array([1.0, 2.0, 1.0])], np.array([[10.0, 20.0, 30.0]]))
        >>> [v.tolist() for v in sums.keys], sums.sums.tolist()
        ([[1.0, 2.0]], [[40.0, 20.0]])
    """

    def __init__(self, keys: int, terms: int) -> None:
        self._pieces: list[tuple[list[Floats], Floats]] = [([np.empty(0) for _ in range(keys)], np.empty((terms, 0)))]
        self._pending = 0

    def add(self, keys: Sequence[Floats], terms: Floats) -> None:
        """Add rows: one array for each key, and an array [terms, rows]."""
        self._append(*_reduce(keys, terms))

    def merge(self, other: KeyedSums) -> None:
        """Add what another one has collected."""
        self._append(other.keys, other.sums)

    @property
    def keys(self) -> list[Floats]:
        """The distinct combinations, one array for each key."""
        self._compact()
        return self._pieces[0][0]

    @property
    def sums(self) -> Floats:
        """The sums, an array [terms, combinations]."""
        self._compact()
        return self._pieces[0][1]

    def _append(self, keys: list[Floats], terms: Floats) -> None:
        self._pieces.append((keys, terms))
        self._pending += terms.shape[1]
        # Joining the pieces only when they outgrow what is already joined keeps the total work linear.
        if self._pending > max(1 << 16, self._pieces[0][1].shape[1]):
            self._compact()

    def _compact(self) -> None:
        if len(self._pieces) == 1:
            return
        keys = [np.concatenate(parts) for parts in zip(*(piece[0] for piece in self._pieces), strict=True)]
        self._pieces = [_reduce(keys, np.concatenate([piece[1] for piece in self._pieces], axis=1))]
        self._pending = 0


def _reduce(keys: Sequence[Floats], terms: Floats) -> tuple[list[Floats], Floats]:
    if not keys:
        return [], terms.sum(axis=1, keepdims=True)
    values, which = distinct(keys, terms.shape[1])
    size = len(values[0])
    if size == 1:
        return values, terms.sum(axis=1, keepdims=True)
    return values, np.stack([sum_by(which, term, size) for term in terms])
