"""Rows of tables that are learned, and where their slopes are gathered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


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


def gathered_slope(table: Tensor) -> Tensor:
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
        gathered_slope(ctx.table).flatten(0, 1).index_add_(0, places.flatten(), slopes[0].flatten(0, -2))
        return None, None
