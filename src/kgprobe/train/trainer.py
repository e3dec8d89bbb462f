"""The trainer: epochs, validations, early stopping, and checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.metrics import parse
from kgprobe.models.registry import problems, problems_of_each
from kgprobe.resources import Resources
from kgprobe.train.checkpoints import RunStorage
from kgprobe.train.learners import learner_of
from kgprobe.train.optimiser import learning_rate, matmul_precision
from kgprobe.train.settings import Settings
from kgprobe.train.validation import Best, DivergedError, Selection, Validation


@dataclass
class TrainingProgress:
    """How far a training is.

    Attributes:
        epochs: Epochs that there will be at most.
        steps_an_epoch: Steps in an epoch.
        phase: "training", "validating", or what else is being done, such as "mining" rules.
        epoch: Epochs that are done.
        step: Steps of the present epoch that are done.
        steps_a_second: Speed of the last epoch.
        loss: The last mean loss of each run.
        last: The last validation: the score of each run by target.
        best: The best validation so far, likewise.
    """

    epochs: int
    steps_an_epoch: int
    phase: str = "training"
    epoch: int = 0
    step: int = 0
    steps_a_second: float = 0.0
    loss: list[float] = field(default_factory=list)
    last: dict[str, list[float]] = field(default_factory=dict)
    best: dict[str, list[Best | None]] = field(default_factory=dict)


OnProgress: TypeAlias = Callable[[TrainingProgress], None]


@dataclass(frozen=True)
class Trained:
    """What a training found.

    Attributes:
        best: For every target, by canonical name, the best validation of each run.
        epochs: Epochs that were trained.
        seconds: How long it took, validations included; over all sessions where it was resumed.
        training_seconds: How long the steps alone took.
        rows: What was found at each validation.
    """

    best: dict[str, list[Best]]
    epochs: int
    seconds: float
    training_seconds: float
    rows: list[dict[str, Any]]

    @property
    def facts(self) -> dict[str, Any]:
        """What the result of a run says about its training."""
        return {"epochs": self.epochs, "seconds": self.seconds, "training_seconds": self.training_seconds}


_SIGNS = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "ALLOC_FAILED",
    "size calculation overflowed",
    "Overflow when unpacking",
)

"""How torch says that memory is short, or that a size is beyond all memory, where it has no error of its own for it."""


@contextmanager
def memory_advice(settings: Settings) -> Iterator[None]:
    """Turns a lack of memory into an error that names the settings that decide how much is needed."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError, TypeError) as error:
        if not _is_shortage(error):
            raise
        known = settings.flat()
        first, *more = matters = [name for name in _matters(settings) if name in known]
        values = [f"{name} is {known[name]}" for name in matters]
        seeds = [f"{len(settings.seeds)} seeds are trained at once"] if len(settings.seeds) > 1 else []
        raise DataError(
            "there is not enough memory for a step of this size",
            [*values, *seeds],
            f"lower {first} first; then {', '.join(more)}" if more else f"lower {first}",
        ) from error


def _matters(settings: Settings) -> Iterator[str]:
    """The settings that decide how much memory a step takes, where the model has them."""
    yield "batch_size"
    if settings.objective == "negative_sampling":
        yield "negatives"
    yield from getattr(settings.options, "MEMORY", ("dimension",))


def _is_shortage(error: BaseException) -> bool:
    known = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return known or any(sign in str(error) for sign in _SIGNS)


_STATE_SHARE = 0.1

"""Keeping states may take this share of the time: large ones are kept less often."""

_MANY = 2000

"""From so many entities on a GPU ranks faster than a CPU."""


@dataclass(frozen=True)
class TrainingResources:
    """Where a training runs.

    Attributes:
        device: "cpu", or a device of torch such as "cuda".
        threads: Threads on the CPU; None for all cores.
    """

    device: str = "cpu"
    threads: int | None = None

    def ranking(self, entities: int) -> Resources:
        """With what facts are ranked: a GPU is not worth the way there for few entities."""
        return Resources(device=self.device if entities >= _MANY else "cpu", threads=self.threads)


