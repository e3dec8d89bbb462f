"""Exact means of a smooth function over runs of consecutive integers, however long.

Short runs are added up. A long run is a short run plus the rest, and the rest is its integral plus the end
corrections of Gregory's formula, which needs the function's values and no derivative: so one routine serves
every transformer, and closed forms (harmonic numbers, zeta) are left to the tests as independent oracles.
All terms have one sign, so nothing cancels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Function = Callable[[Floats, Floats], Floats]

_GREGORY = np.array(
    [
        1 / 2,
        1 / 12,
        1 / 24,
        19 / 720,
        3 / 160,
        863 / 60480,
        275 / 24192,
        33953 / 3628800,
        8183 / 1036800,
        3250433 / 479001600,
    ]
)
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(16)
_E_FOLDS_PER_PANEL = 4.0
_SHORT_SHARE = 2.0**-15
"""A run so short for its ranks is added up: rounded quadrature nodes would show in scores that fall to 0 within it."""
_CELLS = 1 << 20
"""Function values held in memory at a time."""


def mean_over_range(f: Function, first: Floats, last: Floats, candidates: Floats, steepness: float) -> Floats:
    """The mean of ``f(rank, candidates)`` over the integers ``first .. last``, run by run.

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
    per_slice = max(1, _CELLS // int(length.max()))
    for start in range(0, rest.size, per_slice):
        rows, n = rest[start : start + per_slice], length[start : start + per_slice]
        offset = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
        values = f(np.repeat(first[rows], n) + offset, np.repeat(candidates[rows], n))
        result[rows] = np.add.reduceat(values, np.cumsum(n) - n) / n
    return result


def _long(f: Function, first: Floats, last: Floats, candidates: Floats, lead: int, steepness: float) -> Floats:
    result = np.empty(first.shape)
    if first.size == 0:
        return result
    panels = int(np.ceil((1 + steepness) * np.log(last / first).max() / _E_FOLDS_PER_PANEL))
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
