"""Where two models are equal: curves in the plane, and exact points on a line through it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kgprobe.errors import UsageError

Floats = NDArray[np.float64]

_STEPS = 128
"""Pieces of a line; two crossings within one piece may go unseen."""
_ROUNDING = 1e-14


def curves(alphas: Floats, betas: Floats, difference: Floats) -> list[Floats]:
    """The lines along which a difference [alphas, betas] is 0: arrays [points, 2] of alpha and beta.

    Example:
        >>> alphas, betas = np.array([-1.0, 0.0, 1.0]), np.array([0.0, 0.8])
        >>> [line.tolist() for line in curves(alphas, betas, np.array([[1.0, 1.0], [1.0, 1.0], [-3.0, -1.0]]))]
        [[[0.25, 0.0], [0.5, 0.8]]]
    """
    try:
        from contourpy import contour_generator
    except ImportError:
        raise UsageError("curves need contourpy", remedy="pip install 'kgprobe[report]'") from None
    if len(alphas) < 2 or len(betas) < 2 or not difference.any():
        return []
    rows, columns = np.argsort(alphas), np.argsort(betas)
    ordered = difference[np.ix_(rows, columns)]
    return [np.asarray(line) for line in contour_generator(alphas[rows], betas[columns], ordered.T).lines(0.0)]


def samples(low: float, high: float) -> Floats:
    """Points of a line that are near enough to each other to see every crossing between them, or nearly so."""
    return np.linspace(low, high, _STEPS + 1)


def roots(difference: Callable[[Floats], Floats], points: Floats, values: Floats | None = None) -> Floats:
    """Where a smooth function of one number changes its sign.

    Args:
        difference: The function.
        points: Ascending points, between two of which a crossing is looked for.
        values: The function there, if it is known.

    Example:
        >>> roots(lambda x: (x - 0.3) * (x + 0.5), samples(-1.0, 1.0)).round(9).tolist()
        [-0.5, 0.3]
    """
    from scipy.optimize import brentq  # takes long to import

    values = difference(points) if values is None else values
    told = np.abs(values) > _ROUNDING  # where it is 0, the sign comes from the neighbours
    points, values = points[told], values[told]
    changes = np.flatnonzero(np.sign(values[1:]) != np.sign(values[:-1]))
    ends = [(float(points[i]), float(points[i + 1])) for i in changes]
    return np.array([brentq(lambda x: float(difference(np.array([x]))[0]), *end, xtol=1e-14) for end in ends])
