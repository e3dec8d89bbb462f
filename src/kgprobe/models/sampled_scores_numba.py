"""Scores of negative samples by compiled loops on the CPU. Importing this module needs numba.

The embeddings of the candidates of a query are transposed, so that neighbours in memory are candidates and fill vector
registers for any group width. Queries can share their candidates, for example all entities.

Threads split the queries in the forward loop and the groups of coordinates in the backward loop, so that each thread
adds to coordinates of its own: results do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kgprobe.models.embedding_rows import flat_ids
from kgprobe.predict.backends.numba_backend import compiled
from kgprobe.predict.scorers import GroupNorm

# mypy: disable-error-code="no-untyped-def"

_ANSWERS = 256  # candidates that are transposed at a time
_PADDING = 16  # unused columns: a row length that is a power of two would cause cache conflicts
_LINES = 64  # coordinates that are transposed at a time
_COORDINATES_PER_THREAD = 1 << 22  # less work than this is not worth starting a thread
_ZERO = np.float32(0)

# Sums may be reordered, but square roots are exact: a distance does not depend on the position of the candidate.
_fast = compiled(error_model="numpy", fastmath={"nsz", "contract", "reassoc"})

_inlined = compiled(error_model="numpy", inline="always")


@_fast
def forward(width, queries, table, axes, shares, rows, distances, first, last):
    """Write the distances of queries ``first`` to ``last - 1`` from their candidates.

    Args:
        width: Coordinates of a group.
        queries: Query embeddings [Q, D].
        table: Entity embeddings [N, D].
        axes: Axes of the projections of each query [Q, P, D].
        shares: Shares that are removed along the axes [Q, P, groups].
        rows: Candidates [L, K]; each list serves Q / L consecutive queries.
        distances: Output [Q, K].
        first: First query.
        last: Last query + 1.
    """
    each = len(queries) // len(rows)
    columns, stages, along, squares = _buffers(table.shape[1], axes.shape[1], width)
    total = np.empty(_ANSWERS, np.float64)
    for index in range(first // each, (last - 1) // each + 1):
        for start in range(0, rows.shape[1], _ANSWERS):
            answers = rows[index, start : start + _ANSWERS]
            size = len(answers)
            _to_columns(table, answers, 0, table.shape[1], columns)
            for query in range(max(first, index * each), min(last, (index + 1) * each)):
                total[:] = 0
                for group in range(table.shape[1] // width):
                    _measure(queries, columns, axes, shares, query, group, size, stages, along, squares)
                    for j in range(size):
                        total[j] += np.sqrt(squares[j])
                for j in range(size):
                    distances[query, start + j] = total[j]


@_fast
def backward(
    width,
    queries,
    table,
    axes,
    shares,
    rows,
    gradients,
    query_gradient,
    table_gradient,
    axis_gradient,
    share_gradient,
    first,
    last,
):
    """Add the gradients of queries, table, axes and shares in the groups ``first`` to ``last - 1``.

    The gradients [Q, K] are those of the distances.
    """
    each, projections = len(queries) // len(rows), axes.shape[1]
    columns, stages, along, squares = _buffers(table.shape[1], projections, width)
    column_gradient, gradient = np.empty_like(columns), np.empty_like(squares)
    for index in range(len(rows)):
        for start in range(0, rows.shape[1], _ANSWERS):
            answers = rows[index, start : start + _ANSWERS]
            size = len(answers)
            _to_columns(table, answers, first * width, last * width, columns)
            column_gradient[first * width : last * width] = _ZERO
            for query in range(index * each, (index + 1) * each):
                for j in range(size):
                    gradient[j] = gradients[query, start + j]
                for group in range(first, last):
                    _measure(queries, columns, axes, shares, query, group, size, stages, along, squares)
                    for j in range(size):
                        squares[j] = gradient[j] / np.sqrt(squares[j]) if squares[j] > _ZERO else _ZERO
                    for i in range(width):
                        coordinate, total = queries[query, group * width + i], _ZERO
                        for j in range(size):
                            weighted = (stages[projections, i, j] - coordinate) * squares[j]
                            stages[projections, i, j] = weighted
                            total -= weighted
                        query_gradient[query, group * width + i] += total
                    _project_back(
                        axes, shares, query, group, size, stages, along, squares, axis_gradient, share_gradient
                    )
                    for i in range(width):
                        for j in range(size):
                            column_gradient[group * width + i, j] += stages[projections, i, j]
            _add_columns(column_gradient, answers, first * width, last * width, table_gradient)


@_fast
def _buffers(dimension, projections, width):
    """Buffers: transposed candidates, one group after each projection, components along axes, squared distances."""
    wide = _ANSWERS + _PADDING
    return (
        np.empty((dimension, wide), np.float32),
        np.empty((projections + 1, width, wide), np.float32),
        np.empty((projections, wide), np.float32),
        np.empty(wide, np.float32),
    )


@_fast
def _to_columns(table, rows, first, last, columns):
    """Transpose the coordinates ``first`` to ``last - 1`` of the rows."""
    for start in range(first, last, _LINES):
        lines = columns[start : min(start + _LINES, last)]
        for answer in range(len(rows)):
            row = table[rows[answer], start:]
            for i in range(len(lines)):
                lines[i, answer] = row[i]


@_fast
def _add_columns(columns, rows, first, last, table):
    """Add transposed values to the rows of the table; the inverse of `_to_columns`."""
    for start in range(first, last, _LINES):
        lines = columns[start : min(start + _LINES, last)]
        for answer in range(len(rows)):
            row = table[rows[answer], start:]
            for i in range(len(lines)):
                row[i] += lines[i, answer]


@_inlined
def _measure(queries, columns, axes, shares, query, group, size, stages, along, squares):
    """Project one group of coordinates of the candidates, then compute its squared distances from the query."""
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
            step = shares[query, number, group] * axes[query, number, group * width + i]
            for j in range(size):
                stages[number + 1, i, j] = stages[number, i, j] - step * along[number, j]
    for j in range(size):
        squares[j] = _ZERO
    for i in range(width):
        coordinate = queries[query, group * width + i]
        for j in range(size):
            difference = coordinate - stages[projections, i, j]
            squares[j] += difference * difference


@_inlined
def _project_back(axes, shares, query, group, size, stages, along, weighted, axis_gradient, share_gradient):
    """Propagate the gradients of a group back through the projections; add those of axes and shares."""
    projections, width = stages.shape[0] - 1, stages.shape[1]
    for number in range(projections - 1, -1, -1):
        share, total = shares[query, number, group], _ZERO
        for j in range(size):
            weighted[j] = _ZERO
        for i in range(width):
            axis = axes[query, number, group * width + i]
            for j in range(size):
                weighted[j] += axis * stages[projections, i, j]
        for j in range(size):
            total += along[number, j] * weighted[j]
        share_gradient[query, number, group] -= total
        for i in range(width):
            step, total = share * axes[query, number, group * width + i], _ZERO
            for j in range(size):
                total += along[number, j] * stages[projections, i, j] + weighted[j] * stages[number, i, j]
                stages[projections, i, j] -= step * weighted[j]
            axis_gradient[query, number, group * width + i] -= share * total


def compiled_scores(
    similarity: GroupNorm, queries: Tensor, table: Tensor, entities: Tensor, projection: tuple[Tensor, Tensor] | None
) -> Tensor:
    """Scores [S, B, K] of entities [S, B or 1, K], rows of a table [S, N, D], for queries [S, B, D].

    Example:
        >>> table = torch.tensor([[[3.0, 4.0], [0.0, 1.0]]])
        >>> compiled_scores(GroupNorm(2, gamma=6), torch.zeros(1, 1, 2), table, torch.tensor([[[0, 1]]]), None).tolist()
        [[[1.0, 5.0]]]
    """
    dimension = table.shape[-1]
    width, count = similarity.width(dimension), queries.shape[0] * queries.shape[1]
    empty = queries.new_empty(count, 0, dimension), queries.new_empty(count, 0, dimension // width)
    axes, shares = empty if projection is None else (own.flatten(0, 1) for own in projection)
    apply: Callable[..., Tensor] = _Distances.apply
    rows = flat_ids(table, entities).flatten(0, 1)
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
        _in_threads(forward, len(queries), width, *inputs, distances)
        return distances

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        inputs = ctx.saved_tensors
        outputs = tuple(torch.zeros_like(own) for own in inputs[:-1])
        groups = inputs[0].shape[1] // ctx.width
        _in_threads(backward, groups, ctx.width, *inputs, gradients[0].contiguous(), *outputs)
        return *outputs, None, None


def _in_threads(loop: Callable[..., None], count: int, width: int, queries: Tensor, *tensors: Tensor) -> None:
    """Run a loop over ``count`` queries or groups in up to as many threads as torch uses."""
    arrays = [own.detach().numpy() for own in (queries, *tensors)]
    work = queries.numel() * tensors[3].shape[1]
    threads = min(torch.get_num_threads(), count, work // _COORDINATES_PER_THREAD + 1)
    if not work:
        return
    if threads == 1:
        loop(width, *arrays, 0, count)
        return
    parts = pairwise(np.linspace(0, count, threads + 1).astype(int).tolist())
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda part: loop(width, *arrays, *part), parts))
