"""Grids of settings on which claims are tried, and the slopes on them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from kgprobe.openworld.theory.expected import Unlearned, chance_level, expected
from kgprobe.openworld.theory.hidden import Removed
from kgprobe.transform import Transformer

Floats = NDArray[np.float64]

RATES, STRENGTHS = (0.05, 0.25, 0.5, 0.9), (0.1, 0.3, 0.6, 0.9, 1.0)


@dataclass(frozen=True, eq=False)
class Settings:
    """Queries and models of the theory: other true answers, candidates, missing rate and strength of each.

    Example:
        >>> few = Settings.grid((100,), (0.02, 0.09), (0.25,), (0.5, 0.9))
        >>> len(few), few.text(3)
        (4, 'N=9, E=100, gamma=0.25, l=0.9')
    """

    others: Floats
    candidates: Floats
    rate: Floats
    strength: Floats

    @classmethod
    def grid(
        cls, sizes: Sequence[int], shares: Sequence[float], rates: Sequence[float], strengths: Sequence[float]
    ) -> Settings:
        """All combinations, with the other true answers as shares of the candidates."""
        rows = itertools.product(sizes, shares, rates, strengths)
        return cls(*np.array([(np.ceil(share * size), size, rate, strength) for size, share, rate, strength in rows]).T)

    def __len__(self) -> int:
        return len(self.others)

    @property
    def hidden(self) -> Removed:
        """The distribution of the missing answers."""
        return Removed(self.others, self.rate)

    def text(self, row: int) -> str:
        """One setting in words."""
        n, size, rate, strength = (column[row] for column in (self.others, self.candidates, self.rate, self.strength))
        return f"N={n:.0f}, E={size:.0f}, gamma={rate:g}, l={strength:g}"


FEW_ANSWERS = Settings.grid((100, 1000, 14541), (0.01, 0.03, 0.06, 0.09), RATES, STRENGTHS)
"""True answers are fewer than 10 % of the candidates, as the paper assumes."""
MANY_ANSWERS = Settings.grid((14, 104, 135), (0.2, 0.3, 0.4), RATES, STRENGTHS)


@cache
def slopes(settings: Settings, transformer: Transformer, unlearned: Unlearned) -> Floats:
    """The slope in each setting; several claims are about the same."""
    return expected(transformer, settings.hidden, settings.candidates, settings.strength, unlearned).slope


def shown(settings: Settings, transformer: Transformer, unlearned: Unlearned) -> Floats:
    """The slope in each setting over that of the closed world; see `normalised_slope`."""
    closed = transformer.optimum - chance_level(transformer, settings.candidates)
    return slopes(settings, transformer, unlearned) / closed
