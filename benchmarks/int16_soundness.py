"""Soundness of the integer products on a CPU: no pair that they decide is decided wrongly, against float64.

Usage: python benchmarks/int16_soundness.py [--pairs 1000000000]
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from gpu_soundness import drawn, reference
from kgprobe.predict.backends.backend import Bounds
from kgprobe.predict.backends.int16_backend import Int16Backend
from kgprobe.predict.scorers import Dot
from machine import describe

KINDS = ("normal", "one ulp apart", "permuted", "huge", "tiny", "cancelling")
DIMENSIONS = (1, 100, 128, 200, 512)
ROWS, COLUMNS = 1024, 12_288


@dataclass(frozen=True)
class Numbers:
    """Random tensors in the memory of the host."""

    place: str = "cpu"
    generator: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(0))

    def normal(self, *shape: int) -> Tensor:
        """Normal float32 numbers."""
        return torch.randn(shape, generator=self.generator)

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        """Uniform float64 numbers."""
        return low + (high - low) * torch.rand(shape, generator=self.generator, dtype=torch.float64)

    def chosen(self, below: int, number: int) -> Tensor:
        """Integers."""
        return torch.randint(below, (number,), generator=self.generator)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1_000_000_000)
    arguments = parser.parse_args()
    print(describe())
    numbers, pairs, violations, start = Numbers(), 0, 0, time.perf_counter()
    while pairs < arguments.pairs:
        for kind in KINDS:
            for dimension in DIMENSIONS:
                queries = drawn(numbers, kind, ROWS, dimension, queries=True)
                candidates = drawn(numbers, kind, COLUMNS, dimension, queries=False)
                counted, broken = check(queries, candidates, numbers.chosen(COLUMNS, ROWS))
                pairs, violations = pairs + counted * COLUMNS, violations + broken
                if broken:
                    print(f"  VIOLATION: {kind}, d {dimension}: {broken} rows")
    print(f"{pairs:,} pairs in {time.perf_counter() - start:.0f} s; rows in violation: {violations}")
    if violations:
        raise SystemExit(1)


def check(queries: Tensor, candidates: Tensor, column: Tensor) -> tuple[int, int]:
    """The number of rows whose scores do not overflow, and of those that violate the bounds.

    Every rank must lie in [above, above + within], where a candidate that float64 cannot tell from the target may be
    on either side.
    """
    backend, similarity = Int16Backend(), Dot()
    exact = [values.numpy() for values in (queries, candidates)]
    row, target = np.arange(len(queries)), column.numpy()
    own = similarity.canonical(exact[0], exact[1][target])
    magnitude, largest = similarity.magnitude(exact[0]), float(similarity.magnitude(exact[1]).max())
    usable = ~similarity.may_overflow(magnitude, largest, queries.shape[1])
    bounds = Bounds(row, own, own, own)  # the backend computes wider ones for each panel of candidates
    above, within = backend.count(backend.scores(similarity, *map(backend.to_device, exact)), bounds)

    scores, slack = reference(similarity, queries.double(), candidates.double())
    targets = torch.from_numpy(own)[:, None]
    greater = ((scores - slack).float() > targets).sum(1).numpy()
    not_less = ((scores + slack).float() >= targets).sum(1).numpy()
    wrong = (above > not_less) | (above + within < greater) | (within < 1)  # the target itself is never decided
    return int(usable.sum()), int((wrong & usable).sum())


if __name__ == "__main__":
    main()
