"""The open world: what missing facts do to a score, and what the score would be without them.

Everything here is loaded when it is first asked for: some of it needs scipy, which takes longer than all else.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kgprobe.openworld.bench import Bench, read_bench
    from kgprobe.openworld.estimate import Estimation, estimate_closed
    from kgprobe.openworld.files import read_world, write_world
    from kgprobe.openworld.metrics import OPEN_WORLD_METRICS
    from kgprobe.openworld.pair import RankPair, rank_worlds, read_pairs
    from kgprobe.openworld.split import split_world
    from kgprobe.openworld.task import Task, all_task, tail_task
    from kgprobe.openworld.theory import Sensitivity, check_claims, sensitivity
    from kgprobe.openworld.world import OpenWorld
else:
    from importlib import import_module

    _PLACES = {
        "bench": ("Bench", "read_bench"),
        "estimate": ("Estimation", "estimate_closed"),
        "files": ("read_world", "write_world"),
        "metrics": ("OPEN_WORLD_METRICS",),
        "pair": ("RankPair", "rank_worlds", "read_pairs"),
        "split": ("split_world",),
        "task": ("Task", "all_task", "tail_task"),
        "theory": ("Sensitivity", "check_claims", "sensitivity"),
        "world": ("OpenWorld",),
    }

    def __getattr__(name):
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
    "Task",
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
