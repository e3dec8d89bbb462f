"""Many triples in little memory: read in chunks, looked up by key, and sorted by ranges of ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from kgprobe.arrays import AnyInts, Flags, Ints, find, run_starts, slices

Columns: TypeAlias = Sequence[AnyInts]
"""The columns of a table of ids."""

_CHUNK = 1 << 18
"""Rows that are read at a time: few enough to stay in the caches, where each column is used several times."""

_SORTED_AT_ONCE = 1 << 25
"""Rows that are sorted at a time, about. Each takes 8 bytes meanwhile, more where a key has not enough bits."""

_BINS = 1 << 16
"""Ranges of ids whose rows are counted, to sort as many at a time."""

_BLOCK = 1 << 18
"""Distinct rows in a block."""

_KEY_BITS = 63

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SLOTS_PER_KEY = 32
_FEWEST_SLOTS, _MOST_SLOTS = 1 << 12, 1 << 28


def chunks(rows: AnyInts) -> Iterator[AnyInts]:
    """The rows of an array in order, some at a time, without copying.

    Example:
        >>> [len(part) for part in chunks(np.zeros((300_000, 3), dtype=np.int32))]
        [262144, 37856]
    """
    for start in range(0, len(rows), _CHUNK):
        yield rows[start : start + _CHUNK]


class KeySet:
    """Some keys, to find them among very many others.

    Attributes:
        keys: The distinct keys in ascending order.

    Example:
        >>> asked = KeySet(np.array([7, 3, 7]))
        >>> asked.keys.tolist(), asked.counts([np.array([7, 9, 7]), np.array([3, 7])]).tolist()
        ([3, 7], [1, 3])
    """

    def __init__(self, keys: AnyInts) -> None:
        ordered = np.sort(keys.astype(np.int64, copy=False))
        self.keys: Ints = ordered[run_starts(ordered)]
        wanted = min(max(_SLOTS_PER_KEY * len(self.keys), _FEWEST_SLOTS), _MOST_SLOTS)
        bits = (wanted - 1).bit_length()
        self._shift = np.uint64(64 - bits)
        self._slots = np.zeros(1 << bits, dtype=bool)
        self._slots[self._hashed(self.keys)] = True

    def _hashed(self, keys: Ints) -> Ints:
        hashed = keys.view(np.uint64) * _GOLDEN
        hashed >>= self._shift
        return hashed.view(np.int64)

    def likely(self, keys: Ints) -> Flags:
        """Whether each key may be in the set: true for all that are, and for few others."""
        flags: Flags = self._slots[self._hashed(keys)]
        return flags

    def counts(self, keys: Iterable[Ints]) -> Ints:
        """How often each key of the set occurs in arrays of keys."""
        counts = np.zeros(len(self.keys), dtype=np.int64)
        for some in keys:
            found = some[self.likely(some)]
            found.sort()
            starts = run_starts(found)
            place = find(self.keys, found[starts])
            counts[place[place >= 0]] += np.diff(starts, append=len(found))[place >= 0]
        return counts


def distinct_rows(tables: Sequence[Columns], sizes: Sequence[int]) -> Iterator[tuple[list[Ints], Ints]]:
    """The distinct rows of some tables of ids in ascending order, in blocks, and how often each occurs.

    The rows of a range of the first id are sorted at a time, so that memory is bounded. Each range takes a pass over
    the tables.

    Args:
        tables: The columns of each table.
        sizes: For each column, a number that is larger than all of its ids.

    Example:
        >>> for (first, second), counts in distinct_rows([[np.array([2, 0, 2]), np.array([1, 5, 1])]], (3, 6)):
        ...     first.tolist(), second.tolist(), counts.tolist()
        ([0, 2], [5, 1], [1, 2])
    """
    widths = [max(size - 1, 0).bit_length() for size in sizes]
    for ids, rows in _ranges(tables, widths):
        if (ids.stop - ids.start - 1).bit_length() + sum(widths[1:]) <= _KEY_BITS:
            keys = _packed(tables, ids, rows, widths[1:])
            keys.sort()
            for distinct, counts in _runs(keys):
                yield _unpacked(distinct, ids.start, widths[1:]), counts
        else:  # a row of a very large graph does not fit an int64: slower
            columns = _gathered(tables, ids, rows)
            order = np.lexsort(columns[::-1])
            columns = [column[order] for column in columns]
            new = np.ones(rows, dtype=bool)
            new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
            for some, counts in _blocks(np.flatnonzero(new), rows):
                yield [column[some] for column in columns], counts


def _runs(keys: Ints) -> Iterator[tuple[Ints, Ints]]:
    """The distinct values of a sorted array and how often they occur, in blocks."""
    first = 0
    while first < len(keys):
        end = min(first + _BLOCK, len(keys))
        last = int(np.searchsorted(keys, keys[end - 1], side="right"))  # all of the last run
        starts = run_starts(keys[first:last])
        yield keys[first:last][starts], np.diff(starts, append=last - first)
        first = last


def _blocks(starts: Ints, rows: int) -> Iterator[tuple[Ints, Ints]]:
    """Where the runs of equal rows begin, and their lengths, in blocks."""
    for first in range(0, len(starts), _BLOCK):
        some = starts[first : first + _BLOCK]
        end = starts[first + _BLOCK] if first + _BLOCK < len(starts) else rows
        yield some, np.diff(some, append=end)


def _ranges(tables: Sequence[Columns], widths: Sequence[int]) -> Iterator[tuple[range, int]]:
    """Ranges of the first id whose rows are sorted at a time, and the numbers of these rows."""
    total = sum(len(columns[0]) for columns in tables)
    if total <= _SORTED_AT_ONCE and sum(widths) <= _KEY_BITS:
        yield range(1 << widths[0]), total
        return
    shift = max(0, widths[0] - (_BINS - 1).bit_length())
    counts = np.zeros(1 << (widths[0] - shift), dtype=np.int64)
    for columns in tables:
        for ids in chunks(columns[0]):
            counts += np.bincount(ids >> shift, minlength=len(counts))
    # The rows of so many bins have keys of 63 bits, if those of one bin have.
    most = 1 << max(0, min(_KEY_BITS - sum(widths[1:]) - shift, widths[0]))
    for some in slices(counts, _SORTED_AT_ONCE):
        for first in range(some.start, some.stop, most):
            last = min(first + most, some.stop)
            if rows := int(counts[first:last].sum()):
                yield range(first << shift, last << shift), rows


def _selected(tables: Sequence[Columns], ids: range) -> Iterator[list[AnyInts]]:
    """The rows whose first id is in a range."""
    for columns in tables:
        for start in range(0, len(columns[0]), _CHUNK):
            first, *rest = (column[start : start + _CHUNK] for column in columns)
            rows = np.flatnonzero((first >= ids.start) & (first < ids.stop))
            yield [first, *rest] if len(rows) == len(first) else [column[rows] for column in (first, *rest)]


def _packed(tables: Sequence[Columns], ids: range, rows: int, widths: Sequence[int]) -> Ints:
    """A key for each row of a range of the first id; keys sort as rows do."""
    keys, last = np.empty(rows, dtype=np.int64), 0
    for first, *rest in _selected(tables, ids):
        own = keys[last : last + len(first)]
        np.subtract(first, ids.start, out=own, dtype=np.int64)
        for column, width in zip(rest, widths, strict=True):
            own <<= width
            own |= column
        last += len(first)
    return keys


def _unpacked(keys: Ints, start: int, widths: Sequence[int]) -> list[Ints]:
    columns = []
    for width in widths[::-1]:
        columns.append(keys & ((1 << width) - 1))
        keys = keys >> width
    return [keys + start, *columns[::-1]]


def _gathered(tables: Sequence[Columns], ids: range, rows: int) -> list[Ints]:
    gathered, last = [np.empty(rows, dtype=np.int64) for _ in tables[0]], 0
    for columns in _selected(tables, ids):
        for whole, column in zip(gathered, columns, strict=True):
            whole[last : last + len(column)] = column
        last += len(columns[0])
    return gathered
