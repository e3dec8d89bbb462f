"""Decide which model to pick, at one (alpha, beta) and over the whole plane."""

from kgprobe.aggregate.surfaces import PAPER_ALPHAS, PAPER_BETAS
from kgprobe.decision.bands import widened
from kgprobe.decision.decisions import Crossing, Decision, Reach, Standing, decide
from kgprobe.decision.maps import decision_map, map_band
from kgprobe.decision.plane import DecisionMap

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
