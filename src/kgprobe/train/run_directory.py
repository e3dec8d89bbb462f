"""The directory of a training run: how a run is created, resumed and cleared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from torch import Tensor

from kgprobe.errors import DataError, UsageError
from kgprobe.files import Lock, replacing, require_writable
from kgprobe.graph import KnowledgeGraph
from kgprobe.json_files import write_json
from kgprobe.train.checkpoints import Checkpoint, Metadata, State, Tensors, as_json
from kgprobe.train.run_files import (
    BEST,
    CURVE,
    ENVIRONMENT,
    LOG,
    RESULT,
    SETTINGS,
    SNAPSHOTS,
    STATE,
    best_path,
    read_best,
    read_resumable,
    snapshot_path,
)
from kgprobe.train.run_records import (
    GRAPH,
    LOG_HASH,
    SETTINGS_ENTRY,
    RunLog,
    graph_metadata,
    read_result,
    write_curve,
)
from kgprobe.train.settings import Settings, settings_text

LOCK = ".lock"
_TRAINING = "training in this run directory"

_TEMPORARY = re.compile(r"\..+\.\d+\.tmp")
"""A file that was being written; see `kgprobe.files.replacing`."""

_NO_RUN = (LOCK, ENVIRONMENT)
"""Files that a directory without a run may hold."""


@contextmanager
def _accessing(folder: Path) -> Iterator[None]:
    """Turn errors of the file system into a DataError: a name that is too long, a folder in the place of a file."""
    try:
        yield
    except OSError as error:
        remedy = "choose another `output`, or remove what is in the way"
        raise DataError(f"{folder}: cannot be used as a run directory", [str(error)], remedy) from None


def is_run(folder: Path) -> bool:
    return (folder / SETTINGS).is_file()


def _require_room(folder: Path) -> None:
    """Refuse a directory that holds other files."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: it is a file, not a directory", remedy="choose another `output`")
    if not folder.exists() or is_run(folder):
        return
    others = sorted(entry.name for entry in folder.iterdir() if entry.name not in _NO_RUN and not _temporary(entry))
    if others:
        shown = ", ".join(others[:5]) + (f" and {len(others) - 5:,} more" if len(others) > 5 else "")
        raise UsageError(
            f"{folder}: it holds other files than those of a run", [shown], "choose a new or an empty directory"
        )


def _require_no_run(folder: Path, *, force: bool) -> None:
    """Refuse a directory that holds a run, unless it may be replaced."""
    if force or not is_run(folder):
        return
    if (folder / RESULT).exists():
        raise UsageError(f"{folder}: it holds a finished run", remedy="`force=True` replaces it")
    raise UsageError(
        f"{folder}: it holds an unfinished run", remedy="`resume=True` continues it, `force=True` replaces it"
    )


def _require_run(folder: Path) -> None:
    if not is_run(folder):
        problem = f"it has no {SETTINGS}" if folder.is_dir() else "there is no such directory"
        raise UsageError(f"{folder}: there is no run to resume", [problem], "start a new run without `resume=True`")


def clear(folder: Path) -> None:
    """Remove the files of a run and nothing else.

    The settings are removed last of the files that make a run, so that a process killed half-way leaves a directory
    that is still recognised as a run.
    """
    clear_temporary(folder)
    for file in (RESULT, *_ranks(folder), STATE, LOG, CURVE):
        (folder / file).unlink(missing_ok=True)
    for kept in (folder / BEST, folder / SNAPSHOTS):
        for checkpoint in kept.glob("*/seed-*.safetensors"):
            checkpoint.unlink()
        for emptied in (*kept.glob("*"), kept):
            if emptied.is_dir() and not any(emptied.iterdir()):
                emptied.rmdir()
    for file in (SETTINGS, ENVIRONMENT):
        (folder / file).unlink(missing_ok=True)


def clear_temporary(folder: Path) -> None:
    """Remove files that a killed process left half-written."""
    for place in (folder, *(folder / BEST).glob("*/"), *(folder / SNAPSHOTS).glob("*/")):
        for entry in place.iterdir():
            if _temporary(entry):
                entry.unlink()


def _ranks(folder: Path) -> Iterator[str]:
    return (entry.name for entry in folder.glob("ranks*.parquet") if re.fullmatch(r"ranks(-.+)?", entry.stem))


def _temporary(entry: Path) -> bool:
    return bool(_TEMPORARY.fullmatch(entry.name)) and entry.is_file()


