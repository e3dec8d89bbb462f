"""The learner protocol of the trainer, and the learner of every model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.scorers import AnyScorer
from kgprobe.train.settings import Settings

StepProgress: TypeAlias = Callable[[int, str], None]
"""Called with the number of steps since the last call and the current phase, such as "mining"."""


class Learner(Protocol):
    """The training of a model: one run for each seed of the settings.

    An epoch depends only on the state and on its number, so that a resumed training has the same result.
    """

    @property
    def steps(self) -> int:
        """Number of steps in an epoch, for progress bars."""
        ...

    @property
    def ready(self) -> bool:
        """Whether the runs can be ranked: rule-based models must find rules first.

        Until then they are neither validated nor stored. By the last epoch they are ready, and stay so.
        """
        ...

    def epoch(self, epoch: int, progress: StepProgress) -> Tensor:
        """Train for an epoch; returns the mean loss of each run [seeds]."""
        ...

    def run(self, run: int) -> AnyScorer:
        """One of the runs as a scorer."""
        ...

    def weights(self, run: int) -> dict[str, Tensor]:
        """The tensors of a checkpoint of one run, for `open_run`."""
        ...

    def state(self) -> dict[str, Tensor]:
        """All tensors that the next epochs depend on; their shapes may change from epoch to epoch."""
        ...

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restore a state."""
        ...


_EMBEDDING = "kgprobe.train.embedding_learner", "EmbeddingLearner"
_RULES = {
    "plogicnet": ("kgprobe.train.plogicnet_learner", "PLogicNetLearner"),
    "rnnlogic": ("kgprobe.train.rnnlogic.rnnlogic_learner", "RNNLogicLearner"),
}


def learner_of(settings: Settings, graph: KnowledgeGraph, device: torch.device) -> Learner:
    """The learner of the model of the settings, before its first epoch."""
    module, learner = _RULES.get(settings.model.lower(), _EMBEDDING)
    new: Learner = getattr(import_module(module), learner)(settings, graph, device)
    return new


def trained_run(
    settings: Settings, graph: KnowledgeGraph, tensors: Mapping[str, Tensor], device: str = "cpu"
) -> AnyScorer:
    """A trained run as a scorer.

    Raises:
        DataError: The weights are not those of such a model.
    """
    module, _ = _RULES.get(settings.model.lower(), _EMBEDDING)
    try:
        run: AnyScorer = import_module(module).open_run(settings, graph, tensors, torch.device(device))
    # Tensors may be missing or of other shapes, and settings of a size for which there is no memory.
    except (KeyError, IndexError, TypeError, ValueError, RuntimeError, MemoryError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise DataError(f"these are not the weights of {settings.model}", [problem], "train it again") from None
    return run
