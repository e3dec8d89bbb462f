"""Validation during training, and the best checkpoint of every selection metric."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.metrics import Metric, evaluate, scores
from kgprobe.predict import Model, Setting, rank_in
from kgprobe.predict.adapters.opening import FunctionScorer
from kgprobe.predict.scorers import AnyScorer, EmbeddingScorer, RelationEmbeddingScorer, Scorer
from kgprobe.ranks import Ranks
from kgprobe.resources import Resources
from kgprobe.train.optimiser import matmul_precision

Scores: TypeAlias = Mapping[str, Sequence[float]]

"""The score of each run by canonical metric name."""


@dataclass(frozen=True)
class Best:
    """The best validation so far.

    Attributes:
        score: Its score.
        epoch: After how many epochs it was reached.
    """

    score: float
    epoch: int


@dataclass
class Selection:
    """Remembers the best validation of every target and run, and for how long there was none better.

    Attributes:
        targets: The metrics that select.
        runs: Number of runs.
        patience: Validations without gain in any target after which a run is over; 0 for never.
        best: The best validation by canonical name of the target and run.
        waited: Validations since the last gain of each run.

    Example:
        >>> from kgprobe.metrics import parse
        >>> selection = Selection([parse("MRR"), parse("MR")], runs=1, patience=1)
        >>> selection.consider(5, {"MRR": [0.3], "MR": [40.0]})
        [('MRR', 0), ('MR', 0)]
        >>> selection.consider(10, {"MRR": [0.2], "MR": [30.0]}), selection.finished
        ([('MR', 0)], False)
        >>> selection.consider(15, {"MRR": [0.3], "MR": [30.0]}), selection.finished
        ([], True)
    """

    targets: Sequence[Metric]
    runs: int
    patience: int
    best: dict[str, list[Best | None]] = field(default_factory=dict)
    waited: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.best = self.best or {str(target): [None] * self.runs for target in self.targets}
        self.waited = self.waited or [0] * self.runs

    def consider(self, epoch: int, scores: Scores) -> list[tuple[str, int]]:
        """Take note of a validation; gives the targets and runs that it is the best of.

        A run that is over is not taken up again, so that it ends as it would have ended alone.
        """
        running = [run for run in range(self.runs) if not self._over(run)]
        gained = [
            (str(target), run)
            for target in self.targets
            for run in running
            if self._is_better(target, scores[str(target)][run], self.best[str(target)][run])
        ]
        for name, run in gained:
            self.best[name][run] = Best(scores[name][run], epoch)
        for run in running:
            self.waited[run] = 0 if any(run == winner for _, winner in gained) else self.waited[run] + 1
        return gained

    @property
    def finished(self) -> bool:
        """Whether all runs are over."""
        return all(self._over(run) for run in range(self.runs))

    def state(self) -> dict[str, Any]:
        """What is remembered, as JSON can hold it."""
        best = {
            name: [None if one is None else {"score": one.score, "epoch": one.epoch} for one in runs]
            for name, runs in self.best.items()
        }
        return {"best": best, "waited": list(self.waited)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from what was remembered."""
        self.best = {
            name: [None if one is None else Best(one["score"], one["epoch"]) for one in runs]
            for name, runs in state["best"].items()
        }
        self.waited = list(state["waited"])

    def _over(self, run: int) -> bool:
        return self.patience > 0 and self.waited[run] >= self.patience

    def _is_better(self, target: Metric, score: float, best: Best | None) -> bool:
        if math.isnan(score):
            return False
        return best is None or (score > best.score if target.higher_is_better else score < best.score)


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
            with matmul_precision("float32"):
                return rank_in(self._setting, Model("run", self._scorer(run)), self.resources)
        except DataError as error:  # there is nothing else that a model of the trainer can do wrong
            raise DivergedError(error.title, error.problems, error.remedy) from error

    def _scorer(self, run: AnyScorer) -> AnyScorer:
        """On a GPU the scores as they are made there: to tell checkpoints apart, they need not be those of record."""
        by_vectors = isinstance(run, EmbeddingScorer | RelationEmbeddingScorer)
        if self.resources.device == "cpu" or not by_vectors or not isinstance(run, Scorer):
            return run
        return FunctionScorer(run.score)
