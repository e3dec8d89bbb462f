"""Optimisers, learning-rate schedules, and the precision of matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from kgprobe.train.settings import Settings

PRODUCTS = {"float32": "highest", "tf32": "high", "bfloat16": "high"}

"""What torch calls the precision of products of float32 numbers."""


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Products of float32 matrices in a precision, whatever it was before.

    Example:
        >>> with matmul_precision("tf32"):
        ...     torch.get_float32_matmul_precision()
        'high'
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(PRODUCTS[precision])
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def mixed(precision: str, device: torch.device) -> torch.autocast:
    """A context in which matrices are short for products on a GPU, and sums and parameters stay long."""
    wanted = precision == "bfloat16" and device.type == "cuda"
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=wanted)


Rate: TypeAlias = Callable[[Settings, int], float]


def _constant(settings: Settings, epoch: int) -> float:
    return 1.0


def _steps(settings: Settings, epoch: int) -> float:
    every = settings.decay_every or max(1, math.ceil(settings.epochs / 2))
    return float(settings.decay ** (epoch // every))


def _cosine(settings: Settings, epoch: int) -> float:
    return (1 + math.cos(math.pi * epoch / settings.epochs)) / 2


_SHARE: Mapping[str, Rate] = {"constant": _constant, "steps": _steps, "cosine": _cosine}


def learning_rate(settings: Settings, epoch: int) -> float:
    """The step size of an epoch.

    Example:
        >>> halves = Settings("complex", None, learning_rate=0.1, schedule="steps", epochs=10)
        >>> learning_rate(halves, 4), round(learning_rate(halves, 5), 9)
        (0.1, 0.01)
    """
    return settings.learning_rate * _SHARE[settings.schedule](settings, epoch)


class Optimiser:
    """An optimiser of torch, whose state has a name for every tensor."""

    def __init__(self, settings: Settings, model: nn.Module) -> None:
        self._named = dict(model.named_parameters())
        self._torch, self._rate = _OPTIMISERS[settings.optimiser](list(self._named.values()), settings.learning_rate)

    def set_rate(self, rate: float) -> bool:
        """Set the step size; tells whether steps that were captured on a GPU must be captured anew."""
        if self._rate is not None:
            self._rate.fill_(rate)
            return False
        changed = any(group["lr"] != rate for group in self._torch.param_groups)
        for group in self._torch.param_groups:
            group["lr"] = rate
        return changed

    def step(self) -> None:
        """Follow the gradient, and forget it."""
        self._torch.step()
        self._torch.zero_grad(set_to_none=True)

    def state(self) -> dict[str, Tensor]:
        """What it has gathered about each parameter."""
        return {f"{name}.{key}": value for name, key, value in self._gathered()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        for name, own in self._named.items():
            prefix = f"{name}."
            kept = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
            self._torch.state[own] = {
                key: value.to("cpu" if _stays_on_host(self._torch, key) else own.device).clone()
                for key, value in kept.items()
            }

    def _gathered(self) -> Iterator[tuple[str, str, Tensor]]:
        for name, own in self._named.items():
            for key, value in self._torch.state[own].items():
                yield name, key, value


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


_OPTIMISERS: Mapping[str, Callable[[list[Any], float], tuple[torch.optim.Optimizer, Tensor | None]]] = {
    "adam": _adam,
    "adagrad": _adagrad,
}
