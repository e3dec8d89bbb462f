"""Rules begin with what their statistics say, and are held there as strongly as is asked for."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from kgprobe.models.rules.rule import Rules
from kgprobe.train.resolve import resolve
from kgprobe.train.rules.rnnlogic import RNNLogicLearner
from kgprobe.train.rules.rnnlogic.prior import Prior
from kgprobe.train.settings import Settings
from kgprobe.train.sources import from_values
from rnnlogic_oracle import random_model
from rule_trainings import family, quick_rules
from trainings import CPU, one_thread

RULES = replace(
    Rules.from_bodies(1, [0, 0, 1], [[1], [0], [0]]),
    support=np.array([10.0, 0.0, 5.0]),
    pairs=np.array([15.0, 0.0, 95.0]),
)
INITIAL = torch.tensor([10 / 20, 0.0, 5 / 100])


def settings_of(**changes: Any) -> Settings:
    return resolve("rnnlogic", [from_values("test", changes)]).settings


@pytest.mark.parametrize("predictor", ["linear", "both", "plus"])
@pytest.mark.parametrize("bias", ["none", "answer"])
def test_the_gradient_is_that_of_squared_distances(predictor: str, bias: str) -> None:
    settings = settings_of(regularisation=3.0, bias_regularisation=5.0, initial_weight=0.4)
    model = random_model(RULES, entities=4, predictor=predictor, bias=bias).float()
    Prior.of(settings, RULES, 7, CPU).pull(model)
    if predictor == "plus":
        assert model.rule.grad is None
    else:
        torch.testing.assert_close(model.rule.grad[:, 0], 2 * 3 / 7 * (model.rule[:, 0].detach() - 0.4 * INITIAL))
        assert not model.rule.grad[:, 1:].any()
    if model.bias is not None:
        torch.testing.assert_close(model.bias.grad, 2 * 5 / 7 * model.bias.detach())


def test_without_regularisation_nothing_pulls() -> None:
    model = random_model(RULES, entities=4)
    Prior.of(settings_of(initial_weight=2.0), RULES, 7, CPU).pull(model)
    assert all(own.grad is None for own in model.parameters())


@pytest.mark.parametrize("strength", [0.0, 1e7])
def test_weights_stay_where_they_begin_if_they_are_held_there(strength: float) -> None:
    held = {"regularisation": strength, "bias_regularisation": strength, "initial_weight": 1.5}
    settings = quick_rules("rnnlogic", predictor="linear", bias="answer", **held, seeds=(0,), learning_rate=1e-3)
    with one_thread():
        learner = RNNLogicLearner(settings, family(), CPU)
        for epoch in range(6):
            learner.epoch(epoch, lambda steps, phase: None)
    tensors = learner.weights(0)
    support, pairs = (tensors[f"rules.{name}"] for name in ("support", "pairs"))
    moved = tensors["model.rule"][:, 0] - 1.5 * support / (pairs + 5)
    assert bool(moved.abs().max() < 2e-3) == bool(tensors["model.bias"].abs().max() < 2e-3) == (strength > 0)
