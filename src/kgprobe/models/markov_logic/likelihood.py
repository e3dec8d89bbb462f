"""Weights of rules that make the facts of a relation likely, each given all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from kgprobe.models.rules.matrices import Matrix

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Others:
    """The pairs that no rule joins, which are all alike.

    Attributes:
        number: How many there are.
        facts: How many of them are facts.
    """

    number: float
    facts: float


@dataclass(frozen=True)
class Prior:
    """What is believed of weights before facts are seen, and for how long better ones are looked for.

    Attributes:
        strength: One over the variance of a normal distribution around 0.
        steps: Most steps of the search.
    """

    strength: float
    steps: int


def most_likely(features: Matrix, truth: Floats, others: Others, prior: Prior) -> tuple[Floats, float]:
    """Weights and bias of the largest pseudo-likelihood, with the prior.

    The log odds of a pair are bias + features @ weights; those of a pair that no rule joins are the bias.

    Args:
        features: What weights are multiplied with: [pairs, rules].
        truth: How true each pair is held: [pairs].
        others: The pairs that no rule joins.
        prior: What is believed of the weights beforehand.

    Example:
        >>> from scipy.sparse import csr_array
        >>> features = csr_array(np.ones((4, 1)))
        >>> weights, bias = most_likely(features, np.array([1.0, 1, 1, 0]), Others(8, 2), Prior(1e-9, 100))
        >>> bool(np.allclose(bias, np.log(2 / 6), atol=1e-4)), bool(np.allclose(bias + weights, np.log(3), atol=1e-4))
        (True, True)
    """
    rules = features.shape[1]
    backwards = features.T.tocsr()

    def cost(at: Floats) -> tuple[float, Floats]:
        weights, bias = at[:rules], at[rules]
        odds = features @ weights + bias
        unlikely = np.logaddexp(0, odds).sum() - truth @ odds
        unlikely += others.number * np.logaddexp(0, bias) - others.facts * bias
        too_much = expit(odds) - truth
        slope = backwards @ too_much + prior.strength * weights
        of_bias = too_much.sum() + others.number * expit(bias) - others.facts
        return float(unlikely + prior.strength / 2 * weights @ weights), np.append(slope, of_bias)

    start = np.zeros(rules + 1)
    start[rules] = _base_odds(float(truth.sum()) + others.facts, len(truth) + others.number)
    found = minimize(cost, start, jac=True, method="L-BFGS-B", options={"maxiter": prior.steps}).x
    return found[:rules], float(found[rules])


def _base_odds(facts: float, pairs: float) -> float:
    """The log odds of a pair of which nothing is known, one fact and one that is none added."""
    return float(np.log(facts + 1) - np.log(pairs - facts + 1))