class RunDirectory:
    """Storage of a run in a directory, which is locked until it is closed.

    Attributes:
        path: The directory.
        settings: The settings of the run.
        environment: The versions, the machine and the graph that it was started with.
        log_file: The log.

    Example:
        >>> import tempfile
        >>> from kgprobe.train.settings import resolve
        >>> from kgprobe.train.run_records import environment
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]])
        >>> path, settings = Path(tempfile.mkdtemp()) / "run", resolve("distmult", []).settings
        >>> with RunDirectory.create(path, settings, graph, environment(graph)) as run:
        ...     run.log({"epoch": 5, "seconds": 2.5, "loss": [0.1], "scores": {"MRR": [0.5]}})
        >>> with RunDirectory.resume(path, graph) as run:
        ...     run.settings == settings, run.load_state(), run.finished
        (True, None, False)
    """

    def __init__(self, path: Path, settings: Settings, environment: Metadata, lock: Lock) -> None:
        self.path, self.settings, self.environment, self._lock = path, settings, environment, lock
        self.log_file = RunLog(path / LOG)

    @classmethod
    def create(
        cls,
        path: str | Path,
        settings: Settings,
        graph: KnowledgeGraph,
        environment: Mapping[str, Any],
        *,
        force: bool = False,
    ) -> Self:
        """Start a new run.

        Args:
            path: The directory.
            settings: The settings.
            graph: The graph.
            environment: Versions and machine; see `environment`.
            force: Whether to replace a run that is already there.

        Raises:
            UsageError: The directory holds a run or other files, or another process is training in it.
        """
        run = Path(path)
        with _accessing(run):
            _require_room(run)
        require_writable(run / SETTINGS)
        lock = Lock(run / LOCK, _TRAINING)
        try:
            with _accessing(run):
                _require_no_run(run, force=force)
                clear(run)
            about = as_json({**environment, GRAPH: graph_metadata(graph), SETTINGS_ENTRY: settings.flat()})
            write_json(run / ENVIRONMENT, about)
            with replacing(run / SETTINGS) as temporary:  # last: this file makes the directory a run
                temporary.write_text(settings_text(settings), encoding="utf-8")
            return cls(run, settings, about, lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def resume(cls, path: str | Path, graph: KnowledgeGraph, given: Mapping[str, Any] | None = None) -> Self:
        """Resume a run.

        Args:
            path: The directory.
            graph: The graph, which must be that of the run.
            given: Settings by name, which must be those of the run.

        Raises:
            UsageError: There is no run, settings differ, or another process is training in it.
            DataError: The run is damaged, or its graph is another.
        """
        run = Path(path)
        with _accessing(run):
            _require_run(run)
        require_writable(run / SETTINGS)
        lock = Lock(run / LOCK, _TRAINING)
        try:
            with _accessing(run):
                clear_temporary(run)
            settings, environment = read_resumable(run, graph, given or {})
            return cls(run, settings, environment, lock)
        except BaseException:
            lock.release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock."""
        self._lock.release()

    @property
    def finished(self) -> bool:
        """Whether the run is trained and ranked."""
        return (self.path / RESULT).exists()

    def load_state(self) -> tuple[Tensors, Metadata] | None:
        path = self.path / STATE
        if not path.exists():
            self.log_file.cut(0)
            return None
        state = State.read(path)
        self.log_file.cut(state.logged)
        return dict(state.tensors), dict(state.progress)

    def save_state(self, tensors: Mapping[str, Tensor], progress: Mapping[str, Any]) -> None:
        length, log_hash = self.log_file.length, self.log_file.hash()
        State(tensors, progress, length, log_hash, self.settings.flat()).write(self.path / STATE)

    def save_best(self, target: str, seed: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        checkpoint = Checkpoint(tensors, self.settings, self.environment[GRAPH], target, seed, facts)
        checkpoint.write(best_path(self.path, target, seed))

    def load_best(self, target: str, seed: int) -> tuple[Tensors, Metadata]:
        checkpoint = read_best(self.path, self.settings, target, seed)
        return dict(checkpoint.tensors), dict(checkpoint.facts)

    def save_snapshot(self, epoch: int, seed: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        snapshot = Checkpoint(tensors, self.settings, self.environment[GRAPH], "", seed, facts)
        snapshot.write(snapshot_path(self.path, epoch, seed))

    def log(self, row: Mapping[str, Any]) -> None:
        """Add a row to the log, and rewrite the validation curve."""
        self.log_file.add(row)
        write_curve(self.path / CURVE, self.log_file.rows(), self.settings.seeds)

    def save_result(self, result: Mapping[str, Any]) -> None:
        """Write the result, which marks the run as finished."""
        write_json(self.path / RESULT, {**result, LOG_HASH: self.log_file.hash()})

    def read_result(self) -> Metadata:
        """Read the result of a finished run."""
        return read_result(self.path / RESULT, self.settings)
