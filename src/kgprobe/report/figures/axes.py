"""Axes that several figures share: ranks, popularity and the values of a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from kgprobe.report.figures.style import power_of_ten, signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
Direction = Literal["x", "y"]
_MOST_TICKS = 5
_BELOW = 3.0
"""On a logarithmic axis, 0 stands so many times below the smallest value that is not 0."""


def log_axis(axes: Axes, direction: Direction, low: float, high: float, *, zero_at: float | None = None) -> None:
    """A logarithmic axis from low to high whose ticks are powers of ten, and 0 where it has a place.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().add_subplot()
        >>> log_axis(axes, "x", 1, 2000)
        >>> [label.get_text() for label in axes.get_xticklabels()]
        ['1', '10', '100', '1,000']
    """
    axes.set(**{f"{direction}scale": "log", f"{direction}lim": (low, high)})
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    step = max(1, math.ceil((last - first + 1) / _MOST_TICKS))
    room = low if zero_at is None else zero_at * _BELOW / 1.5  # where 0 is written nothing else fits
    exponents = [k for k in range(first, last + 1) if k % step == 0 and 10.0**k >= room * (1 - 1e-9)]
    zero = [] if zero_at is None else [zero_at]
    axis = axes.xaxis if direction == "x" else axes.yaxis
    axis.set_ticks([*zero, *(10.0**k for k in exponents)], labels=[*("0" for _ in zero), *map(power_of_ten, exponents)])
    axis.set_ticks([], minor=True)


def place_of_zero(values: Floats) -> float | None:
    """Where 0 stands on a logarithmic axis of these values; None where none is 0 or nothing else is there.

    Example:
        >>> place_of_zero(np.array([0.0, 0.3, 0.9])), place_of_zero(np.array([0.3]))
        (0.09999999999999999, None)
    """
    positive = values[values > 0]
    return float(positive.min()) / _BELOW if positive.size and positive.size < values.size else None


def grid_axis(axes: Axes, direction: Direction, values: Sequence[float]) -> None:
    """Ticks at the cells 0, 1, ... of a grid, named by their values; only some, where there are many."""
    step = max(1, math.ceil(len(values) / _MOST_TICKS)) if len(values) > 2 * _MOST_TICKS else 1
    axis = axes.xaxis if direction == "x" else axes.yaxis
    axis.set_ticks(range(0, len(values), step), labels=[signed(value) for value in values[::step]])
    axis.set_tick_params(length=0)
