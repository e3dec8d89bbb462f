"""Compiled loops that measure distances of queries and rows of a table, for CPUs. Importing this module needs numba.

The answers to a query are turned into columns, so that neighbours in memory are answers: whatever the groups are, they
fill vector registers. Queries can share their answers, as they do where these are all entities.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from kgprobe.predict.arithmetic.kernels import _compiled

_ANSWERS = 256
"""Answers that are turned into columns at a time."""
_PADDING = 16
"""Unused columns: lines as far apart as a power of two would have to share few places of the cache."""
_LINES = 64
"""Lines of columns that are at hand at a time."""
_ZERO = np.float32(0)

# Sums may be reordered, but roots are exact: a distance is the same wherever it stands.
_fast = _compiled(error_model="numpy", fastmath={"nsz", "contract", "reassoc"})


@_fast
def forward(queries, table, rows, axes, shares, width, distances, first, last):
    """Distances [Q, K] of the queries from ``first`` to ``last``.

    Args:
        queries: [Q, D].
        table: [N, D].
        rows: The answers [L, K]: the first of these lists is that of the first Q / L queries, and so on.
        axes: Of the projections of each query: [Q, P, D].
        shares: That are taken away along them: [Q, P, groups].
        width: Coordinates in a group.
        distances: Where they are written.
        first: The first query.
        last: The query behind the last one.
    """
    each = len(queries) // len(rows)
    columns, stages, along, squares = _room(table.shape[1], axes.shape[1], width)
    total = np.empty(_ANSWERS, np.float64)
    for place in range(first // each, (last - 1) // each + 1):
        for start in range(0, rows.shape[1], _ANSWERS):
            answers = rows[place, start : start + _ANSWERS]
            size = len(answers)
            _to_columns(table, answers, 0, table.shape[1], columns)
            for query in range(max(first, place * each), min(last, (place + 1) * each)):
                total[:] = 0
                for group in range(table.shape[1] // width):
                    own = slice(group * width, (group + 1) * width)
                    axis, share = axes[query, :, own], shares[query, :, group]
                    _measured(queries[query, own], columns[own], axis, share, size, stages, along, squares)
                    for j in range(size):
                        total[j] += np.sqrt(squares[j])
                distances[query, start : start + size] = total[:size]


@_fast
def backward(
    queries, table, rows, axes, shares, width, slopes, query_slope, table_slope, axis_slope, share_slope, first, last
):
    """Add the slopes of all that the distances depend on, as far as it is in the groups from ``first`` to ``last``.

    Args:
        queries, table, rows, axes, shares, width: As before.
        slopes: Of the distances: [Q, K].
        query_slope, table_slope, axis_slope, share_slope: What is added to.
        first: The first group.
        last: The group behind the last one.
    """
    each = len(queries) // len(rows)
    columns, stages, along, squares = _room(table.shape[1], axes.shape[1], width)
    found = np.empty_like(columns)
    for place in range(len(rows)):
        for start in range(0, rows.shape[1], _ANSWERS):
            answers = rows[place, start : start + _ANSWERS]
            size = len(answers)
            _to_columns(table, answers, first * width, last * width, columns)
            found[first * width : last * width] = _ZERO
            for query in range(place * each, (place + 1) * each):
                slope = slopes[query, start : start + size]
                for group in range(first, last):
                    own = slice(group * width, (group + 1) * width)
                    axis, share = axes[query, :, own], shares[query, :, group]
                    _measured(queries[query, own], columns[own], axis, share, size, stages, along, squares)
                    _sloped(
                        queries[query, own], columns[own], axis, share, stages, along, squares, slope,
                        query_slope[query, own], found[own], axis_slope[query, :, own], share_slope[query, :, group],
                    )  # fmt: skip
            _add_columns(found, answers, first * width, last * width, table_slope)


@_fast
def _room(dimension, projections, width):
    """Columns, groups of them after each projection, the part along each axis, and squared distances."""
    wide = _ANSWERS + _PADDING
    return (
        np.empty((dimension, wide), np.float32),
        np.empty((projections + 1, width, wide), np.float32),
        np.empty((projections, wide), np.float32),
        np.empty(wide, np.float32),
    )


@_fast
def _to_columns(table, rows, first, last, columns):
    """Coordinates from ``first`` to ``last`` of the rows, each in a line of the columns."""
    for start in range(first, last, _LINES):
        lines = columns[start : min(start + _LINES, last)]
        for answer in range(len(rows)):
            row = table[rows[answer], start:]
            for i in range(len(lines)):
                lines[i, answer] = row[i]


@_fast
def _add_columns(columns, rows, first, last, table):
    """Add the columns to the rows that they belong to."""
    for start in range(first, last, _LINES):
        lines = columns[start : min(start + _LINES, last)]
        for answer in range(len(rows)):
            row = table[rows[answer], start:]
            for i in range(len(lines)):
                row[i] += lines[i, answer]


@_fast
def _measured(asked, columns, axes, shares, size, stages, along, squares):
    """How far a group of the columns is, after all projections, from what is asked for."""
    vectors = columns
    for number in range(len(axes)):
        before, vectors, own = vectors, stages[number], along[number]
        own[:size] = _ZERO
        for i in range(len(asked)):
            axis, line = axes[number, i], before[i]
            for j in range(size):
                own[j] += axis * line[j]
        for i in range(len(asked)):
            much, line, less = shares[number] * axes[number, i], before[i], vectors[i]
            for j in range(size):
                less[j] = line[j] - much * own[j]
    squares[:size] = _ZERO
    for i in range(len(asked)):
        wanted, line = asked[i], vectors[i]
        for j in range(size):
            apart = wanted - line[j]
            squares[j] += apart * apart


@_fast
def _sloped(
    asked, columns, axes, shares, stages, along, squares, slopes,
    query_slope, column_slope, axis_slope, share_slope,
):  # fmt: skip
    """Add the slopes of what has been measured."""
    size, projections = len(slopes), len(axes)
    vectors = columns if projections == 0 else stages[projections - 1]
    pulls, pull = stages[projections], squares
    for j in range(size):
        squares[j] = slopes[j] / np.sqrt(squares[j]) if squares[j] > _ZERO else _ZERO
    for i in range(len(asked)):
        wanted, line, own, total = asked[i], vectors[i], pulls[i], _ZERO
        for j in range(size):
            own[j] = (line[j] - wanted) * squares[j]
            total -= own[j]
        query_slope[i] += total
    for number in range(projections - 1, -1, -1):
        vectors = columns if number == 0 else stages[number - 1]
        part, share, total = along[number], shares[number], _ZERO
        pull[:size] = _ZERO
        for i in range(len(asked)):
            axis, own = axes[number, i], pulls[i]
            for j in range(size):
                pull[j] += axis * own[j]
        for j in range(size):
            total += part[j] * pull[j]
        share_slope[number] -= total
        for i in range(len(asked)):
            much, line, own, total = share * axes[number, i], vectors[i], pulls[i], _ZERO
            for j in range(size):
                total += part[j] * own[j] + pull[j] * line[j]
                own[j] -= much * pull[j]
            axis_slope[number, i] -= share * total
    for i in range(len(asked)):
        line, own = column_slope[i], pulls[i]
        for j in range(size):
            line[j] += own[j]
