"""How well scores under missing facts keep the order of models."""

from kgprobe.openworld.bench.bench import Bench, bench
from kgprobe.openworld.bench.consistency import Agreement, Consistency
from kgprobe.openworld.bench.points import Points
from kgprobe.openworld.bench.ranking import Ranking, ranking
from kgprobe.openworld.bench.read import find_pairs, read_bench
from kgprobe.openworld.bench.settings import Settings
from kgprobe.openworld.bench.uncertainty import TauDifference, tau_differences

__all__ = [
    "Agreement",
    "Bench",
    "Consistency",
    "Points",
    "Ranking",
    "Settings",
    "TauDifference",
    "bench",
    "find_pairs",
    "ranking",
    "read_bench",
    "tau_differences",
]
