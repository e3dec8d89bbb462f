"""How fast the graph ``family-tree`` is generated, against a plain copy of its triples, and what memory it takes.

Each size runs in a process of its own, so that one peak of memory does not hide the next.

    python benchmarks/family_tree.py --people 6000 --people 1000000
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
import timeit
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from kgprobe.graph.family_tree import family_tree, grow_people, kinship_triples
from machine import MIB, describe

PEOPLE_PER_TREE = 300


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measure(trees: int) -> list[str]:
    family_tree(trees=1, people_per_tree=2)  # imports are not what is measured
    before = peak_bytes()
    start = time.perf_counter()
    graph = family_tree(trees, PEOPLE_PER_TREE)
    whole = time.perf_counter() - start
    peak = peak_bytes()
    count, size = len(graph.triples()), 3 * 4 * len(graph.triples())

    start = time.perf_counter()
    people = grow_people(trees, PEOPLE_PER_TREE)
    growing = time.perf_counter() - start
    start = time.perf_counter()
    triples = kinship_triples(people)
    deriving = time.perf_counter() - start
    copy = np.empty_like(triples)
    copying = min(timeit.repeat(lambda: np.copyto(copy, triples), number=1, repeat=5))
    return [
        f"{len(people):,}",
        f"{count:,}",
        f"{growing:.2f}",
        f"{deriving:.2f}",
        f"{whole:.2f}",
        f"{count / whole:,.0f}",
        f"{whole / copying:.0f}",
        f"{peak / MIB:,.0f}",
        f"{(peak - before) / size:.1f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, action="append", help="about how many people (may be repeated)")
    sizes = parser.parse_args().people or [6_000, 100_000, 1_000_000]

    print(describe())
    titles = ["people", "facts", "grow s", "derive s", "graph s", "facts/s", "x copy", "peak MiB", "x facts' bytes"]
    print("".join(f"{title:>15}" for title in titles))
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=fresh, max_tasks_per_child=1) as pool:
        for row in pool.map(measure, [max(1, round(people / PEOPLE_PER_TREE)) for people in sizes]):
            print("".join(f"{cell:>15}" for cell in row), flush=True)


if __name__ == "__main__":
    main()
