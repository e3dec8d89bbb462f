"""Simple random samples of many populations at once, reproducible for each row by itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts, EntityRows, Ints, mixed, spread

States = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_CELLS = 1 << 20
"""Random numbers that are held at a time, about."""


def states(seed: int, *columns: AnyInts) -> States:
    """The state of a random generator for every row: it depends on the seed and on the row's values alone.

    Example:
        >>> one, two = states(0, np.array([4, 5])), states(0, np.array([5]))
        >>> bool(one[1] == two[0]), bool(one[0] == one[1])
        (True, False)
    """
    state = np.full(len(columns[0]), seed % (1 << 64), dtype=np.uint64)
    for column in columns:
        state = mixed(state ^ (np.asarray(column, dtype=np.int64).view(np.uint64) + _GOLDEN))
    return state


def sample_rows(state: States, population: Ints, size: int) -> EntityRows:
    """For every row, distinct numbers from 0 to its population - 1: a simple random sample without replacement.

    A row depends on its state, its population and the size alone, not on the other rows.

    Args:
        state: The state of each row; see `states`.
        population: The size of each population.
        size: The size of each sample; a smaller population is taken as a whole.

    Example:
        >>> offsets, numbers = sample_rows(states(0, np.arange(2)), np.array([1_000, 2]), size=3)
        >>> offsets.tolist(), len(set(numbers[:3].tolist())), numbers[3:].tolist()
        ([0, 3, 5], 3, [0, 1])
    """
    taken = np.minimum(population, size)
    drawn = np.minimum(taken, population - taken)  # of a large sample, what is left out is drawn
    parts = [_distinct_draws(state[rows], population[rows], drawn[rows]) for rows in _portions(population, drawn)]
    draws = EntityRows(_offsets(drawn), np.concatenate([np.empty(0, dtype=np.int64), *parts]))
    inverse = np.flatnonzero(drawn < taken)
    if not len(inverse):
        return draws
    owner, number = spread(taken)
    values = np.empty(len(owner), dtype=np.int64)
    kept = np.ones(len(taken), dtype=bool)
    kept[inverse] = False
    values[kept[owner]] = draws.take(np.flatnonzero(kept)).entities
    of_inverse = ~kept[owner]
    place = np.cumsum(~kept) - 1
    values[of_inverse] = skipping(place[owner[of_inverse]], number[of_inverse], draws.take(inverse))
    return EntityRows(_offsets(taken), values)


def skipping(row: Ints, number: Ints, excluded: EntityRows) -> Ints:
    """The number-th (from 0) of the numbers 0, 1, 2, ... that a row does not exclude.

    Args:
        row: A row for each number, in ascending order.
        number: The numbers.
        excluded: For each row the excluded numbers, distinct and ascending.

    Example:
        >>> excluded = EntityRows(np.array([0, 2, 2]), np.array([0, 2]))
        >>> skipping(np.array([0, 0, 1]), np.array([0, 1, 5]), excluded).tolist()
        [1, 3, 5]
    """
    owner, index = spread(np.diff(excluded.offsets))
    before = excluded.entities - index  # how many numbers below an excluded one are left
    width = max(int(number.max(initial=0)), int(before.max(initial=0))) + 1
    passed = np.searchsorted(owner * width + before, row * width + number, side="right")
    return np.asarray(number + passed - excluded.offsets[row], dtype=np.int64)


def _offsets(size: Ints) -> Ints:
    offsets = np.zeros(len(size) + 1, dtype=np.int64)
    np.cumsum(size, out=offsets[1:])
    return offsets


def _portions(population: Ints, drawn: Ints) -> list[slice]:
    """Rows that are drawn together, in bounded memory."""
    width = int(_enough(population, drawn).max(initial=1))
    step = max(1, _CELLS // width)
    return [slice(start, start + step) for start in range(0, len(population), step)]


def _enough(population: Ints, drawn: Ints) -> Ints:
    """So many draws with replacement that they nearly always have the wanted number of distinct values."""
    share = drawn / np.maximum(population, 1)
    expected = -population * np.log1p(-np.minimum(share, 0.75))
    return np.asarray(np.ceil(expected + 4 * np.sqrt(expected) + 4), dtype=np.int64)


def _distinct_draws(state: States, population: Ints, drawn: Ints) -> Ints:
    """The first distinct values of each row's draws with replacement, in ascending order."""
    found = np.empty(int(drawn.sum()), dtype=np.int64)
    offsets, left = _offsets(drawn), np.flatnonzero(drawn)
    width = int(_enough(population, drawn).max(initial=1))
    while len(left):
        value, kept, complete = _first_distinct(state[left], population[left], drawn[left], width)
        owner, position = spread(np.where(complete, drawn[left], 0))
        found[offsets[left[owner]] + position] = value[kept & complete[:, None]]
        left, width = left[~complete], 2 * width
    return found


def _first_distinct(
    state: States, population: Ints, drawn: Ints, width: int
) -> tuple[Ints, NDArray[np.bool_], NDArray[np.bool_]]:
    """The sorted draws, which of them are the first distinct ones, and whether a row has enough of them."""
    counter = np.arange(1, width + 1, dtype=np.uint64) * _GOLDEN
    uniform = (mixed(state[:, None] + counter) >> np.uint64(11)) * 2.0**-53
    value = np.minimum((uniform * population[:, None]).astype(np.int64), population[:, None] - 1)
    bits = width.bit_length()
    packed = (value << bits) | np.arange(width)
    packed.sort(axis=1)  # by value, then in the order of the draws
    value, order = packed >> bits, packed & ((1 << bits) - 1)
    order[:, 1:][value[:, 1:] == value[:, :-1]] = width
    last = np.take_along_axis(np.sort(order, axis=1), drawn[:, None] - 1, axis=1)
    return value, (order <= last) & (order < width), last[:, 0] < width
