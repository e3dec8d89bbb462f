"""The metrics of the paper's open-world experiment."""

from __future__ import annotations

from kgprobe.metrics import parse_all

OPEN_WORLD_METRICS = tuple(
    parse_all(
        [
            "MRR",
            *(f"pMRR(p={p})" for p in (1, 0.67, 0.5, 0.33, 0.25)),
            "logMRR",
            *(f"Hits@{k}" for k in (1, 3, 10)),
            *(f"PROBE(alpha={alpha},beta=0)" for alpha in (2, 1, 0.5, 0, -0.5, -1)),
        ]
    )
)
"""What is compared where nothing else is asked for."""
