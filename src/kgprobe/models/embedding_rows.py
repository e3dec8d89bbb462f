"""Rows of embedding tables: gathered, or scored as negative samples without gathering (Triton, numba)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from kgprobe.predict.scorers import Dot, GroupNorm, Similarity


def rows(table: Tensor, ids: Tensor) -> Tensor:
    """The rows of stacked tables: [S, N, D] and ids [S, ...] give [S, ..., D].

    Example:
        >>> table = torch.arange(8.0).reshape(2, 2, 2)
        >>> rows(table, torch.tensor([[1], [0]])).tolist()
        [[[2.0, 3.0]], [[4.0, 5.0]]]
    """
    if is_gathered(table):
        apply: Callable[..., Tensor] = _Rows.apply
        return apply(table, in_stack(table, ids))
    return functional.embedding(in_stack(table, ids), table.flatten(0, 1))


def in_stack(table: Tensor, ids: Tensor) -> Tensor:
    """The places of rows [S, ...] of stacked tables [S, N, D] where these are one behind the other."""
    runs, size, _ = table.shape
    if runs == 1:
        return ids
    first = torch.arange(0, runs * size, size, device=ids.device)
    return ids + first.reshape(runs, *[1] * (ids.dim() - 1))


def is_gathered(table: Tensor) -> bool:
    """Whether slopes are added to what is gathered for a table, which is worth it for parameters on a GPU.

    A table of its own for every part, to be added up in the end, would cost more than the parts themselves, since few
    of its rows are not zero.
    """
    return table.is_cuda and table.is_leaf


def gathered_gradient(table: Tensor) -> Tensor:
    """Where the slope of a table is gathered: whoever knows a part of it adds that part."""
    if table.grad is None:
        table.grad = torch.zeros_like(table)
    return table.grad


class _Rows(torch.autograd.Function):
    """Rows of a table on a GPU, whose slopes are added where those of the table are gathered."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, places: Tensor) -> Tensor:
        ctx.table = table
        ctx.save_for_backward(places)
        return table.flatten(0, 1).index_select(0, places.flatten()).reshape(*places.shape, -1)

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> tuple[None, None]:
        (places,) = ctx.saved_tensors
        gathered_gradient(ctx.table).flatten(0, 1).index_add_(0, places.flatten(), slopes[0].flatten(0, -2))
        return None, None


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
        return sampled_scores
    on_cpu = queries.device.type == "cpu" and queries.dtype == torch.float32
    if on_cpu and isinstance(similarity, GroupNorm) and _installed("numba"):
        from kgprobe.models.sampled_scores_numba import compiled_scores

        return compiled_scores
    return None


def reads_in_place(queries: Tensor) -> bool:
    """Whether answers to the queries can be read where they are: in float32 on a GPU for which kernels are compiled."""
    return queries.is_cuda and queries.dtype == torch.float32 and _installed("triton")


@cache
def _installed(name: str) -> bool:
    return find_spec(name) is not None


def sampled_scores(
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
        from kgprobe.models.sampled_scores_triton import forward

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
        from kgprobe.models.sampled_scores_triton import backward

        queries, table, rows, axes, shares = ctx.saved_tensors
        projected = ctx.sizes[3] > 0
        query_slope = torch.empty_like(queries)
        table_slope = gathered_gradient(ctx.table) if is_gathered(ctx.table) else torch.zeros_like(table)
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
