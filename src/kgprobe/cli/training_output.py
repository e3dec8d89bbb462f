"""Progress and results of a training in the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kgprobe.cli.console import note
from kgprobe.report.grid import Record

if TYPE_CHECKING:
    from kgprobe.ranks import Ranks
    from kgprobe.train.run_directory import RunDirectory
    from kgprobe.train.trainer import OnProgress, TrainingProgress


_NOTES = 20

"""So many notes a run has at most, or a little more where it does not divide evenly."""


@contextmanager
def training_bar(name: str, validates: bool) -> Iterator[OnProgress]:
    """Gives what a training should call with how far it is.

    Args:
        name: What is trained.
        validates: Whether there are validation facts.
    """
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
        if not bar.tasks:  # made here, where a resumed run knows how much is done already
            bar.add_task("", total=progress.epochs * progress.steps_an_epoch, completed=done)
        bar.update(bar.tasks[0].id, completed=max(done, bar.tasks[0].completed), description=described(progress))
        below.plain = "\n".join(f"  {line}" for line in standings(progress))

    with Live(Group(bar, below), console=Console(stderr=True), transient=True, refresh_per_second=4):
        yield show


def described(progress: TrainingProgress) -> str:
    """Where a training is, and what it does unless it simply trains.

    Example:
        >>> from kgprobe.train.trainer import TrainingProgress
        >>> described(TrainingProgress(epochs=10, steps_an_epoch=4, phase="mining"))
        'epoch 0/10, mining'
    """
    return headline(progress) + (f", {progress.phase}" if progress.phase != "training" else "")


def steps_done(progress: TrainingProgress) -> int:
    """How many steps a training has taken, those of earlier sessions included.

    Example:
        >>> from kgprobe.train.trainer import TrainingProgress
        >>> steps_done(TrainingProgress(epochs=10, steps_an_epoch=4, epoch=2, step=3))
        11
    """
    # Between two epochs the last step of the one before is still the present one.
    return progress.epoch * progress.steps_an_epoch + progress.step % progress.steps_an_epoch


def headline(progress: TrainingProgress) -> str:
    """Where a training is, in one line.

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
    """The last and the best validation by every target, each the mean of all runs.

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
    """Writes a line after some of the validations, so few that a log stays readable.

    Attributes:
        write: Where lines go.
        validates: Whether there are validations; where there are none, epochs count instead.

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

    def __call__(self, progress: TrainingProgress) -> None:
        """Take note of how far a training is."""
        self._tell_phase(progress)
        fresh = progress.last is not self._last if self.validates else True
        self._last = progress.last
        every = -(-progress.epochs // _NOTES)
        due = progress.epoch - self._written >= every or self._written < progress.epoch == progress.epochs
        if fresh and due and progress.loss:
            self._written = progress.epoch
            self.write("; ".join([headline(progress), *standings(progress)]))

    def _tell_phase(self, progress: TrainingProgress) -> None:
        """A line where something begins that is done before all validations, such as mining, the first time it is."""
        if progress.phase not in self._phases:
            self._phases.add(progress.phase)
            self.write(described(progress))


def mean(values: Sequence[float]) -> float:
    """The mean of all runs."""
    return sum(values) / len(values)


_NUMBERS = ("validation", "test", "head", "tail")


def result_rows(run: RunDirectory) -> list[Record]:
    """One row for each target and seed, and their mean where there are several seeds.

    ``test`` is the value of the target itself on the test facts, ``head`` and ``tail`` its value where that side is
    predicted: a side that does not work hides in a mean.
    """
    from kgprobe.train import run_directory

    tested = json.loads((run.path / run_directory.RESULT).read_bytes())["targets"]
    rows: list[Record] = []
    for target in run.settings.select:
        kept = [run.load_best(target, seed)[1] for seed in run.settings.seeds]
        own = list(_rows(target, run.settings.seeds, kept, tested.get(target, {}).get("test", {})))
        rows += [*own, _mean(own)] if len(own) > 1 else own
    return rows


def _rows(
    target: str, seeds: Sequence[int], kept: Sequence[Mapping[str, Any]], test: Mapping[str, Mapping[str, list[float]]]
) -> Iterator[Record]:
    sides = {"test": "both", "head": "head", "tail": "tail"}
    for place, (seed, facts) in enumerate(zip(seeds, kept, strict=True)):
        values = {name: test[side][target][place] if test else None for name, side in sides.items()}
        yield {"target": target, "seed": str(seed), "epoch": facts["epoch"], "validation": facts["score"], **values}


def _mean(rows: Sequence[Record]) -> Record:
    columns = {name: [row[name] for row in rows] for name in _NUMBERS}
    means = {name: None if None in values else sum(values) / len(values) for name, values in columns.items()}
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
