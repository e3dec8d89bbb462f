"""Cross entropy of products with all entities, in one piece: no step of it needs a matrix of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from kgprobe.models.tables import gathered_slope, is_gathered

_ALIGNED = 8
"""Rows of scores begin at multiples of so many numbers, without which a GPU multiplies matrices at half its speed."""


def product_cross_entropy(queries: Tensor, table: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """How surprised a softmax over all entities is by the answers, where scores are dot products.

    It is the cross entropy of `kgprobe.train.losses.plain`, whose slopes replace the scores where these are.

    Args:
        queries: The vectors of the queries: [S, B, D].
        table: The vectors of the entities: [S, N, D].
        target: The answers: [S, B].
        smoothing: Share of the truth that is spread over all entities.

    Returns:
        The losses [S, B].

    Example:
        >>> queries, table = torch.zeros(1, 1, 2), torch.ones(1, 4, 2)
        >>> round(product_cross_entropy(queries, table, torch.tensor([[3]]), 0.0).item(), 4)
        1.3863
    """
    apply: Callable[..., Tensor] = _ProductCrossEntropy.apply
    return apply(queries, table, target, smoothing)


class _ProductCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, queries: Tensor, table: Tensor, target: Tensor, smoothing: float) -> Tensor:
        scores = _products(queries, table)
        total = torch.logsumexp(scores, -1)
        loss = total - (1 - smoothing) * scores.gather(-1, target[..., None])[..., 0]
        if smoothing:
            loss -= smoothing * scores.mean(-1)
        ctx.table, ctx.smoothing = table, smoothing
        ctx.save_for_backward(queries, table, target, scores, total)
        return loss

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> tuple[Tensor | None, ...]:
        queries, table, target, scores, total = ctx.saved_tensors
        surprise = scores.sub_(total[..., None]).exp_()
        if ctx.smoothing:
            surprise -= ctx.smoothing / surprise.shape[-1]
        surprise.scatter_add_(-1, target[..., None], torch.full_like(total, ctx.smoothing - 1)[..., None])
        surprise *= slopes[0][..., None]
        of_queries = surprise @ table
        if is_gathered(ctx.table):
            gathered_slope(ctx.table).baddbmm_(surprise.transpose(1, 2), queries)
            return of_queries, None, None, None
        return of_queries, surprise.transpose(1, 2) @ queries, None, None


def _products(queries: Tensor, table: Tensor) -> Tensor:
    """The products [S, B, N] in memory whose rows are aligned."""
    runs, size, _ = table.shape
    room = queries.new_empty(runs, queries.shape[1], -(-size // _ALIGNED) * _ALIGNED)
    return torch.bmm(queries, table.transpose(1, 2), out=room[..., :size])
