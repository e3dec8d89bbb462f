"""Figures of the rank transformers and of the popularity weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kgprobe.aggregate import PopularityWeight
from kgprobe.arrays import Floats
from kgprobe.report.figures import style
from kgprobe.transform import AffinePower, Power

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALPHAS = (2.0, 1.0, 0.5, 0.25, 0.0, -0.5, -1.0)
_CURVE_POINTS = 241
_CURVE_MARKS = 8


@style.in_style
def draw_transformers(alphas: Sequence[float] = ALPHAS, candidates: int = 1000) -> Figure:
    """Score by rank for several alpha: left r^-alpha, right f*.

    Args:
        alphas: Sharpness of each curve; negative values are omitted on the left, where they are unbounded.
        candidates: The number of candidates of a query, at least 2.

    Example:
        >>> figure = draw_transformers([1, 0])
        >>> [len(axes.lines) for axes in figure.axes]
        [2, 2]
    """
    style.refuse_many("curves", len(alphas))
    figure, (raw, affine) = style.panels(style.PAGE, 2.5, 1, 2, sharex=True, sharey=True)
    ranks = np.geomspace(1, candidates, _CURVE_POINTS)
    size = np.full_like(ranks, candidates)
    look = style.looks([f"{alpha:g}" for alpha in alphas])
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
                markevery=(_CURVE_POINTS // _CURVE_MARKS // 2, _CURVE_POINTS // _CURVE_MARKS),
                label=style.setting(alpha=alpha),
            )
        style.log_axis(axes, "x", 1, candidates)
        axes.set_xlabel("rank r")
        axes.set_ylim(-0.03, 1.03)
    raw.set_title("(a) original, r⁻ᵅ")
    affine.set_title(f"(b) affine, f*(r, {style.ALPHA}) with {candidates:,} candidates")
    raw.set_ylabel("score")
    figure.legend(*affine.get_legend_handles_labels(), loc="outside right center")
    return figure


BETAS = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8)
SURFACE_BETAS = (0.0, 0.1, 0.8)
_EPS, _LEAST = 1e-5, 1e-5
_POINTS, _MARKS, _CELLS = 241, 8, 101


def relative_weights(entity: Floats, relation: Floats, beta_e: float, beta_r: float, eps: float = _EPS) -> Floats:
    """The weight of a target, relative to a target whose popularities are both 1.

    Example:
        >>> relative_weights(np.array([0.25]), np.array([1.0]), 0.5, 0.5, eps=0.0).round(12).tolist()
        [2.0]
    """
    columns = {"entity_popularity": np.append(entity, 1.0), "relation_popularity": np.append(relation, 1.0)}
    weighting = PopularityWeight(beta_e, beta_r, eps_e=eps, eps_r=eps)
    weights = weighting.weights(columns, np.ones(entity.size + 1))
    return np.asarray(weights[:-1] / weights[-1])


@style.in_style
def draw_weights(betas: Sequence[float] = BETAS, eps: float = _EPS) -> Figure:
    """Weight by popularity, of entity or relation, for several beta.

    Example:
        >>> figure = draw_weights([0.0, 0.5])
        >>> [line.get_label() for line in figure.axes[0].lines]
        ['β = 0', 'β = 0.5']
    """
    style.refuse_many("curves", len(betas))
    figure, (axes,) = style.panels(style.COLUMN, 2.6)
    popularity = np.geomspace(_LEAST, 1, _POINTS)
    for beta, look in zip(betas, style.looks([f"{beta:g}" for beta in betas]).values(), strict=True):
        axes.plot(
            popularity,
            relative_weights(popularity, popularity, beta, 0.0, eps),
            color=look.colour,
            linestyle=look.line,
            marker=look.marker,
            markevery=(_POINTS // _MARKS // 2, _POINTS // _MARKS),
            label=style.setting(beta=beta),
        )
    style.log_axis(axes, "x", _LEAST, 1)
    axes.set_yscale("log")  # set first, so that the margins are in log scale
    style.log_axis(axes, "y", *axes.get_ylim())
    axes.set_xlabel("popularity δ(e) or δ(r|e)")
    axes.set_ylabel("weight relative to popularity 1")
    axes.legend()
    return figure


@style.in_style
def draw_weight_surface(betas: Sequence[float] = SURFACE_BETAS, eps: float = _EPS) -> Figure:
    """The weight of a triple over both popularities, one panel per beta with a common colour scale.

    Example:
        >>> figure = draw_weight_surface([0.0, 0.8])
        >>> [axes.get_title() for axes in figure.axes[:2]]
        ['β = 0', 'β = 0.8']
    """
    from matplotlib.colors import LogNorm

    style.refuse_many("panels in a row", len(betas), 4)
    figure, drawn = style.panels(style.PAGE, 2.3, 1, len(betas), sharex=True, sharey=True)
    edges = np.geomspace(_LEAST, 1, _CELLS + 1)
    centres = np.sqrt(edges[1:] * edges[:-1])
    entity, relation = (axis.ravel() for axis in np.meshgrid(centres, centres))
    surfaces = [relative_weights(entity, relation, beta, beta, eps).reshape(_CELLS, _CELLS) for beta in betas]
    low = min(1.0, *(float(surface.min()) for surface in surfaces))
    high = max(10.0, *(float(surface.max()) for surface in surfaces))
    for axes, beta, surface in zip(drawn, betas, surfaces, strict=True):
        mesh = axes.pcolormesh(edges, edges, surface, norm=LogNorm(low, high), cmap=style.HEAT, rasterized=True)
        levels = [2.0] if surface.max() < 10 else [10.0**k for k in range(1, int(np.log10(surface.max())) + 1, 2)]
        if surface.max() > levels[0]:
            inks = ["white" if level < np.sqrt(low * high) else "black" for level in levels]
            lines = axes.contour(centres, centres, surface, levels=levels, colors=inks, linewidths=0.6)
            axes.clabel(lines, fmt=_named, fontsize=7)
        style.log_axis(axes, "x", _LEAST, 1)
        style.log_axis(axes, "y", _LEAST, 1)
        axes.set_title(style.setting(beta=beta))
        axes.set_xlabel("δ(e)")
        axes.set_box_aspect(1)
    drawn[0].set_ylabel("δ(r|e)")
    bar = figure.colorbar(mesh, ax=drawn, label="weight relative to δ(e) = δ(r|e) = 1", aspect=14)
    style.log_axis(bar.ax, "y", low, high)
    return figure


def _named(power: float) -> str:
    return style.whole(power) if power < 10 else style.power_of_ten(round(np.log10(power)))
