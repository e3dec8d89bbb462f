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
    """Gather rows of stacked tables: [S, N, D] and ids [S, ...] give [S, ..., D].

    Example:
        >>> table = torch.arange(8.0).reshape(2, 2, 2)
        >>> rows(table, torch.tensor([[1], [0]])).tolist()
        [[[2.0, 3.0]], [[4.0, 5.0]]]
    """
    if is_gathered(table):
        apply: Callable[..., Tensor] = _Rows.apply
        return apply(table, flat_ids(table, ids))
    return functional.embedding(flat_ids(table, ids), table.flatten(0, 1))


def flat_ids(table: Tensor, ids: Tensor) -> Tensor:
    """Ids [S, ...] of rows of stacked tables [S, N, D] as row numbers of the flattened table [S * N, D]."""
    runs, size, _ = table.shape
    if runs == 1:
        return ids
    first = torch.arange(0, runs * size, size, device=ids.device)
    return ids + first.reshape(runs, *[1] * (ids.dim() - 1))


def is_gathered(table: Tensor) -> bool:
    """Whether gradients of rows are added directly to ``table.grad``: for parameters on a GPU.

    Otherwise autograd would allocate and sum a full table, mostly zeros, for each use of the table.
    """
    return table.is_cuda and table.is_leaf


def gathered_gradient(table: Tensor) -> Tensor:
    """The gradient of a table, to which the gradients of its rows are added in place."""
    if table.grad is None:
        table.grad = torch.zeros_like(table)
    return table.grad


class _Rows(torch.autograd.Function):
    """Rows of a table; the backward pass adds to the gradient of the table in place."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor) -> Tensor:
        ctx.table = table
        ctx.save_for_backward(ids)
        return table.flatten(0, 1).index_select(0, ids.flatten()).reshape(*ids.shape, -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[None, None]:
        (ids,) = ctx.saved_tensors
        gathered_gradient(ctx.table).flatten(0, 1).index_add_(0, ids.flatten(), gradients[0].flatten(0, -2))
        return None, None


class Projection(NamedTuple):
    """Projections of candidates by the relations of queries, applied one after the other.

    Attributes:
        axes: A unit vector for each group of coordinates: [S, B, projections, D].
        shares: The share, below 1, of the component along the axis that is removed: [S, B, projections, groups].
    """

    axes: Tensor
    shares: Tensor


# (similarity, queries [S, B, D], table [S, N, D], entities [S, B or 1, K], projection) -> scores [S, B, K]
FusedScores: TypeAlias = Callable[[Any, Tensor, Tensor, Tensor, Projection | None], Tensor]


def fused_scorer(similarity: Similarity, queries: Tensor) -> FusedScores | None:
    """The function that scores candidates without gathering their embeddings; None if there is none for the input."""
    if has_kernels(queries):
        return sampled_scores
    on_cpu = queries.device.type == "cpu" and queries.dtype == torch.float32
    if on_cpu and isinstance(similarity, GroupNorm) and _installed("numba"):
        from kgprobe.models.sampled_scores_numba import compiled_scores

        return compiled_scores
    return None


def has_kernels(queries: Tensor) -> bool:
    """Whether the Triton kernels apply: float32 queries on a GPU, and triton is installed."""
    return queries.is_cuda and queries.dtype == torch.float32 and _installed("triton")


@cache
def _installed(name: str) -> bool:
    return find_spec(name) is not None


def sampled_scores(
    similarity: Similarity, queries: Tensor, table: Tensor, entities: Tensor, projection: Projection | None
) -> Tensor:
    """Scores [S, B, K] of entities [S, B or 1, K], rows of a table [S, N, D], for queries [S, B, D], by Triton."""
    entities = entities.expand(*queries.shape[:2], -1)
    ids = flat_ids(table, entities).flatten(0, 1)
    is_dot = isinstance(similarity, Dot)
    width = 1 if isinstance(similarity, Dot) else similarity.width(table.shape[-1])
    axes, shares = (None, None) if projection is None else (own.flatten(0, 1) for own in projection)
    apply: Callable[..., Tensor] = _SampledScores.apply
    scores = apply(queries.flatten(0, 1), table, ids, axes, shares, width, is_dot).reshape(entities.shape)
    return scores if isinstance(similarity, Dot) else similarity.gamma - scores


class _SampledScores(torch.autograd.Function):
    """Dot products or distances of queries [Q, D] and rows [Q, K] of a table."""

    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        table: Tensor,
        ids: Tensor,
        axes: Tensor | None,
        shares: Tensor | None,
        width: int,
        is_dot: bool,
    ) -> Tensor:
        from kgprobe.models.sampled_scores_triton import forward

        queries, ids = queries.contiguous(), ids.contiguous()
        axes = queries if axes is None else axes.contiguous()
        shares = queries if shares is None else shares.contiguous()
        projections = 0 if axes is queries else axes.shape[1]
        scores = torch.empty(ids.shape, dtype=queries.dtype, device=queries.device)
        shape = _block_shape(width, queries.shape[1])
        grid = (len(queries), -(-ids.shape[1] // shape["ANSWERS"]))
        sizes = (ids.shape[1], queries.shape[1] // width, width, projections, is_dot)
        forward[grid](queries, table, ids, axes, shares, scores, *sizes, **shape)
        ctx.save_for_backward(queries, table, ids, axes, shares)
        ctx.table, ctx.sizes, ctx.shape = table, sizes, shape
        return scores

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        from kgprobe.models.sampled_scores_triton import backward

        queries, table, ids, axes, shares = ctx.saved_tensors
        projected = ctx.sizes[3] > 0
        query_gradient = torch.empty_like(queries)
        table_gradient = gathered_gradient(ctx.table) if is_gathered(ctx.table) else torch.zeros_like(table)
        axis_gradient = torch.zeros_like(axes) if projected else queries
        share_gradient = torch.zeros_like(shares) if projected else queries
        grid = (len(queries), -(-ctx.sizes[1] // ctx.shape["GROUPS"]))
        inputs = (queries, table, ids, axes, shares, gradients[0].contiguous())
        outputs = (query_gradient, table_gradient, axis_gradient, share_gradient)
        backward[grid](*inputs, *outputs, *ctx.sizes, **ctx.shape)
        of_table = None if is_gathered(ctx.table) else table_gradient
        of_projection = (axis_gradient, share_gradient) if projected else (None, None)
        return query_gradient, of_table, None, *of_projection, None, None


_BLOCK_COORDINATES = 2048  # coordinates that a kernel program holds at a time
_ROW_COORDINATES = 128  # neighbouring coordinates of a row that it loads at a time, if the groups allow it


def _block_shape(width: int, dimension: int) -> dict[str, int]:
    """Number of candidates, groups and coordinates that a kernel program holds at a time: powers of two."""
    padded = _power_of_two(width)
    groups = min(max(1, _ROW_COORDINATES // padded), _power_of_two(dimension // width))
    answers = min(32, max(1, _BLOCK_COORDINATES // (groups * padded)))
    return {"ANSWERS": answers, "GROUPS": groups, "WIDTH": padded}


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
