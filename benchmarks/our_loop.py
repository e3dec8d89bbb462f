"""Our own training, with the settings of the others; the clock sees it epoch by epoch."""

from __future__ import annotations

import math
from typing import Any

import kgprobe as kp
from kgprobe.models.complex import ComplExOptions
from kgprobe.models.rotate import RotatEOptions
from kgprobe.train.checkpoints import MemoryStorage
from kgprobe.train.settings import Settings
from kgprobe.train.trainer import TrainingProgress, TrainingResources, train
from training_task import Clock, Task

EPOCHS = 1_000_000

"""More than the clock ever lets it do."""


def run(task: Task, graph: kp.KnowledgeGraph, clock: Clock) -> None:
    """Train until the clock has seen enough."""
    seen = 0

    def note(progress: TrainingProgress) -> None:
        nonlocal seen
        if progress.epoch > seen:
            seen = progress.epoch
            clock.tick(progress.loss[0], progress.steps_an_epoch)

    train(settings_of(task), graph, MemoryStorage(), TrainingResources(clock.device), note)


def settings_of(task: Task) -> Settings:
    """The task in our words."""
    return Settings(
        task.model,
        OPTIONS[task.model](task),
        objective="negative_sampling",
        loss="self_adversarial",
        epochs=EPOCHS,
        batch_size=task.batch_size,
        negatives=task.negatives,
        adversarial_temperature=task.temperature,
        subsampling=True,
        regulariser="l3",
        regularisation=task.regularisation,
        learning_rate=task.learning_rate,
        validate_every=EPOCHS,
    )


def _rotate(task: Task) -> Any:
    return RotatEOptions(task.dimension, gamma=task.gamma)


def _complex(task: Task) -> Any:
    """As wide as the others' even distribution."""
    return ComplExOptions(task.dimension, initial_scale=task.bound / math.sqrt(3))


OPTIONS = {"RotatE": _rotate, "ComplEx": _complex}
