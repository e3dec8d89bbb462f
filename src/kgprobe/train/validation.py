"""How good the runs are so far: the validation facts, ranked by the engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.metrics import Metric, evaluate, scores
from kgprobe.predict import Model, Resources, Setting, rank_in
from kgprobe.predict.model import FunctionScorer
from kgprobe.predict.scorer import AnyScorer, EmbeddingScorer, RelationEmbeddingScorer, Scorer
from kgprobe.ranks import Ranks
from kgprobe.train.precision import products_in

_SAMPLE_SEED = 0


class DivergedError(DataError):
    """The scores of a run are no numbers any more."""


@dataclass(frozen=True)
class Validated:
    """What a validation found.

    Attributes:
        scores: The score of each run by canonical name of the target.
        sides: The first target's score of each run where the head, and where the tail, is predicted.
    """

    scores: dict[str, list[float]]
    sides: dict[str, list[float]]


class Validation:
    """The validation facts, or a sample of them that is the same for all runs and seeds; test facts are not read.

    Args:
        graph: The graph.
        targets: The metrics that select.
        facts: How many facts are ranked; 0 for all.
        resources: With what they are ranked.
    """

    def __init__(self, graph: KnowledgeGraph, targets: Sequence[Metric], facts: int, resources: Resources) -> None:
        self.targets, self.resources = targets, resources
        triples = graph.triples("valid")
        if 0 < facts < len(triples):
            chosen = np.random.default_rng(_SAMPLE_SEED).choice(len(triples), facts, replace=False)
            triples = triples[np.sort(chosen)]
        self._setting = Setting.build(graph, split="valid", triples=triples, filter="train+valid")

    def __call__(self, runs: Iterable[AnyScorer]) -> Validated:
        """Rank the facts by every run.

        Raises:
            DivergedError: The scores of a run are no numbers.
        """
        found = Validated({str(target): [] for target in self.targets}, {"head": [], "tail": []})
        for run in runs:
            ranks = self._ranked(run)
            for name, value in evaluate(ranks, self.targets).items():
                found.scores[name].append(value)
            for score in scores(ranks, self.targets[0], by=["side"]):
                found.sides[str(score.group["side"])].append(score.value)
        return found

    def _ranked(self, run: AnyScorer) -> Ranks:
        try:
            with products_in("float32"):
                return rank_in(self._setting, Model("run", self._scorer(run)), self.resources)
        except DataError as error:  # there is nothing else that a model of the trainer can do wrong
            raise DivergedError(error.title, error.problems, error.remedy) from error

    def _scorer(self, run: AnyScorer) -> AnyScorer:
        """On a GPU the scores as they are made there: to tell checkpoints apart, they need not be those of record."""
        by_vectors = isinstance(run, EmbeddingScorer | RelationEmbeddingScorer)
        if self.resources.device == "cpu" or not by_vectors or not isinstance(run, Scorer):
            return run
        return FunctionScorer(run.score)
