"""What is trained in the benchmark of training steps, and the clock that all contenders are timed with."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import torch


@dataclass(frozen=True)
class Task:
    """A model and its settings for FB15k-237 in the paper; a step is one batch of queries with their negatives.

    Attributes:
        model: Name of the model.
        gamma: Margin of the loss, and the width of the initial values together with the dimension.
        temperature: Of the self-adversarial weights.
        regularisation: Weight of the cubed coordinates of the tables.
    """

    model: str
    gamma: float
    temperature: float
    learning_rate: float
    regularisation: float
    dimension: int = 128
    batch_size: int = 1024
    negatives: int = 256

    @property
    def bound(self) -> float:
        """Initial coordinates are drawn from -bound to bound."""
        return (self.gamma + 2) / self.dimension


TASKS = (
    Task("RotatE", gamma=6, temperature=1, learning_rate=5e-5, regularisation=0),
    Task("ComplEx", gamma=200, temperature=0.5, learning_rate=1e-3, regularisation=5e-6),
)


class Enough(Exception):  # noqa: N818
    """The clock has seen all steps that it should; leaves a loop that has no other way out."""


@dataclass
class Clock:
    """Counts steps; those after the warm-up are timed.

    Attributes:
        warm_up: How many steps are not timed, at least.
        steps: How many are, at least.
        device: Where the work is done.
        losses: The losses that it was shown.
        seconds: How long the timed steps took.
    """

    warm_up: int
    steps: int
    device: str
    losses: list[float] = field(default_factory=list)
    seconds: float = 0.0
    _done: int = 0
    _start: float | None = None

    def tick(self, loss: float, steps: int = 1) -> None:
        """Take note of finished steps.

        Raises:
            Enough: They were the last ones.
        """
        self.losses.append(loss)
        self._done += steps
        if self._start is None:
            if self._done >= self.warm_up:
                self._done, self._start = 0, self._now()
        elif self._done >= self.steps:
            self.seconds = self._now() - self._start
            raise Enough

    @property
    def steps_a_second(self) -> float:
        """How fast the timed steps were."""
        return self._done / self.seconds

    def _now(self) -> float:
        if self.device != "cpu":
            torch.cuda.synchronize()
        return time.perf_counter()
