"""The rank transformers: what a rank is worth, as it is and rescaled to run from 1 to 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kgprobe.report.figures.axes import log_axis
from kgprobe.report.figures.style import ALPHA, PAGE, in_style, looks, panels, refuse_many, setting
from kgprobe.transform import AffinePower, Power

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALPHAS = (2.0, 1.0, 0.5, 0.25, 0.0, -0.5, -1.0)
_POINTS = 241
_MARKS = 8
"""Markers on a curve, few enough to see which is which."""


@in_style
def draw_transformers(alphas: Sequence[float] = ALPHAS, candidates: int = 1000) -> Figure:
    """Score by rank for several alpha: left r^-alpha, right f*.

    Args:
        alphas: Sharpness of each curve. Left, those below 0 are left out: they rise without limit.
        candidates: The number of candidates of a query, at least 2.

    Example:
        >>> figure = draw_transformers([1, 0])
        >>> [len(axes.lines) for axes in figure.axes]
        [2, 2]
    """
    refuse_many("curves", len(alphas))
    figure, (raw, affine) = panels(PAGE, 2.5, 1, 2, sharex=True, sharey=True)
    ranks = np.geomspace(1, candidates, _POINTS)
    size = np.full_like(ranks, candidates)
    look = looks([f"{alpha:g}" for alpha in alphas])
    for axes, kind, shown in (
        (raw, Power, [alpha for alpha in alphas if alpha >= 0]),
        (affine, AffinePower, list(alphas)),
    ):
        for alpha in shown:
            own = look[f"{alpha:g}"]
            axes.plot(
                ranks,
                kind(alpha)(ranks, size),
                color=own.colour,
                linestyle=own.line,
                marker=own.marker,
                markevery=(_POINTS // _MARKS // 2, _POINTS // _MARKS),
                label=setting(alpha=alpha),
            )
        log_axis(axes, "x", 1, candidates)
        axes.set_xlabel("rank r")
        axes.set_ylim(-0.03, 1.03)
    raw.set_title("(a) original, r⁻ᵅ")
    affine.set_title(f"(b) affine, f*(r, {ALPHA}) with {candidates:,} candidates")
    raw.set_ylabel("score")
    figure.legend(*affine.get_legend_handles_labels(), loc="outside right center")
    return figure