def train(
    settings: Settings,
    graph: KnowledgeGraph,
    keep: RunStorage,
    resources: TrainingResources | None = None,
    progress: OnProgress | None = None,
) -> Trained:
    """Train a model, and keep the best checkpoint of every target and run.

    Where what is kept has a state already, the training goes on from there, to the same end.

    Args:
        settings: What is trained, and how.
        graph: The graph.
        keep: Where checkpoints, log and state are kept.
        resources: Where it runs.
        progress: Called with how far it is.

    Raises:
        UsageError: The settings do not fit together.
        DataError: The graph has no training facts; the loss is no number any more; memory is short.

    Example:
        >>> from kgprobe.models.complex import ComplExOptions
        >>> from kgprobe.train.checkpoints import MemoryStorage
        >>> settings = Settings("complex", ComplExOptions(dimension=2), epochs=1, validate_every=1)
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [1, 0, 2]], valid=[[2, 0, 3]], test=[[0, 0, 2]])
        >>> train(settings, graph, MemoryStorage()).epochs
        1
    """
    if wrong := [*problems_of_each(settings.options), *problems(settings)]:
        raise UsageError(f"{settings.model} cannot be trained with these settings", wrong)
    if not len(graph.triples("train")):
        raise DataError(f"{graph.name}: there are no training facts", remedy="use a graph that has its train split")
    resources = resources or TrainingResources()
    threads = Resources(threads=resources.threads).workers
    with _threads(threads), matmul_precision(settings.precision), memory_advice(settings):
        return _Training(settings, graph, keep, resources, progress or (lambda _: None)).run()


