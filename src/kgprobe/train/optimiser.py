"""Optimisers, learning-rate schedules, the precision of matrix products, and named tensors of a state."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from kgprobe.errors import DataError
from kgprobe.train.settings import Settings

_MATMUL_PRECISION = {"float32": "highest", "tf32": "high", "bfloat16": "high"}


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Context in which products of float32 matrices have this precision."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(_MATMUL_PRECISION[precision])
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def mixed(precision: str, device: torch.device) -> torch.autocast:
    """Context of mixed precision: matrix products in bfloat16 on a GPU where the precision says so."""
    enabled = precision == "bfloat16" and device.type == "cuda"
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=enabled)


def _steps(settings: Settings, epoch: int) -> float:
    every = settings.decay_every or max(1, math.ceil(settings.epochs / 2))
    return float(settings.decay ** (epoch // every))


def _cosine(settings: Settings, epoch: int) -> float:
    return (1 + math.cos(math.pi * epoch / settings.epochs)) / 2


_SCHEDULES: Mapping[str, Callable[[Settings, int], float]] = {
    "constant": lambda settings, epoch: 1.0,
    "steps": _steps,
    "cosine": _cosine,
}


def learning_rate(settings: Settings, epoch: int) -> float:
    """The learning rate of an epoch.

    Example:
        >>> halves = Settings("complex", None, learning_rate=0.1, schedule="steps", epochs=10)
        >>> learning_rate(halves, 4), round(learning_rate(halves, 5), 9)
        (0.1, 0.01)
    """
    return settings.learning_rate * _SCHEDULES[settings.schedule](settings, epoch)


class Optimiser:
    """A torch optimiser whose state is a mapping of named tensors."""

    def __init__(self, settings: Settings, model: nn.Module) -> None:
        self._named = dict(model.named_parameters())
        self._torch, self._rate = _OPTIMISERS[settings.optimiser](list(self._named.values()), settings.learning_rate)

    def set_rate(self, rate: float) -> bool:
        """Set the learning rate; returns whether a captured CUDA graph must be captured again."""
        if self._rate is not None:
            self._rate.fill_(rate)
            return False
        changed = any(group["lr"] != rate for group in self._torch.param_groups)
        for group in self._torch.param_groups:
            group["lr"] = rate
        return changed

    def step(self) -> None:
        """Update the parameters, and clear the gradients."""
        self._torch.step()
        self._torch.zero_grad(set_to_none=True)

    def state(self) -> dict[str, Tensor]:
        return {
            f"{name}.{key}": value
            for name, parameter in self._named.items()
            for key, value in self._torch.state[parameter].items()
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restore a state.

        Raises:
            DataError: It is the state of another optimiser or of another model.
        """
        problems = []
        for name, parameter in self._named.items():
            expected = {
                key: tuple(parameter.shape) if scaled else () for key, scaled in _STATES[type(self._torch)].items()
            }
            found = {key: tuple(value.shape) for key, value in under(f"{name}.", state).items()}
            if found not in ({}, expected):  # a parameter without a gradient has none
                problems.append(f"{name}: shapes {found}, expected {expected}")
        if problems:
            raise DataError("this is not the state of the optimiser", problems, "use the settings of its training")
        for name, parameter in self._named.items():
            self._torch.state[parameter] = {
                key: value.to("cpu" if _stays_on_host(self._torch, key) else parameter.device).clone()
                for key, value in under(f"{name}.", state).items()
            }


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Load the parameters of a model.

    Raises:
        DataError: They are not the parameters of this model; with all that are missing, unknown or of another shape.
    """
    try:
        model.load_state_dict(dict(tensors))
    except RuntimeError as error:
        title, *problems = (line.strip() for line in str(error).splitlines())
        remedy = "use the settings and the graph that they were trained with"
        raise DataError(f"these are not the weights of {type(model).__name__}", problems or [title], remedy) from None


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with a prefix, without the prefix."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with a prefix before their names."""
    return {f"{prefix}{name}": tensor for name, tensor in tensors.items()}


def _adam(parameters: list[Any], rate: float) -> tuple[torch.optim.Optimizer, Tensor | None]:
    device = parameters[0].device
    if device.type != "cuda":
        return torch.optim.Adam(parameters, lr=rate, fused=True), None
    shared = torch.tensor(rate, device=device)
    return torch.optim.Adam(parameters, lr=shared, fused=True, capturable=True), shared


def _adagrad(parameters: list[Any], rate: float) -> tuple[torch.optim.Optimizer, Tensor | None]:
    return torch.optim.Adagrad(parameters, lr=rate, foreach=True), None


def _stays_on_host(optimiser: torch.optim.Optimizer, key: str) -> bool:
    return key == "step" and isinstance(optimiser, torch.optim.Adagrad)


_STATES: Mapping[type[torch.optim.Optimizer], Mapping[str, bool]] = {
    torch.optim.Adam: {"step": False, "exp_avg": True, "exp_avg_sq": True},
    torch.optim.Adagrad: {"step": False, "sum": True},
}
"""The tensors of an optimiser for a parameter, and whether they have the shape of the parameter."""

_OPTIMISERS: Mapping[str, Callable[[list[Any], float], tuple[torch.optim.Optimizer, Tensor | None]]] = {
    "adam": _adam,
    "adagrad": _adagrad,
}
