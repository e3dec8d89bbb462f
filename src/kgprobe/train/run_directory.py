"""The directory of a training run: file names, lock, contents, resuming."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType, TracebackType
from typing import IO, Any, Self, TypeVar

from torch import Tensor

from kgprobe.errors import DataError, KgprobeError, UsageError
from kgprobe.files import replacing, require_writable
from kgprobe.graph import KnowledgeGraph
from kgprobe.metrics import parse
from kgprobe.train.checkpoints import (
    Checkpoint,
    Facts,
    State,
    Tensors,
    checkpoint_problems,
    flush_to_disk,
    read_facts,
    state_problems,
    written,
)
from kgprobe.train.run_records import GRAPH, RunLog, graph_facts, other_graph, write_curve
from kgprobe.train.settings import Settings, read_settings, settings_text

SETTINGS = "settings.toml"

ENVIRONMENT = "environment.json"

STATE = "state.safetensors"

LOG = "log.jsonl"

CURVE = "curve.csv"

BEST = "best"

SNAPSHOTS = "snapshots"

RANKS = "ranks.parquet"

RESULT = "result.json"

LOCK = ".lock"

_SIGNS = {"-": "minus", "+": "plus"}


def slug(target: str) -> str:
    """A metric as part of a file's name; two metrics never share one.

    Example:
        >>> slug("PROBE(alpha=1,beta=0)"), slug("PROBE(alpha=-1,beta=0.8)"), slug("Hits@10")
        ('probe-alpha-1-beta-0', 'probe-alpha-minus1-beta-0.8', 'hits-10')
    """
    plain = re.sub(r"[-+]", lambda sign: _SIGNS[sign[0]], str(parse(target)))
    return re.sub(r"[^a-z0-9._]+", "-", plain.lower()).strip("-")


def best_path(run: Path, target: str, seed: int) -> Path:
    """Where the best checkpoint of a seed by a target is kept.

    Example:
        >>> best_path(Path("run"), "MRR", 2).as_posix()
        'run/best/mrr/seed-2.safetensors'
    """
    return run / BEST / slug(target) / f"seed-{seed}.safetensors"


def snapshot_path(run: Path, epoch: int, seed: int) -> Path:
    """Where the snapshot of a seed after an epoch is kept.

    Example:
        >>> snapshot_path(Path("run"), 50, 0).as_posix()
        'run/snapshots/epoch-00050/seed-0.safetensors'
    """
    return run / SNAPSHOTS / f"epoch-{epoch:05d}" / f"seed-{seed}.safetensors"


def ranks_path(run: Path, target: str, *, first: bool) -> Path:
    """Where the test ranks of the best checkpoints by a target are kept; the first target has the plain name.

    Example:
        >>> ranks_path(Path("run"), "MRR", first=False).name
        'ranks-mrr.parquet'
    """
    return run / (RANKS if first else f"ranks-{slug(target)}.parquet")


fcntl: ModuleType | None

try:
    import fcntl
except ImportError:  # Windows has no such lock: there nobody is kept from training twice into one run
    fcntl = None


class Lock:
    """Held from when it is made until `release`, or until the process ends in whatever way.

    The file stays: whether it is held is known to the system alone, so that a process that was killed leaves none.

    Raises:
        UsageError: Another process holds it.
        DataError: The file cannot be written.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / ".lock"
        >>> lock = Lock(path)
        >>> Lock(path)
        Traceback (most recent call last):
        ...
        kgprobe.errors.UsageError: ...: another process trains into this run
          - ...
        Remedy: wait until it ends, or choose another folder
        >>> lock.release()
        >>> Lock(path).release()
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file: IO[str] = path.open("a+", encoding="utf-8")
        except OSError as error:
            raise DataError(f"{path}: cannot be written", [str(error)], "choose a folder that is yours") from None
        try:
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._held(path) from None
        except OSError:  # a disk of the network that knows no locks: there, too, nobody is kept
            pass
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def release(self) -> None:
        """Let others in."""
        self._file.close()

    def _held(self, path: Path) -> UsageError:
        self._file.seek(0)
        holder = self._file.read().strip() or "unknown"
        self._file.close()
        return UsageError(
            f"{path.parent}: another process trains into this run",
            [f"its process number is {holder}"],
            "wait until it ends, or choose another folder",
        )


