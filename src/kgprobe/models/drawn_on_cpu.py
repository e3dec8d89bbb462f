"""Scores of answers by compiled loops that read every vector where it is, on a CPU. This module needs numba.

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

from kgprobe.models import drawn_compiled
from kgprobe.models.tables import in_stack
from kgprobe.predict.similarity import GroupNorm

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
        _in_parts(drawn_compiled.forward, len(queries), width, *inputs, distances)
        return distances

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> tuple[Tensor | None, ...]:
        inputs = ctx.saved_tensors
        found = tuple(torch.zeros_like(own) for own in inputs[:-1])
        groups = inputs[0].shape[1] // ctx.width
        _in_parts(drawn_compiled.backward, groups, ctx.width, *inputs, slopes[0].contiguous(), *found)
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
