"""Search for settings on validation facts alone; test facts are never read.

    python benchmarks/search.py complex umls --trials 30 --processes 4 -o search.jsonl

Every trial draws settings at random from the space of its model (see `search_spaces.py`) and trains some seeds
at once. One line of JSON a trial: the settings, for each metric of `--select` the mean of the seeds' best validation
scores and their epochs, and the seconds it took. Lines of an earlier search stay; the best of all by the first metric
are printed at the end.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from pathlib import Path
from typing import Any

import numpy as np

import kgprobe as kp
from kgprobe.errors import KgprobeError
from kgprobe.train.checkpoints import MemoryStorage
from kgprobe.train.defaults import Size, defaults
from kgprobe.train.setting_sources import from_values
from kgprobe.train.settings import resolve
from kgprobe.train.trainer import TrainingProgress, TrainingResources, train
from search_spaces import draw


class OutOfTimeError(Exception):
    """A trial took longer than a trial may."""


class Clock:
    """Ends a trial that takes too long."""

    def __init__(self, seconds: float) -> None:
        self.end, self.best = time.monotonic() + seconds, {}

    def __call__(self, progress: TrainingProgress) -> None:
        """Remember the best so far, and look at the clock."""
        self.best = progress.best
        if time.monotonic() > self.end:
            raise OutOfTimeError


def trial(job: dict[str, Any]) -> dict[str, Any]:
    """Train once; what was reached counts even where time ran out."""
    graph = kp.load_graph(job["graph"])
    sources = [from_values("defaults", defaults(job["model"], Size.of(graph))), from_values("trial", job["values"])]
    clock, start = Clock(job["seconds"]), time.monotonic()
    row = {key: job[key] for key in ("model", "graph", "values")} | {"scores": {}, "epochs": {}, "note": ""}
    try:
        settings = resolve(job["model"], sources).settings
        train(settings, graph, MemoryStorage(), TrainingResources(job["device"], threads=1), clock)
    except OutOfTimeError:
        row["note"] = "out of time"
    except KgprobeError as error:
        row["note"] = error.title
    for target, found in clock.best.items():
        reached = [best for best in found if best is not None]
        if reached:
            row["scores"][target] = sum(best.score for best in reached) / len(reached)
            row["epochs"][target] = [best.epoch for best in reached]
    return row | {"seconds": round(time.monotonic() - start, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="+", help="model graph [model graph ...]")
    parser.add_argument("--trials", type=int, default=20, help="for each pair of a model and a graph")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=120, help="for one trial")
    parser.add_argument("--total", type=float, default=3600, help="for all of them")
    parser.add_argument("--seed", type=int, default=0, help="of the search itself")
    parser.add_argument("--seeds", type=int, default=1, help="of every trial, trained at once")
    parser.add_argument("--select", action="append", help="metrics; the first decides", default=[])
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    select = tuple(given.select) or ("PROBE(alpha=1,beta=0)",)
    pairs = list(zip(given.pairs[::2], given.pairs[1::2], strict=True))
    jobs = [
        {"model": model, "graph": graph, "values": values, "device": given.device, "seconds": given.seconds}
        for number in range(given.trials)
        for model, graph in pairs
        for values in [
            draw(model, graph, np.random.default_rng([given.seed, number]))
            | {"seeds": tuple(range(given.seeds)), "select": select}
        ]
    ]
    end = time.monotonic() + given.total
    context = multiprocessing.get_context("spawn")
    with context.Pool(given.processes) as pool, given.output.open("a", encoding="utf-8") as out:
        rows = pool.imap_unordered(trial, jobs)
        for _ in jobs:
            try:
                row = rows.next(timeout=max(1.0, end - time.monotonic()))
            except multiprocessing.TimeoutError:
                print("all time is used up")
                break
            print(json.dumps(row), file=out, flush=True)
            reached = " ".join(f"{score:.4f}" for score in row["scores"].values())
            print(f"{row['model']:9}{row['graph']:12}{reached} {row['seconds']:7.1f} s {row['note']}", flush=True)
        pool.terminate()
    print_best(given.output, pairs)


def print_best(path: Path, pairs: list[tuple[str, str]]) -> None:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for pair in pairs:
        own = [row for row in rows if (row["model"], row["graph"]) == pair and row["scores"]]
        for row in sorted(own, key=lambda row: -next(iter(row["scores"].values())))[:3]:
            reached = f"{row['scores']} after {row['epochs']} epochs, {row['seconds']} s"
            print(f"{row['model']} {row['graph']}: {reached}: {row['values']}")


if __name__ == "__main__":
    main()
