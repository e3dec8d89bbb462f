"""Trainings of a study in processes of their own, several at a time: started, watched, stopped, and their failures."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kgprobe.errors import DataError
from kgprobe.studies.verdicts import OUT_OF_MEMORY

_POLL = 0.2
_TAIL = 8192
_LINES = 3
_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of linux/prctl.h
_EPOCH = re.compile(r"epoch (\d+)/(\d+)")
_MEMORY = re.compile(r"not enough memory|out of memory|cannot allocate memory|can't allocate memory|MemoryError", re.I)


@dataclass(frozen=True)
class Job:
    """A command of kgprobe to run in a process of its own.

    Attributes:
        name: What it does, in a few words.
        arguments: The words of the command.
        log: The file for what it prints.
    """

    name: str
    arguments: tuple[str, ...]
    log: Path


class _Running:
    """A process that runs a job."""

    def __init__(self, job: Job) -> None:
        self.job = job
        try:
            job.log.parent.mkdir(parents=True, exist_ok=True)
            self._log: IO[bytes] = job.log.open("wb")
        except OSError as error:
            raise DataError(f"{job.log}: cannot be written", [str(error)], "choose another `output`") from None
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kgprobe", *job.arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches it through this process only, and so once
            preexec_fn=_dying_with_parent(),
        )

    @property
    def share(self) -> float:
        """The share of its epochs that a training has done, from the last line about them in its log."""
        told = _EPOCH.findall(_tail(self.job.log))
        return int(told[-1][0]) / max(int(told[-1][1]), 1) if told else 0.0

    def failure(self) -> str | None:
        """Why the job has failed; None where it has not."""
        code = self.process.returncode
        if code == 0:
            return None
        text = _last_words(_tail(self.job.log))
        if code == -signal.SIGKILL:
            text = "the process was killed, as systems do where memory is short"
        if code == -signal.SIGKILL or _MEMORY.search(text):
            return f"{OUT_OF_MEMORY}: {self.job.name}: {text}"
        ended = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
        return f"{self.job.name} failed ({ended}): {text or 'it printed nothing'}"

    def close(self) -> None:
        self._log.close()


def _dying_with_parent() -> Callable[[], None] | None:
    """What a new process does first, so that it is killed when this one dies; None where the system cannot do it."""
    if sys.platform != "linux":
        return None
    system, parent = ctypes.CDLL(None), os.getpid()

    def begin() -> None:
        system.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:  # it has died already
            os._exit(1)

    return begin


def _tail(log: Path) -> str:
    with suppress(OSError), log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - _TAIL))
        return stream.read().decode(errors="replace")
    return ""


def _last_words(text: str) -> str:
    r"""The error at the end of a log, or its last lines, as one line.

    Example:
        >>> _last_words("epoch 1/2\nError: the training diverged\n  - seed 0: loss nan\nRemedy: lower it\n")
        'the training diverged; seed 0: loss nan; Remedy: lower it'
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    starts = [number for number, line in enumerate(lines) if line.startswith("Error: ")]
    last = lines[starts[-1] :] if starts else lines[-_LINES:]
    return "; ".join(line.removeprefix("Error: ").removeprefix("- ") for line in last)


def run_jobs(
    jobs: Sequence[Job], at_once: int, watch: Callable[[dict[str, float]], None], note: Callable[[str], None]
) -> Generator[tuple[Job, str | None], None, None]:
    """Run jobs, several at a time, and give each with the reason of its failure, or None, when it has ended.

    Processes that still run when the iterator is closed or Ctrl-C is pressed are asked to stop, and awaited: a training
    saves its epoch then. A second Ctrl-C kills them.

    Args:
        jobs: The jobs, in the order in which they are begun.
        at_once: How many run at a time.
        watch: Called several times a second with the running jobs and the share of each that is done.
        note: Called with a remark when Ctrl-C is pressed.
    """
    waiting, running = list(jobs), list[_Running]()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(_Running(waiting.pop(0)))
            watch({one.job.name: one.share for one in running})
            ended = [one for one in running if one.process.poll() is not None]
            for one in ended:
                running.remove(one)
                one.close()
                yield one.job, one.failure()
            if not ended:
                time.sleep(_POLL)
    except KeyboardInterrupt:
        if running:
            note(f"stopping {len(running)} trainings after their epoch (Ctrl-C again stops at once)")
        raise
    finally:
        _stop(running)


def _stop(running: Sequence[_Running]) -> None:
    try:
        for one in running:
            one.process.send_signal(signal.SIGINT)
        for one in running:
            one.process.wait()
    except KeyboardInterrupt:
        for one in running:
            one.process.kill()
            one.process.wait()
        raise
    finally:
        for one in running:
            one.close()
