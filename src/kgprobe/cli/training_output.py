"""Progress and results of a training in the terminal."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kgprobe.cli.console import counting, note
from kgprobe.report.grid import Record

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.ranks import Ranks
    from kgprobe.resources import Progress
    from kgprobe.train.fitting import Fitted
    from kgprobe.train.settings import Settings
    from kgprobe.train.trainer import OnProgress, TrainingProgress
    from kgprobe.train.validation import Best

_NOTES = 20
"""Number of progress lines of a training, about, where there is no terminal."""


STOPPING = "stopping after this epoch (Ctrl-C again stops at once)"


class TerminalDisplay:
    """Shows a training on standard error: bars on a terminal, a few lines elsewhere; a `kgprobe.train.fitting.Display`.

    Attributes:
        started: Whether the training has started.
    """

    def __init__(self) -> None:
        self.started = False

    def note(self, text: str) -> None:
        note(text.replace("config=", "--config "))

    def training(self, settings: Settings, graph: KnowledgeGraph) -> AbstractContextManager[OnProgress]:
        self.started = True
        return training_bar(settings.model, validates=len(graph.triples("valid")) > 0)

    def ranking(self, queries: int) -> AbstractContextManager[Progress | None]:
        return counting("ranking", queries, "queries")


@contextmanager
def training_bar(name: str, validates: bool) -> Iterator[OnProgress]:
    """Context that gives the callback for the progress of a training."""
    if not sys.stderr.isatty():
        yield SparseNotes(note, validates)
        return
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    bar = Bar(
        TextColumn(name), BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn(), TextColumn("left")
    )
    below = Text()

    def show(progress: TrainingProgress) -> None:
        done = steps_done(progress)
        if not bar.tasks:  # not before the first call, when a resumed run knows how many steps it has taken
            bar.add_task("", total=progress.epochs * progress.steps_an_epoch, completed=done)
        bar.update(bar.tasks[0].id, completed=max(done, bar.tasks[0].completed), description=described(progress))
        below.plain = "\n".join(f"  {line}" for line in standings(progress))

    with Live(Group(bar, below), console=Console(stderr=True), transient=True, refresh_per_second=4):
        yield show


def described(progress: TrainingProgress) -> str:
    """The epoch, the loss, the phase unless it is training, and whether the training is about to stop.

    Example:
        >>> from kgprobe.train.trainer import TrainingProgress
        >>> described(TrainingProgress(epochs=10, steps_an_epoch=4, phase="mining"))
        'epoch 0/10, mining'
    """
    phase = f", {progress.phase}" if progress.phase != "training" else ""
    return headline(progress) + phase + (f", {STOPPING}" if progress.stopping else "")


def steps_done(progress: TrainingProgress) -> int:
    """Number of training steps taken, earlier sessions included."""
    # Between two epochs, step is still that of the epoch before.
    return progress.epoch * progress.steps_an_epoch + progress.step % progress.steps_an_epoch


def headline(progress: TrainingProgress) -> str:
    """The epoch, the mean loss and the speed, in one line.

    Example:
        >>> from kgprobe.train.trainer import TrainingProgress
        >>> headline(TrainingProgress(epochs=10, steps_an_epoch=4, epoch=2, loss=[0.5, 0.25], steps_a_second=1234.5))
        'epoch 2/10, loss 0.3750, 1,234 steps a second'
    """
    parts = [f"epoch {progress.epoch}/{progress.epochs}"]
    if progress.loss:
        parts += [f"loss {mean(progress.loss):.4f}", f"{progress.steps_a_second:,.0f} steps a second"]
    return ", ".join(parts)


def standings(progress: TrainingProgress) -> list[str]:
    """The last and the best validation score of every selection metric, each the mean over the seeds.

    Example:
        >>> from kgprobe.train.trainer import TrainingProgress
        >>> from kgprobe.train.validation import Best
        >>> standings(TrainingProgress(10, 4, last={"MRR": [0.25, 0.75]}, best={"MRR": [Best(0.5, 5), Best(0.75, 10)]}))
        ['MRR 0.5000, best 0.6250']
    """
    lines = []
    for target, runs in progress.best.items():
        best = [one.score for one in runs if one is not None]
        last = f" {mean(progress.last[target]):.4f}," if target in progress.last else ""
        if best:
            lines.append(f"{target}{last} best {mean(best):.4f}")
    return lines


class SparseNotes:
    """Writes a line after some of the validations, about 20 in a training, so that a log stays short.

    Attributes:
        write: Called with each line.
        validates: Whether there are validation triples; without them, lines follow epochs.

    Example:
        >>> from kgprobe.train.trainer import TrainingProgress
        >>> notes = SparseNotes(print, validates=False)
        >>> for epoch in (1, 2, 3):
        ...     notes(TrainingProgress(epochs=40, steps_an_epoch=4, epoch=epoch, loss=[0.5]))
        epoch 2/40, loss 0.5000, 0 steps a second
    """

    def __init__(self, write: Callable[[str], None], validates: bool) -> None:
        self.write, self.validates = write, validates
        self._last: Mapping[str, Sequence[float]] = {}
        self._written = 0
        self._phases = {"training", "validating"}
        self._stopping = False

    def __call__(self, progress: TrainingProgress) -> None:
        if progress.stopping and not self._stopping:
            self._stopping = True
            self.write(described(progress))
        if progress.phase not in self._phases:  # such as mining, before the first validation
            self._phases.add(progress.phase)
            self.write(described(progress))
        fresh = progress.last is not self._last if self.validates else True
        self._last = progress.last
        every = -(-progress.epochs // _NOTES)
        due = progress.epoch - self._written >= every or self._written < progress.epoch == progress.epochs
        if fresh and due and progress.loss:
            self._written = progress.epoch
            self.write("; ".join([headline(progress), *standings(progress)]))


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def result_rows(run: Path, fitted: Fitted) -> list[Record]:
    """One row for each selection metric and seed, and their mean where there are several seeds.

    ``test`` is the metric on the test triples, ``head`` and ``tail`` its value where that side is predicted.
    """
    from kgprobe.train.run_files import RESULT
    from kgprobe.train.run_records import read_result

    tested = read_result(run / RESULT, fitted.settings)["targets"]
    rows: list[Record] = []
    for target in fitted.settings.select:
        best = fitted.trained.best[target]
        own = list(_rows(target, fitted.settings.seeds, best, tested.get(target, {}).get("test", {})))
        rows += [*own, _mean(own)] if len(own) > 1 else own
    return rows


def _rows(
    target: str, seeds: Sequence[int], best: Sequence[Best], test: Mapping[str, Mapping[str, list[float]]]
) -> Iterator[Record]:
    sides = {"test": "both", "head": "head", "tail": "tail"}
    for place, (seed, own) in enumerate(zip(seeds, best, strict=True)):
        values = {name: test[side][target][place] if test else None for name, side in sides.items()}
        validation = None if math.isnan(own.score) else own.score
        yield {"target": target, "seed": str(seed), "epoch": own.epoch, "validation": validation, **values}


def _mean(rows: Sequence[Record]) -> Record:
    columns = {name: [row[name] for row in rows] for name in ("validation", "test", "head", "tail")}
    means = {name: None if None in values else mean(values) for name, values in columns.items()}
    return {"target": rows[0]["target"], "seed": "mean", "epoch": None, **means}


def tied_share(ranks: Ranks) -> float:
    """The share of queries whose target has exactly the score of another candidate.

    Example:
        >>> from kgprobe.ranks import Ranks
        >>> columns = dict(head=[0, 0], relation=[0, 0], tail=[1, 1], side=["head", "tail"], candidates=[5, 5])
        >>> tied_share(Ranks.from_columns(rank=[1, 2.5], ties=[0, 1], **columns))
        0.5
    """
    return float((ranks.ties > 0).mean()) if len(ranks) else 0.0
