"""Model selection inside the training of rule-based models: scores on validation triples, cached scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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

_CACHE_BYTES = 1 << 30


class Judge:
    """Scores models by the first selection metric on the validation triples; larger is better.

    Args:
        settings: The settings of the training.
        graph: The graph.
        device: Where the models compute.
        most: Maximum number of validation triples; 0 for that of the settings.
    """

    def __init__(self, settings: Settings, graph: KnowledgeGraph, device: torch.device, most: int = 0) -> None:
        self._target = parse(settings.select[0])
        resources = TrainingResources(str(device), torch.get_num_threads()).ranking(graph.num_entities)
        sample = min(filter(None, (settings.validation_facts, most)), default=0)
        self._validation = Validation(graph, [self._target], sample, resources) if len(graph.triples("valid")) else None

    def scores(self, models: Iterable[AnyScorer]) -> list[float]:
        """The score of each model; 0 without validation triples."""
        if self._validation is None:
            return [0.0 for _ in models]
        sign = 1 if self._target.higher_is_better else -1
        return [sign * score for score in self._validation(models).scores[str(self._target)]]

    def best(self, models: Sequence[AnyScorer]) -> int:
        """Index of the best model, the first one in case of a tie or without validation triples."""
        return int(np.argmax(self.scores(models))) if len(models) > 1 else 0


class CachedScorer:
    """A scorer that caches the scores of query batches, up to 1 GiB."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self._left = _CACHE_BYTES
        self._cache: dict[tuple[Side, bytes, bytes], Tensor] = {}

    def score(self, side: Side, given: AnyInts, relation: AnyInts) -> Tensor:
        key = side, given.tobytes(), relation.tobytes()
        if key in self._cache:
            return self._cache[key]
        scores: Tensor = self._scorer.score(side, given, relation)
        self._left -= scores.nbytes
        if self._left >= 0:
            self._cache[key] = scores
        return scores
