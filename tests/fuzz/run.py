"""Run the fuzzers: ``python tests/fuzz/run.py --inputs 10000 --workers 16``; ``--replay FOLDER`` repeats a failure."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.inputs import FAILED, Kind, Verdict, judge, write  # noqa: E402
from fuzz.kinds import KINDS  # noqa: E402
from fuzz.mutators import make_input  # noqa: E402


@dataclass
class Counts:
    """What became of the inputs of one kind; each distinct failure with its number and its first example."""

    kind: str
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)

    @property
    def inputs(self) -> int:
        return self.outcomes.total()

    def add(self, verdict: Verdict, example: str) -> None:
        self.outcomes[verdict.outcome] += 1
        if verdict.outcome == FAILED:
            name = failure_name(verdict)
            self.failures[name] = self.failures.get(name, 0) + 1
            self.examples.setdefault(name, f"{verdict.problem} [{example}]")

    def merge(self, other: Counts) -> None:
        self.outcomes += other.outcomes
        for name, count in other.failures.items():
            self.failures[name] = self.failures.get(name, 0) + count
            self.examples.setdefault(name, other.examples[name])


def failure_name(verdict: Verdict) -> str:
    """What tells failures apart: the exception and the place where it was raised, or the value that is wrong."""
    if verdict.where:
        return f"{verdict.problem.split(':')[0]} at {verdict.where}"
    return ":".join(verdict.problem.split(":")[:2]).split("[")[0]


def fuzz(kind: Kind, seed: int, indices: Sequence[int], failures: Path) -> Counts:
    """Judge the inputs with these numbers, and save the first of each distinct failure."""
    counts = Counts(kind.name)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        for index in indices:
            files = make_input(kind, seed, index)
            verdict = judge(kind, files, Path(scratch) / "input")
            place = failures / kind.name / f"{seed}-{index}"
            if verdict.outcome == FAILED and failure_name(verdict) not in counts.failures:
                write(files, place)
            counts.add(verdict, str(place))
    return counts
