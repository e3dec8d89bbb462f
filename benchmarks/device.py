"""Ranks on a device of torch against ranks on the CPU: the same bytes, and how long each takes.

Usage: python benchmarks/device.py [--graph fb15k-237] [--device cuda]
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
from kgprobe.predict.scorers import Similarity
from machine import describe

DIMENSION = 256


@dataclass(frozen=True)
class Translation:
    """Vectors that are added to make a query."""

    similarity: Similarity
    entities: NDArray[np.float32]
    relations: NDArray[np.float32]

    def encode_queries(self, side: str, given: Any, relation: Any) -> NDArray[np.float32]:
        """The sum of the two."""
        return self.entities[given] + (1 if side == "tail" else -1) * self.relations[relation]

    def candidates(self, side: str) -> NDArray[np.float32]:
        """The same vectors on both sides."""
        return self.entities


def models(graph: kp.KnowledgeGraph) -> list[Model]:
    """Both similarities, on vectors that are all different, and on vectors that hardly are."""
    rng = np.random.default_rng(0)

    def drawn(rows: int) -> NDArray[np.float32]:
        return rng.standard_normal((rows, DIMENSION), dtype=np.float32)

    random = drawn(graph.num_entities)
    repeated = drawn(100)[rng.integers(0, 100, graph.num_entities)]
    repeated[::2, 0] = np.nextafter(repeated[::2, 0], np.float32(np.inf))
    tables = {"random": random, "100 different, half of them by an ulp": repeated}
    similarities = [kp.Dot(), kp.GroupNorm(1, 12.0), kp.GroupNorm(2), kp.GroupNorm(8), kp.GroupNorm(None)]
    relations = drawn(graph.num_relations)
    return [
        Model(f"{similarity}, {name}", Translation(similarity, table, relations))
        for name, table in tables.items()
        for similarity in similarities
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graph", default="fb15k-237")
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    print(describe())
    setting = Setting.build(kp.load_graph(arguments.graph))
    here, there = kp.Resources(), kp.Resources(device=arguments.device, memory=8 << 30)
    differing = 0
    for model in models(setting.graph):
        tables, seconds = [], []
        for resources in (here, there, there):
            start = time.perf_counter()
            tables.append(rank_in(setting, model, resources).to_arrow())
            seconds.append(time.perf_counter() - start)
        same = all(table.equals(tables[0]) for table in tables[1:])
        differing += not same
        print(f"{model.name}: {'the same' if same else 'DIFFERENT'}, cpu {seconds[0]:.2f} s, device {seconds[2]:.2f} s")
    if differing:
        raise SystemExit(f"{differing} models are ranked differently")


if __name__ == "__main__":
    main()
