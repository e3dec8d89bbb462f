"""Checkpoints and training states: sealed safetensors files, and the storage interface of the trainer."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from kgprobe.bounded_files import parse_json
from kgprobe.errors import DataError, KgprobeError
from kgprobe.files import replacing
from kgprobe.json_files import field_problems
from kgprobe.predict.safetensors_files import SAFETENSORS_HEADER, UNSEALED, check_seal, list_safetensors, seal
from kgprobe.train.setting_sources import from_values
from kgprobe.train.settings import Settings, resolve

Tensors: TypeAlias = dict[str, Tensor]

Metadata: TypeAlias = dict[str, Any]
"""Values that JSON can hold, by name."""


class RunStorage(Protocol):
    """Storage of a run, as the trainer uses it.

    At a validation the trainer stores improved checkpoints, logs a row, stores snapshots, and stores its state last.
    If the process ends between two of these steps, training from the previous state repeats them with the same result.
    """

    def load_state(self) -> tuple[Tensors, Metadata] | None:
        """The last state and its progress, or None for a new run; the log is cut back to that state."""
        ...

    def save_state(self, tensors: Mapping[str, Tensor], progress: Mapping[str, Any]) -> None:
        """Store a state to continue from."""
        ...

    def save_best(self, target: str, seed: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Store the best checkpoint so far of a seed for a selection metric; ``facts`` has its epoch and score."""
        ...

    def load_best(self, target: str, seed: int) -> tuple[Tensors, Metadata]:
        """The best checkpoint of a seed for a selection metric, and its metadata."""
        ...

    def save_snapshot(self, epoch: int, seed: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Store the weights of a seed after an epoch, in addition to those of other epochs."""
        ...

    def log(self, row: Mapping[str, Any]) -> None:
        """Add the row of a validation to the log."""
        ...


class MemoryStorage:
    """Storage in memory.

    Attributes:
        rows: The log.
        snapshots: Weights and metadata by epoch and seed.
    """

    def __init__(self) -> None:
        self.rows: list[Metadata] = []
        self.snapshots: dict[tuple[int, int], tuple[Tensors, Metadata]] = {}
        self._state: tuple[Tensors, Metadata, int] | None = None
        self._best: dict[tuple[str, int], tuple[Tensors, Metadata]] = {}

    def load_state(self) -> tuple[Tensors, Metadata] | None:
        if self._state is None:
            self.rows.clear()
            return None
        tensors, progress, logged = self._state
        del self.rows[logged:]
        return copied(tensors), as_json(progress)

    def save_state(self, tensors: Mapping[str, Tensor], progress: Mapping[str, Any]) -> None:
        self._state = copied(tensors), as_json(progress), len(self.rows)

    def save_best(self, target: str, seed: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        self._best[target, seed] = copied(tensors), as_json(facts)

    def load_best(self, target: str, seed: int) -> tuple[Tensors, Metadata]:
        tensors, facts = self._best[target, seed]
        return copied(tensors), as_json(facts)

    def save_snapshot(self, epoch: int, seed: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        self.snapshots[epoch, seed] = copied(tensors), as_json(facts)

    def log(self, row: Mapping[str, Any]) -> None:
        self.rows.append(as_json(row))


def copied(tensors: Mapping[str, Tensor]) -> Tensors:
    """Contiguous copies of tensors on the CPU."""
    return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}


def as_json(facts: Mapping[str, Any]) -> Metadata:
    """Metadata after a round trip through JSON, so that a run in memory equals one on disk."""
    back: Metadata = json.loads(json.dumps(facts))
    return back


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write a sealed safetensors file atomically: an old file stays until the new one is on disk."""
    # A single entry: the order of several is random, and so would be the bytes of the file.
    header = {SAFETENSORS_HEADER: json.dumps({**facts, **UNSEALED}, sort_keys=True)}
    # Not save_file, whose temporary file has another name that `clear_temporary` would miss.
    content = save(copied(tensors), header)
    with replacing(path) as temporary:
        temporary.write_bytes(content)
        seal(temporary)


def read_tensors(path: Path) -> tuple[Tensors, Metadata]:
    """Read the tensors and the metadata of a file.

    Raises:
        DataError: The file is missing, truncated or damaged.
    """
    facts = read_metadata(path)
    return _tensors(path), facts


def read_metadata(path: Path) -> Metadata:
    """Read the metadata of a file, after its whole content was verified.

    Raises:
        DataError: The file is missing, truncated or damaged.
    """
    with _reading(path):
        facts = parse_json(list_safetensors(path).header or "null")
        if not isinstance(facts, dict):
            raise ValueError("it has no metadata of kgprobe: no training has written it")
        changed = _change(path, facts)
    if changed:
        find = _PROBLEMS.get(str(facts.get("kind")))
        raise DataError(f"{path}: cannot be read", [changed, *(find(facts) if find else [])], _RESTORE)
    facts.pop(_CHECKSUM, None)
    return facts


_RESTORE = "it is truncated or damaged: restore it from a copy, or train again"
_CHECKSUM = "checksum"
"""Entry of files of earlier versions: a checksum of the tensors alone."""


def _change(path: Path, facts: Metadata) -> str:
    """What shows that a file has changed since it was written; empty if nothing does."""
    try:
        if check_seal(path) or facts.get(_CHECKSUM) == _checksum(_tensors(path)):
            return ""
    except ValueError as error:
        return str(error)
    return "the checksum does not match: its tensors have changed"


def _tensors(path: Path) -> Tensors:
    with _reading(path), safe_open(path, framework="pt") as file:
        # Copies, because the library maps the file into memory.
        return copied({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118 (it is no mapping)


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
        raise DataError(f"{path}: cannot be read", [problem], _RESTORE) from None


CHECKPOINT = "checkpoint"

GRAPH_FIELDS = {"name": str, "content_hash": str, "entities": int, "relations": int}
"""The fields of `graph_metadata` that every version has written."""

_CHECKPOINT_FIELDS = {"settings": dict, "graph": GRAPH_FIELDS, "target": str, "seed": int, "facts": {"epoch": int}}


@dataclass(frozen=True)
class Checkpoint:
    """The weights of one run: its best checkpoint for a selection metric, or a snapshot.

    Attributes:
        tensors: The weights.
        settings: The settings of the training.
        graph: `graph_metadata` of the training graph.
        target: The metric that selected it; empty for a snapshot.
        seed: The seed.
        facts: The epoch and, unless it is a snapshot, the validation score.

    Example:
        >>> import tempfile, torch
        >>> settings = resolve("distmult", []).settings
        >>> path = Path(tempfile.mkdtemp()) / "seed-0.safetensors"
        >>> graph = {"name": "tiny", "content_hash": "00", "entities": 2, "relations": 1}
        >>> Checkpoint({"entity": torch.ones(1, 2, 4)}, settings, graph, "MRR", 0, {"epoch": 5}).write(path)
        >>> again = Checkpoint.read(path)
        >>> again.settings == settings, again.facts, again.tensors["entity"].shape
        (True, {'epoch': 5}, torch.Size([1, 2, 4]))
    """

    tensors: Mapping[str, Tensor]
    settings: Settings
    graph: Metadata
    target: str
    seed: int
    facts: Mapping[str, Any]

    def write(self, path: Path) -> None:
        about = {name: getattr(self, name) for name in _CHECKPOINT_FIELDS} | {
            "settings": self.settings.flat(),
            "kind": CHECKPOINT,
        }
        write_tensors(path, self.tensors, about)

    @classmethod
    def read(cls, path: Path) -> Checkpoint:
        """Read a checkpoint.

        Raises:
            DataError: The file is damaged, or not a checkpoint.
        """
        tensors, about = read_tensors(path)
        if problems := checkpoint_problems(about):
            remedy = "name a file in the folder 'best' or 'snapshots' of a run"
            raise DataError(f"{path}: not a checkpoint", problems, remedy)
        settings = _settings(path, about)
        return cls(tensors, **{name: about[name] for name in _CHECKPOINT_FIELDS} | {"settings": settings})


def checkpoint_problems(about: Metadata) -> list[str]:
    """Problems of metadata that are not those of a checkpoint."""
    if about.get("kind") != CHECKPOINT:
        return [_other_kind(about)]
    return list(field_problems(about, _CHECKPOINT_FIELDS))


def _settings(path: Path, about: Metadata) -> Settings:
    values = about["settings"]
    try:
        return resolve(str(values.get("model")), [from_values(str(path), values)]).settings
    except KgprobeError as error:  # a setting that this version does not know
        title, remedy = f"{path}: its settings are invalid in this version", "use the version that wrote it"
        raise DataError(title, error.problems or [error.title], remedy) from None


STATE = "state of a run"

_SELECTION_FIELDS = {"best": dict, "waited": list}
_PROGRESS_FIELDS = {
    "epoch": int,
    "selection": _SELECTION_FIELDS,
    "rows": list,
    "seconds": float,
    "training_seconds": float,
}
_STATE_FIELDS = {"progress": _PROGRESS_FIELDS, "logged": int}


@dataclass(frozen=True)
class State:
    """State to resume from, in one file, so that its parts are of the same epoch.

    Attributes:
        tensors: The model and its optimiser.
        progress: The progress of the run.
        logged: The length of the log in bytes.
        log_hash: The SHA-256 of the log; empty in a state of an earlier version.
        settings: The settings of the training, by name; empty in a state of an earlier version.
    """

    tensors: Mapping[str, Tensor]
    progress: Mapping[str, Any]
    logged: int
    log_hash: str
    settings: Mapping[str, Any]

    def write(self, path: Path) -> None:
        about = {name: getattr(self, name) for name in ("progress", "logged", "log_hash", "settings")}
        write_tensors(path, self.tensors, about | {"kind": STATE})

    @classmethod
    def read(cls, path: Path) -> State:
        """Read a state.

        Raises:
            DataError: The file is damaged, or not a state.
        """
        tensors, about = read_tensors(path)
        if problems := state_problems(about):
            raise DataError(f"{path}: not the state of a run", problems, "replace the run with `force=True`")
        return cls(tensors, about["progress"], about["logged"], about.get("log_hash", ""), about.get("settings", {}))


def state_problems(about: Metadata) -> list[str]:
    """Problems of metadata that are not those of a state."""
    if about.get("kind") != STATE:
        return [_other_kind(about)]
    # States of earlier versions have neither settings nor a hash of the log.
    named = {name: kind for name, kind in (("log_hash", str), ("settings", dict)) if name in about}
    return list(field_problems(about, _STATE_FIELDS | named))


def _other_kind(about: Metadata) -> str:
    kind = str(about.get("kind"))
    return f"it is a {kind}" if kind in _PROBLEMS else "it does not say what it is"


_PROBLEMS: Mapping[str, Callable[[Metadata], list[str]]] = {CHECKPOINT: checkpoint_problems, STATE: state_problems}
