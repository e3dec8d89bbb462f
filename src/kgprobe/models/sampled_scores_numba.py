"""Scores of negative samples by compiled loops on the CPU. Importing this module needs numba.

The answers to a query are turned into columns, so that neighbours in memory are answers: whatever the groups are, they
fill vector registers. Queries can share their answers, as they do where these are all entities.

The threads of the forward loop share the queries; those of the backward loop the groups of coordinates, so that each
adds to coordinates of its own: bits do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kgprobe.models.embedding_rows import in_stack
from kgprobe.predict.backends.numba_backend import compiled
from kgprobe.predict.scorers import GroupNorm

# mypy: disable-error-code="no-untyped-def"

_ANSWERS = 256

"""Answers that are turned into columns at a time."""

_PADDING = 16

"""Unused columns: lines as far apart as a power of two would have to share few places of the cache."""

_LINES = 64

"""Lines of columns that are at hand at a time."""

_ZERO = np.float32(0)

# Sums may be reordered, but roots are exact: a distance is the same wherever it stands.
_fast = compiled(error_model="numpy", fastmath={"nsz", "contract", "reassoc"})

_inlined = compiled(error_model="numpy", inline="always")


@_fast
def forward(width, queries, table, axes, shares, rows, distances, first, last):
    """Distances [Q, K] of the queries from ``first`` to ``last``.

    Args:
        width: Coordinates in a group.
        queries: [Q, D].
        table: [N, D].
        axes: Of the projections of each query: [Q, P, D].
        shares: That are taken away along them: [Q, P, groups].
        rows: The answers [L, K]: the first of these lists is that of the first Q / L queries, and so on.
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
                    _measure(queries, columns, axes, shares, query, group, size, stages, along, squares)
                    for j in range(size):
                        total[j] += np.sqrt(squares[j])
                for j in range(size):
                    distances[query, start + j] = total[j]


@_fast
def backward(
    width, queries, table, axes, shares, rows, slopes, query_slope, table_slope, axis_slope, share_slope, first, last
):
    """Add the slopes of all that the distances depend on, as far as it is in the groups from ``first`` to ``last``.

    The slopes [Q, K] are those of the distances; what is added to is of the shape of what it belongs to.
    """
    each, projections = len(queries) // len(rows), axes.shape[1]
    columns, stages, along, squares = _room(table.shape[1], projections, width)
    found, slope = np.empty_like(columns), np.empty_like(squares)
    for place in range(len(rows)):
        for start in range(0, rows.shape[1], _ANSWERS):
            answers = rows[place, start : start + _ANSWERS]
            size = len(answers)
            _to_columns(table, answers, first * width, last * width, columns)
            found[first * width : last * width] = _ZERO
            for query in range(place * each, (place + 1) * each):
                for j in range(size):
                    slope[j] = slopes[query, start + j]
                for group in range(first, last):
                    _measure(queries, columns, axes, shares, query, group, size, stages, along, squares)
                    for j in range(size):
                        squares[j] = slope[j] / np.sqrt(squares[j]) if squares[j] > _ZERO else _ZERO
                    for i in range(width):
                        wanted, total = queries[query, group * width + i], _ZERO
                        for j in range(size):
                            pull = (stages[projections, i, j] - wanted) * squares[j]
                            stages[projections, i, j] = pull
                            total -= pull
                        query_slope[query, group * width + i] += total
                    _undo(axes, shares, query, group, size, stages, along, squares, axis_slope, share_slope)
                    for i in range(width):
                        for j in range(size):
                            found[group * width + i, j] += stages[projections, i, j]
            _add_columns(found, answers, first * width, last * width, table_slope)


@_fast
def _room(dimension, projections, width):
    """Columns, a group of them after each projection, the part along each axis, and squared distances."""
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


@_inlined
def _measure(queries, columns, axes, shares, query, group, size, stages, along, squares):
    """How far a group of the columns is, after all projections, from that of a query."""
    projections, width = stages.shape[0] - 1, stages.shape[1]
    for i in range(width):
        for j in range(size):
            stages[0, i, j] = columns[group * width + i, j]
    for number in range(projections):
        for j in range(size):
            along[number, j] = _ZERO
        for i in range(width):
            axis = axes[query, number, group * width + i]
            for j in range(size):
                along[number, j] += axis * stages[number, i, j]
        for i in range(width):
            much = shares[query, number, group] * axes[query, number, group * width + i]
            for j in range(size):
                stages[number + 1, i, j] = stages[number, i, j] - much * along[number, j]
    for j in range(size):
        squares[j] = _ZERO
    for i in range(width):
        wanted = queries[query, group * width + i]
        for j in range(size):
            apart = wanted - stages[projections, i, j]
            squares[j] += apart * apart


