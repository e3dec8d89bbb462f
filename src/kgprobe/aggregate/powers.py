"""Many powers of many numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_EXPONENT = 600.0
"""Beyond this a power overflows, or a product of two does."""
_STEPS_BETWEEN_RESTARTS = 32
"""How often a row is computed anew, so that rounding does not add up."""


class Powers:
    """``base ** exponents[k]`` for many bases; over even steps each row is the one before times a common factor.

    Example:
        >>> out = np.empty((3, 1))
        >>> Powers(np.array([0.0, 1.0, 2.0])).fill(np.log([3.0]), out)
        >>> out.ravel().round(12).tolist()
        [1.0, 3.0, 9.0]
    """

    def __init__(self, exponents: Floats) -> None:
        self.exponents = exponents
        self.largest = float(np.abs(exponents).max())
        steps = np.diff(exponents)
        self.even = len(exponents) > 2 and bool(np.abs(steps - steps[0]).max() <= 1e-14 * self.largest)

    def fill(self, log_base: Floats, out: Floats) -> None:
        """Write the powers into ``out``, an array [exponents, bases]."""
        # A row that overflowed or vanished would take all that follow along.
        if not self.even or self.largest * np.abs(log_base).max() >= MOST_EXPONENT:
            np.multiply.outer(self.exponents, log_base, out=out)
            np.exp(out, out=out)
            return
        factor = np.exp((self.exponents[1] - self.exponents[0]) * log_base)
        for k, exponent in enumerate(self.exponents):
            if k % _STEPS_BETWEEN_RESTARTS == 0:
                np.exp(exponent * log_base, out=out[k])
            else:
                np.multiply(out[k - 1], factor, out=out[k])