class _Training:
    """A training under way."""

    def __init__(
        self,
        settings: Settings,
        graph: KnowledgeGraph,
        keep: RunStorage,
        resources: TrainingResources,
        report: OnProgress,
    ) -> None:
        self.settings, self.keep, self.report = settings, keep, report
        self.targets = [parse(target) for target in settings.select]
        self.learner = learner_of(settings, graph, torch.device(resources.device))
        self.selection = Selection(self.targets, len(settings.seeds), settings.patience)
        self.validation = (
            Validation(graph, self.targets, settings.validation_facts, resources.ranking(graph.num_entities))
            if len(graph.triples("valid"))
            else None
        )
        self.progress = TrainingProgress(settings.epochs, self.learner.steps)
        self.rows: list[dict[str, Any]] = []
        self.steps = 0
        self.began, self.training_seconds = time.monotonic(), 0.0
        self._state_took, self._state_at = 0.0, -math.inf

    def run(self) -> Trained:
        """Train to the end."""
        self._resume()
        if not self.progress.epoch:
            self._save_snapshot()
        while not self.over:
            start, preparing = time.monotonic(), not self.learner.ready
            self._epoch()
            self.training_seconds += time.monotonic() - start
            due = self.progress.epoch % self.settings.validate_every == 0
            if self.learner.ready and (due or self.progress.epoch == self.settings.epochs):
                self._validate()
            self._save_snapshot()
            self._save_state(due or preparing)
        best = {name: [one for one in runs if one is not None] for name, runs in self.selection.best.items()}
        return Trained(best, self.progress.epoch, self.seconds, self.training_seconds, self.rows)

    @property
    def over(self) -> bool:
        """Whether there is nothing left to train."""
        return self.progress.epoch >= self.settings.epochs or self.selection.finished

    @property
    def seconds(self) -> float:
        """How long the training has gone on, over all sessions."""
        return time.monotonic() - self.began

    def _resume(self) -> None:
        found = self.keep.load_state()
        if found is None:
            return
        tensors, progress = found
        self.learner.load(tensors)
        self.selection.load(progress["selection"])
        self.progress.epoch, self.progress.best = progress["epoch"], self.selection.best
        self.rows = progress["rows"]
        self.steps = progress.get("steps", progress["epoch"] * self.learner.steps)  # states once did not tell
        self.began, self.training_seconds = time.monotonic() - progress["seconds"], progress["training_seconds"]

    def _epoch(self) -> None:
        self.progress.phase, self.progress.step = "training", 0
        start = time.monotonic()

        def step(taken: int, phase: str) -> None:
            self.progress.step += taken
            self.progress.phase = phase
            self.report(self.progress)

        losses = self.learner.epoch(self.progress.epoch, step).tolist()
        self.progress.epoch += 1
        self.steps += self.progress.step
        self._refuse_no_number(losses)
        self.progress.loss = losses
        self.progress.steps_a_second = self.progress.step / max(time.monotonic() - start, 1e-9)
        self.report(self.progress)

    def _refuse_no_number(self, losses: list[float]) -> None:
        broken = [
            f"seed {seed}: loss {loss}"
            for seed, loss in zip(self.settings.seeds, losses, strict=True)
            if not math.isfinite(loss)
        ]
        if broken:
            raise self._diverged("loss is no number", broken)

    def _diverged(self, what: str, broken: list[str]) -> DataError:
        kept = f"checkpoints up to epoch {self.rows[-1]['epoch']} are kept" if self.rows else "none was kept yet"
        lower = f"lower learning_rate (it is {self.settings.learning_rate:g})"
        more = ", or raise regularisation" if "regularisation" in self.settings.flat() else ""
        return DataError(f"the {what} any more in epoch {self.progress.epoch}", broken, f"{lower}{more}; {kept}")

    def _validate(self) -> None:
        """Rank the validation facts; without any, the last epoch is what is kept."""
        if self.validation is None:
            if self.progress.epoch == self.settings.epochs:
                self.selection.best = {
                    str(target): [Best(math.nan, self.progress.epoch)] * self.selection.runs for target in self.targets
                }
                self._keep_best([(name, run) for name in self.selection.best for run in range(self.selection.runs)])
            return
        self.progress.phase = "validating"
        self.report(self.progress)
        try:
            found = self.validation(self.learner.run(run) for run in range(self.selection.runs))
        except DivergedError as error:
            raise self._diverged("scores are no numbers", error.problems) from error
        self._keep_best(self.selection.consider(self.progress.epoch, found.scores))
        self.progress.last, self.progress.best = found.scores, self.selection.best
        row = {
            "epoch": self.progress.epoch,
            "step": self.steps,
            "seconds": round(self.seconds, 3),
            "learning_rate": learning_rate(self.settings, self.progress.epoch - 1),
            "loss": self.progress.loss,
            "scores": found.scores,
            "sides": found.sides,
        }
        self.rows.append(row)
        self.keep.log(row)
        self.report(self.progress)

    def _keep_best(self, gained: list[tuple[str, int]]) -> None:
        for name, run in gained:
            best = self.selection.best[name][run]
            if best is not None:
                score = None if math.isnan(best.score) else best.score
                facts = {"target": name, "epoch": best.epoch, "score": score}
                self.keep.save_best(name, self.settings.seeds[run], self.learner.weights(run), facts)

    def _save_snapshot(self) -> None:
        """Keep the weights as they are now, before the state: what is lost with the process is then trained again."""
        every, epoch = self.settings.snapshot_every, self.progress.epoch
        if every and self.learner.ready and (epoch % every == 0 or self.over):
            for run, seed in enumerate(self.settings.seeds):
                self.keep.save_snapshot(epoch, seed, self.learner.weights(run), {"epoch": epoch})

    def _save_state(self, due: bool) -> None:
        now = time.monotonic()
        if not self.over and not (due and now - self._state_at >= self._state_took / _STATE_SHARE):
            return
        progress = {
            "epoch": self.progress.epoch,
            "selection": self.selection.state(),
            "rows": self.rows,
            "steps": self.steps,
            "seconds": self.seconds,
            "training_seconds": self.training_seconds,
        }
        self.keep.save_state(self.learner.state(), progress)
        self._state_at = time.monotonic()
        self._state_took = self._state_at - now


@contextmanager
def _threads(threads: int) -> Iterator[None]:
    """Torch with so many threads: left to itself it takes as many as there are cores, busy or not."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
