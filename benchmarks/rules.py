"""Mining and grounding of rules: time, memory and size by graph, against products of matrices rule by rule.

    python benchmarks/rules.py [GRAPH ...] [--rules 100] [--confidence 0.01] [--length 3]

Each graph runs in a process of its own, on one thread; the seconds are those of the processor. Grounded are the best
rules of each relation and of each reverse relation, on all distinct training queries; `own` are the paths that pass
through the query's own fact. `plain` finds the same as `paths`: it follows each body alone and sorts what it reaches.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import reduce
from typing import ParamSpec, TypeVar

import numpy as np

import kgprobe as kp
from kgprobe.models.rules.groundings import Grounder
from kgprobe.models.rules.mining import mine
from kgprobe.models.rules.paths import Adjacency, one_hot
from kgprobe.models.rules.rule_table import Rules
from machine import describe, peak_of_process

GRAPHS = ["umls", "kinship", "family", "wn18rr", "fb15k-237", "yago3-10_quarter"]

COLUMNS = [
    *("graph", "rules up to 2", "mined, s", "longer rules", "mined, s", "grounded rules", "queries", "paths, s"),
    *("pairs", "pairs x rules", "own, s", "own pairs x rules", "plain, s", "peak, MiB"),
]

T = TypeVar("T")

P = ParamSpec("P")


def timed(work: Callable[P, T], *given: P.args, **named: P.kwargs) -> tuple[float, T]:
    start = time.process_time()
    result = work(*given, **named)
    return time.process_time() - start, result


def plain(adjacency: Adjacency, rules: Rules, given: np.ndarray) -> None:
    found = []
    for body in rules.body:
        matrices = [adjacency.of(int(atom)) for atom in body if atom >= 0]
        found.append(reduce(lambda at, matrix: at @ matrix, matrices, one_hot(given, adjacency.entities)).tocoo())
    if found:
        rule = np.repeat(np.arange(len(found)), [ends.nnz for ends in found])
        np.lexsort((rule, np.concatenate([ends.col for ends in found]), np.concatenate([ends.row for ends in found])))


def best(rules: Rules, most: int, confidence: float) -> Rules:
    rules = rules.at(rules.confidence >= confidence)
    return rules.at(np.sort(np.argsort(-rules.support / (rules.pairs + 5), kind="stable")[:most]))


def measure(name: str, most: int, confidence: float, length: int) -> str:
    graph = kp.load_graph(name)
    adjacency = Adjacency(graph.triples("train"), graph.num_entities, graph.num_relations)
    grounder = Grounder(adjacency)
    short_time, short = timed(mine, adjacency)
    every_time, every = timed(mine, adjacency, length=length)
    seconds, sizes = np.zeros(3), np.zeros(5, dtype=np.int64)
    for head in range(2 * adjacency.relations):
        (x, y), rules = adjacency.pairs(head), best(every.of(head), most, confidence)
        given = np.unique(x)
        (paths_time, paths), (own_time, own) = timed(grounder.paths, rules, given), timed(grounder.through, rules, x, y)
        seconds += [paths_time, own_time, timed(plain, adjacency, rules, given)[0]]
        sizes += [len(rules), len(given), len(paths.candidate), len(paths.rule), len(own.rule)]
    rules_size, queries, pairs, nonzero, own_nonzero = (f"{size:,}" for size in sizes)
    cells = [
        *(name, f"{len(short):,}", f"{short_time:.1f}", f"{len(every) - len(short):,}"),
        *(f"{every_time - short_time:.1f}", rules_size, queries, f"{seconds[0]:.1f}", pairs, nonzero),
        *(f"{seconds[1]:.1f}", own_nonzero, f"{seconds[2]:.1f}", f"{peak_of_process():,.0f}"),
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", default=GRAPHS)
    parser.add_argument("--rules", type=int, default=100, help="rules of each relation that are grounded")
    parser.add_argument("--confidence", type=float, default=0.01, help="least confidence of rules that are grounded")
    parser.add_argument("--length", type=int, default=3, help="relations in the longest body")
    given = parser.parse_args()
    print(describe(), end="\n\n")
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    spawned = multiprocessing.get_context("spawn")
    for name in given.graphs:
        with ProcessPoolExecutor(1, mp_context=spawned) as pool:
            print(pool.submit(measure, name, given.rules, given.confidence, given.length).result(), flush=True)


if __name__ == "__main__":
    main()
