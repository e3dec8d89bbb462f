"""Ranking at the size of ogbl-wikikg2 on a CPU: memory beyond the vectors, and the share of the matrix-product rate.

Usage: python benchmarks/scale.py [--entities 2500000] [--dimension 100] [--facts 1000] [--triples 16000000]
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kgprobe as kp
from kgprobe.predict import Model, Setting, rank_in
from machine import describe, peak_of_process
from popularity import RELATIONS, power_law_triples

PRODUCT_QUERIES = 1024


@dataclass(frozen=True)
class DistMult:
    """Vectors that are multiplied to make a query."""

    similarity = kp.Dot()

    entities: NDArray[np.float32]
    relations: NDArray[np.float32]

    def encode_queries(self, side: str, given: Any, relation: Any) -> NDArray[np.float32]:
        """The product of the two."""
        return self.entities[given] * self.relations[relation]

    def candidates(self, side: str) -> NDArray[np.float32]:
        """The same vectors on both sides."""
        return self.entities


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entities", type=int, default=2_500_000)
    parser.add_argument("--dimension", type=int, default=100)
    parser.add_argument("--facts", type=int, default=1000, help="each is two queries")
    parser.add_argument("--triples", type=int, default=16_000_000, help="known triples, to be filtered")
    arguments = parser.parse_args()
    print(describe())
    rng = np.random.default_rng(0)
    entities = rng.standard_normal((arguments.entities, arguments.dimension), dtype=np.float32)
    model = DistMult(entities, rng.standard_normal((RELATIONS, arguments.dimension), dtype=np.float32))
    table = entities.nbytes / 2**30

    start = time.perf_counter()
    graph = kp.KnowledgeGraph.from_triples(
        train=power_law_triples(arguments.triples, arguments.entities, seed=0),
        test=power_law_triples(arguments.facts, arguments.entities, seed=1),
        num_entities=arguments.entities,
        num_relations=RELATIONS,
    )
    made = time.perf_counter()
    setting = Setting.build(graph)
    built = time.perf_counter()
    rank_in(setting, Model("DistMult", model), kp.Resources())
    ranked = time.perf_counter()
    peak = peak_of_process() / 1024
    print(f"graph {made - start:.1f} s, filter {built - made:.1f} s, whole ranking {ranked - built:.1f} s")
    print(f"table {table:.2f} GiB; peak {peak:.2f} GiB, {peak - table:.2f} GiB beyond the table")

    seconds = counting(setting, model)
    queries = sum(len(setting.ranked.queries(side)) for side in setting.ranked.sides)
    mine = 2 * queries * entities.size / seconds / 1e9
    bare = product_rate(entities)
    print(f"{queries:,} distinct queries in {seconds:.1f} s: {mine:.0f} GFLOP/s, {mine / bare:.2f} of {bare:.0f}")


def counting(setting: Setting, model: DistMult) -> float:
    """Seconds for the counts alone, the graph's hash and popularity being known by now."""
    start = time.perf_counter()
    rank_in(setting, Model("DistMult", model), kp.Resources())
    return time.perf_counter() - start


def product_rate(entities: NDArray[np.float32]) -> float:
    """GFLOP/s of nothing but matrix products with as many queries, on pieces of the table that fit in memory."""
    queries = np.random.default_rng(1).standard_normal((PRODUCT_QUERIES, entities.shape[1]), dtype=np.float32)
    rows = 1 << 16
    out = np.empty((PRODUCT_QUERIES, rows), dtype=np.float32)
    start = time.perf_counter()
    for first in range(0, len(entities), rows):
        some = entities[first : first + rows]
        np.matmul(queries, some.T, out=out[:, : len(some)])
    return 2 * PRODUCT_QUERIES * entities.size / (time.perf_counter() - start) / 1e9


if __name__ == "__main__":
    main()
