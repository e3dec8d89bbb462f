"""Where a training run is kept while it goes on: on disk, or in memory only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

from torch import Tensor

Tensors: TypeAlias = dict[str, Tensor]
Facts: TypeAlias = dict[str, Any]
"""What can be written as JSON."""


class Keep(Protocol):
    """What the trainer asks of the place that a run is kept in.

    At a validation the trainer keeps the checkpoints that are better than all before, then logs a row; snapshots come
    next, and its state comes last. Whatever is lost between two of these steps, it repeats from the state before, to
    the same effect.
    """

    def load_state(self) -> tuple[Tensors, Facts] | None:
        """The state that the run continues from and how far it is, or None where it begins.

        The log is cut back to what it was at that time.
        """
        ...

    def save_state(self, tensors: Mapping[str, Tensor], progress: Mapping[str, Any]) -> None:
        """Keep a state to continue from; ``progress`` says how far it is."""
        ...

    def save_best(self, target: str, seed: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Keep the checkpoint of a seed that is the best so far by a target; ``facts`` say since when and how good."""
        ...

    def load_best(self, target: str, seed: int) -> tuple[Tensors, Facts]:
        """The kept checkpoint of a seed by a target, and the facts about it."""
        ...

    def save_snapshot(self, epoch: int, seed: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Keep the weights of a seed as they are after an epoch, beside those of all other epochs."""
        ...

    def log(self, row: Mapping[str, Any]) -> None:
        """Note what a validation found."""
        ...


class MemoryKeep:
    """Keeps a run in memory, for searches and tests.

    Attributes:
        rows: What has been logged.
        snapshots: The weights by epoch and seed, and the facts about them.

    Example:
        >>> import torch
        >>> keep = MemoryKeep()
        >>> keep.load_state() is None
        True
        >>> keep.log({"epoch": 5})
        >>> keep.save_state({"model.entity": torch.zeros(1, 2, 2)}, {"epoch": 5})
        >>> keep.load_state()[1], keep.rows
        ({'epoch': 5}, [{'epoch': 5}])
    """

    def __init__(self) -> None:
        self.rows: list[Facts] = []
        self.snapshots: dict[tuple[int, int], tuple[Tensors, Facts]] = {}
        self._state: tuple[Tensors, Facts, int] | None = None
        self._best: dict[tuple[str, int], tuple[Tensors, Facts]] = {}

    def load_state(self) -> tuple[Tensors, Facts] | None:
        """The last state; the rows logged after it are forgotten."""
        if self._state is None:
            self.rows.clear()
            return None
        tensors, progress, logged = self._state
        del self.rows[logged:]
        return copied(tensors), written(progress)

    def save_state(self, tensors: Mapping[str, Tensor], progress: Mapping[str, Any]) -> None:
        """Keep a copy of the state."""
        self._state = copied(tensors), written(progress), len(self.rows)

    def save_best(self, target: str, seed: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Keep a copy of the checkpoint."""
        self._best[target, seed] = copied(tensors), written(facts)

    def load_best(self, target: str, seed: int) -> tuple[Tensors, Facts]:
        """A copy of the kept checkpoint."""
        tensors, facts = self._best[target, seed]
        return copied(tensors), written(facts)

    def save_snapshot(self, epoch: int, seed: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Keep a copy of the weights."""
        self.snapshots[epoch, seed] = copied(tensors), written(facts)

    def log(self, row: Mapping[str, Any]) -> None:
        """Add a row."""
        self.rows.append(written(row))


def copied(tensors: Mapping[str, Tensor]) -> Tensors:
    """Copies of tensors in the memory of the host, which training does not change.

    Example:
        >>> import torch
        >>> own = torch.zeros(2)
        >>> copy = copied({"own": own})
        >>> _ = own.add_(1)
        >>> copy["own"].tolist()
        [0.0, 0.0]
    """
    return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}


def written(facts: Mapping[str, Any]) -> Facts:
    """Facts as they are read back from a file, so that a run in memory sees what a run on disk does.

    Example:
        >>> written({"seeds": (0, 1)})
        {'seeds': [0, 1]}
    """
    back: Facts = json.loads(json.dumps(facts))
    return back
