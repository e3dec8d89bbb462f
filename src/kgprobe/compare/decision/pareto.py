"""Which models are worth a look from some perspective."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def not_dominated(scores: NDArray[np.float64], same: float = 0.0) -> NDArray[np.bool_]:
    """Which rows no other row is at least as high as everywhere and higher somewhere.

    Args:
        scores: One row for each model, one column for each perspective.
        same: Numbers that differ by no more are equal.

    Example:
        >>> not_dominated(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.5]])).tolist()
        [True, True, False]
    """
    kept = np.ones(len(scores), dtype=bool)
    for i, own in enumerate(scores):
        nowhere_worse = (scores >= own - same).all(axis=1)
        somewhere_better = (scores > own + same).any(axis=1)
        kept[i] = not (nowhere_worse & somewhere_better).any()
    return kept
