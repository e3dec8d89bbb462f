"""Many tests at once: p values adjusted so that a family of them can be read together."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def holm(p: ArrayLike) -> Floats:
    """P values adjusted by Holm: reject those up to 0.05, and the risk of any false rejection is at most 5 %.

    What is not a number is no test: it is left as it is and does not count.

    Example:
        >>> holm([0.01, 0.04, 0.03]).round(12).tolist()
        [0.03, 0.06, 0.06]
    """
    given = np.asarray(p, dtype=np.float64)
    adjusted = np.full(given.shape, np.nan)
    tests = np.flatnonzero(~np.isnan(given))
    order = tests[np.argsort(given[tests], kind="stable")]
    scaled = given[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return adjusted


def benjamini_hochberg(p: ArrayLike) -> Floats:
    """P values adjusted by Benjamini and Hochberg: of those up to 0.05, at most 5 % are false on average.

    What is not a number is no test: it is left as it is and does not count.

    Example:
        >>> benjamini_hochberg([0.01, 0.04, 0.03]).round(12).tolist()
        [0.03, 0.04, 0.04]
    """
    given = np.asarray(p, dtype=np.float64)
    adjusted = np.full(given.shape, np.nan)
    tests = np.flatnonzero(~np.isnan(given))
    order = tests[np.argsort(given[tests], kind="stable")]
    scaled = given[order] * (len(order) / np.arange(1, len(order) + 1))
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return adjusted
