"""Decide which model to pick, at one (alpha, beta) and over the whole plane."""

from kgprobe.decision.bands import widened
from kgprobe.decision.decisions import Crossing, Decision, Reach, Standing, decide
from kgprobe.decision.maps import PAPER_ALPHAS, PAPER_BETAS, DecisionMap, decision_map, map_band

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
