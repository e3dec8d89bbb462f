"""The learner protocol, and the learner of every model by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor

from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.scorers import AnyScorer
from kgprobe.train.settings import Settings

StepProgress: TypeAlias = Callable[[int, str], None]

"""Called with the number of steps that were taken since the last call, and what is being done now, such as "mining"."""


class Learner(Protocol):
    """One run for each seed of the settings, and everything that changes from epoch to epoch.

    An epoch depends on the state and on its number alone, so that a training that was stopped goes on to the same end.

    Attributes:
        steps: Number of steps in an epoch, for people who watch.
        ready: Whether it can be ranked already: models of rules must find these first. It is ready by the last epoch,
            and stays so; until then it is neither validated nor kept as a checkpoint.
    """

    @property
    def steps(self) -> int:
        """Number of steps in an epoch."""
        ...

    @property
    def ready(self) -> bool:
        """Whether it can be ranked already."""
        ...

    def epoch(self, epoch: int, progress: StepProgress) -> Tensor:
        """Learn for an epoch; gives the mean losses [seeds] of the runs."""
        ...

    def run(self, run: int) -> AnyScorer:
        """One of the runs, as the engine ranks it."""
        ...

    def weights(self, run: int) -> dict[str, Tensor]:
        """The tensors of one of the runs, all that `open_run` needs beside the settings and the graph."""
        ...

    def state(self) -> dict[str, Tensor]:
        """All that the next epochs depend on; shapes may change from epoch to epoch."""
        ...

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        ...


@dataclass(frozen=True)
class _Kind:
    """Where a learner is.

    Attributes:
        module: A module, which also has ``open_run``.
        learner: The name of the class.
    """

    module: str
    learner: str

    def find(self, name: str) -> Any:
        """What the module has under a name."""
        return getattr(import_module(self.module), name)


_EMBEDDING = _Kind("kgprobe.train.embedding_learner", "EmbeddingLearner")

_RULES = {
    "plogicnet": _Kind("kgprobe.train.plogicnet_learner", "PLogicNetLearner"),
    "rnnlogic": _Kind("kgprobe.train.rnnlogic.rnnlogic_learner", "RNNLogicLearner"),
}


def learner_of(settings: Settings, graph: KnowledgeGraph, device: torch.device) -> Learner:
    """What learns the model of the settings, before its first epoch.

    Example:
        >>> from kgprobe.train.settings import resolve
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]])
        >>> learner_of(resolve("distmult", []).settings, graph, torch.device("cpu")).ready
        True
    """
    kind = _kind(settings)
    learner: Learner = kind.find(kind.learner)(settings, graph, device)
    return learner


def trained_run(
    settings: Settings, graph: KnowledgeGraph, tensors: Mapping[str, Tensor], device: str = "cpu"
) -> AnyScorer:
    """The run that has these weights, as the engine ranks it.

    Args:
        settings: What it was trained with.
        graph: What it was trained on.
        tensors: Its weights.
        device: Where it computes.

    Raises:
        DataError: The weights are not those of such a model.

    Example:
        >>> from kgprobe.train.settings import resolve
        >>> settings = resolve("distmult", []).settings
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]])
        >>> weights = {"entity": torch.ones(1, 2, 128), "relation": torch.ones(1, 1, 128)}
        >>> trained_run(settings, graph, weights).score("tail", [0], [0]).tolist()
        [[128.0, 128.0]]
    """
    run: AnyScorer = _kind(settings).find("open_run")(settings, graph, tensors, torch.device(device))
    return run


def _kind(settings: Settings) -> _Kind:
    return _RULES.get(settings.model.lower(), _EMBEDDING)
