"""Standard errors and simultaneous critical values (bootstrap max-t)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kgprobe.comparison.resampling import gathered, resampled

Floats = NDArray[np.float64]


def standard_errors(influence: Floats) -> Floats:
    """The standard error of each column's value, from what every cluster adds to it, [clusters, columns].

    Example:
        >>> standard_errors(np.array([[-0.5], [0.5]])).tolist()
        [1.0]
    """
    clusters = influence.shape[0]
    if clusters < 2:
        return np.zeros(influence.shape[1])
    centred = influence - influence.mean(axis=0)
    squares = np.einsum("ij,ij->j", centred, centred)
    return np.asarray(np.sqrt(squares * clusters / (clusters - 1)))


def critical_value(influence: Floats, level: float = 0.95, replicates: int = 2_000, seed: int = 0) -> float:
    """How many standard errors wide bands must be to hold for all columns at once.

    The quantile over bootstrap replicates of the largest studentised deviation among the columns. Columns that do
    not vary between clusters are certain and need no band.

    Args:
        influence: What every cluster adds to the deviation of each value, [clusters, columns]: for a weighted mean the
            sum over the cluster of weight times (score - mean), divided by the sum of all weights.
        level: How often the bands should hold.
        replicates: How many times clusters are drawn anew.
        seed: Makes the draw repeatable.

    Example:
        >>> noise = np.random.default_rng(0).normal(size=(500, 20))
        >>> one, twenty = critical_value(noise[:, :1]), critical_value(noise)
        >>> 1.8 < one < 2.1 < 2.8 < twenty < 3.3
        True
    """
    errors = standard_errors(influence)
    varying = errors > 0
    if not varying.any():
        return 0.0
    scaled = (influence - influence.mean(axis=0))[:, varying] / errors[varying]
    clusters, width = scaled.shape
    # Single precision is twice as fast, and moves a quantile of deviations by less than another seed does.
    columns = np.concatenate([scaled, np.square(scaled)], axis=1).astype(np.float32)

    def largest(counts: Floats) -> Floats:
        sums = counts.astype(np.float32) @ columns
        deviation, squares = sums[:, :width], sums[:, width:]
        variance = (squares - np.square(deviation) / clusters) * (clusters / (clusters - 1))
        # A replicate whose draws of a column are all alike tells nothing of how far that column may be off.
        known = variance > np.finfo(np.float32).eps
        studentised = np.abs(deviation) / np.sqrt(np.where(known, variance, np.inf))
        return np.asarray(studentised.max(axis=1), dtype=np.float64)

    draws = gathered(resampled, largest, clusters=clusters, total=replicates, seed=seed)
    return float(np.quantile(draws, level, method="higher"))
