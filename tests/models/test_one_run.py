"""What a stack of runs has in common with one of them."""

import numpy as np
import pytest
import torch

from kgprobe.models.base import Sizes, grouped, normal, uniform
from kgprobe.models.noise import Noise
from kgprobe.models.tables import rows
from slow_models import KINDS, scattered

SIZES = Sizes(entities=4, relations=2)


@pytest.mark.parametrize("kind", KINDS)
def test_one_run_is_a_view(kind: str) -> None:
    model = scattered(kind, SIZES, runs=3)
    alone = model.one_run(1)
    assert alone.state_dict().keys() == model.state_dict().keys()
    for name, own in alone.state_dict().items():
        assert own.shape == (1, *model.state_dict()[name].shape[1:])
        own.fill_(0.25)
        assert (model.state_dict()[name][1] == 0.25).all()
        assert (model.state_dict()[name][0] != 0.25).any()


@pytest.mark.parametrize("kind", KINDS)
def test_one_run_answers_as_the_stack_does(kind: str) -> None:
    model = scattered(kind, SIZES, runs=2)
    given, relation = np.array([0, 3, 3]), np.array([1, 0, 1])
    ids = (torch.from_numpy(values).expand(2, -1) for values in (given, relation))
    stack = model.encode("head", *ids)
    for run in range(2):
        alone = model.one_run(run).encode_queries("head", given, relation)
        assert not alone.requires_grad
        torch.testing.assert_close(alone, stack[run])


@pytest.mark.parametrize("kind", KINDS)
def test_one_run_leaves_the_stack_in_training(kind: str) -> None:
    model = scattered(kind, SIZES, runs=2).train()
    alone = model.one_run(0)
    assert not any(part.training for part in alone.modules())
    assert all(part.training for part in model.modules())


@pytest.mark.parametrize("kind", KINDS)
def test_candidates_are_no_part_of_a_gradient(kind: str) -> None:
    model = scattered(kind, SIZES)
    assert torch.equal(model.candidates("tail"), model.entity[0])
    assert not model.candidates("tail").requires_grad


def test_rows_of_each_run() -> None:
    table = torch.arange(24.0).reshape(2, 3, 4)
    ids = torch.tensor([[[0, 2]], [[1, 1]]])
    found = rows(table, ids)
    assert found.shape == (2, 1, 2, 4)
    for run in range(2):
        for place in range(2):
            assert torch.equal(found[run, 0, place], table[run, ids[run, 0, place]])


def test_groups_are_neighbours() -> None:
    values = torch.arange(12).reshape(2, 6)
    assert grouped(values, 3).tolist() == [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]]


def test_first_values_fill_their_range() -> None:
    even = uniform(Noise([0], "cpu"), (10_000,), 0.3).detach()
    bell = normal(Noise([0], "cpu"), (10_000,), 0.2).detach()
    assert (float(even.min()), float(even.max())) == pytest.approx((-0.3, 0.3), abs=1e-3)
    assert float(even.mean()) == pytest.approx(0, abs=0.01)
    assert (float(bell.mean()), float(bell.std())) == pytest.approx((0, 0.2), abs=0.01)
