"""The paper's equation for the slope of an expected metric, as it is printed."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kgprobe.openworld.theory.blocks import blocks
from kgprobe.openworld.theory.hidden import Removed
from kgprobe.transform import Transformer

Floats = NDArray[np.float64]


def paper_slope(
    transformer: Transformer,
    answers: ArrayLike,
    candidates: ArrayLike,
    rate: ArrayLike,
    strength: ArrayLike,
    at_zero: float = 0.0,
) -> Floats:
    """``E[g(R)] / (l gamma (N + 1))`` with g(r) = r f(r) and R binomial of N + 1 trials of probability l gamma.

    R may be 0, which is no rank: the equation is the slope of an expected metric only where g(0) is taken as 0. That
    R is no predicted rank either: it is a number of learned missing answers plus one, counted in proportion to itself.

    Args:
        transformer: The f of the metric.
        answers: N, the true answers of each query. The proof counts them besides the target.
        candidates: The candidates of each query.
        rate: gamma, the missing rate, above 0.
        strength: l, the strength of the model, above 0.
        at_zero: g(0).

    Example:
        >>> from kgprobe.transform import Power
        >>> right, wrong = (paper_slope(Power(1.0), 28, 5976, 0.25, 0.3, at_zero=g).item() for g in (0.0, 1.0))
        >>> round(right, 4), round(wrong - right, 4)
        (0.4118, 0.0479)
    """
    asked = np.broadcast_arrays(answers, candidates, rate, strength)
    count, size, missing, share = (column.ravel().astype(np.float64) for column in asked)
    slope = np.empty_like(count)
    trials = Removed(count + 1, missing)
    for rows, r in blocks(*trials.window(share)):
        some = Removed(trials.count[rows], missing[rows])
        score = transformer(np.clip(r, 1.0, size[rows, None]), np.broadcast_to(size[rows, None], r.shape))
        g = np.where(r == 0, at_zero, r * score)
        mean = (some.probability(r, share[rows]) * g).sum(axis=1)
        slope[rows] = mean / (share[rows] * missing[rows] * some.count)
    return slope.reshape(asked[0].shape)
