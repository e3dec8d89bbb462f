"""The optimisers against torch's own plain loops and the formula, the schedules in closed form, states to the bit.

Precision of matrix products: what was set before comes back, and a CPU stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from kgprobe.errors import DataError
from kgprobe.models.embedding_model import EmbeddingModel, Sizes
from kgprobe.train.checkpoints import copied
from kgprobe.train.optimiser import Optimiser, learning_rate, matmul_precision, mixed
from runs import bits, quick_settings
from slow_models import fresh

RATE = 0.03

PLAIN: dict[str, Any] = {"adam": torch.optim.Adam, "adagrad": torch.optim.Adagrad}

both = pytest.mark.parametrize("name", list(PLAIN))


def _model(seeds: tuple[int, ...] = (3, 8)) -> EmbeddingModel:
    return fresh("TuckER", Sizes(6, 2), seeds)


def _slopes(model: EmbeddingModel, steps: int, first: int = 0) -> Iterator[dict[str, torch.Tensor]]:
    for step in range(first, first + steps):
        generator = torch.Generator().manual_seed(step)
        yield {name: torch.randn(own.shape, generator=generator) for name, own in model.named_parameters()}


def _follow(optimiser: Any, model: EmbeddingModel, steps: int, first: int = 0) -> None:
    for slopes in _slopes(model, steps, first):
        for name, own in model.named_parameters():
            own.grad = slopes[name].clone()
        optimiser.step()


@both
def test_parameters_follow_as_with_the_plain_optimiser_of_torch(name: str) -> None:
    ours, plain = _model(), _model()
    _follow(Optimiser(quick_settings("tucker", optimiser=name, learning_rate=RATE), ours), ours, 10)
    _follow(PLAIN[name](plain.parameters(), lr=RATE, foreach=False), plain, 10)
    for own, wanted in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(own, wanted, rtol=1e-5, atol=1e-6)


def test_parameters_follow_the_formulas() -> None:
    for name in PLAIN:
        model = _model()
        own = model.entity.detach().double().numpy().copy()
        first, second = np.zeros_like(own), np.zeros_like(own)
        for step, slopes in enumerate(_slopes(model, 8), 1):
            slope = slopes["entity"].double().numpy()
            if name == "adagrad":
                second += slope**2
                own -= RATE * slope / (np.sqrt(second) + 1e-10)
                continue
            first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
            own -= RATE * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        _follow(Optimiser(quick_settings("tucker", optimiser=name, learning_rate=RATE), model), model, 8)
        np.testing.assert_allclose(model.entity.detach().numpy(), own, rtol=1e-5, atol=1e-6)


@both
def test_slopes_are_forgotten_after_a_step(name: str) -> None:
    model = _model()
    _follow(Optimiser(quick_settings("tucker", optimiser=name), model), model, 1)
    assert all(own.grad is None for own in model.parameters())


@both
def test_runs_of_a_stack_follow_as_alone(name: str) -> None:
    stacked, alone = _model(), _model((8,))
    settings = quick_settings("tucker", optimiser=name)
    ours = Optimiser(settings, stacked)
    single = Optimiser(settings, alone)
    for slopes in _slopes(stacked, 5):
        for key, own in stacked.named_parameters():
            own.grad = slopes[key].clone()
        for key, own in alone.named_parameters():
            own.grad = slopes[key][1:].clone()
        ours.step()
        single.step()
    for own, wanted in zip(stacked.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(own[1:], wanted, rtol=1e-6, atol=1e-7)


@both
def test_a_state_goes_on_to_the_bit(name: str) -> None:
    settings = quick_settings("tucker", optimiser=name)
    undisturbed = _model()
    optimiser = Optimiser(settings, undisturbed)
    _follow(optimiser, undisturbed, 4)
    state, weights = copied(optimiser.state()), copied(undisturbed.state_dict())
    _follow(optimiser, undisturbed, 4, first=4)

    resumed = _model()
    resumed.load_state_dict(weights)
    again = Optimiser(settings, resumed)
    again.load(state)
    before = list(bits(state))
    _follow(again, resumed, 4, first=4)
    assert list(bits(resumed.state_dict())) == list(bits(undisturbed.state_dict()))
    assert list(bits(again.state())) == list(bits(optimiser.state()))
    assert list(bits(state)) == before, "what was loaded must not change with training"


@both
def test_a_state_of_another_model_or_optimiser_is_refused(name: str) -> None:
    model = _model()
    optimiser = Optimiser(quick_settings("tucker", optimiser=name), model)
    _follow(optimiser, model, 1)
    state = copied(optimiser.state())
    entity = [key for key in state if key.startswith("entity.")]
    other = Optimiser(quick_settings("tucker", optimiser=next(own for own in PLAIN if own != name)), model)
    with pytest.raises(DataError, match="not the state of the optimiser") as error:
        other.load(state)
    assert len(error.value.problems) == len(dict(model.named_parameters()))
    for changed in ({entity[0]: torch.zeros(0)}, {entity[-1]: torch.zeros(2, 2)}, {"entity.other": torch.zeros(1)}):
        with pytest.raises(DataError, match="not the state of the optimiser") as error:
            optimiser.load(state | changed)
        assert error.value.problems[0].startswith("entity: shapes")
    with pytest.raises(DataError, match="not the state of the optimiser"):
        optimiser.load({key: value for key, value in state.items() if key != entity[0]})
    optimiser.load(state)
    assert list(bits(copied(optimiser.state()))) == list(bits(state))


@both
def test_every_tensor_of_a_state_is_named_after_its_parameter(name: str) -> None:
    model = _model()
    optimiser = Optimiser(quick_settings("tucker", optimiser=name), model)
    _follow(optimiser, model, 1)
    keys = {"adam": ("step", "exp_avg", "exp_avg_sq"), "adagrad": ("step", "sum")}[name]
    wanted = {f"{parameter}.{key}" for parameter, _ in model.named_parameters() for key in keys}
    assert set(optimiser.state()) == wanted
    assert all(isinstance(own, torch.Tensor) for own in optimiser.state().values())


@both
def test_a_new_rate_counts_from_the_next_step(name: str) -> None:
    ours, plain = _model(), _model()
    optimiser = Optimiser(quick_settings("tucker", optimiser=name, learning_rate=RATE), ours)
    wanted = PLAIN[name](plain.parameters(), lr=RATE, foreach=False)
    for rate, first in ((RATE, 0), (RATE / 4, 3), (RATE / 4, 6)):
        assert optimiser.set_rate(rate) == (first == 3)
        wanted.param_groups[0]["lr"] = rate
        _follow(optimiser, ours, 3, first)
        _follow(wanted, plain, 3, first)
    for own, other in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-6)


def _rates(**changes: Any) -> list[float]:
    settings = quick_settings(learning_rate=0.2, **({"epochs": 9} | changes))
    return [learning_rate(settings, epoch) for epoch in range(settings.epochs)]


def test_schedules() -> None:
    assert _rates(schedule="constant") == [0.2] * 9
    assert _rates(schedule="steps", decay=0.5) == pytest.approx([0.2] * 5 + [0.1] * 4)
    assert _rates(schedule="steps", decay=0.5, decay_every=3) == pytest.approx([0.2] * 3 + [0.1] * 3 + [0.05] * 3)
    assert _rates(schedule="steps", epochs=1) == [0.2]
    assert _rates(schedule="cosine") == pytest.approx([0.1 * (1 + math.cos(math.pi * k / 9)) for k in range(9)])


@pytest.mark.parametrize("schedule", ["constant", "steps", "cosine"])
def test_rates_never_rise_nor_vanish(schedule: str) -> None:
    rates = _rates(schedule=schedule, epochs=23)
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == 0.2
    assert rates[-1] > 0


@pytest.mark.parametrize(("precision", "wanted"), [("float32", "highest"), ("tf32", "high"), ("bfloat16", "high")])
def test_what_was_set_before_comes_back(precision: str, wanted: str) -> None:
    before = torch.get_float32_matmul_precision()
    with matmul_precision(precision):
        assert torch.get_float32_matmul_precision() == wanted
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
def test_products_on_a_cpu_stay_long(precision: str) -> None:
    with mixed(precision, torch.device("cpu")):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
