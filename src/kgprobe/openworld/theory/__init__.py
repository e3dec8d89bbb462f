"""What missing facts do to a metric in expectation: closed forms, the lemma of the paper, and what holds instead."""

from kgprobe.openworld.theory.claims import Claim, check_claims
from kgprobe.openworld.theory.closed import closed_chance, expected_closed
from kgprobe.openworld.theory.counts import AnswerCounts
from kgprobe.openworld.theory.equation import paper_slope
from kgprobe.openworld.theory.expected import (
    Expectation,
    Unlearned,
    chance_level,
    expected,
    expected_where_candidates_vary,
)
from kgprobe.openworld.theory.hidden import Hidden, Removed, Unknown
from kgprobe.openworld.theory.lemma import alpha_derivative, normalised_slope, sign_term
from kgprobe.openworld.theory.sensitivity import Reading, Sensitivity, sensitivity

__all__ = [
    "AnswerCounts",
    "Claim",
    "Expectation",
    "Hidden",
    "Reading",
    "Removed",
    "Sensitivity",
    "Unknown",
    "Unlearned",
    "alpha_derivative",
    "chance_level",
    "check_claims",
    "closed_chance",
    "expected",
    "expected_closed",
    "expected_where_candidates_vary",
    "normalised_slope",
    "paper_slope",
    "sensitivity",
    "sign_term",
]
