"""What is expected where no answer is missing, or where the missing ones were known and filtered too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kgprobe.openworld.theory.blocks import blocks
from kgprobe.openworld.theory.expected import Expectation, Unlearned, chance_level
from kgprobe.openworld.theory.hidden import Hidden
from kgprobe.transform import Transformer

Floats = NDArray[np.float64]


def expected_closed(
    transformer: Transformer, chance: Floats, strength: float, unlearned: Unlearned = Unlearned.below
) -> Expectation:
    """Expected score and slope of each query in the closed world: a learned target is first.

    Args:
        transformer: The transformer.
        chance: The chance level of each query: `chance_level` of its candidates, or `closed_chance`.
        strength: The strength of the model.
        unlearned: What an unlearned target scores; anywhere and below are the same here.

    Example:
        >>> from kgprobe.transform import AffinePower
        >>> f = AffinePower(-1.0)
        >>> found = expected_closed(f, chance_level(f, np.array([101.0])), strength=0.5)
        >>> found.value.round(12).tolist(), found.slope.round(12).tolist()
        ([0.75], [0.5])
    """
    otherwise = np.zeros_like(chance) if unlearned is Unlearned.nothing else chance
    best = transformer.optimum
    return Expectation(strength * best + (1 - strength) * otherwise, best - otherwise)


def closed_chance(transformer: Transformer, hidden: Hidden, candidates: Floats) -> Floats:
    """The expected chance level of each query of the open world once the missing answers are filtered too.

    Example:
        >>> from kgprobe.openworld.theory.hidden import Unknown
        >>> from kgprobe.transform import Identity
        >>> closed_chance(Identity(), Unknown(np.array([3.0]), np.array([0.25])), np.array([100.0])).tolist()
        [50.0]
    """
    return closed_mean(partial(chance_level, transformer), hidden, candidates, 1.0 + transformer.candidate_aware)


def closed_mean(function: Callable[[Floats], Floats], hidden: Hidden, candidates: Floats, least: float) -> Floats:
    """The mean of a function of the number of candidates of the closed world, for each query of the open one.

    Args:
        function: Takes numbers of candidates, of any shape.
        hidden: The missing answers of each query, each of which is a candidate less.
        candidates: The candidates of the open world.
        least: The fewest candidates that the closed world may have; a single one says nothing to some metrics.

    Example:
        >>> from kgprobe.openworld.theory.hidden import Unknown
        >>> hidden = Unknown(np.array([3.0]), np.array([0.25]))
        >>> closed_mean(np.square, hidden, np.array([100.0]), 1.0).round(9).tolist()
        [9802.333333333]
    """
    everything = np.ones_like(candidates)
    mean = np.empty_like(candidates)
    for rows, m in blocks(*hidden.window(everything)):
        weight = type(hidden)(hidden.count[rows], hidden.rate[rows]).probability(m, everything[rows])
        values = function(np.maximum(candidates[rows, None] - m, least))
        mean[rows] = (weight * values).sum(axis=1) / weight.sum(axis=1)
    return mean
