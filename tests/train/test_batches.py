"""Every query once an epoch, in an order that depends on seed and epoch alone."""

import pytest
import torch

from kgprobe.models.noise import Noise
from kgprobe.train.batches import Batches


def _epoch(batches: Batches, epoch: int) -> torch.Tensor:
    batches.noise.reseed(epoch)
    batches.shuffle()
    return torch.stack([batches.next() for _ in range(batches.steps)], 1)


@pytest.mark.parametrize(("size", "batch"), [(1, 1), (5, 2), (6, 3), (7, 7), (7, 100), (10, 1), (13, 5)])
def test_every_query_is_taken_once_and_the_last_step_is_filled_up(size: int, batch: int) -> None:
    batches = Batches(size, batch, Noise([4, 9], "cpu"))
    taken = _epoch(batches, 3)
    full = min(size, batch)
    assert taken.shape == (2, -(-size // full), full)
    for run in taken.flatten(1).tolist():
        assert sorted(run[:size]) == list(range(size))
        assert run[size:] == run[: len(run) - size]


def test_after_the_last_step_the_order_starts_again() -> None:
    batches = Batches(5, 2, Noise([0], "cpu"))
    taken = _epoch(batches, 0)
    again = torch.stack([batches.next() for _ in range(batches.steps)], 1)
    assert torch.equal(taken, again)


def test_an_epoch_that_was_broken_off_leaves_no_trace() -> None:
    batches, fresh = Batches(9, 2, Noise([1], "cpu")), Batches(9, 2, Noise([1], "cpu"))
    batches.shuffle()
    batches.next()
    assert torch.equal(_epoch(batches, 6), _epoch(fresh, 6))


def test_every_epoch_and_every_seed_has_an_order_of_its_own() -> None:
    batches = Batches(30, 30, Noise([0, 1], "cpu"))
    orders = {tuple(run) for epoch in range(5) for run in _epoch(batches, epoch).flatten(1).tolist()}
    assert len(orders) == 10


def test_a_run_takes_the_same_queries_alone_and_in_a_stack() -> None:
    stacked = Batches(23, 4, Noise([5, 0, 7], "cpu"))
    for epoch in (0, 3):
        together = _epoch(stacked, epoch)
        for run, seed in enumerate((5, 0, 7)):
            assert torch.equal(_epoch(Batches(23, 4, Noise([seed], "cpu")), epoch)[0], together[run])