@_inlined
def _undo(axes, shares, query, group, size, stages, along, pull, axis_slope, share_slope):
    """Take the slopes of a group in the last stage back to the columns, and add those of axes and shares."""
    projections, width = stages.shape[0] - 1, stages.shape[1]
    for number in range(projections - 1, -1, -1):
        share, total = shares[query, number, group], _ZERO
        for j in range(size):
            pull[j] = _ZERO
        for i in range(width):
            axis = axes[query, number, group * width + i]
            for j in range(size):
                pull[j] += axis * stages[projections, i, j]
        for j in range(size):
            total += along[number, j] * pull[j]
        share_slope[query, number, group] -= total
        for i in range(width):
            much, total = share * axes[query, number, group * width + i], _ZERO
            for j in range(size):
                total += along[number, j] * stages[projections, i, j] + pull[j] * stages[number, i, j]
                stages[projections, i, j] -= much * pull[j]
            axis_slope[query, number, group * width + i] -= share * total


_WORTH_A_THREAD = 1 << 22

"""Coordinates of answers that a thread goes through at least: with fewer, starting it would take longer."""


def compiled_scores(
    similarity: GroupNorm, queries: Tensor, table: Tensor, entities: Tensor, projection: tuple[Tensor, Tensor] | None
) -> Tensor:
    """The scores [S, B, K] of entities [S, B or 1, K], rows of a table [S, N, D], as answers to queries [S, B, D].

    Example:
        >>> table = torch.tensor([[[3.0, 4.0], [0.0, 1.0]]])
        >>> compiled_scores(GroupNorm(2, gamma=6), torch.zeros(1, 1, 2), table, torch.tensor([[[0, 1]]]), None).tolist()
        [[[1.0, 5.0]]]
    """
    dimension = table.shape[-1]
    width, count = similarity.width(dimension), queries.shape[0] * queries.shape[1]
    nothing = queries.new_empty(count, 0, dimension), queries.new_empty(count, 0, dimension // width)
    axes, shares = nothing if projection is None else (own.flatten(0, 1) for own in projection)
    apply: Callable[..., Tensor] = _Distances.apply
    rows = in_stack(table, entities).flatten(0, 1)
    distances = apply(queries.flatten(0, 1), table.flatten(0, 1), axes, shares, rows, width)
    return similarity.gamma - distances.reshape(*queries.shape[:2], entities.shape[-1])


class _Distances(torch.autograd.Function):
    """Distances of queries [Q, D] and rows of a table."""

    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, table: Tensor, axes: Tensor, shares: Tensor, rows: Tensor, width: int
    ) -> Tensor:
        inputs = tuple(own.contiguous() for own in (queries, table, axes, shares, rows))
        ctx.save_for_backward(*inputs)
        ctx.width = width
        distances = queries.new_empty(len(queries), rows.shape[1])
        _in_parts(forward, len(queries), width, *inputs, distances)
        return distances

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> tuple[Tensor | None, ...]:
        inputs = ctx.saved_tensors
        found = tuple(torch.zeros_like(own) for own in inputs[:-1])
        groups = inputs[0].shape[1] // ctx.width
        _in_parts(backward, groups, ctx.width, *inputs, slopes[0].contiguous(), *found)
        return *found, None, None


def _in_parts(loop: Callable[..., None], count: int, width: int, queries: Tensor, *tensors: Tensor) -> None:
    """Run a loop over so many things, by as many threads as torch has, as far as there is work for them."""
    arrays = [own.detach().numpy() for own in (queries, *tensors)]
    work = queries.numel() * tensors[3].shape[1]
    threads = min(torch.get_num_threads(), count, work // _WORTH_A_THREAD + 1)
    if not work:
        return
    if threads == 1:
        loop(width, *arrays, 0, count)
        return
    parts = pairwise(np.linspace(0, count, threads + 1).astype(int).tolist())
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda part: loop(width, *arrays, *part), parts))
