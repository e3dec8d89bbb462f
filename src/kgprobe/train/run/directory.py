"""The directory of a run: begun once, continued as often as it takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from torch import Tensor

from kgprobe.files import replacing, require_writable
from kgprobe.graph import KnowledgeGraph
from kgprobe.train.keep import Facts, Tensors
from kgprobe.train.resolve import settings_text
from kgprobe.train.run import contents, names
from kgprobe.train.run.checkpoint import Checkpoint
from kgprobe.train.run.curve import write_curve
from kgprobe.train.run.environment import GRAPH
from kgprobe.train.run.graph_facts import graph_facts
from kgprobe.train.run.lock import Lock
from kgprobe.train.run.log import Log
from kgprobe.train.run.reading import read_run
from kgprobe.train.run.state import State
from kgprobe.train.run.tensors import flush_to_disk
from kgprobe.train.settings import Settings


class RunDirectory:
    """A run that is kept on disk; no other process can train into it until it is closed.

    Attributes:
        path: The directory.
        settings: The settings of the run.
        environment: Where and with what it was begun.
        log_file: Its log.

    Example:
        >>> import tempfile
        >>> from kgprobe.train.resolve import resolve
        >>> from kgprobe.train.run.environment import environment
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]])
        >>> path, settings = Path(tempfile.mkdtemp()) / "run", resolve("distmult", []).settings
        >>> with RunDirectory.create(path, settings, graph, environment(graph)) as run:
        ...     run.log({"epoch": 5, "seconds": 2.5, "loss": [0.1], "scores": {"MRR": [0.5]}})
        >>> with RunDirectory.resume(path, graph) as run:
        ...     run.settings == settings, run.load_state(), run.finished
        (True, None, False)
    """

    def __init__(self, path: Path, settings: Settings, environment: Facts, lock: Lock) -> None:
        self.path, self.settings, self.environment, self._lock = path, settings, environment, lock
        self.log_file = Log(path / names.LOG)

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
        """Begin a run.

        Args:
            path: The directory; what it holds beside a run is left alone.
            settings: The settings.
            graph: The graph.
            environment: Where it is trained and with what; see `environment`.
            force: Whether a run that is there is thrown away.

        Raises:
            UsageError: There is a run already, or something else; or another process trains there.
        """
        run = Path(path)
        contents.require_room(run)
        require_writable(run / names.SETTINGS)
        lock = Lock(run / names.LOCK)
        try:
            contents.require_no_run(run, force=force)
            contents.clear(run)
            about = {**environment, GRAPH: graph_facts(graph)}
            _write(run / names.ENVIRONMENT, json.dumps(about, indent=2) + "\n")
            _write(run / names.SETTINGS, settings_text(settings))  # last: from here on there is a run
            return cls(run, settings, about, lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def resume(cls, path: str | Path, graph: KnowledgeGraph, given: Mapping[str, Any] | None = None) -> Self:
        """Go on with a run.

        Args:
            path: The directory.
            graph: The graph, which must be the same as before.
            given: Settings that are given once more, by name, which must be the same as before.

        Raises:
            UsageError: There is no run; settings differ; or another process trains there.
            DataError: The run is damaged, or the graph is another.
        """
        run = Path(path)
        contents.require_run(run)
        require_writable(run / names.SETTINGS)
        lock = Lock(run / names.LOCK)
        try:
            contents.clear_temporary(run)
            settings, environment = read_run(run, graph, given or {})
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
        """Let other processes have it."""
        self._lock.release()

    @property
    def finished(self) -> bool:
        """Whether all is trained and ranked."""
        return (self.path / names.RESULT).exists()

    def load_state(self) -> tuple[Tensors, Facts] | None:
        """The last state that was kept; rows that were logged after it are cut off."""
        kept = self.path / names.STATE
        if not kept.exists():
            self.log_file.cut(0)
            return None
        state = State.read(kept)
        self.log_file.cut(state.logged)
        return dict(state.tensors), dict(state.progress)

    def save_state(self, tensors: Mapping[str, Tensor], progress: Mapping[str, Any]) -> None:
        """Keep a state in place of the one before."""
        State(tensors, progress, self.log_file.length).write(self.path / names.STATE)

    def save_best(self, target: str, seed: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Keep a checkpoint in place of the one before."""
        checkpoint = Checkpoint(tensors, self.settings, self.environment[GRAPH], target, seed, facts)
        checkpoint.write(names.best_path(self.path, target, seed))

    def load_best(self, target: str, seed: int) -> tuple[Tensors, Facts]:
        """The kept checkpoint of a seed by a target."""
        checkpoint = Checkpoint.read(names.best_path(self.path, target, seed))
        return dict(checkpoint.tensors), dict(checkpoint.facts)

    def save_snapshot(self, epoch: int, seed: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Keep the weights of a seed after an epoch."""
        snapshot = Checkpoint(tensors, self.settings, self.environment[GRAPH], "", seed, facts)
        snapshot.write(names.snapshot_path(self.path, epoch, seed))

    def log(self, row: Mapping[str, Any]) -> None:
        """Add a row to the log, and its scores to the validation curve."""
        self.log_file.add(row)
        write_curve(self.path / names.CURVE, self.log_file.rows(), self.settings.seeds)

    def save_result(self, result: Mapping[str, Any]) -> None:
        """Write what came out, which says that the run is finished."""
        _write(self.path / names.RESULT, json.dumps(result, indent=2) + "\n")


def _write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
        flush_to_disk(temporary)
