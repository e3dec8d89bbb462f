"""A trained model in one file that says all there is to know about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from kgprobe.errors import DataError, KgprobeError
from kgprobe.train.keep import Facts
from kgprobe.train.resolve import resolve
from kgprobe.train.run.tensors import read_tensors, write_tensors
from kgprobe.train.settings import Settings
from kgprobe.train.sources import from_values

KIND = "checkpoint"
_FACTS = ("settings", "graph", "target", "seed", "facts")


@dataclass(frozen=True)
class Checkpoint:
    """The weights of one run, from where it was the best by a target, or as they were after some epoch.

    Attributes:
        tensors: Its weights.
        settings: What it was trained with.
        graph: What it was trained on; see `graph_facts`.
        target: The metric by which it was the best; empty for a snapshot, which nobody has selected.
        seed: Its seed.
        facts: Of which epoch it is, and, unless it is a snapshot, how good it was on the validation facts.

    Example:
        >>> import tempfile, torch
        >>> settings = resolve("distmult", []).settings
        >>> path = Path(tempfile.mkdtemp()) / "seed-0.safetensors"
        >>> Checkpoint({"entity": torch.ones(1, 2, 4)}, settings, {"name": "tiny"}, "MRR", 0, {"epoch": 5}).write(path)
        >>> again = Checkpoint.read(path)
        >>> again.settings == settings, again.facts, again.tensors["entity"].shape
        (True, {'epoch': 5}, torch.Size([1, 2, 4]))
    """

    tensors: Mapping[str, Tensor]
    settings: Settings
    graph: Facts
    target: str
    seed: int
    facts: Mapping[str, Any]

    def write(self, path: Path) -> None:
        """Write it in place of the one before."""
        facts = {name: getattr(self, name) for name in _FACTS} | {"settings": self.settings.flat(), "kind": KIND}
        write_tensors(path, self.tensors, facts)

    @classmethod
    def read(cls, path: Path) -> Checkpoint:
        """Read it.

        Raises:
            DataError: The file is damaged, or is something else.
        """
        tensors, facts = read_tensors(path)
        if problems := checkpoint_problems(facts):
            remedy = "name a file in the folder 'best' or 'snapshots' of a run"
            raise DataError(f"{path}: not a checkpoint", problems, remedy)
        return cls(tensors, **{name: facts[name] for name in _FACTS} | {"settings": _settings(path, facts)})


def checkpoint_problems(facts: Facts) -> list[str]:
    """Why these are not the facts about a checkpoint."""
    if facts.get("kind") != KIND:
        return [f"it is the {facts['kind']}" if "kind" in facts else "it does not say what it is"]
    return [f"it does not say its {name}" for name in _FACTS if name not in facts]


def _settings(path: Path, facts: Facts) -> Settings:
    values = facts["settings"]
    try:
        return resolve(str(values.get("model")), [from_values(str(path), values)]).settings
    except KgprobeError as error:  # a setting that this version does not know
        problems = error.problems or [error.title]
        raise DataError(
            f"{path}: its settings make no sense here", problems, "use the version it was made by"
        ) from None
