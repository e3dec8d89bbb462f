"""Which answers are missing: any alike, or rather those that a model ranks low (or high)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from kgprobe.errors import UsageError

Floats = NDArray[np.float64]
_NEARLY_ALIKE = 1e-9
_LEAST = 1e-12
"""Extreme odds leave next to no known answers at some places: never quite none, so that there are logarithms."""


@dataclass(frozen=True)
class Selection:
    """How the chance to be missing depends on the place of an answer among the answers of its query.

    The place u runs from 0, the answer that the model ranks first, to 1, the one that it ranks last. The logarithm of
    the odds of being missing is linear in u.

    Attributes:
        missing: The share of the answers that are missing.
        odds: The odds of being missing at the last place, over those at the first; 1 where places play no part.

    Example:
        >>> Selection(0.5, odds=1.0).chance(np.array([0.0, 1.0])).tolist()
        [0.5, 0.5]
        >>> Selection(0.5, odds=4.0).chance(np.array([0.0, 1.0])).round(3).tolist()
        [0.333, 0.667]
    """

    missing: float
    odds: float = 1.0

    @property
    def _slope(self) -> float:
        return math.log(self.odds)

    @cached_property
    def _start(self) -> float:
        """The logarithm of the odds at place 0 that makes the share come out."""
        level = math.log(self.missing / (1 - self.missing))
        if abs(self._slope) < _NEARLY_ALIKE:
            return level
        reach = abs(self._slope) + 1
        return float(brentq(lambda start: float(self._below(start, 1.0)) - self.missing, level - reach, level + reach))

    def _below(self, start: float, place: Floats | float) -> Floats:
        """The integral of the chance to be missing from 0 to a place."""
        softplus = np.logaddexp(0, start + self._slope * np.asarray(place)) - np.logaddexp(0, start)
        return np.asarray(softplus / self._slope)

    def chance(self, place: Floats) -> Floats:
        """The chance that the answer at a place is missing."""
        return np.asarray(expit(self._start + self._slope * place))

    def missing_before(self, place: Floats) -> Floats:
        """The share of the missing answers that stand before a place."""
        if abs(self._slope) < _NEARLY_ALIKE:
            return place
        return self._below(self._start, place) / self.missing

    def known_before(self, place: Floats) -> Floats:
        """The share of the known answers that stand before a place."""
        share = (place - self.missing * self.missing_before(place)) / (1 - self.missing)
        return np.clip(share, _LEAST, 1 - _LEAST)

    def weight(self, place: Floats) -> Floats:
        """How many answers a known one at a place stands for, in proportion: 1 where places play no part."""
        return np.asarray((1 - self.missing) / np.maximum(expit(-self._start - self._slope * place), _LEAST))


def check_odds(odds: float) -> None:
    """Refuse odds that are none.

    Example:
        >>> check_odds(0)
        Traceback (most recent call last):
        ...
        kgprobe.errors.UsageError: the odds of missing answers are 0
        Remedy: give a number above 0; 1 where it plays no part how an answer is ranked
    """
    if not 0 < odds < math.inf:
        raise UsageError(
            f"the odds of missing answers are {odds}",
            remedy="give a number above 0; 1 where it plays no part how an answer is ranked",
        )
