"""Validation during training, selection of the best checkpoints, and early stopping."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.json_files import field_problems
from kgprobe.metrics import Metric, evaluate, scores
from kgprobe.predict import Model, Setting, rank_in
from kgprobe.predict.adapters.opening import FunctionScorer
from kgprobe.predict.backends.backend import backend_for, is_fused
from kgprobe.predict.scorers import AnyScorer, EmbeddingScorer, RelationEmbeddingScorer, Scorer
from kgprobe.ranks import Ranks
from kgprobe.resources import Resources
from kgprobe.train.optimiser import matmul_precision

Scores: TypeAlias = Mapping[str, Sequence[float]]
"""Scores of the runs, by canonical metric name."""


@dataclass(frozen=True)
class Best:
    """Score and epoch of the best validation so far."""

    score: float
    epoch: int


@dataclass
class Selection:
    """Tracks the best validation of every selection metric and run, and stops early.

    Attributes:
        targets: The selection metrics.
        runs: Number of runs.
        patience: Validations without improvement in any metric after which a run stops; 0 for never.
        best: The best validation of each run, by canonical name of the metric.
        waited: Validations since the last improvement of each run.

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
        """Add a validation; returns the metrics and runs that improved.

        A run that has stopped is ignored, so that it ends as if it had been trained alone.
        """
        running = [run for run in range(self.runs) if not self._stopped(run)]
        improved = [
            (str(target), run)
            for target in self.targets
            for run in running
            if self._is_better(target, scores[str(target)][run], self.best[str(target)][run])
        ]
        for name, run in improved:
            self.best[name][run] = Best(scores[name][run], epoch)
        for run in running:
            self.waited[run] = 0 if any(run == winner for _, winner in improved) else self.waited[run] + 1
        return improved

    @property
    def finished(self) -> bool:
        """Whether all runs have stopped."""
        return all(self._stopped(run) for run in range(self.runs))

    def state(self) -> dict[str, Any]:
        """The state as JSON values."""
        best = {
            name: [None if one is None else {"score": one.score, "epoch": one.epoch} for one in runs]
            for name, runs in self.best.items()
        }
        return {"best": best, "waited": list(self.waited)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a state.

        Raises:
            ValueError: It is of other metrics or of another number of runs, or is no state.
        """
        lists = [state["waited"], *state["best"].values()]
        if state["best"].keys() != self.best.keys() or any(len(values) != self.runs for values in lists):
            raise ValueError(f"it is of {len(state['waited'])} runs selected by {', '.join(state['best'])}")
        best = {f"best {name} {run}": one for name, runs in state["best"].items() for run, one in enumerate(runs)}
        known = {name: one for name, one in best.items() if one is not None}
        waited = {f"waited {run}": often for run, often in enumerate(state["waited"])}
        fields = dict.fromkeys(known, _BEST_FIELDS) | dict.fromkeys(waited, int)
        if problems := list(field_problems(known | waited, fields)):
            raise ValueError("; ".join(problems))
        self.best = {
            name: [None if one is None else Best(one["score"], one["epoch"]) for one in runs]
            for name, runs in state["best"].items()
        }
        self.waited = list(state["waited"])

    def _stopped(self, run: int) -> bool:
        return self.patience > 0 and self.waited[run] >= self.patience

    def _is_better(self, target: Metric, score: float, best: Best | None) -> bool:
        if math.isnan(score):
            return False
        return best is None or (score > best.score if target.higher_is_better else score < best.score)


_BEST_FIELDS = {"score": float, "epoch": int}


class DivergedError(DataError):
    """The scores of a run are not numbers."""


@dataclass(frozen=True)
class Validated:
    """Scores of a validation.

    Attributes:
        scores: The score of each run, by canonical name of the selection metric.
        sides: The first metric of each run on head queries and on tail queries.
    """

    scores: dict[str, list[float]]
    sides: dict[str, list[float]]


class Validation:
    """Ranks the validation triples, or a fixed sample of them that is the same for all runs.

    Args:
        graph: The graph; its test triples are not used.
        targets: The selection metrics.
        sample: Number of triples that are ranked; 0 for all.
        resources: Device, threads and memory.
    """

    def __init__(self, graph: KnowledgeGraph, targets: Sequence[Metric], sample: int, resources: Resources) -> None:
        self.targets, self.resources = targets, resources
        triples = graph.triples("valid")
        if 0 < sample < len(triples):
            chosen = np.random.default_rng(0).choice(len(triples), sample, replace=False)
            triples = triples[np.sort(chosen)]
        self._setting = Setting.build(graph, split="valid", triples=triples, filter="train+valid")

    def __call__(self, runs: Iterable[AnyScorer]) -> Validated:
        """Rank the triples with every run.

        Raises:
            DivergedError: The scores of a run are not numbers.
        """
        validated = Validated({str(target): [] for target in self.targets}, {"head": [], "tail": []})
        for run in runs:
            ranks = self._ranked(run)
            for name, value in evaluate(ranks, self.targets).items():
                validated.scores[name].append(value)
            for score in scores(ranks, self.targets[0], by=["side"]):
                validated.sides[str(score.group["side"])].append(score.value)
        return validated

    def _ranked(self, run: AnyScorer) -> Ranks:
        try:
            with matmul_precision("float32"):
                return rank_in(self._setting, Model("run", self._scorer(run)), self.resources)
        except DataError as error:  # the only error that a model under training can cause
            raise DivergedError(error.title, error.problems, error.remedy) from error

    def _scorer(self, run: AnyScorer) -> AnyScorer:
        """The scores as the model computes them, where canonical scores take longer: selection does not need these.

        They take longer on devices without fused kernels, and where every relation has candidates of its own.
        """
        embeds = isinstance(run, EmbeddingScorer | RelationEmbeddingScorer)
        if self.resources.device == "cpu" or not embeds or not isinstance(run, Scorer):
            return run
        fused = isinstance(run, EmbeddingScorer) and is_fused(backend_for(self.resources.device))
        return run if fused else FunctionScorer(run.score)
