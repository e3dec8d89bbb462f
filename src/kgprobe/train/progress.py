"""What a training tells while it goes on, and what it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kgprobe.train.selection import Best


@dataclass
class Progress:
    """How far a training is.

    Attributes:
        epochs: Epochs that there will be at most.
        steps_an_epoch: Steps in an epoch.
        phase: "training", "validating", or what else is being done, such as "mining" rules.
        epoch: Epochs that are done.
        step: Steps of the present epoch that are done.
        steps_a_second: Speed of the last epoch.
        loss: The last mean loss of each run.
        last: The last validation: the score of each run by target.
        best: The best validation so far, likewise.
    """

    epochs: int
    steps_an_epoch: int
    phase: str = "training"
    epoch: int = 0
    step: int = 0
    steps_a_second: float = 0.0
    loss: list[float] = field(default_factory=list)
    last: dict[str, list[float]] = field(default_factory=dict)
    best: dict[str, list[Best | None]] = field(default_factory=dict)


Watch: TypeAlias = Callable[[Progress], None]


@dataclass(frozen=True)
class Trained:
    """What a training found.

    Attributes:
        best: For every target, by canonical name, the best validation of each run.
        epochs: Epochs that were trained.
        seconds: How long it took, validations included; over all sessions where it was resumed.
        training_seconds: How long the steps alone took.
        rows: What was found at each validation.
    """

    best: dict[str, list[Best]]
    epochs: int
    seconds: float
    training_seconds: float
    rows: list[dict[str, Any]]

    @property
    def facts(self) -> dict[str, Any]:
        """What the result of a run says about its training."""
        return {"epochs": self.epochs, "seconds": self.seconds, "training_seconds": self.training_seconds}
