"""Random numbers of stacked runs."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kgprobe.models.random_streams import RandomStreams

DRAWS: dict[str, Callable[[RandomStreams], Tensor]] = {
    "integers": lambda streams: streams.integers(1000, (50,)),
    "uniform": lambda streams: streams.uniform((5, 10)),
    "normal": lambda streams: streams.normal((5, 10)),
    "order": lambda streams: streams.order(50),
    "dropped": lambda streams: streams.dropped(torch.ones(len(streams.seeds), 50), 0.5),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_run_draws_what_it_draws_alone(draw: Callable[[RandomStreams], Tensor]) -> None:
    both, alone = RandomStreams([4, 9], "cpu"), RandomStreams([9], "cpu")
    for _ in range(3):
        ours, own = draw(both), draw(alone)
        assert torch.equal(ours[1], own[0])
        assert not torch.equal(ours[0], ours[1])


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_an_epoch_is_sampled_again_and_no_two_are_alike(draw: Callable[[RandomStreams], Tensor]) -> None:
    streams = RandomStreams([4], "cpu")
    epochs = []
    for epoch in (0, 1, 2, 1):
        streams.reseed(epoch)
        epochs.append(draw(streams))
    assert torch.equal(epochs[1], epochs[3])
    assert not torch.equal(epochs[0], epochs[1])
    assert not torch.equal(epochs[1], epochs[2])


def test_an_epoch_does_not_depend_on_what_was_sampled_before() -> None:
    streams, other = RandomStreams([4], "cpu"), RandomStreams([4], "cpu")
    streams.uniform((3,))
    streams.reseed(5)
    other.reseed(5)
    assert torch.equal(streams.uniform((3,)), other.uniform((3,)))


def test_no_epoch_of_a_seed_is_that_of_a_neighbour() -> None:
    first = set()
    for seed in range(20):
        streams = RandomStreams([seed], "cpu")
        for epoch in range(20):
            streams.reseed(epoch)
            first.add(int(streams.integers(2**62, (1,))))
    assert len(first) == 400


def test_an_order_has_every_number_once() -> None:
    order = RandomStreams([0, 1], "cpu").order(30)
    assert order.sort().values.tolist() == [list(range(30))] * 2


def test_dropping_keeps_the_mean() -> None:
    values = torch.full((1, 100_000), 3.0)
    dropped = RandomStreams([0], "cpu").dropped(values, 0.2)
    assert dropped.unique().tolist() == pytest.approx([0, 3 / 0.8])
    assert float((dropped == 0).double().mean()) == pytest.approx(0.2, abs=0.01)


def test_dropping_nothing_draws_nothing() -> None:
    streams, untouched = RandomStreams([0], "cpu"), RandomStreams([0], "cpu")
    values = torch.randn(1, 10)
    assert streams.dropped(values, 0.0) is values
    assert torch.equal(streams.uniform((3,)), untouched.uniform((3,)))


def test_dropping_keeps_the_type() -> None:
    assert RandomStreams([0], "cpu").dropped(torch.ones(1, 4, dtype=torch.float64), 0.5).dtype == torch.float64
