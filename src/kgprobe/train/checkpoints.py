"""Checkpoints and training states: files of tensors with a checksum, on disk or in memory."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from kgprobe.errors import DataError, KgprobeError
from kgprobe.files import replacing
from kgprobe.predict.adapters.array_files import SAFETENSORS_HEADER
from kgprobe.train.setting_sources import from_values
from kgprobe.train.settings import Settings, resolve

Tensors: TypeAlias = dict[str, Tensor]

Facts: TypeAlias = dict[str, Any]

"""What can be written as JSON."""


class RunStorage(Protocol):
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


class MemoryStorage:
    """Keeps a run in memory, for searches and tests.

    Attributes:
        rows: What has been logged.
        snapshots: The weights by epoch and seed, and the facts about them.

    Example:
        >>> import torch
        >>> keep = MemoryStorage()
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


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write a safetensors file; what was there before stays until the new one is safe on the disk.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "state.safetensors"
        >>> write_tensors(path, {"model.entity": torch.eye(2)}, {"epoch": 5})
        >>> tensors, facts = read_tensors(path)
        >>> tensors["model.entity"].tolist(), facts
        ([[1.0, 0.0], [0.0, 1.0]], {'epoch': 5})
    """
    own = copied(tensors)
    # One entry only: a second would make the order of the two, and so the bytes of the file, a matter of chance.
    header = {SAFETENSORS_HEADER: json.dumps({**facts, _CHECKSUM: _checksum(own)}, sort_keys=True)}
    # Not by the library's own way into a file, which leaves another of its names behind where it is killed.
    content = save(own, header)
    with replacing(path) as temporary:
        temporary.write_bytes(content)
        flush_to_disk(temporary)


def read_tensors(path: Path) -> tuple[Tensors, Facts]:
    """The tensors of a file and the facts about them.

    Raises:
        DataError: The file is missing, truncated or damaged.
    """
    with _reading(path), safe_open(path, framework="pt") as file:
        # Copies, since the tensors of the library lie in the file itself.
        tensors = copied({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118 (it is no mapping)
        facts = _facts(file)
        if facts.pop(_CHECKSUM, None) != _checksum(tensors):
            raise ValueError("its numbers are not those that were written")
    return tensors, facts


def read_facts(path: Path) -> Facts:
    """The facts about the tensors of a file, without reading these.

    Raises:
        DataError: The file is missing, truncated or damaged.
    """
    with _reading(path), safe_open(path, framework="pt") as file:
        facts = _facts(file)
        facts.pop(_CHECKSUM, None)
    return facts


def flush_to_disk(path: Path) -> None:
    """Wait until a file is on the disk, so that a machine that loses power cannot lose it after it was renamed."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


_CHECKSUM = "checksum"


def _checksum(tensors: Mapping[str, Tensor]) -> int:
    checksum = 0
    for name in sorted(tensors):
        checksum = zlib.crc32(_bytes(tensors[name]), zlib.crc32(name.encode(), checksum))
    return checksum


def _bytes(tensor: Tensor) -> Any:
    return tensor.reshape(-1).view(torch.uint8).numpy() if tensor.numel() else b""


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: cannot be read", ["no such file"], "check the name and the folder") from None
    except (OSError, SafetensorError, ValueError) as error:
        problem = str(error).split("\n")[0] or type(error).__name__
        raise DataError(f"{path}: cannot be read", [problem], "it is truncated or damaged") from None


def _facts(file: safe_open) -> Facts:
    metadata: dict[str, str] = file.metadata() or {}  # type: ignore[no-untyped-call]
    facts = json.loads(metadata.get(SAFETENSORS_HEADER, "null"))
    if not isinstance(facts, dict):
        raise ValueError("it does not say what it is: no training has written it")
    return facts


CHECKPOINT = "checkpoint"

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
        facts = {name: getattr(self, name) for name in _FACTS} | {"settings": self.settings.flat(), "kind": CHECKPOINT}
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
    if facts.get("kind") != CHECKPOINT:
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


STATE = "state of a run"


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
        write_tensors(path, self.tensors, {"kind": STATE, "progress": self.progress, "logged": self.logged})

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
    return [] if facts.get("kind") == STATE else [f"it is {facts.get('kind', 'something else')}"]
