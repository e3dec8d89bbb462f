"""What a score would be if no fact were missing, and how sure that is."""

from kgprobe.openworld.estimate.assumptions import Assumptions
from kgprobe.openworld.estimate.estimate import DEFAULT_METRICS, draws_needed, estimate_closed
from kgprobe.openworld.estimate.outcome import ClosedEstimate, ClosedOrder, Estimation

__all__ = [
    "DEFAULT_METRICS",
    "Assumptions",
    "ClosedEstimate",
    "ClosedOrder",
    "Estimation",
    "draws_needed",
    "estimate_closed",
]
