"""PROBE over a 21 x 21 grid: the chunked pass against plain numpy on whole arrays, in one run.

Run: python benchmarks/surface.py [--rows 41000 10000000] [--repeat 3]
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

import kgprobe as kp
from machine import best_of, describe, peak_allocation

Floats = NDArray[np.float64]


def random_ranks(rows: int) -> kp.Ranks:
    rng = np.random.default_rng(0)
    candidates = rng.integers(10_000, 14_542, rows)
    rank = np.minimum(np.floor(np.exp(rng.uniform(0, np.log(14_541), rows))), candidates)
    return kp.Ranks.from_columns(
        head=np.arange(rows),
        relation=np.zeros(rows, dtype=np.int64),
        tail=np.zeros(rows, dtype=np.int64),
        side=np.full(rows, "tail"),
        rank=rank,
        candidates=candidates,
        entity_popularity=rng.power(0.3, rows) * 1e-2,
        relation_popularity=rng.random(rows),
    )


def plain(ranks: kp.Ranks, alphas: Floats, betas: Floats) -> Floats:
    """What one would write first: all powers of all rows at once."""
    r, size = ranks.rank[:, None], ranks.candidates[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        f = (r**-alphas - 1) / (1 - size**-alphas) + 1
    f[:, alphas == 0] = 1 - np.log(r) / np.log(size)
    entity, relation = ranks.numbers("entity_popularity"), ranks.numbers("relation_popularity")
    w = (entity[:, None] + entity[entity > 0].min()) ** -betas
    w = w * (relation[:, None] + relation[relation > 0].min()) ** -betas
    return f.T @ (w / w.sum(axis=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[41_000, 10_000_000])
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    # The steps of 0.1 are exact multiples, so that alpha 0 is 0 and not 1e-17 for the plain version too.
    alphas, betas = np.arange(-10, 11) / 10, np.arange(21) / 20
    print(describe())
    for rows in options.rows:
        ranks = random_ranks(rows)
        repeat = options.repeat * (20 if rows < 1_000_000 else 1)
        memory, _ = peak_allocation(lambda ranks=ranks: kp.surface(ranks, alphas, betas))
        ours, surface = best_of(repeat, lambda ranks=ranks: kp.surface(ranks, alphas, betas))
        theirs, expected = best_of(max(1, repeat // 2), lambda ranks=ranks: plain(ranks, alphas, betas))
        difference = np.abs(surface - expected).max()
        print(
            f"{rows:>12,} ranks: kgprobe {ours * 1e3:9.1f} ms (+{memory:.0f} MiB)   plain numpy {theirs * 1e3:9.1f} ms"
            f"   ratio {theirs / ours:5.1f}x   largest difference {difference:.1e}"
        )


if __name__ == "__main__":
    main()
