"""Which model to pick, for a given perspective and over all of them."""

from kgprobe.compare.decision.build import PAPER_ALPHAS, PAPER_BETAS, decision_map, map_band
from kgprobe.compare.decision.decide import decide
from kgprobe.compare.decision.decision import Decision, Standing
from kgprobe.compare.decision.map import DecisionMap
from kgprobe.compare.decision.noise import widened
from kgprobe.compare.decision.reach import Crossing, Reach

__all__ = [
    "PAPER_ALPHAS",
    "PAPER_BETAS",
    "Crossing",
    "Decision",
    "DecisionMap",
    "Reach",
    "Standing",
    "decide",
    "decision_map",
    "map_band",
    "widened",
]
