"""The trainer: epochs, validations, early stopping, checkpoints and resuming."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
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
    """Progress of a training.

    Attributes:
        epochs: Maximum number of epochs.
        steps_an_epoch: Steps in an epoch.
        phase: "training", "validating", or another phase such as "mining" rules.
        epoch: Completed epochs.
        step: Completed steps of the current epoch.
        steps_a_second: Speed of the last epoch.
        loss: Mean loss of each run in the last epoch.
        last: Scores of each run in the last validation, by selection metric.
        best: Best validation of each run so far, by selection metric.
        stopping: Whether the training stops after this epoch, because of Ctrl-C.
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
    stopping: bool = False


OnProgress: TypeAlias = Callable[[TrainingProgress], None]


@dataclass(frozen=True)
class Trained:
    """Outcome of a training.

    Attributes:
        best: Best validation of each run, by canonical name of the selection metric.
        epochs: Number of epochs trained.
        seconds: Duration with validations, over all sessions of a resumed run.
        training_seconds: Duration of the epochs without validations.
        rows: One row for each validation, as in the log.
    """

    best: dict[str, list[Best]]
    epochs: int
    seconds: float
    training_seconds: float
    rows: list[dict[str, Any]]

    @property
    def times(self) -> dict[str, Any]:
        """The entries of a run's result about its training."""
        return {"epochs": self.epochs, "seconds": self.seconds, "training_seconds": self.training_seconds}


class TrainingStopped(KeyboardInterrupt):
    """A training that Ctrl-C has stopped.

    Attributes:
        saved: Number of epochs that the saved state has completed.

    Example:
        >>> print(TrainingStopped(saved=12, epochs=100))
        epoch 12 of 100 is saved; `resume=True` continues with epoch 13
    """

    def __init__(self, saved: int, epochs: int, finished: bool = False) -> None:
        self.saved = saved
        reached = f"epoch {saved} of {epochs} is saved" if saved else "no epoch is saved yet"
        going_on = "ranks the test triples" if finished else f"continues with epoch {saved + 1}"
        super().__init__(f"{reached}; `resume=True` {going_on}")


class Interruption:
    """Ctrl-C during a training: the first one asks it to stop after the epoch, the second one stops it at once.

    Attributes:
        asked: Whether Ctrl-C was pressed.
    """

    def __init__(self) -> None:
        self.asked = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Context in which Ctrl-C is handled; elsewhere, and if the program handles it itself, nothing changes."""
        ours = threading.current_thread() is threading.main_thread()
        if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        signal.signal(signal.SIGINT, self._ask)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


_OUT_OF_MEMORY = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "ALLOC_FAILED",
    "size calculation overflowed",
    "Overflow when unpacking",
)
"""Parts of the messages of torch errors without a class of their own that mean a lack of memory."""


@contextmanager
def memory_advice(settings: Settings) -> Iterator[None]:
    """Turn out-of-memory errors into advice on which settings to lower."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError, TypeError) as error:
        if not isinstance(error, torch.OutOfMemoryError | MemoryError) and not any(
            sign in str(error) for sign in _OUT_OF_MEMORY
        ):
            raise
        known = settings.flat()
        first, *more = matters = [name for name in _memory_settings(settings) if name in known]
        values = [f"{name} is {known[name]}" for name in matters]
        seeds = [f"{len(settings.seeds)} seeds are trained at once"] if len(settings.seeds) > 1 else []
        raise DataError(
            "there is not enough memory for a step of this size",
            [*values, *seeds],
            f"lower {first} first; then {', '.join(more)}" if more else f"lower {first}",
        ) from error


def _memory_settings(settings: Settings) -> Iterator[str]:
    """Names of the settings that determine how much memory a step takes."""
    yield "batch_size"
    if settings.objective == "negative_sampling":
        yield "negatives"
    yield from getattr(settings.options, "MEMORY", ("dimension",))


_STATE_SHARE = 0.1
"""Share of the training time that writing states may take; large states are written less often."""

_GPU_RANKING = 2000
"""Number of entities from which a GPU ranks faster than a CPU."""


