"""Array helpers: integer keys for pairs, grouped values, sums by group, validation of ids and triples."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgprobe.errors import spans

AnyInts: TypeAlias = NDArray[np.integer[Any]]
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]


def pair_keys(first: AnyInts, second: AnyInts, num_second: int) -> NDArray[np.int64]:
    """One int64 key for each pair of ids; keys sort as the pairs do.

    Example:
        >>> pair_keys(np.array([0, 2]), np.array([1, 0]), num_second=10).tolist()
        [1, 20]
    """
    keys: NDArray[np.int64] = np.multiply(first, num_second, dtype=np.int64)
    keys += second
    return keys


def run_starts(ordered: NDArray[np.int64]) -> NDArray[np.int64]:
    """Start of each run of equal values in a sorted array.

    Example:
        >>> run_starts(np.array([4, 4, 7, 9, 9])).tolist()
        [0, 2, 3]
    """
    new = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return np.flatnonzero(new)


def find(ordered: NDArray[np.int64], values: AnyInts) -> NDArray[np.int64]:
    """The position of each value in a sorted array of distinct values, -1 if it is absent.

    Example:
        >>> find(np.array([4, 7, 9]), np.array([9, 5, 4])).tolist()
        [2, -1, 0]
    """
    if not len(ordered):
        return np.full(len(values), -1, dtype=np.int64)
    # Sorted values access memory in order: several times faster than a random search, including the sort.
    order = np.argsort(values)
    in_order = values[order]
    nearest = np.minimum(np.searchsorted(ordered, in_order), len(ordered) - 1)
    nearest[ordered[nearest] != in_order] = -1
    position = np.empty(len(values), dtype=np.int64)
    position[order] = nearest
    return position


def distinct(columns: Sequence[NDArray[Any]], rows: int) -> tuple[list[Floats], Ints]:
    """The distinct rows of several columns, and the index of each row among them. Uses hashing, not sorting.

    Example:
        >>> values, which = distinct([np.array([5.0, 5.0, 7.0]), np.array([1.0, 1.0, 1.0])], rows=3)
        >>> [v.tolist() for v in values], which.tolist()
        ([[5.0, 7.0], [1.0, 1.0]], [0, 0, 1])
    """
    which = np.zeros(rows, dtype=np.int64)
    values: list[Floats] = []
    for column in columns:
        if rows and (column == column[0]).all():  # a constant, such as the seed of a single run
            values.append(np.full(len(values[0]) if values else 1, column[0]))
            continue
        encoded = pa.array(column).dictionary_encode()
        own = np.asarray(encoded.dictionary.to_numpy(zero_copy_only=False), dtype=np.float64)
        if all(len(value) == 1 for value in values):  # only constants so far
            values = [np.full(len(own), value[0]) for value in values] + [own]
            which = encoded.indices.to_numpy().astype(np.int64)
            continue
        pairs = pa.array(which * len(own) + encoded.indices.to_numpy()).dictionary_encode()
        combination = pairs.dictionary.to_numpy()
        before, last = np.divmod(combination, max(len(own), 1))
        values = [value[before] for value in values] + [own[last]]
        which = pairs.indices.to_numpy().astype(np.int64)
    return values, which


def sum_by(which: Ints, amount: Floats, size: int) -> Floats:
    """Sums of the amounts by group (0..size-1), accurate to about one ulp in any order of the rows.

    Each number is split into a part on a grid so coarse that sums are exact, and a remainder so small that its
    rounding errors do not matter.

    Example:
        >>> sum_by(np.array([0, 1, 0]), np.array([1.0, 2.0, 3.0]), 3).tolist()
        [4.0, 2.0, 0.0]
    """
    largest = max(float(amount.max(initial=0.0)), -float(amount.min(initial=0.0)))
    if largest == 0 or not math.isfinite(largest):
        return np.asarray(np.bincount(which, weights=amount, minlength=size), dtype=np.float64)
    grid = math.ldexp(1.0, max(math.frexp(largest)[1] + len(amount).bit_length() - 52, -1000))
    part = np.asarray(amount / grid)
    np.rint(part, out=part)
    part *= grid
    sums = np.asarray(np.bincount(which, weights=part, minlength=size), dtype=np.float64)
    np.subtract(amount, part, out=part)
    sums += np.bincount(which, weights=part, minlength=size)
    return sums


_LARGEST = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, eq=False)
class Grouped:
    """``values[offsets[i]:offsets[i + 1]]`` are the distinct values of ``keys[i]``, in ascending order.

    Example:
        >>> groups = Grouped.build(np.array([7, 3, 7, 7]), np.array([1, 0, 0, 1]), num_keys=10, num_values=2)
        >>> groups.keys.tolist(), groups.offsets.tolist(), groups.values.tolist()
        ([3, 7], [0, 1, 3], [0, 0, 1])
        >>> groups.count(np.array([7, 5])).tolist()
        [2, 0]
        >>> groups.contains(np.array([3, 3]), np.array([0, 1])).tolist()
        [True, False]
    """

    keys: NDArray[np.int64]
    offsets: NDArray[np.int64]
    values: AnyInts
    num_values: int

    @classmethod
    def build(cls, keys: AnyInts, values: AnyInts, num_keys: int, num_values: int) -> Grouped:
        """Group values (0..num_values-1) by their keys (0..num_keys-1); repeated pairs count once."""
        if num_keys * num_values <= _LARGEST:
            pairs = pair_keys(keys, values, num_values)
            pairs.sort()
            distinct = pairs[run_starts(pairs)]
            ordered_keys, ordered_values = np.divmod(distinct, max(num_values, 1))
        else:  # the pairs of a very large graph do not fit an int64: slower
            order = np.lexsort((values, keys))
            ordered_keys, ordered_values = keys[order].astype(np.int64), values[order]
            new = np.ones(len(order), dtype=bool)
            new[1:] = (np.diff(ordered_keys) != 0) | (np.diff(ordered_values) != 0)
            ordered_keys, ordered_values = ordered_keys[new], ordered_values[new]
        starts = run_starts(ordered_keys)
        return cls(
            keys=ordered_keys[starts],
            offsets=np.append(starts, len(ordered_keys)),
            values=ordered_values.astype(values.dtype, copy=False),
            num_values=num_values,
        )

    def count(self, keys: AnyInts) -> NDArray[np.int64]:
        """Number of distinct values of each key, 0 for an unknown key."""
        group = find(self.keys, keys)
        return np.where(group < 0, 0, self.offsets[group + 1] - self.offsets[group])

    def contains(self, keys: AnyInts, values: AnyInts) -> NDArray[np.bool_]:
        """Whether each key has the value."""
        group = find(self.keys, keys)
        # Group -1 of an unknown key gives a negative number, which is no member.
        return find(self._members, pair_keys(group, values, self.num_values)) >= 0

    def pairs(self) -> tuple[NDArray[np.int64], AnyInts]:
        """All distinct pairs of a key and a value, as two arrays."""
        return np.repeat(self.keys, np.diff(self.offsets)), self.values

    @cached_property
    def _members(self) -> NDArray[np.int64]:
        # Group numbers are smaller than keys, so that the pairs fit an int64 for a graph of any size.
        group = np.repeat(np.arange(len(self.keys)), np.diff(self.offsets))
        return pair_keys(group, self.values, self.num_values)


class EntityRows(NamedTuple):
    """``entities[offsets[i]:offsets[i + 1]]`` are the entities of row i, distinct and ascending.

    Example:
        >>> rows = EntityRows(np.array([0, 2, 2, 3]), np.array([4, 9, 7]))
        >>> rows.take(np.array([2, -1, 0])).entities.tolist()
        [7, 4, 9]
    """

    offsets: NDArray[np.int64]
    entities: AnyInts

    def take(self, rows: AnyInts) -> EntityRows:
        """These rows, in this order; -1 is a row without entities."""
        first = self.offsets[rows]
        size = np.where(rows < 0, 0, self.offsets[rows + 1] - first)
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(size, out=offsets[1:])
        position = np.arange(offsets[-1])
        position += np.repeat(first - offsets[:-1], size)
        return EntityRows(offsets, self.entities[position])


def mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each number as 64 bits without visible relation to it (the finaliser of SplitMix64, a bijection).

    Example:
        >>> mixed(np.array([0, 1], dtype=np.uint64)).tolist()
        [0, 6238072747940578789]
    """
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def spread(length: AnyInts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For concatenated lists of these lengths: the list of each element, and its position in the list.

    Example:
        >>> [part.tolist() for part in spread(np.array([2, 0, 3]))]
        [[0, 0, 2, 2, 2], [0, 1, 0, 1, 2]]
    """
    size = np.asarray(length, dtype=np.int64)
    owner = np.repeat(np.arange(len(size)), size)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(size) - size, size)


def slices(weight: NDArray[Any], most: float) -> list[slice]:
    """Slices of consecutive rows whose weights sum to about ``most``; one empty slice if there are no rows.

    A slice exceeds ``most`` by at most the weight of its first row.

    Example:
        >>> slices(np.array([1, 1, 1, 9, 1]), most=3)
        [slice(0, 2, None), slice(2, 3, None), slice(3, 5, None)]
    """
    passed = np.cumsum(weight, dtype=np.float64) // most
    cuts = [0, *(np.flatnonzero(np.diff(passed)) + 1).tolist(), len(weight)]
    return [slice(first, last) for first, last in pairwise(cuts)]


def codes_of(tables: Sequence[Sequence[NDArray[np.integer]]]) -> list[Ints]:
    """A number for every row of every table; rows have the same number if all columns are equal.

    Args:
        tables: The columns of each table, in the same order.

    Example:
        >>> one, two = codes_of([[np.array([5, 5]), np.array([1, 2])], [np.array([5]), np.array([2])]])
        >>> (one == two[0]).tolist()
        [False, True]
    """
    columns = [np.concatenate(parts) for parts in zip(*tables, strict=True)]
    _, codes = distinct(columns, len(columns[0]))
    return np.split(codes, np.cumsum([len(table[0]) for table in tables])[:-1])


def natural(value: object) -> tuple[int, float, list[tuple[bool, int, str]]]:
    """A sort key: numbers before text, and numbers within text by their size.

    Example:
        >>> sorted(["final", "epoch-10", "epoch-5", 7], key=natural)
        [7, 'epoch-5', 'epoch-10', 'final']
    """
    if isinstance(value, int | float):
        return 0, float(value), []
    parts = re.split(r"(\d+)", str(value))
    return 1, 0.0, [(not part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]


def id_problems(where: str, ids: AnyInts, limit: int | None) -> list[str]:
    """Validate ids: one message for those outside 0..limit-1, or below 0 without a limit; rows count from 0.

    Example:
        >>> id_problems("tail", np.array([0, 5, -1]), limit=3)
        ['tail: 2 ids outside 0..2 in rows 1-2 (counted from 0), for example 5']
    """
    top = np.iinfo(ids.dtype).max if limit is None else limit - 1
    if not len(ids) or (ids.min() >= 0 and ids.max() <= top):
        return []
    rows = np.flatnonzero((ids < 0) | (ids > top))
    allowed = "below 0" if limit is None else f"outside 0..{top}"
    listed = spans(rows.tolist(), most=10)
    return [f"{where}: {len(rows):,} ids {allowed} in rows {listed} (counted from 0), for example {ids[rows[0]]}"]


def triple_problems(where: str, triples: NDArray[Any], entities: int | None, relations: int | None) -> list[str]:
    """Validate triples of a graph with these numbers of entities and relations (None: unknown); one message each.

    Example:
        >>> triple_problems("test", np.array([[0, 0, 9]]), entities=2, relations=1)
        ['test tail: 1 ids outside 0..1 in rows 0 (counted from 0), for example 9']
        >>> triple_problems("test", np.zeros((4, 2), dtype=int), entities=2, relations=1)
        ['test: shape (4, 2), expected [n, 3] (head, relation, tail)']
    """
    if triples.ndim != 2 or triples.shape[1] != 3:
        return [f"{where}: shape {triples.shape}, expected [n, 3] (head, relation, tail)"]
    if triples.dtype.kind not in "iu":  # NumPy calls time differences integers too
        return [f"{where}: {triples.dtype} values, expected whole numbers"]
    columns = (("head", entities), ("relation", relations), ("tail", entities))
    return [p for i, (name, limit) in enumerate(columns) for p in id_problems(f"{where} {name}", triples[:, i], limit)]
