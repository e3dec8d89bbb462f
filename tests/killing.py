"""The command line in processes that are killed: at a chosen event of a training, or after a time."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

LOADED = [
    "torch._dynamo",
    "numba",
    "pydantic",
    "threadpoolctl",
    "safetensors.torch",
    "pyarrow.parquet",
    "kgprobe.cli.main",
    "kgprobe.models.complex",
    "kgprobe.predict.backends.numba_backend",
    "kgprobe.train.setting_sources",
    "kgprobe.train.plogicnet_learner",
    "kgprobe.train.rnnlogic.rnnlogic_learner",
    "kgprobe.train.fitting",
    "kgprobe.train.trainer",
    "kgprobe.audit",
    "kgprobe.decision",
    "kgprobe.report.comparison_report",
    "kgprobe.report.page.page_file",
    "kgprobe.ranks.importers.rank_tables",
    "jinja2",
    "plotly.offline",
    "scipy.stats",
    "killing",
    "warmed",
]

"""What takes long to load, and is loaded once for all processes."""


_MOST_WRITTEN = 200

"""So often a file is written at most, should nobody be left to kill the process."""

_LONGEST = 30

"""So many seconds a file is watched at most."""


@dataclass(frozen=True)
class Moment:
    """When a process gets a signal: at an event, a call of a function, that is counted while a part is at work."""

    part: str
    event: int
    signal: signal.Signals = signal.SIGKILL


@dataclass(frozen=True)
class Session:
    """What became of a process.

    Attributes:
        code: Its exit code, negative for the signal that ended it.
        said: What it wrote to its standard error.
        events: How many events were counted in each part, where it came to its end.
    """

    code: int | None
    said: str
    events: dict[str, int]


def run_command(arguments: list[str], place: Path, moment: Moment | None = None) -> Session:
    """Run the command line in a process of its own, in the way of a fork, which saves loading torch each time."""
    said, events = place / "said.txt", place / "events.json"
    events.unlink(missing_ok=True)
    process = _server().Process(target=_session, args=(arguments, said, events, moment))
    process.start()
    process.join()
    counted = json.loads(events.read_text(encoding="utf-8")) if events.exists() else {}
    return Session(process.exitcode, said.read_text(encoding="utf-8"), counted)


def started(arguments: list[str], said: Path) -> ForkServerProcess:
    """The command line in a process of its own, which has been started; what it prints goes to a file."""
    process = _server().Process(target=_speaking, args=(arguments, said))
    process.start()
    return process


def kill_after(arguments: list[str], place: Path, seconds: float, watched: Path | None = None) -> int | None:
    """Run the command line and kill it after some seconds; gives its exit code.

    Args:
        arguments: The words of the command.
        place: A folder for what it prints.
        seconds: The time until it is killed.
        watched: Count the time from the moment at which the command has a temporary file in this folder.
    """
    process = started(arguments, place / "said.txt")
    while watched and process.is_alive() and not any(watched.glob(".*.tmp")):
        pass
    process.join(seconds)
    process.kill()
    process.join()
    return process.exitcode


def killed_writing(path: Path, seconds: float) -> None:
    """Let a process write this file of tensors anew, and kill it some time after it was seen to be half-way.

    The file is there already, and all that are written are as long.
    """
    process = _server().Process(target=write_in_turn, args=(path,))
    whole, start = path.stat().st_size, time.monotonic()
    process.start()
    try:
        while all(size == whole for size in _sizes(path.parent)) and time.monotonic() < start + _LONGEST:
            pass
        time.sleep(seconds)
    finally:
        process.kill()
        process.join()


def _server() -> ForkServerContext:
    """Where processes are forked from; it has loaded all that takes long."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    # Until Python 3.12 it is not told where modules are found, and leaves out those of the tests without a word.
    with mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, sys.path))):
        forkserver.ensure_running()
    return context


def _sizes(folder: Path) -> Iterator[int]:
    for file in folder.iterdir():
        with suppress(FileNotFoundError):  # renamed since
            yield file.stat().st_size


def write_in_turn(path: Path, times: int = _MOST_WRITTEN) -> None:
    """Write two files of tensors in turn under one name."""
    import torch

    from kgprobe.train.checkpoints import write_tensors

    for number in range(times):
        own = torch.full((4_000_000,), float(number % 2))
        write_tensors(path, {"own": own}, {"number": number % 2})


def _speaking(arguments: list[str], said: Path) -> None:
    """Run the command line with its output in a file."""
    from kgprobe.cli.main import main

    with said.open("w", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = ["kgprobe", *arguments]
    main()


def _session(arguments: list[str], said: Path, events: Path, moment: Moment | None) -> None:
    counter = _Counter(moment)
    sys.setprofile(counter)
    try:
        _speaking(arguments, said)
    finally:
        sys.setprofile(None)
        events.write_text(json.dumps(counter.counts), encoding="utf-8")


class _Counter:
    """Counts calls by the part of the work that they belong to, and sends the signal when its moment has come."""

    def __init__(self, moment: Moment | None) -> None:
        from kgprobe.train.embedding_learner import EmbeddingLearner
        from kgprobe.train.fitting import finish_run
        from kgprobe.train.plogicnet_learner import PLogicNetLearner
        from kgprobe.train.rnnlogic.rnnlogic_learner import RNNLogicLearner
        from kgprobe.train.run_directory import RunDirectory

        self.moment, self.counts = moment, Counter[str]()
        self._parts = {
            EmbeddingLearner.epoch.__code__: "training",
            PLogicNetLearner.epoch.__code__: "training",
            RNNLogicLearner.epoch.__code__: "training",
            RunDirectory.save_best.__code__: "writing",
            RunDirectory.save_snapshot.__code__: "writing",
            RunDirectory.save_state.__code__: "writing",
            RunDirectory.log.__code__: "writing",
            finish_run.__code__: "ranking",
        }
        self._inside: list[str] = []

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        part = self._parts.get(frame.f_code)
        if part and event == "call":
            self._inside.append(part)
        if part and event == "return":
            self._inside.pop()
        if self._inside and event in ("call", "c_call"):
            self.counts[self._inside[-1]] += 1
            if self.moment and (self.moment.part, self.moment.event) == (
                self._inside[-1],
                self.counts[self.moment.part],
            ):
                os.kill(os.getpid(), self.moment.signal)