_TEMPORARY = re.compile(r"\..+\.\d+\.tmp")

"""A file that was being written; see `kgprobe.files.replacing`."""

_LEFT = (LOCK, ENVIRONMENT)

"""What is there before there is a run, or after it has been thrown away."""


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run."""
    return (folder / SETTINGS).is_file()


def require_room(folder: Path) -> None:
    """Refuse a folder that holds other things, which a run must not be mixed with."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: it is a file, and a run needs a folder", remedy="choose another --output")
    if not folder.exists() or is_run(folder):
        return
    others = sorted(entry.name for entry in folder.iterdir() if entry.name not in _LEFT and not _temporary(entry))
    if others:
        shown = ", ".join(others[:5]) + (f" and {len(others) - 5:,} more" if len(others) > 5 else "")
        raise UsageError(
            f"{folder}: it holds other things than a run", [f"there are: {shown}"], "choose a new or an empty folder"
        )


def require_no_run(folder: Path, *, force: bool) -> None:
    """Refuse a folder that holds a run, unless it is to be thrown away."""
    if force or not is_run(folder):
        return
    if (folder / RESULT).exists():
        raise UsageError(f"{folder}: it holds a finished run", remedy="--force trains anew in its place")
    raise UsageError(
        f"{folder}: it holds a run that is not finished", remedy="--resume goes on with it, --force begins anew"
    )


def require_run(folder: Path) -> None:
    """Refuse a folder without a run."""
    if not is_run(folder):
        there = f"it has no {SETTINGS}" if folder.is_dir() else "there is no such folder"
        raise UsageError(f"{folder}: there is no run to go on with", [there], "leave --resume out to begin one")


