"""Scores of answers by kernels that read every vector where it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from kgprobe.models.tables import gathered_slope, in_stack, is_gathered
from kgprobe.predict.similarity import Dot, GroupNorm, Similarity

_TILE = 2048
"""Coordinates that a program works on at a time."""
_ROW = 128
"""Neighbouring coordinates of a vector that a program reads at a time, at least where groups allow it."""


class Projection(NamedTuple):
    """How the relations of queries see their answers: less of the part along each axis, one after the other.

    Attributes:
        axes: Unit vectors in every group of coordinates: [S, B, projections, D].
        shares: How much of the part along them is taken away, less than all: [S, B, projections, groups].
    """

    axes: Tensor
    shares: Tensor


InPlace: TypeAlias = Callable[[Any, Tensor, Tensor, Tensor, Projection | None], Tensor]
"""Scores of answers from a similarity, queries, the table of entities, the answers in it, and a projection of them."""


def in_place(similarity: Similarity, queries: Tensor) -> InPlace | None:
    """What scores answers to the queries where they are; None where only plain arithmetic does."""
    if reads_in_place(queries):
        return drawn_scores
    on_cpu = queries.device.type == "cpu" and queries.dtype == torch.float32
    if on_cpu and isinstance(similarity, GroupNorm) and _installed("numba"):
        from kgprobe.models.drawn_on_cpu import compiled_scores

        return compiled_scores
    return None


def reads_in_place(queries: Tensor) -> bool:
    """Whether answers to the queries can be read where they are: in float32 on a GPU for which kernels are compiled."""
    return queries.is_cuda and queries.dtype == torch.float32 and _installed("triton")


@cache
def _installed(name: str) -> bool:
    return find_spec(name) is not None


def drawn_scores(
    similarity: Similarity, queries: Tensor, table: Tensor, entities: Tensor, projection: Projection | None
) -> Tensor:
    """The scores [S, B, K] of entities [S, B or 1, K], rows of a table [S, N, D], as answers to queries [S, B, D]."""
    dimension = table.shape[-1]
    entities = entities.expand(*queries.shape[:2], -1)
    rows = in_stack(table, entities).flatten(0, 1)
    is_dot = isinstance(similarity, Dot)
    width = 1 if isinstance(similarity, Dot) else similarity.width(dimension)
    axes, shares = (None, None) if projection is None else (own.flatten(0, 1) for own in projection)
    apply: Callable[..., Tensor] = _Drawn.apply
    found = apply(queries.flatten(0, 1), table, rows, axes, shares, width, is_dot)
    scores = found.reshape(entities.shape)
    return scores if isinstance(similarity, Dot) else similarity.gamma - scores


class _Drawn(torch.autograd.Function):
    """Dot products or distances of queries [Q, D] and rows [Q, K] of a table."""

    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        table: Tensor,
        rows: Tensor,
        axes: Tensor | None,
        shares: Tensor | None,
        width: int,
        is_dot: bool,
    ) -> Tensor:
        from kgprobe.models.drawn_kernels import forward

        queries, rows = queries.contiguous(), rows.contiguous()
        axes = queries if axes is None else axes.contiguous()
        shares = queries if shares is None else shares.contiguous()
        projections = 0 if axes is queries else axes.shape[1]
        scores = torch.empty(rows.shape, dtype=queries.dtype, device=queries.device)
        shape = _shape(width, queries.shape[1])
        grid = (len(queries), -(-rows.shape[1] // shape["ANSWERS"]))
        sizes = (rows.shape[1], queries.shape[1] // width, width, projections, is_dot)
        forward[grid](queries, table, rows, axes, shares, scores, *sizes, **shape)
        ctx.save_for_backward(queries, table, rows, axes, shares)
        ctx.table, ctx.sizes, ctx.shape = table, sizes, shape
        return scores

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> tuple[Tensor | None, ...]:
        from kgprobe.models.drawn_kernels import backward

        queries, table, rows, axes, shares = ctx.saved_tensors
        projected = ctx.sizes[3] > 0
        query_slope = torch.empty_like(queries)
        table_slope = gathered_slope(ctx.table) if is_gathered(ctx.table) else torch.zeros_like(table)
        axis_slope = torch.zeros_like(axes) if projected else queries
        share_slope = torch.zeros_like(shares) if projected else queries
        grid = (len(queries), -(-ctx.sizes[1] // ctx.shape["GROUPS"]))
        tensors = (queries, table, rows, axes, shares, slopes[0].contiguous())
        backward[grid](*tensors, query_slope, table_slope, axis_slope, share_slope, *ctx.sizes, **ctx.shape)
        of_table = None if is_gathered(ctx.table) else table_slope
        return query_slope, of_table, None, *((axis_slope, share_slope) if projected else (None, None)), None, None


def _shape(width: int, dimension: int) -> dict[str, int]:
    """How many answers, groups and coordinates a program works on at a time: powers of two."""
    padded = _power_of_two(width)
    groups = min(max(1, _ROW // padded), _power_of_two(dimension // width))
    return {"ANSWERS": min(32, max(1, _TILE // (groups * padded))), "GROUPS": groups, "WIDTH": padded}


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
