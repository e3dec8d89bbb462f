"""The learner of every model, by name; its code is loaded when it is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.scorer import AnyScorer
from kgprobe.train.learner import Learner
from kgprobe.train.settings import Settings


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


_EMBEDDING = _Kind("kgprobe.train.embedding", "EmbeddingLearner")
_RULES = {
    "plogicnet": _Kind("kgprobe.train.rules.plogicnet", "PLogicNetLearner"),
    "rnnlogic": _Kind("kgprobe.train.rules.rnnlogic", "RNNLogicLearner"),
}


def learner_of(settings: Settings, graph: KnowledgeGraph, device: torch.device) -> Learner:
    """What learns the model of the settings, before its first epoch.

    Example:
        >>> from kgprobe.train.resolve import resolve
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
        >>> from kgprobe.train.resolve import resolve
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
