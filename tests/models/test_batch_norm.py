"""Batch normalisation of stacked runs against that of torch, one run at a time."""

import pytest
import torch
from torch import nn

from kgprobe.models.batch_norm import BatchNorm

RUNS, SIZE, DIMENSION = 3, 7, 4


def references() -> list[nn.BatchNorm1d]:
    torch.manual_seed(0)
    norms = [nn.BatchNorm1d(DIMENSION).double() for _ in range(RUNS)]
    for norm in norms:
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    return norms


def stack_of(norms: list[nn.BatchNorm1d]) -> BatchNorm:
    stack = BatchNorm(RUNS, DIMENSION).double()
    with torch.no_grad():
        stack.scale.copy_(torch.stack([norm.weight for norm in norms]))
        stack.shift.copy_(torch.stack([norm.bias for norm in norms]))
    return stack


def test_every_run_is_normalised_as_alone() -> None:
    """Over several batches, with gradients, then with the statistics of all of them."""
    norms = references()
    stack = stack_of(norms)
    for batch in range(3):
        values = (torch.randn(RUNS, SIZE, DIMENSION, dtype=torch.float64) * 2 + batch).requires_grad_()
        weights = torch.randn(RUNS, SIZE, DIMENSION, dtype=torch.float64)
        ours, theirs = stack(values), torch.stack([norm(values[run]) for run, norm in enumerate(norms)])
        torch.testing.assert_close(ours, theirs)
        given = (values, stack.scale, stack.shift)
        expected = torch.autograd.grad(
            (theirs * weights).sum(), [values, *(norm.weight for norm in norms), *(norm.bias for norm in norms)]
        )
        found = torch.autograd.grad((ours * weights).sum(), given)
        torch.testing.assert_close(found[0], expected[0])
        torch.testing.assert_close(found[1], torch.stack(expected[1 : 1 + RUNS]))
        torch.testing.assert_close(found[2], torch.stack(expected[1 + RUNS :]))
    for run, norm in enumerate(norms):
        torch.testing.assert_close(stack.mean[run], norm.running_mean)
        torch.testing.assert_close(stack.variance[run], norm.running_var)
    values = torch.randn(RUNS, SIZE, DIMENSION, dtype=torch.float64)
    kept = stack.mean.clone()
    theirs = torch.stack([norm.eval()(values[run]) for run, norm in enumerate(norms)])
    torch.testing.assert_close(stack.eval()(values), theirs)
    assert torch.equal(stack.mean, kept)


def test_a_single_query_is_normalised_to_the_shift() -> None:
    """Of which torch makes an error; the last batch of an epoch may well be one query."""
    stack = stack_of(references())
    normalised = stack(torch.randn(RUNS, 1, DIMENSION, dtype=torch.float64))
    torch.testing.assert_close(normalised[:, 0], stack.shift.detach())
    assert stack.variance.isfinite().all()


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_large_values_are_normalised_in_float32(offset: float) -> None:
    values = torch.randn(1, 1000, 1, generator=torch.Generator().manual_seed(0)) + offset
    normalised = BatchNorm(1, 1)(values).detach()
    assert (float(normalised.mean()), float(normalised.std())) == pytest.approx((0, 1), abs=2e-3)
