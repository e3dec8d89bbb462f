"""Cross entropy in one piece: the values and slopes of the same made of torch's own pieces, in float64."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from kgprobe.train.losses.products import product_cross_entropy


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("entities", [1, 8, 11])
def test_it_is_the_cross_entropy_of_torch(entities: int, smoothing: float) -> None:
    draw = torch.Generator().manual_seed(entities)
    queries, table = (
        torch.randn(2, rows, 6, generator=draw, dtype=torch.float64).requires_grad_() for rows in (5, entities)
    )
    target, weight = torch.randint(entities, (2, 5), generator=draw), torch.randn(2, 5, generator=draw)
    found = product_cross_entropy(queries, table, target, smoothing)
    products = torch.einsum("sbd,snd->sbn", queries, table)
    wanted = functional.cross_entropy(
        products.flatten(0, 1), target.flatten(), label_smoothing=smoothing, reduction="none"
    ).reshape(2, 5)
    torch.testing.assert_close(found, wanted)
    for own, other in zip(
        torch.autograd.grad((found * weight).sum(), (queries, table)),
        torch.autograd.grad((wanted * weight).sum(), (queries, table)),
        strict=True,
    ):
        torch.testing.assert_close(own, other)


def test_scores_that_no_exponential_can_hold() -> None:
    queries, table = torch.full((1, 1, 1), 1e4, requires_grad=True), torch.tensor([[[1.0], [-1.0], [0.5]]])
    loss = product_cross_entropy(queries, table, torch.tensor([[1]]), 0.0)
    assert loss.item() == pytest.approx(2e4)
    loss.sum().backward()
    assert queries.grad is not None
    assert queries.grad.item() == pytest.approx(2.0)


def test_equal_answers_of_several_queries_add_up() -> None:
    table = torch.zeros(1, 3, 2, requires_grad=True)
    product_cross_entropy(torch.ones(1, 4, 2), table, torch.full((1, 4), 2), 0.0).sum().backward()
    assert table.grad is not None
    torch.testing.assert_close(table.grad[0, :, 0], torch.tensor([4 / 3, 4 / 3, -8 / 3]))
