"""Open-world evaluation: the effect of missing triples on scores, and estimates of the scores without them.

Names are imported on first use, because some modules need scipy, which is slow to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kgprobe.openworld.benches import Bench, read_bench
    from kgprobe.openworld.claims import check_claims
    from kgprobe.openworld.closed_estimates import Estimation, estimate_closed
    from kgprobe.openworld.sensitivities import Sensitivity, sensitivity
    from kgprobe.openworld.splits import split_world
    from kgprobe.openworld.world import OPEN_WORLD_METRICS, OpenWorld
    from kgprobe.openworld.world_files import read_world, write_world
    from kgprobe.openworld.world_ranks import RankPair, rank_worlds, read_pairs
    from kgprobe.openworld.world_tasks import WorldTask, all_task, tail_task
_PLACES = {
    "benches": ("Bench", "read_bench"),
    "closed_estimates": ("Estimation", "estimate_closed"),
    "world_files": ("read_world", "write_world"),
    "world_ranks": ("RankPair", "rank_worlds", "read_pairs"),
    "splits": ("split_world",),
    "world_tasks": ("WorldTask", "all_task", "tail_task"),
    "sensitivities": ("Sensitivity", "sensitivity"),
    "claims": ("check_claims",),
    "world": ("OPEN_WORLD_METRICS", "OpenWorld"),
}


def __getattr__(name: str) -> object:
    for module, names in _PLACES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "OPEN_WORLD_METRICS",
    "Bench",
    "Estimation",
    "OpenWorld",
    "RankPair",
    "Sensitivity",
    "WorldTask",
    "all_task",
    "check_claims",
    "estimate_closed",
    "rank_worlds",
    "read_bench",
    "read_pairs",
    "read_world",
    "sensitivity",
    "split_world",
    "tail_task",
    "write_world",
]
