"""Triton kernels for scores of negative samples on CUDA. Importing this module needs triton.

A program of the forward kernel has one query and some of its answers; of the backward kernel, one query and some of its
coordinates, so that what belongs to the query is summed up in registers, and only the answers' rows are shared.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def _flat(row, counted, first, groups: tl.constexpr, width: tl.constexpr, GROUPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Where neighbouring coordinates of the rows are: [answers, coordinates], read four at a time."""
    coordinate = first * width + tl.arange(0, GROUPS * width)
    return row[:, None] + coordinate[None, :], counted[:, None] & (coordinate < groups * width)[None, :]


@triton.jit  # type: ignore[untyped-decorator]
def _loaded(  # type: ignore[no-untyped-def]
    table,
    row,
    counted,
    first,
    group,
    place,
    inside,
    groups: tl.constexpr,
    width: tl.constexpr,
    ANSWERS: tl.constexpr,
    GROUPS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Coordinates [answers, groups, width] of the rows."""
    if width == WIDTH:
        offset, there = _flat(row, counted, first, groups, width, GROUPS)
        return tl.reshape(tl.load(table + offset, mask=there, other=0.0), (ANSWERS, GROUPS, WIDTH))
    else:  # noqa: RET505 (Triton wants both ways to return in one statement)
        offset = row[:, None, None] + ((first + group) * width)[None, :, None] + place[None, None, :]
        return tl.load(table + offset, mask=counted[:, None, None] & inside[None, :, :], other=0.0)


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
    """Dot products, or sums of distances by group, of a query and its answers."""
    query = tl.program_id(0).to(tl.int64)
    answer = tl.program_id(1) * ANSWERS + tl.arange(0, ANSWERS)
    group, place = tl.arange(0, GROUPS), tl.arange(0, WIDTH)
    counted = answer < answers
    size = groups * width
    row = tl.load(rows + query * answers + answer, mask=counted, other=0) * size
    total = tl.zeros([ANSWERS], dtype=tl.float32)
    for first in range(0, groups, GROUPS):
        inside = ((first + group) < groups)[:, None] & (place < width)[None, :]
        own = (first + group)[:, None] * width + place[None, :]
        vector = _loaded(table, row, counted, first, group, place, inside, groups, width, ANSWERS, GROUPS, WIDTH)
        for number in range(projections):
            at = query * projections + number
            axis = tl.load(axes + at * size + own, mask=inside, other=0.0)
            share = tl.load(shares + at * groups + first + group, mask=(first + group) < groups, other=0.0)
            along = tl.sum(vector * axis[None, :, :], axis=2) * share[None, :]
            vector -= along[:, :, None] * axis[None, :, :]
        asked = tl.load(queries + query * size + own, mask=inside, other=0.0)
        if is_dot:
            total += tl.sum(tl.sum(vector * asked[None, :, :], axis=2), axis=1)
        else:
            apart = asked[None, :, :] - vector
            total += tl.sum(tl.sqrt(tl.sum(apart * apart, axis=2)), axis=1)
    tl.store(scores + query * answers + answer, total, mask=counted)


@triton.jit  # type: ignore[untyped-decorator]
def backward(  # type: ignore[no-untyped-def]
    queries,
    table,
    rows,
    axes,
    shares,
    slopes,
    query_slope,
    table_slope,
    axis_slope,
    share_slope,
    answers: tl.constexpr,
    groups: tl.constexpr,
    width: tl.constexpr,
    projections: tl.constexpr,
    is_dot: tl.constexpr,
    ANSWERS: tl.constexpr,
    GROUPS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """The slopes of everything that the scores depend on; those of the table are added to what is there."""
    query = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1) * GROUPS
    group, place = tl.arange(0, GROUPS), tl.arange(0, WIDTH)
    in_groups = (first + group) < groups
    inside = in_groups[:, None] & (place < width)[None, :]
    own = (first + group)[:, None] * width + place[None, :]
    size = groups * width
    asked = tl.load(queries + query * size + own, mask=inside, other=0.0)
    of_query = tl.zeros([GROUPS, WIDTH], dtype=tl.float32)
    for start in range(0, answers, ANSWERS):
        answer = start + tl.arange(0, ANSWERS)
        counted = answer < answers
        row = tl.load(rows + query * answers + answer, mask=counted, other=0) * size
        slope = tl.load(slopes + query * answers + answer, mask=counted, other=0.0)
        vector = _loaded(table, row, counted, first, group, place, inside, groups, width, ANSWERS, GROUPS, WIDTH)
        for number in range(projections):
            at = query * projections + number
            axis = tl.load(axes + at * size + own, mask=inside, other=0.0)
            share = tl.load(shares + at * groups + first + group, mask=in_groups, other=0.0)
            along = tl.sum(vector * axis[None, :, :], axis=2) * share[None, :]
            vector -= along[:, :, None] * axis[None, :, :]
        if is_dot:
            of_query += tl.sum(slope[:, None, None] * vector, axis=0)
            of_vector = slope[:, None, None] * asked[None, :, :]
        else:
            apart = asked[None, :, :] - vector
            squared = tl.sum(apart * apart, axis=2)
            steep = tl.where(squared > 0, slope[:, None] / tl.sqrt(squared), 0.0)
            towards = apart * steep[:, :, None]
            of_query += tl.sum(towards, axis=0)
            of_vector = -towards
        for step in range(projections):
            # Backwards: a projection that leaves something over can be undone.
            at = query * projections + projections - 1 - step
            axis = tl.load(axes + at * size + own, mask=inside, other=0.0)
            share = tl.load(shares + at * groups + first + group, mask=in_groups, other=0.0)
            along = tl.sum(vector * axis[None, :, :], axis=2) / (1 - share[None, :])
            vector += (along * share[None, :])[:, :, None] * axis[None, :, :]
            pull = tl.sum(of_vector * axis[None, :, :], axis=2)
            of_share = -tl.sum(along * pull, axis=0)
            of_axis = -share[:, None] * tl.sum(along[:, :, None] * of_vector + pull[:, :, None] * vector, axis=0)
            place_of_share = share_slope + at * groups + first + group
            tl.store(place_of_share, tl.load(place_of_share, mask=in_groups, other=0.0) + of_share, mask=in_groups)
            place_of_axis = axis_slope + at * size + own
            tl.store(place_of_axis, tl.load(place_of_axis, mask=inside, other=0.0) + of_axis, mask=inside)
            of_vector -= (pull * share[None, :])[:, :, None] * axis[None, :, :]
        if width == WIDTH:
            offset, there = _flat(row, counted, first, groups, width, GROUPS)
            flat = tl.reshape(of_vector, (ANSWERS, GROUPS * WIDTH))
            tl.atomic_add(table_slope + offset, flat, mask=there, sem="relaxed")
        else:
            offset = row[:, None, None] + own[None, :, :]
            there = counted[:, None, None] & inside[None, :, :]
            tl.atomic_add(table_slope + offset, of_vector, mask=there, sem="relaxed")
    tl.store(query_slope + query * size + own, of_query, mask=inside)