@dataclass(frozen=True)
class TrainingResources:
    """Device and threads of a training.

    Attributes:
        device: "cpu", a torch device such as "cuda", or "auto" for a GPU where there is one.
        threads: Threads on the CPU; None for all cores.
    """

    device: str = "cpu"
    threads: int | None = None

    def resolved(self) -> TrainingResources:
        """The same with the device that "auto" stands for."""
        chosen = "cuda" if torch.cuda.is_available() else "cpu"
        return TrainingResources(chosen, self.threads) if self.device == "auto" else self

    def ranking(self, entities: int) -> Resources:
        """The resources for ranking; few entities are ranked on the CPU."""
        return Resources(device=self.device if entities >= _GPU_RANKING else "cpu", threads=self.threads)


def train(
    settings: Settings,
    graph: KnowledgeGraph,
    storage: RunStorage,
    resources: TrainingResources | None = None,
    progress: OnProgress | None = None,
    interruption: Interruption | None = None,
) -> Trained:
    """Train a model, and store the best checkpoint of every selection metric and run.

    If the storage has a state, the training continues from it, with the same result as without the interruption.

    Raises:
        TrainingStopped: The interruption asked for it; the epoch is stored. Or it was interrupted at once.
        UsageError: The settings are invalid.
        DataError: The graph has no training triples, the training diverges, or memory is short.

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
        raise DataError(f"{graph.name}: no training triples", remedy="use a graph that has its train split")
    resources = (resources or TrainingResources()).resolved()
    threads = Resources(threads=resources.threads).workers
    with _threads(threads), matmul_precision(settings.precision), memory_advice(settings):
        training = _Training(settings, graph, storage, resources, progress or (lambda _: None))
        if interruption is None:
            return training.run(Interruption())
        try:
            return training.run(interruption)
        except TrainingStopped:
            raise
        except KeyboardInterrupt:
            raise training.stopped() from None


class _Training:
    def __init__(
        self,
        settings: Settings,
        graph: KnowledgeGraph,
        storage: RunStorage,
        resources: TrainingResources,
        report: OnProgress,
    ) -> None:
        self.settings, self.storage, self.report = settings, storage, report
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
        self._state_took, self._state_at, self._saved = 0.0, -math.inf, 0

    def run(self, interruption: Interruption) -> Trained:
        self._resume()
        if not self.progress.epoch:
            self._save_snapshot()
        while not self.over:
            start, preparing = time.monotonic(), not self.learner.ready
            self._epoch(interruption)
            self.training_seconds += time.monotonic() - start
            due = self.progress.epoch % self.settings.validate_every == 0
            if self.learner.ready and (due or self.progress.epoch == self.settings.epochs):
                self._validate()
            self._save_snapshot()
            self._save_state(due or preparing, at_once=interruption.asked)
            if interruption.asked:
                raise self.stopped()
        best = {name: [one for one in runs if one is not None] for name, runs in self.selection.best.items()}
        return Trained(best, self.progress.epoch, self.seconds, self.training_seconds, self.rows)

    def stopped(self) -> TrainingStopped:
        finished = self.over and self._saved == self.progress.epoch
        return TrainingStopped(self._saved, self.settings.epochs, finished)

    @property
    def over(self) -> bool:
        return self.progress.epoch >= self.settings.epochs or self.selection.finished

    @property
    def seconds(self) -> float:
        """Duration over all sessions."""
        return time.monotonic() - self.began

    def _resume(self) -> None:
        saved = self.storage.load_state()
        if saved is None:
            return
        tensors, progress = saved
        try:
            self.learner.load(tensors)
            self.selection.load(progress["selection"])
        except (KeyError, TypeError, ValueError, AttributeError, DataError) as error:
            problems = error.problems if isinstance(error, DataError) else [f"{type(error).__name__}: {error}"]
            title = "the state of this run does not fit its settings"
            raise DataError(title, problems, "replace the run with `force=True`") from error
        self._saved = self.progress.epoch = progress["epoch"]
        self.progress.best = self.selection.best
        self.rows = progress["rows"]
        self.steps = progress.get("steps", progress["epoch"] * self.learner.steps)  # missing in old states
        self.began, self.training_seconds = time.monotonic() - progress["seconds"], progress["training_seconds"]

    def _epoch(self, interruption: Interruption) -> None:
        self.progress.phase, self.progress.step = "training", 0
        start = time.monotonic()

        def step(taken: int, phase: str) -> None:
            self.progress.step += taken
            self.progress.phase, self.progress.stopping = phase, interruption.asked
            self.report(self.progress)

        losses = self.learner.epoch(self.progress.epoch, step).tolist()
        self.progress.epoch += 1
        self.steps += self.progress.step
        self._check_finite(losses)
        self.progress.loss = losses
        self.progress.steps_a_second = self.progress.step / max(time.monotonic() - start, 1e-9)
        self.report(self.progress)

    def _check_finite(self, losses: list[float]) -> None:
        diverged = [
            f"seed {seed}: loss {loss}"
            for seed, loss in zip(self.settings.seeds, losses, strict=True)
            if not math.isfinite(loss)
        ]
        if diverged:
            raise self._diverged("loss is", diverged)

    def _diverged(self, what: str, problems: list[str]) -> DataError:
        kept = f"checkpoints up to epoch {self.rows[-1]['epoch']} are kept" if self.rows else "no checkpoint was kept"
        lower = f"lower learning_rate (it is {self.settings.learning_rate:g})"
        more = ", or raise regularisation" if "regularisation" in self.settings.flat() else ""
        title = f"the training diverged: the {what} not finite in epoch {self.progress.epoch}"
        return DataError(title, problems, f"{lower}{more}; {kept}")

    def _validate(self) -> None:
        """Rank the validation triples and store the best checkpoints; without any, the last epoch is stored."""
        if self.validation is None:
            if self.progress.epoch == self.settings.epochs:
                self.selection.best = {
                    str(target): [Best(math.nan, self.progress.epoch)] * self.selection.runs for target in self.targets
                }
                self._save_best([(name, run) for name in self.selection.best for run in range(self.selection.runs)])
            return
        self.progress.phase = "validating"
        self.report(self.progress)
        try:
            found = self.validation(self.learner.run(run) for run in range(self.selection.runs))
        except DivergedError as error:
            raise self._diverged("scores are", error.problems) from error
        self._save_best(self.selection.consider(self.progress.epoch, found.scores))
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
        self.storage.log(row)
        self.report(self.progress)

    def _save_best(self, gained: list[tuple[str, int]]) -> None:
        for name, run in gained:
            best = self.selection.best[name][run]
            if best is not None:
                score = None if math.isnan(best.score) else best.score
                facts = {"target": name, "epoch": best.epoch, "score": score}
                self.storage.save_best(name, self.settings.seeds[run], self.learner.weights(run), facts)

    def _save_snapshot(self) -> None:
        """Store a snapshot, before the state: if the process ends in between, the epoch is trained again."""
        every, epoch = self.settings.snapshot_every, self.progress.epoch
        if every and self.learner.ready and (epoch % every == 0 or self.over):
            for run, seed in enumerate(self.settings.seeds):
                self.storage.save_snapshot(epoch, seed, self.learner.weights(run), {"epoch": epoch})

    def _save_state(self, due: bool, at_once: bool) -> None:
        now = time.monotonic()
        seldom = now - self._state_at >= self._state_took / _STATE_SHARE
        if not (self.over or at_once or (due and seldom)):
            return
        progress = {
            "epoch": self.progress.epoch,
            "selection": self.selection.state(),
            "rows": self.rows,
            "steps": self.steps,
            "seconds": self.seconds,
            "training_seconds": self.training_seconds,
        }
        self.storage.save_state(self.learner.state(), progress)
        self._saved, self._state_at = self.progress.epoch, time.monotonic()
        self._state_took = self._state_at - now


@contextmanager
def _threads(threads: int) -> Iterator[None]:
    """Context in which torch uses this number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
