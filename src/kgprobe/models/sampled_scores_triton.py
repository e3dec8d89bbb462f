"""Triton kernels for scores of negative samples on CUDA. Importing this module needs triton.

A program of the forward kernel handles one query and some of its candidates ("answers"); of the backward kernel, one
query and some of its coordinates, so that the gradients of the query are summed in registers and only those of the
candidates need atomic additions.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def _offsets(row, valid, first, groups: tl.constexpr, width: tl.constexpr, GROUPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Offsets and mask of neighbouring coordinates of the rows [answers, coordinates], which load as vectors."""
    coordinate = first * width + tl.arange(0, GROUPS * width)
    return row[:, None] + coordinate[None, :], valid[:, None] & (coordinate < groups * width)[None, :]


@triton.jit  # type: ignore[untyped-decorator]
def _load(  # type: ignore[no-untyped-def]
    table,
    row,
    valid,
    first,
    group,
    column,
    inside,
    groups: tl.constexpr,
    width: tl.constexpr,
    ANSWERS: tl.constexpr,
    GROUPS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Load coordinates [answers, groups, width] of the rows."""
    if width == WIDTH:
        offset, mask = _offsets(row, valid, first, groups, width, GROUPS)
        return tl.reshape(tl.load(table + offset, mask=mask, other=0.0), (ANSWERS, GROUPS, WIDTH))
    else:  # noqa: RET505 (Triton needs both returns in one statement)
        offset = row[:, None, None] + ((first + group) * width)[None, :, None] + column[None, None, :]
        return tl.load(table + offset, mask=valid[:, None, None] & inside[None, :, :], other=0.0)


@triton.jit  # type: ignore[untyped-decorator]
def forward(  # type: ignore[no-untyped-def]
    queries,
    table,
    rows,
    axes,
    shares,
    scores,
    answers: tl.constexpr,
    groups: tl.constexpr,
    width: tl.constexpr,
    projections: tl.constexpr,
    is_dot: tl.constexpr,
    ANSWERS: tl.constexpr,
    GROUPS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Dot products, or sums of the distances of groups, of a query and its candidates."""
    query = tl.program_id(0).to(tl.int64)
    answer = tl.program_id(1) * ANSWERS + tl.arange(0, ANSWERS)
    group, column = tl.arange(0, GROUPS), tl.arange(0, WIDTH)
    valid = answer < answers
    size = groups * width
    row = tl.load(rows + query * answers + answer, mask=valid, other=0) * size
    total = tl.zeros([ANSWERS], dtype=tl.float32)
    for first in range(0, groups, GROUPS):
        inside = ((first + group) < groups)[:, None] & (column < width)[None, :]
        own = (first + group)[:, None] * width + column[None, :]
        vector = _load(table, row, valid, first, group, column, inside, groups, width, ANSWERS, GROUPS, WIDTH)
        for number in range(projections):
            at = query * projections + number
            axis = tl.load(axes + at * size + own, mask=inside, other=0.0)
            share = tl.load(shares + at * groups + first + group, mask=(first + group) < groups, other=0.0)
            along = tl.sum(vector * axis[None, :, :], axis=2) * share[None, :]
            vector -= along[:, :, None] * axis[None, :, :]
        query_row = tl.load(queries + query * size + own, mask=inside, other=0.0)
        if is_dot:
            total += tl.sum(tl.sum(vector * query_row[None, :, :], axis=2), axis=1)
        else:
            difference = query_row[None, :, :] - vector
            total += tl.sum(tl.sqrt(tl.sum(difference * difference, axis=2)), axis=1)
    tl.store(scores + query * answers + answer, total, mask=valid)


@triton.jit  # type: ignore[untyped-decorator]
def backward(  # type: ignore[no-untyped-def]
    queries,
    table,
    rows,
    axes,
    shares,
    gradients,
    query_gradient,
    table_gradient,
    axis_gradient,
    share_gradient,
    answers: tl.constexpr,
    groups: tl.constexpr,
    width: tl.constexpr,
    projections: tl.constexpr,
    is_dot: tl.constexpr,
    ANSWERS: tl.constexpr,
    GROUPS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Gradients of queries, table, axes and shares; those of the table are added in column."""
    query = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1) * GROUPS
    group, column = tl.arange(0, GROUPS), tl.arange(0, WIDTH)
    in_groups = (first + group) < groups
    inside = in_groups[:, None] & (column < width)[None, :]
    own = (first + group)[:, None] * width + column[None, :]
    size = groups * width
    query_row = tl.load(queries + query * size + own, mask=inside, other=0.0)
    of_query = tl.zeros([GROUPS, WIDTH], dtype=tl.float32)
    for start in range(0, answers, ANSWERS):
        answer = start + tl.arange(0, ANSWERS)
        valid = answer < answers
        row = tl.load(rows + query * answers + answer, mask=valid, other=0) * size
        gradient = tl.load(gradients + query * answers + answer, mask=valid, other=0.0)
        vector = _load(table, row, valid, first, group, column, inside, groups, width, ANSWERS, GROUPS, WIDTH)
        for number in range(projections):
            at = query * projections + number
            axis = tl.load(axes + at * size + own, mask=inside, other=0.0)
            share = tl.load(shares + at * groups + first + group, mask=in_groups, other=0.0)
            along = tl.sum(vector * axis[None, :, :], axis=2) * share[None, :]
            vector -= along[:, :, None] * axis[None, :, :]
        if is_dot:
            of_query += tl.sum(gradient[:, None, None] * vector, axis=0)
            of_vector = gradient[:, None, None] * query_row[None, :, :]
        else:
            difference = query_row[None, :, :] - vector
            squared = tl.sum(difference * difference, axis=2)
            scale = tl.where(squared > 0, gradient[:, None] / tl.sqrt(squared), 0.0)
            direction = difference * scale[:, :, None]
            of_query += tl.sum(direction, axis=0)
            of_vector = -direction
        for step in range(projections):
            # In reverse order: a projection with a share below 1 can be inverted.
            at = query * projections + projections - 1 - step
            axis = tl.load(axes + at * size + own, mask=inside, other=0.0)
            share = tl.load(shares + at * groups + first + group, mask=in_groups, other=0.0)
            along = tl.sum(vector * axis[None, :, :], axis=2) / (1 - share[None, :])
            vector += (along * share[None, :])[:, :, None] * axis[None, :, :]
            component = tl.sum(of_vector * axis[None, :, :], axis=2)
            of_share = -tl.sum(along * component, axis=0)
            of_axis = -share[:, None] * tl.sum(along[:, :, None] * of_vector + component[:, :, None] * vector, axis=0)
            share_pointer = share_gradient + at * groups + first + group
            tl.store(share_pointer, tl.load(share_pointer, mask=in_groups, other=0.0) + of_share, mask=in_groups)
            axis_pointer = axis_gradient + at * size + own
            tl.store(axis_pointer, tl.load(axis_pointer, mask=inside, other=0.0) + of_axis, mask=inside)
            of_vector -= (component * share[None, :])[:, :, None] * axis[None, :, :]
        if width == WIDTH:
            offset, mask = _offsets(row, valid, first, groups, width, GROUPS)
            flat = tl.reshape(of_vector, (ANSWERS, GROUPS * WIDTH))
            tl.atomic_add(table_gradient + offset, flat, mask=mask, sem="relaxed")
        else:
            offset = row[:, None, None] + own[None, :, :]
            mask = valid[:, None, None] & inside[None, :, :]
            tl.atomic_add(table_gradient + offset, of_vector, mask=mask, sem="relaxed")
    tl.store(query_gradient + query * size + own, of_query, mask=inside)
