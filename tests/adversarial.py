"""Vectors that are meant to break an error bound, an overflow check or a tie."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]

Draw: TypeAlias = Callable[[np.random.Generator, int, int], Floats]

"""Makes [rows, dimension] vectors."""


def normal(rng: np.random.Generator, rows: int, dimension: int) -> Floats:
    return rng.standard_normal((rows, dimension)).astype(np.float32)


def _duplicated(rng: np.random.Generator, rows: int, dimension: int) -> Floats:
    return normal(rng, 3, dimension)[rng.integers(0, 3, rows)]


def _one_ulp_apart(rng: np.random.Generator, rows: int, dimension: int) -> Floats:
    table = np.repeat(normal(rng, 1, dimension), rows, axis=0)
    moved = rng.integers(0, dimension, rows)
    toward = rng.choice([-np.inf, np.inf], rows).astype(np.float32)
    table[np.arange(rows), moved] = np.nextafter(table[np.arange(rows), moved], toward)
    return table


def _permuted(rng: np.random.Generator, rows: int, dimension: int) -> Floats:
    """The same numbers in other orders: equal sums, if nothing were rounded."""
    return rng.permuted(np.repeat(normal(rng, 1, dimension), rows, axis=0), axis=1)


def _whole(rng: np.random.Generator, rows: int, dimension: int) -> Floats:
    return rng.integers(-2, 3, (rows, dimension)).astype(np.float32)


def _zero(rng: np.random.Generator, rows: int, dimension: int) -> Floats:
    return np.zeros((rows, dimension), dtype=np.float32)


def _huge(rng: np.random.Generator, rows: int, dimension: int) -> Floats:
    """Some products overflow, some sums of record are infinite, and some are not."""
    return (normal(rng, rows, dimension) * 10.0 ** rng.uniform(15, 37, (rows, 1))).astype(np.float32)


def _over_half_way(rng: np.random.Generator, rows: int, dimension: int) -> Floats:
    """Sums that a float32 leaves and comes back to: the record is finite."""
    table = normal(rng, rows, dimension)
    large = rng.permuted(np.resize(np.float32([3e38, 3e38, -3e38, -3e38]), dimension))
    table[rng.random(rows) < 0.5] += large
    return table


def _tiny(rng: np.random.Generator, rows: int, dimension: int) -> Floats:
    return (normal(rng, rows, dimension) * 10.0 ** rng.uniform(-44, -18, (rows, 1))).astype(np.float32)


def _subnormal(rng: np.random.Generator, rows: int, dimension: int) -> Floats:
    return (rng.integers(-9, 10, (rows, dimension)) * np.float64(2.0**-149)).astype(np.float32)


def _cancelling(rng: np.random.Generator, rows: int, dimension: int) -> Floats:
    table = normal(rng, rows, dimension)
    table[:, 0], table[:, -1] = 1e7, -1e7
    return table


def _close(rng: np.random.Generator, rows: int, dimension: int) -> Floats:
    """Queries and candidates that are long, and nearly the same."""
    return (np.linspace(5, 9, dimension) + 1e-4 * normal(rng, rows, dimension)).astype(np.float32)


def _some_infinite(rng: np.random.Generator, rows: int, dimension: int) -> Floats:
    table = normal(rng, rows, dimension)
    table[::3, 0] = rng.choice([-np.inf, np.inf], len(table[::3]))
    return table


def _mixed(rng: np.random.Generator, rows: int, dimension: int) -> Floats:
    """All of them beside each other, so that what holds for one candidate of a tile does not hold for the next."""
    parts = [draw(rng, rows, dimension) for draw in (normal, _duplicated, _zero, _huge, _tiny, _cancelling)]
    return np.stack(parts)[rng.integers(0, len(parts), rows), np.arange(rows)]


TABLES: dict[str, Draw] = {
    "random": normal,
    "duplicated": _duplicated,
    "one ulp apart": _one_ulp_apart,
    "permuted": _permuted,
    "whole": _whole,
    "zero": _zero,
    "huge": _huge,
    "over half-way": _over_half_way,
    "tiny": _tiny,
    "subnormal": _subnormal,
    "cancelling": _cancelling,
    "close": _close,
    "some infinite": _some_infinite,
    "mixed": _mixed,
}

QUERIES: dict[str, Draw] = {
    "one ulp apart": lambda rng, rows, dimension: np.repeat(normal(rng, 1, dimension), rows, axis=0),
    "permuted": lambda rng, rows, dimension: np.full((rows, dimension), 0.1, dtype=np.float32),
    "whole": _whole,
    "huge": _huge,
    "over half-way": lambda rng, rows, dimension: np.ones((rows, dimension), dtype=np.float32),
    "tiny": _tiny,
    "subnormal": lambda rng, rows, dimension: rng.choice(np.float32([0, 0.5, 2, 2.0**-100]), (rows, dimension)),
    "cancelling": lambda rng, rows, dimension: np.abs(normal(rng, 1, dimension)).repeat(rows, axis=0),
    "close": _close,
    "mixed": _mixed,
}

"""The queries that go with a table, where they are not random."""
