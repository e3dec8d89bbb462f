"""What the validation facts choose of pLogicNet: how much its rules count, and which rules and hidden facts it has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.sorted_keys import Ints
from kgprobe.metrics import parse
from kgprobe.models.plogicnet import PLogicNet
from kgprobe.predict.scorer import Scorer, Side
from kgprobe.train.settings import Settings
from kgprobe.train.trainer import TrainingResources
from kgprobe.train.validation import Validation

_REMEMBERED = 1 << 30
"""Bytes of scores that are kept, to be combined with those of rules in several ways."""


class Choice:
    """Scores by the first target of the settings; larger is better.

    Args:
        settings: The settings of the training.
        graph: The graph; without validation facts what comes first is chosen.
        device: Where the embeddings are.
    """

    def __init__(self, settings: Settings, graph: KnowledgeGraph, device: torch.device) -> None:
        self.weights: Sequence[float] = settings.options.logic_weights
        self._target = parse(settings.select[0])
        resources = TrainingResources(str(device), torch.get_num_threads()).ranking(graph.num_entities)
        self._validation = (
            Validation(graph, [self._target], settings.validation_facts, resources)
            if len(graph.triples("valid"))
            else None
        )

    def weighed(self, model: PLogicNet) -> PLogicNet:
        """The model with the weight of rules that the validation facts like best, the first of those as good."""
        if self._validation is None or len(self.weights) == 1:
            return replace(model, logic_weight=self.weights[0])
        best = int(np.argmax(self._scores(model)))
        return replace(model, logic_weight=self.weights[best])

    def score(self, model: PLogicNet) -> float:
        """How good a model is with the best weight of its rules; 0 where there are no validation facts."""
        return 0.0 if self._validation is None else max(self._scores(model))

    def _scores(self, model: PLogicNet) -> list[float]:
        """How good a model is with each weight of its rules."""
        if self._validation is None:
            return [math.nan] * len(self.weights)
        known = replace(model, embedding=_Remembering(model.embedding))
        found = self._validation(replace(known, logic_weight=weight) for weight in self.weights)
        sign = 1 if self._target.higher_is_better else -1
        return [sign * score for score in found.scores[str(self._target)]]


class _Remembering:
    """Scores that are not computed again where the same is asked again."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self._left = _REMEMBERED
        self._known: dict[tuple[Side, bytes, bytes], Tensor] = {}

    def score(self, side: Side, given: Ints, relation: Ints) -> Tensor:
        """What the scorer says."""
        key = side, given.tobytes(), relation.tobytes()
        if key in self._known:
            return self._known[key]
        scores: Tensor = self._scorer.score(side, given, relation)
        self._left -= scores.nbytes
        if self._left >= 0:
            self._known[key] = scores
        return scores
