"""How a training shows how far it is: a bar on a terminal, now and then a note elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kgprobe.cli.output import note

if TYPE_CHECKING:
    from kgprobe.train.progress import Progress, Watch

_NOTES = 20
"""So many notes a run has at most, or a little more where it does not divide evenly."""


@contextmanager
def training_bar(name: str, validates: bool) -> Iterator[Watch]:
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

    def watch(progress: Progress) -> None:
        done = steps_done(progress)
        if not bar.tasks:  # made here, where a resumed run knows how much is done already
            bar.add_task("", total=progress.epochs * progress.steps_an_epoch, completed=done)
        bar.update(bar.tasks[0].id, completed=max(done, bar.tasks[0].completed), description=described(progress))
        below.plain = "\n".join(f"  {line}" for line in standings(progress))

    with Live(Group(bar, below), console=Console(stderr=True), transient=True, refresh_per_second=4):
        yield watch


def described(progress: Progress) -> str:
    """Where a training is, and what it does unless it simply trains.

    Example:
        >>> from kgprobe.train.progress import Progress
        >>> described(Progress(epochs=10, steps_an_epoch=4, phase="mining"))
        'epoch 0/10, mining'
    """
    return headline(progress) + (f", {progress.phase}" if progress.phase != "training" else "")


def steps_done(progress: Progress) -> int:
    """How many steps a training has taken, those of earlier sessions included.

    Example:
        >>> from kgprobe.train.progress import Progress
        >>> steps_done(Progress(epochs=10, steps_an_epoch=4, epoch=2, step=3))
        11
    """
    # Between two epochs the last step of the one before is still the present one.
    return progress.epoch * progress.steps_an_epoch + progress.step % progress.steps_an_epoch


def headline(progress: Progress) -> str:
    """Where a training is, in one line.

    Example:
        >>> from kgprobe.train.progress import Progress
        >>> headline(Progress(epochs=10, steps_an_epoch=4, epoch=2, loss=[0.5, 0.25], steps_a_second=1234.5))
        'epoch 2/10, loss 0.3750, 1,234 steps a second'
    """
    parts = [f"epoch {progress.epoch}/{progress.epochs}"]
    if progress.loss:
        parts += [f"loss {mean(progress.loss):.4f}", f"{progress.steps_a_second:,.0f} steps a second"]
    return ", ".join(parts)


def standings(progress: Progress) -> list[str]:
    """The last and the best validation by every target, each the mean of all runs.

    Example:
        >>> from kgprobe.train.progress import Progress
        >>> from kgprobe.train.selection import Best
        >>> standings(Progress(10, 4, last={"MRR": [0.25, 0.75]}, best={"MRR": [Best(0.5, 5), Best(0.75, 10)]}))
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
        >>> from kgprobe.train.progress import Progress
        >>> notes = SparseNotes(print, validates=False)
        >>> for epoch in (1, 2, 3):
        ...     notes(Progress(epochs=40, steps_an_epoch=4, epoch=epoch, loss=[0.5]))
        epoch 2/40, loss 0.5000, 0 steps a second
    """

    def __init__(self, write: Callable[[str], None], validates: bool) -> None:
        self.write, self.validates = write, validates
        self._last: Mapping[str, Sequence[float]] = {}
        self._written = 0
        self._phases = {"training", "validating"}

    def __call__(self, progress: Progress) -> None:
        """Take note of how far a training is."""
        self._tell_phase(progress)
        fresh = progress.last is not self._last if self.validates else True
        self._last = progress.last
        every = -(-progress.epochs // _NOTES)
        due = progress.epoch - self._written >= every or self._written < progress.epoch == progress.epochs
        if fresh and due and progress.loss:
            self._written = progress.epoch
            self.write("; ".join([headline(progress), *standings(progress)]))

    def _tell_phase(self, progress: Progress) -> None:
        """A line where something begins that is done before all validations, such as mining, the first time it is."""
        if progress.phase not in self._phases:
            self._phases.add(progress.phase)
            self.write(described(progress))


def mean(values: Sequence[float]) -> float:
    """The mean of all runs."""
    return sum(values) / len(values)
