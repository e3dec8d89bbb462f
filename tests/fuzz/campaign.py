"""Many inputs of many kinds: counts by outcome, distinct failures that are saved, and worker processes."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz.inputs import ACCEPTED, FAILED, REFUSED, Files, Kind, Verdict, judge, write
from fuzz.mutators import make_input

BATCH = 250
"""Inputs of one worker process."""

PATIENCE = 60
"""Seconds without a new input after which a worker that hangs outside Python is killed."""


@dataclass
class Counts:
    """What became of the inputs of one kind.

    Attributes:
        kind: Name of the kind.
        outcomes: Number of inputs that were refused, accepted, or failed.
        failures: Number of inputs of each distinct failure.
        examples: The first input of each, and what happened.
    """

    kind: str
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def judge(self, kind: Kind, files: Files, folder: Path, saved: Path) -> None:
        """Judge an input in a folder, and save it if its failure is a new one."""
        verdict = judge(kind, files, folder)
        if verdict.outcome == FAILED and failure_name(verdict) not in self.failures:
            write(files, saved)
        self.add(verdict, saved)

    def add(self, verdict: Verdict, saved: Path) -> None:
        self.outcomes[verdict.outcome] += 1
        if verdict.outcome == FAILED:
            name = failure_name(verdict)
            self.failures[name] += 1
            self.examples.setdefault(name, f"{saved}: {verdict.problem}")

    def add_crash(self, code: int | None, scratch: Path, saved: Path) -> None:
        """Count a process that has ended with a code as a failure, and save the input that it was busy with."""
        if (scratch / "input").exists():
            shutil.copytree(scratch / "input", saved, dirs_exist_ok=True)
        self.add(Verdict(FAILED, f"the process ended with {code}"), saved)

    def merge(self, other: Counts) -> None:
        self.outcomes += other.outcomes
        self.failures += other.failures
        self.examples = other.examples | self.examples

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(vars(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Counts:
        about = json.loads(path.read_text(encoding="utf-8"))
        return cls(about["kind"], Counter(about["outcomes"]), Counter(about["failures"]), about["examples"])

    def row(self) -> dict[str, Any]:
        """The counts as a flat row."""
        outcomes = {name: self.outcomes[name] for name in (REFUSED, ACCEPTED, FAILED)}
        return {"kind": self.kind, "inputs": self.outcomes.total(), **outcomes, "distinct": len(self.failures)}


def failure_name(verdict: Verdict) -> str:
    """What tells failures apart: the exception and the place where it was raised, or the value that is wrong."""
    if verdict.where:
        return f"{verdict.problem.split(':')[0]} at {verdict.where}"
    return ":".join(verdict.problem.split(":")[:2]).split("[")[0]


def fuzz(kind: Kind, seed: int, indices: Sequence[int], failures: Path, scratch: Path | None = None) -> Counts:
    """Judge the inputs with these numbers, and save the first of each distinct failure."""
    counts = Counts(kind.name)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as own:
        folder = (scratch or Path(own)) / "input"
        for index in indices:
            counts.judge(kind, make_input(kind, seed, index), folder, failures / kind.name / f"{seed}-{index}")
    return counts


@dataclass(frozen=True)
class Batch:
    """Some inputs of a kind, judged in a process of their own, which an input may crash or block."""

    kind: Kind
    seed: int
    start: int
    stop: int
    failures: Path
    scratch: Path

    def work(self) -> None:
        fuzz(self.kind, self.seed, range(self.start, self.stop), self.failures, self.scratch).write(self._counts)

    @property
    def _counts(self) -> Path:
        return self.scratch / "counts.json"

    def stands_still(self) -> bool:
        """Whether the process has been busy with one input for too long."""
        # The folder of an input is made anew in the scratch folder, which changes its time.
        return time.time() > self.scratch.stat().st_mtime + self.kind.seconds + PATIENCE

    def result(self, code: int | None) -> Counts:
        """The counts of the process, or one failure if an input has ended it; that input is saved."""
        if code == 0:
            return Counts.read(self._counts)
        counts = Counts(self.kind.name)
        counts.add_crash(code, self.scratch, self.failures / self.kind.name / f"{self.seed}-{self.start}-crash")
        return counts


def run(
    kinds: Mapping[str, Kind], seed: int, inputs: int, minutes: float | None, workers: int, failures: Path
) -> list[Counts]:
    """Fuzz kinds in several processes: a number of inputs each, or as many as fit into the time.

    Processes are forked, so that modules are imported and valid inputs are made only once.
    """
    totals = {name: Counts(name) for name in kinds}
    running: dict[multiprocessing.process.BaseProcess, Batch] = {}
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        assert all(kind.seeds for kind in kinds.values())

        def reap(most: int) -> None:
            while len(running) > most:
                multiprocessing.connection.wait([process.sentinel for process in running], timeout=1)
                for process, batch in list(running.items()):
                    if process.is_alive() and batch.stands_still():
                        process.kill()
                        process.join()
                    if not process.is_alive():
                        del running[process]
                        totals[batch.kind.name].merge(batch.result(process.exitcode))
                        shutil.rmtree(batch.scratch)

        for number, (kind, start, stop) in enumerate(_batches(kinds, inputs, minutes)):
            reap(workers - 1)
            own = Path(scratch) / str(number)
            own.mkdir()
            batch = Batch(kind, seed, start, stop, failures, own)
            process = fork.Process(target=batch.work)
            process.start()
            running[process] = batch
        reap(0)
    return list(totals.values())


def _batches(kinds: Mapping[str, Kind], inputs: int, minutes: float | None) -> Iterator[tuple[Kind, int, int]]:
    """Batches of every kind in turn."""
    end = None if minutes is None else time.monotonic() + 60 * minutes
    start = 0
    while start < inputs if end is None else time.monotonic() < end:
        for kind in kinds.values():
            if end is None or time.monotonic() < end:
                yield kind, start, start + BATCH if end else min(start + BATCH, inputs)
        start += BATCH


def table(counts: Sequence[Counts]) -> str:
    """The counts of all kinds, then the distinct failures with their first example."""
    rows = [count.row() for count in counts]
    total = {name: sum(row[name] for row in rows) for name in rows[0] if name != "kind"}
    lines = [f"{'kind':20}" + "".join(f"{name:>10}" for name in total)]
    lines += [
        f"{row['kind']:20}" + "".join(f"{row[n]:>10,}" for n in total) for row in (*rows, {"kind": "all"} | total)
    ]
    for count in counts:
        for name, times in count.failures.most_common():
            lines += [f"{count.kind}: {name} ({times:,} times)", f"    {count.examples[name]}"]
    return "\n".join(lines)
