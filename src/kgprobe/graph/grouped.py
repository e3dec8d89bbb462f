"""Distinct values by key in compressed rows: what a dictionary of sets would hold, in three arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kgprobe.graph.sorted_keys import Ints, find, pair_keys, run_starts

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

    keys: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    values: Ints
    num_values: int

    @classmethod
    def build(cls, keys: Ints, values: Ints, num_keys: int, num_values: int) -> Grouped:
        """Group the values (0..num_values-1) by their keys (0..num_keys-1), repeated pairs once."""
        if num_keys * num_values <= _LARGEST:
            pairs = pair_keys(keys, values, num_values)
            pairs.sort()
            distinct = pairs[run_starts(pairs)]
            ordered_keys, ordered_values = np.divmod(distinct, max(num_values, 1))
        else:  # the pairs of a very large graph do not fit an int64: slower, but just as exact
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

    def count(self, keys: Ints) -> npt.NDArray[np.int64]:
        """How many distinct values each key has; 0 for a key that is not there."""
        group = find(self.keys, keys)
        found = group >= 0
        count = np.zeros(len(group), dtype=np.int64)
        count[found] = self.offsets[group[found] + 1] - self.offsets[group[found]]
        return count

    def contains(self, keys: Ints, values: Ints) -> npt.NDArray[np.bool_]:
        """Whether each value is among those of its key."""
        group = find(self.keys, keys)
        # The -1 of an absent key makes a negative number, which no member has.
        return find(self._members, pair_keys(group, values, self.num_values)) >= 0

    def pairs(self) -> tuple[npt.NDArray[np.int64], Ints]:
        """Every distinct pair of a key and a value, as two arrays."""
        return np.repeat(self.keys, np.diff(self.offsets)), self.values

    @cached_property
    def _members(self) -> npt.NDArray[np.int64]:
        # Numbering the groups instead of the keys leaves room in an int64 whatever the size of the graph.
        group = np.repeat(np.arange(len(self.keys)), np.diff(self.offsets))
        return pair_keys(group, self.values, self.num_values)
