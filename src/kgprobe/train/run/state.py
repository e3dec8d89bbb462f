"""The state that a run continues from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from kgprobe.errors import DataError
from kgprobe.train.keep import Facts
from kgprobe.train.run.tensors import read_tensors, write_tensors

KIND = "state of a run"


@dataclass(frozen=True)
class State:
    """All that the next epochs depend on, in one file, so that its parts are always of the same epoch.

    Attributes:
        tensors: Of the model and its optimiser.
        progress: How far the run is.
        logged: The length of its log in bytes.

    Example:
        >>> import tempfile, torch
        >>> path = Path(tempfile.mkdtemp()) / "state.safetensors"
        >>> State({"model.entity": torch.eye(2)}, {"epoch": 5}, logged=120).write(path)
        >>> State.read(path).progress
        {'epoch': 5}
    """

    tensors: Mapping[str, Tensor]
    progress: Mapping[str, Any]
    logged: int

    def write(self, path: Path) -> None:
        """Write it in place of the state before."""
        write_tensors(path, self.tensors, {"kind": KIND, "progress": self.progress, "logged": self.logged})

    @classmethod
    def read(cls, path: Path) -> State:
        """Read it.

        Raises:
            DataError: The file is damaged, or is something else.
        """
        tensors, facts = read_tensors(path)
        if problems := state_problems(facts):
            raise DataError(f"{path}: not the state of a run", problems, "train anew with --force")
        return cls(tensors, facts["progress"], facts["logged"])


def state_problems(facts: Facts) -> list[str]:
    """Why these are not the facts about a state."""
    return [] if facts.get("kind") == KIND else [f"it is {facts.get('kind', 'something else')}"]
