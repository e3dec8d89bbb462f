"""What the learners of rule-based models share: selection on validation triples, tensors by prefix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from kgprobe.arrays import AnyInts
from kgprobe.graph import KnowledgeGraph
from kgprobe.metrics import parse
from kgprobe.predict.scorers import AnyScorer, Scorer, Side
from kgprobe.train.settings import Settings
from kgprobe.train.trainer import TrainingResources
from kgprobe.train.validation import Validation


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with a prefix, without it.

    Example:
        >>> import torch
        >>> list(under("a.", {"a.b": torch.zeros(1), "b": torch.zeros(1)}))
        ['b']
    """
    return {name.removeprefix(prefix): own for name, own in tensors.items() if name.startswith(prefix)}


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with a prefix before their names.

    Example:
        >>> import torch
        >>> list(prefixed("a.", {"b": torch.zeros(1)}))
        ['a.b']
    """
    return {f"{prefix}{name}": own for name, own in tensors.items()}


_REMEMBERED = 1 << 30

"""Bytes of scores that are kept, to be combined with others in several ways."""


class Judge:
    """Says how good models are by the first target of the settings; larger is better.

    Args:
        settings: The settings of the training.
        graph: The graph.
        device: Where the models are.
        most: How many validation facts are enough; 0 for as many as the settings say.
    """

    def __init__(self, settings: Settings, graph: KnowledgeGraph, device: torch.device, most: int = 0) -> None:
        self._target = parse(settings.select[0])
        resources = TrainingResources(str(device), torch.get_num_threads()).ranking(graph.num_entities)
        facts = min(filter(None, (settings.validation_facts, most)), default=0)
        self._validation = Validation(graph, [self._target], facts, resources) if len(graph.triples("valid")) else None

    def scores(self, models: Iterable[AnyScorer]) -> list[float]:
        """How good each model is; 0 where there are no validation facts."""
        if self._validation is None:
            return [0.0 for _ in models]
        sign = 1 if self._target.higher_is_better else -1
        return [sign * score for score in self._validation(models).scores[str(self._target)]]

    def best(self, models: Sequence[AnyScorer]) -> int:
        """The place of the best model, the first of those as good; without validation facts that is the first."""
        return int(np.argmax(self.scores(models))) if len(models) > 1 else 0


class Remembering:
    """Scores that are not computed again where the same is asked again.

    Args:
        scorer: Computes them.
    """

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self._left = _REMEMBERED
        self._known: dict[tuple[Side, bytes, bytes], Tensor] = {}

    def score(self, side: Side, given: AnyInts, relation: AnyInts) -> Tensor:
        """What the scorer says."""
        key = side, given.tobytes(), relation.tobytes()
        if key in self._known:
            return self._known[key]
        scores: Tensor = self._scorer.score(side, given, relation)
        self._left -= scores.nbytes
        if self._left >= 0:
            self._known[key] = scores
        return scores
