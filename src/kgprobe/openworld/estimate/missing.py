"""How many answers of a query are missing, judged by how many are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from kgprobe.errors import UsageError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_STEPS = 40
"""Steps of expectation and maximisation: enough for the shape of the law, too few for spikes."""
_WHOLE = 64
"""Up to here every number of answers is considered, further on those that thinning can tell apart."""
_SPACING = 0.1


@dataclass(frozen=True, eq=False)
class MissingCounts:
    """Mean and variance of the number of missing answers of each row's query.

    Example:
        >>> known = 1 + np.random.default_rng(0).binomial(40, 0.5, 1000)
        >>> round(float(MissingCounts.of(known, rate=0.5).mean.mean()))
        20
    """

    mean: Floats
    variance: Floats

    def take(self, rows: Ints) -> MissingCounts:
        """Those of some of the rows."""
        return MissingCounts(self.mean[rows], self.variance[rows])

    @classmethod
    def of(cls, known: Ints, rate: float, weight: Floats | None = None) -> MissingCounts:
        """What is missing, if every true answer is missing with the same probability.

        The answer of a row is known, for it is ranked; each of the others of its query is known with probability
        ``1 - rate``. The law of their number is estimated from all rows, and gives that of the missing ones.

        Args:
            known: For each row, how many answers of its query are known, its own included.
            rate: The share of all true facts that is missing.
            weight: What each row counts; 1 where it is not given.
        """
        values, row = np.unique(known, return_inverse=True)
        rows = np.bincount(row.ravel(), weights=weight)
        if rate == 0:
            return cls(np.zeros(len(known)), np.zeros(len(known)))
        others = values - 1
        total = _totals(int(others.max()), rate)
        likelihood = binom.pmf(others[:, None], total, 1 - rate)
        law = np.gradient(total.astype(float))  # every number alike, at first
        for _ in range(_STEPS):
            law = (rows / rows.sum()) @ _normal(likelihood * law)
        missing, chance = total - others[:, None], _normal(likelihood * law)
        mean = (chance * missing).sum(axis=1)
        variance = (chance * (missing - mean[:, None]) ** 2).sum(axis=1)
        return cls(mean[row.ravel()], variance[row.ravel()])


def check_rate(rate: float) -> None:
    """Refuse a missing rate that is none.

    Example:
        >>> check_rate(1.0)
        Traceback (most recent call last):
        ...
        kgprobe.errors.UsageError: the missing rate is 1.0
        Remedy: it is the share of all true facts that the graph lacks: from 0 to less than 1
    """
    if not 0 <= rate < 1:
        raise UsageError(
            f"the missing rate is {rate}",
            remedy="it is the share of all true facts that the graph lacks: from 0 to less than 1",
        )


def _totals(most: int, rate: float) -> Ints:
    """Numbers of answers to consider: so many that what is known leaves no doubt beyond them."""
    last = (most + 1) / (1 - rate) + 8 * np.sqrt(most + 1) / (1 - rate) + 8
    roots = np.arange(1, np.sqrt(last) / _SPACING + 1) * _SPACING
    return np.unique(np.concatenate([np.arange(min(_WHOLE, int(last))), np.square(roots).astype(np.int64)]))


def _normal(rows: Floats) -> Floats:
    return np.asarray(rows / np.maximum(rows.sum(axis=1, keepdims=True), 1e-300))
