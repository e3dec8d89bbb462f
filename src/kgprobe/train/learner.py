"""What the trainer asks of a model that learns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from torch import Tensor

from kgprobe.predict.scorer import AnyScorer

Watch: TypeAlias = Callable[[int, str], None]
"""Called with the number of steps that were taken since the last call, and what is being done now, such as "mining"."""


class Learner(Protocol):
    """One run for each seed of the settings, and everything that changes from epoch to epoch.

    An epoch depends on the state and on its number alone, so that a training that was stopped goes on to the same end.

    Attributes:
        steps: Number of steps in an epoch, for people who watch.
        ready: Whether it can be ranked already: models of rules must find these first. It is ready by the last epoch,
            and stays so; until then it is neither validated nor kept as a checkpoint.
    """

    @property
    def steps(self) -> int:
        """Number of steps in an epoch."""
        ...

    @property
    def ready(self) -> bool:
        """Whether it can be ranked already."""
        ...

    def epoch(self, epoch: int, watch: Watch) -> Tensor:
        """Learn for an epoch; gives the mean losses [seeds] of the runs."""
        ...

    def run(self, run: int) -> AnyScorer:
        """One of the runs, as the engine ranks it."""
        ...

    def weights(self, run: int) -> dict[str, Tensor]:
        """The tensors of one of the runs, all that `open_run` needs beside the settings and the graph."""
        ...

    def state(self) -> dict[str, Tensor]:
        """All that the next epochs depend on; shapes may change from epoch to epoch."""
        ...

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        ...
