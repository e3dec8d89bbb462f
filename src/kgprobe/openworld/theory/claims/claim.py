"""A claim and what was found about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Place = tuple[int, ...]

EXACT = 1e-8
ROUNDING = 1e-12


@dataclass(frozen=True)
class Claim:
    """What was found about a claim.

    Attributes:
        claim: The claim.
        holds: "yes", "no", or "in its model" where it fails once unlearned answers score as they do.
        settings: How many settings were tried.
        violations: How many of them contradict it.
        worst: The setting that contradicts it most, or comes closest to.
    """

    claim: str
    holds: str
    settings: int
    violations: int
    worst: str

    def to_row(self) -> dict[str, Any]:
        """The claim as a row of a table."""
        return {
            "claim": self.claim,
            "holds": self.holds,
            "settings": self.settings,
            "violations": self.violations,
            "worst case": self.worst,
        }


def judged(claim: str, measure: Floats, limit: Floats | float, where: Callable[[Place], str]) -> Claim:
    """A claim that a measure is nowhere above a limit.

    Args:
        claim: The claim.
        measure: One number for each setting, in an array of any shape.
        limit: The limit of each, or of all.
        where: What the setting at a place of the array is called.

    Example:
        >>> judged("small", np.array([0.5, 2.0]), 1.0, lambda place: f"number {place[0]}")
        Claim(claim='small', holds='no', settings=2, violations=1, worst='2 at number 1')
    """
    excess = measure - limit
    place = tuple(int(i) for i in np.unravel_index(np.argmax(excess), excess.shape))
    violations = int(np.count_nonzero(excess > 0))
    worst = f"{measure[place]:.3g} at {where(place)}"
    return Claim(claim, "no" if violations else "yes", measure.size, violations, worst)
