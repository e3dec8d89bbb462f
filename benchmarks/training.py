"""Training steps of RotatE and ComplEx with the paper's settings for FB15k-237: ours and other loops in one run.

Usage: python benchmarks/training.py [--graph fb15k-237] [--device cuda] [--steps 300] [--contenders ours official]
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import torch

import kgprobe as kp
from machine import describe
from training_task import TASKS, Clock, Enough, Task

CONTENDERS = {"ours": "our_loop", "official": "official_loop", "pykeen": "pykeen_loop"}

"""The module of each, loaded when it is wanted: PyKEEN need not be there for the others."""

ENOUGH_TO_FALL = 100

"""Fewer steps are too few to tell whether a loss falls."""

Run = Callable[[Task, kp.KnowledgeGraph, Clock], None]


@dataclass
class Pace:
    """What was measured of a contender, one value a repeat."""

    steps_a_second: list[float] = field(default_factory=list)
    losses: list[tuple[float, float]] = field(default_factory=list)

    def add(self, clock: Clock) -> None:
        """Take over a run."""
        tenth = max(1, len(clock.losses) // 10)
        self.steps_a_second.append(clock.steps_a_second)
        self.losses.append((float(np.mean(clock.losses[:tenth])), float(np.mean(clock.losses[-tenth:]))))

    @property
    def falls(self) -> bool:
        """Whether the loss was lower at the end of every run."""
        return all(last < first for first, last in self.losses)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graph", default="fb15k-237")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=300, help="steps that are timed")
    parser.add_argument("--warm-up", type=int, default=100, help="steps before, which also empty the loaders' stock")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each contender, in turns")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--models", nargs="+", default=[task.model for task in TASKS])
    parser.add_argument("--batch-size", type=int, default=1024, help="queries in a step; fewer for a try on a CPU")
    parser.add_argument("--peers", help="folder with PyKEEN and what it needs, where it is not installed")
    arguments = parser.parse_args()
    if arguments.peers:
        sys.path.append(arguments.peers)
    print(describe(), f"torch {torch.__version__}, {device_name(arguments.device)}")
    graph = kp.load_graph(arguments.graph)
    runs: dict[str, Run] = {name: importlib.import_module(CONTENDERS[name]).run for name in arguments.contenders}
    falling = True
    for task in (replace(task, batch_size=arguments.batch_size) for task in TASKS):
        if task.model in arguments.models:
            paces = measure(task, graph, runs, arguments)
            show(task, paces)
            falling &= all(pace.falls for pace in paces.values())
    if not falling and arguments.steps >= ENOUGH_TO_FALL:
        raise SystemExit("the loss of a contender does not fall: its steps are not what they should be")


def device_name(device: str) -> str:
    """What the steps run on."""
    return torch.cuda.get_device_name() if device.startswith("cuda") else f"{torch.get_num_threads()} threads"


def measure(
    task: Task, graph: kp.KnowledgeGraph, runs: dict[str, Run], arguments: argparse.Namespace
) -> dict[str, Pace]:
    """All contenders in turns, so that they see the same noise."""
    paces = {name: Pace() for name in runs}
    for repeat in range(arguments.repeats):
        for name, run in runs.items():
            torch.manual_seed(repeat)
            clock = Clock(arguments.warm_up, arguments.steps, arguments.device)
            with suppress(Enough):
                run(task, graph, clock)
            paces[name].add(clock)
    return paces


def show(task: Task, paces: dict[str, Pace]) -> None:
    """Steps a second of each, and how many times as fast the first is."""
    print(
        f"{task.model}: dimension {task.dimension}, {task.batch_size:,} queries a step, {task.negatives} negatives each"
    )
    (leader, first), *_ = paces.items()
    for name, pace in paces.items():
        slow, fast = min(pace.steps_a_second), max(pace.steps_a_second)
        start, end = pace.losses[0]
        speed = f"{slow:,.1f} to {fast:,.1f} steps a second, {1e3 / fast:.2f} ms each"
        print(f"  {name}: {speed}; loss {start:.3f} to {end:.3f}")
        if name != leader:
            ratios = np.array(first.steps_a_second) / np.array(pace.steps_a_second)
            print(f"    {leader} is {ratios.min():.1f} to {ratios.max():.1f} x as fast")


if __name__ == "__main__":
    main()