def clear(folder: Path) -> None:
    """Remove a run, and nothing else.

    The settings go last but for what may be there without a run, so that a process killed half-way leaves a folder
    that is still known to be a run.
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
    """Remove files that a killed process was writing."""
    for place in (folder, *(folder / BEST).glob("*/"), *(folder / SNAPSHOTS).glob("*/")):
        for entry in place.iterdir():
            if _temporary(entry):
                entry.unlink()


def _ranks(folder: Path) -> Iterator[str]:
    return (entry.name for entry in folder.glob("ranks*.parquet") if re.fullmatch(r"ranks(-.+)?", entry.stem))


def _temporary(entry: Path) -> bool:
    return bool(_TEMPORARY.fullmatch(entry.name)) and entry.is_file()


_Read = TypeVar("_Read")


def read_environment(path: Path) -> Facts:
    """Where and with what a run was begun.

    Raises:
        DataError: The file is missing or damaged.
    """
    try:
        found = json.loads(path.read_bytes())
        missing = [name for name in ("name", "content_hash", "entities", "relations") if name not in found[GRAPH]]
    except OSError as error:
        raise DataError(f"{path}: cannot be read", [error.strerror or str(error)], _ANEW) from None
    except (ValueError, TypeError, KeyError):
        raise DataError(f"{path}: cannot be read", ["it is not the JSON that kgprobe writes"], _ANEW) from None
    if missing:
        raise DataError(f"{path}: cannot be read", [f"its graph has no {', '.join(missing)}"], _ANEW)
    environment: Facts = found
    return environment


def read_run(run: Path, graph: KnowledgeGraph, given: Mapping[str, Any]) -> tuple[Settings, Facts]:
    """The settings and the surroundings of a run that goes on.

    Args:
        run: Its directory.
        graph: The graph, which must be the same as before.
        given: Settings that are given once more, which must be the same as before.

    Raises:
        DataError: The run is damaged, or the graph is another; with all that is wrong.
        UsageError: Nothing but settings that are given differ.
    """
    problems: list[str] = []
    settings = _attempt(lambda: read_settings(run / SETTINGS), problems)
    environment = _attempt(lambda: read_environment(run / ENVIRONMENT), problems)
    problems += [] if environment is None else other_graph(environment[GRAPH], graph)
    problems += _damages(run)
    differing = [] if settings is None else list(_differences(settings, given))
    if settings is None or environment is None or problems:
        raise DataError(f"{run}: this run cannot go on", [*problems, *differing], _ANEW)
    if differing:
        raise UsageError(
            f"{run}: this run has other settings", differing, "leave them out to go on, or train anew with --force"
        )
    return settings, environment


_ANEW = "put right what is wrong, or train anew with --force"


def _attempt(read: Callable[[], _Read], problems: list[str]) -> _Read | None:
    try:
        return read()
    except KgprobeError as error:
        problems += [f"{error.title}: {problem}" for problem in error.problems] or [error.title]
        return None


def _damages(run: Path) -> list[str]:
    """What is wrong with the files of tensors, as far as it shows without reading them through."""
    problems: list[str] = []
    state, checkpoints = run / STATE, sorted((run / BEST).glob("*/seed-*.safetensors"))
    for path, find in ((state, state_problems), *((path, checkpoint_problems) for path in checkpoints)):
        facts = _attempt(lambda path=path: read_facts(path), problems) if path.exists() else None  # type: ignore[misc]
        problems += [] if facts is None else [f"{path}: {problem}" for problem in find(facts)]
    return problems


def _differences(settings: Settings, given: Mapping[str, Any]) -> Iterator[str]:
    kept, wanted = written(settings.flat()), written(given)
    for name, value in wanted.items():
        if name not in kept:
            yield f"{name} is {value!r}, and the run has no such setting"
        elif kept[name] != value:
            yield f"{name} is {value!r}, and was {kept[name]!r}"


class RunDirectory:
    """A run that is kept on disk; no other process can train into it until it is closed.

    Attributes:
        path: The directory.
        settings: The settings of the run.
        environment: Where and with what it was begun.
        log_file: Its log.

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

    def __init__(self, path: Path, settings: Settings, environment: Facts, lock: Lock) -> None:
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
        require_room(run)
        require_writable(run / SETTINGS)
        lock = Lock(run / LOCK)
        try:
            require_no_run(run, force=force)
            clear(run)
            about = {**environment, GRAPH: graph_facts(graph)}
            _write(run / ENVIRONMENT, json.dumps(about, indent=2) + "\n")
            _write(run / SETTINGS, settings_text(settings))  # last: from here on there is a run
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
        require_run(run)
        require_writable(run / SETTINGS)
        lock = Lock(run / LOCK)
        try:
            clear_temporary(run)
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
        return (self.path / RESULT).exists()

    def load_state(self) -> tuple[Tensors, Facts] | None:
        """The last state that was kept; rows that were logged after it are cut off."""
        kept = self.path / STATE
        if not kept.exists():
            self.log_file.cut(0)
            return None
        state = State.read(kept)
        self.log_file.cut(state.logged)
        return dict(state.tensors), dict(state.progress)

    def save_state(self, tensors: Mapping[str, Tensor], progress: Mapping[str, Any]) -> None:
        """Keep a state in place of the one before."""
        State(tensors, progress, self.log_file.length).write(self.path / STATE)

    def save_best(self, target: str, seed: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Keep a checkpoint in place of the one before."""
        checkpoint = Checkpoint(tensors, self.settings, self.environment[GRAPH], target, seed, facts)
        checkpoint.write(best_path(self.path, target, seed))

    def load_best(self, target: str, seed: int) -> tuple[Tensors, Facts]:
        """The kept checkpoint of a seed by a target."""
        checkpoint = Checkpoint.read(best_path(self.path, target, seed))
        return dict(checkpoint.tensors), dict(checkpoint.facts)

    def save_snapshot(self, epoch: int, seed: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Keep the weights of a seed after an epoch."""
        snapshot = Checkpoint(tensors, self.settings, self.environment[GRAPH], "", seed, facts)
        snapshot.write(snapshot_path(self.path, epoch, seed))

    def log(self, row: Mapping[str, Any]) -> None:
        """Add a row to the log, and its scores to the validation curve."""
        self.log_file.add(row)
        write_curve(self.path / CURVE, self.log_file.rows(), self.settings.seeds)

    def save_result(self, result: Mapping[str, Any]) -> None:
        """Write what came out, which says that the run is finished."""
        _write(self.path / RESULT, json.dumps(result, indent=2) + "\n")


def _write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
        flush_to_disk(temporary)
