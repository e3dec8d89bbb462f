"""Popularity of many triples: ours against counting with dictionaries, side by side in one run.

Usage: python benchmarks/popularity.py [--triples 10000000]
"""

from __future__ import annotations

import argparse
import resource
import time
from collections import Counter

import numpy as np
import numpy.typing as npt

from kgprobe.graph import Popularity
from machine import describe

RELATIONS = 500

SUBSAMPLE = 20

"""The dictionaries get one in so many of the triples; their time is scaled up by as much, which favours them."""


def power_law_triples(n: int, num_entities: int, seed: int) -> npt.NDArray[np.int32]:
    """Random triples with few popular and many rare entities and relations."""
    rng = np.random.default_rng(seed)
    triples = np.empty((n, 3), dtype=np.int32)
    for column, size in enumerate((num_entities, RELATIONS, num_entities)):
        triples[:, column] = size * rng.random(n) ** 3
    return triples


def with_dictionaries(train: npt.NDArray[np.int32], asked: npt.NDArray[np.int32]) -> list[tuple[float, float]]:
    """delta(e) and delta(r|e) of the tails asked for, in plain Python."""
    entities: Counter[int] = Counter()
    pairs: Counter[tuple[int, int]] = Counter()
    for h, r, t in train.tolist():
        entities[h] += 1
        entities[t] += 1
        pairs[h, r] += 1
        pairs[t, r] += 1
    total = 2 * len(train)
    return [(entities[t] / total, pairs[t, r] / entities[t] if entities[t] else 0.0) for _, r, t in asked.tolist()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--triples", type=int, default=10_000_000, help="how many triples to count, and pairs to look up"
    )
    n = parser.parse_args().triples
    num_entities = max(n // 10, 10)
    train, asked = (power_law_triples(n, num_entities, seed) for seed in (0, 1))
    resident = _peak()

    start = time.perf_counter()
    popularity = Popularity.from_triples(train, num_entities, RELATIONS)
    built = time.perf_counter()
    delta_e = popularity.entity(asked[:, 2])
    delta_r = popularity.relation(asked[:, 1], asked[:, 2])
    done = time.perf_counter()
    peak = _peak()

    part = max(n // SUBSAMPLE, 1)
    small = Popularity.from_triples(train[:part], num_entities, RELATIONS)
    begun = time.perf_counter()
    by_hand = with_dictionaries(train[:part], asked[:part])
    baseline = (time.perf_counter() - begun) * n / part
    ours = small.entity(asked[:part, 2]), small.relation(asked[:part, 1], asked[:part, 2])
    if not np.array_equal(np.column_stack(ours), by_hand):
        raise SystemExit("the two disagree")

    print(describe())
    pairs = len(popularity.counts.pair_keys)
    print(f"{n:,} triples, {num_entities:,} entities, {RELATIONS:,} relations, {pairs:,} pairs")
    print(f"build    {built - start:8.2f} s")
    means = f"mean delta(e) {delta_e.mean():.3g}, delta(r|e) {delta_r.mean():.3g}"
    print(f"look up  {done - built:8.2f} s   ({n:,} pairs, {means})")
    print(f"memory   {(peak - resident) / 2**30:8.2f} GiB at its peak, beyond the triples ({resident / 2**30:.2f} GiB)")
    print(f"dictionaries: {baseline:.2f} s (measured on 1/{SUBSAMPLE} and scaled; same values)")
    print(f"ratio: {baseline / (done - start):.1f}x faster")


def _peak() -> int:
    """The most memory that this process has had resident, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
