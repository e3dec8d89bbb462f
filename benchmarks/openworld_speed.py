"""Time of `estimate_closed`: EM over outcomes against EM over entries, and the estimate with and without its curve.

Usage: python benchmarks/openworld_speed.py [--graph fb15k-237]

Two baselines are ranked on the tail side of the graph, which KGPROBE_DATA must have. Times are CPU time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import kgprobe as kp
from kgprobe.openworld.closed_ranks import _STEPS, ClosedRanks
from kgprobe.openworld.completions import Completion
from kgprobe.openworld.missing_answers import HeldOut, MissingSelection
from machine import describe

MISSING = 0.2


def seconds(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def by_entries(possible: ClosedRanks, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same distribution of outcomes, by steps that compute the posterior probability of every entry."""
    cells = np.bincount(possible.cell, weights=rows, minlength=len(possible.starts))
    weight = np.repeat(cells, np.diff(possible.starts, append=len(possible.likely)))
    entries = possible.likely
    for _ in range(_STEPS + 1):
        found = np.bincount(possible.outcome, weights=entries * weight, minlength=len(possible.width))
        distribution = possible._smoothed(found)
        entries = possible.posterior(distribution)
    return distribution


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", default="fb15k-237")
    graph = kp.load_graph(parser.parse_args().graph)
    print(describe())
    tables = {name: kp.rank(name, graph, sides="tail") for name in ("relation-frequency", "entity-frequency")}
    answers = HeldOut.of(tables["relation-frequency"], graph)
    completion = Completion(answers, MISSING)
    selection = MissingSelection(completion.missing_share)
    possible = ClosedRanks.of(answers, completion.counts, selection)
    rows = np.ones(len(answers.ranks))
    plain, ours = (seconds(lambda f=f: f(possible, rows)) for f in (by_entries, ClosedRanks.distribution))
    apart = float(np.abs(by_entries(possible, rows) - possible.distribution(rows)).max())
    print(f"{len(rows):,} queries, {len(possible.likely):,} entries; the two differ by at most {apart:.1g}")
    print(f"EM over entries {plain:.2f} s, over outcomes {ours:.3f} s: {plain / ours:.1f} x")
    for curve in (False, True):
        took = seconds(lambda curve=curve: kp.estimate_closed(tables, missing=MISSING, graph=graph, curve=curve))
        print(f"estimate of two models {'with' if curve else 'without'} curve: {took:.1f} s")


if __name__ == "__main__":
    main()
