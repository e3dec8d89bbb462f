"""Scores of an embedding as probabilities, whatever their scale begins at."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from kgprobe.models.markov_logic.likelihood import Floats

_HALVINGS = 40


def probabilities(scores: Floats, facts: float) -> Floats:
    """Scores, all of them moved alike, as log odds of which so many are expected to be facts.

    Args:
        scores: The scores of an embedding, which tell what is likelier, but not how likely it is.
        facts: How many of them are facts, about; with as many as there are scores or more, all are.

    Example:
        >>> likely = probabilities(np.array([5.0, 4.0, 1.0]), facts=1.5)
        >>> round(float(likely.sum()), 6), bool((np.diff(likely) < 0).all())
        (1.5, True)
    """
    if not 0 < facts < len(scores):
        return np.full(len(scores), float(facts > 0))
    spread = np.log(len(scores) / min(facts, len(scores) - facts)) + 1
    low, high = -scores.max() - spread, -scores.min() + spread
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if expit(scores + middle).sum() > facts else (middle, high)
    likely: Floats = expit(scores + high)
    return likely
