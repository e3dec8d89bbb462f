"""Cross entropy of products with all entities, which passes over the matrix of scores as seldom as can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from kgprobe.models.tables import gathered_slope, is_gathered, rows

_ALIGNED = 8
"""Rows of scores begin at multiples of so many numbers, without which a GPU multiplies matrices at half its speed."""


def product_cross_entropy(queries: Tensor, table: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """How surprised a softmax over all entities is by the answers, where scores are dot products.

    It is the cross entropy of `kgprobe.train.losses.plain`. Only the sum over all entities needs their scores; those
    of the answers, and the mean of all, are products of single vectors.

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
    log_sum: Callable[..., Tensor] = _LogSumOfProducts.apply
    truth = rows(table, target)
    if smoothing:
        truth = torch.lerp(truth, table.mean(1, keepdim=True), smoothing)
    return log_sum(queries, table) - (queries * truth).sum(-1)


class _LogSumOfProducts(torch.autograd.Function):
    """The logarithm of the sum over a table of the exponentials of products."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, table: Tensor) -> Tensor:
        scores = _products(queries, table)
        logarithms = torch.log_softmax(scores, -1)
        ctx.table = table
        ctx.save_for_backward(queries, table, logarithms)
        return scores[..., 0] - logarithms[..., 0]

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> tuple[Tensor | None, ...]:
        queries, table, logarithms = ctx.saved_tensors
        shares, slope = logarithms.exp_()[..., : table.shape[1]], slopes[0][..., None]
        of_queries = (shares @ table).mul_(slope)
        shares, queries = shares.transpose(1, 2), queries * slope
        if is_gathered(ctx.table):
            gathered_slope(ctx.table).baddbmm_(shares, queries)
            return of_queries, None
        return of_queries, shares @ queries


def _products(queries: Tensor, table: Tensor) -> Tensor:
    """The products [S, B, N and more], in memory whose rows are aligned; those beyond the table are minus infinity."""
    runs, size, _ = table.shape
    room = queries.new_empty(runs, queries.shape[1], -(-size // _ALIGNED) * _ALIGNED)
    room[..., size:] = float("-inf")
    torch.bmm(queries, table.transpose(1, 2), out=room[..., :size])
    return room
