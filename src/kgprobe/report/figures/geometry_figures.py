"""Figure of the geometric view: score vectors of models, a weight direction, and their inner product.

The queries are split into a popular and a rare half, one for each axis. The coordinates of a model are its mean scores
in the two halves; those of the direction are the shares of the weight. Their inner product is the exact metric.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgprobe.aggregate import Geometry, PopularityWeight
from kgprobe.arrays import Flags, Floats
from kgprobe.errors import DataError
from kgprobe.ranks import Ranks
from kgprobe.report.figures.style import PAGE, Look, in_style, legend_above, looks, panels, plain, refuse_many, setting
from kgprobe.transform import AffinePower

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from kgprobe.comparison import Lineup

ALPHAS, BETAS = (1.0, 0.25), (0.0, 0.8)
"""Alphas and betas of the paper's example."""

PAPER_EPS = 1e-5  # epsilon of both popularities in the paper's example
_COLUMNS = 2


@dataclass(frozen=True)
class Plane:
    """Models and weight direction at one alpha and beta, in coordinates (popular half, rare half).

    Attributes:
        alpha: Sharpness; it changes the scores of the models.
        beta: Robustness; it rotates the direction.
        direction: The shares of the weight of both halves.
        points: The mean scores of each model in both halves.
    """

    alpha: float
    beta: float
    direction: Floats
    points: Mapping[str, Floats]

    @property
    def values(self) -> dict[str, float]:
        """The metric of each model: the inner product."""
        return {model: float(point @ self.direction) for model, point in self.points.items()}

    def foot(self, model: str) -> Floats:
        """The orthogonal projection of a model on the direction."""
        along = self.points[model] @ self.direction / (self.direction @ self.direction)
        return np.asarray(along * self.direction)


def paper_example() -> Lineup:
    """The three models of the paper on three queries; the last query is rare.

    Example:
        >>> example = paper_example()
        >>> perspectives = (1, 0), (0.25, 0), (1, 0.8)
        >>> found = [plane(example, alpha, beta, PAPER_EPS).values for alpha, beta in perspectives]
        >>> [max(values, key=values.get) for values in found]
        ['A', 'B', 'C']
    """
    from kgprobe.comparison import line_up

    return line_up(
        {
            model: Ranks.from_columns(
                head=[0, 1, 2],
                relation=[0] * 3,
                tail=[3, 4, 5],
                side=["tail"] * 3,
                rank=rank,
                candidates=[1000] * 3,
                entity_popularity=[0.5, 0.5, 0.1],
                relation_popularity=[0.8, 0.8, 0.25],
            )
            for model, rank in {"A": [1, 2, 300], "B": [2, 3, 10], "C": [4, 4, 5]}.items()
        }
    )


def rare_half(ranks: Ranks) -> Flags:
    """The queries whose triple is less popular than the median; at most as popular, if none is less.

    Example:
        >>> rare_half(paper_example().first).tolist()
        [False, False, True]
    """
    popularity = ranks.numbers("entity_popularity") * ranks.numbers("relation_popularity")
    if np.isnan(popularity).any():
        raise DataError("every query needs a popularity", remedy="give `graph`")
    middle = np.median(popularity)
    rare = popularity < middle if (popularity < middle).any() else popularity <= middle
    if rare.all():
        raise DataError("all queries are equally popular", remedy="this figure needs popular and rare queries")
    return np.asarray(rare)


def plane(lineup: Lineup, alpha: float, beta: float, eps: float | None = None) -> Plane:
    """Scores and weights of the two halves of the queries, mean over seeds."""
    weighting = PopularityWeight(beta, beta, eps_e=eps, eps_r=eps)
    rare = rare_half(lineup.first)

    def halves(run: Ranks, amounts: Floats) -> Floats:
        counted = rare[run.candidates > 1]
        return np.array([amounts[~counted].sum(), amounts[counted].sum()])

    direction = halves(lineup.first, Geometry.of(lineup.first, AffinePower(alpha), weighting).weights)
    if not direction.all():
        raise DataError(
            "the popular or the rare half of the queries has no weight",
            ["its queries have a single candidate, or beta is so large that their weights vanish"],
        )
    points = {
        model: np.mean(
            [halves(run, Geometry.of(run, AffinePower(alpha), weighting).contributions) for run in runs], axis=0
        )
        / direction
        for model, runs in lineup.runs.items()
    }
    return Plane(alpha, beta, direction, points)


@in_style
def draw_geometry(planes: Sequence[Plane], look_of: Mapping[str, Look] | None = None) -> Figure:
    """Score vectors and weight direction, one panel per alpha and beta.

    Example:
        >>> figure = draw_geometry([plane(paper_example(), 1.0, 0.0, PAPER_EPS)])
        >>> figure.axes[0].get_title()
        'α = 1, β = 0'
    """
    refuse_many("models", len(planes[0].points))
    refuse_many("panels", len(planes))
    columns = min(_COLUMNS, len(planes))
    rows = math.ceil(len(planes) / columns)
    side = PAGE / _COLUMNS
    figure, drawn = panels(side * columns, 0.4 + 0.72 * side * rows, rows, columns)
    figure.set_layout_engine("compressed")  # panels are square
    look = look_of or looks(list(planes[0].points))
    # Scores are at most 1, but a projection may be larger.
    far = 1.05 * max(1.0, *(shown.foot(model).max() for shown in planes for model in shown.points))
    for axes, shown in zip(drawn, planes, strict=False):
        _draw_plane(axes, shown, look, far)
        axes.set(xlabel="mean score on popular queries", ylabel="mean score on rare queries")
    for axes in drawn[len(planes) :]:
        axes.remove()
    legend_above(figure, *drawn[0].get_legend_handles_labels())
    return figure


def _draw_plane(axes: Axes, shown: Plane, look: Mapping[str, Look], far: float) -> None:
    axes.set(xlim=(0, far), ylim=(0, far), box_aspect=1)
    tip = shown.direction / shown.direction.max() * 0.98 * far
    axes.annotate("", tip, (0, 0), arrowprops={"arrowstyle": "-|>", "color": "0.35", "lw": 1.4, "shrinkA": 0})
    steep = shown.direction[1] > 2 * shown.direction[0]
    axes.annotate("w", tip, xytext=(5, -8) if steep else (-14, -3), textcoords="offset points", color="0.35")
    for model, point in shown.points.items():
        own, foot = look[model], shown.foot(model)
        axes.plot(*zip((0, 0), point, strict=True), color=own.colour, linestyle=own.line, linewidth=1.0)
        axes.plot(*zip(point, foot, strict=True), color=own.colour, linewidth=0.7, linestyle=":")
        axes.plot(*foot, color=own.colour, marker=own.marker, markersize=2.5)
        axes.plot(
            *point, color=own.colour, marker=own.marker, markersize=6, clip_on=False, label=plain(model), ls="none"
        )
    values = shown.values
    listed = [f"{values[model]:.3f}  {plain(model, 14)}" for model in sorted(values, key=lambda model: -values[model])]
    axes.text(1.03, 1, "c · w\n" + "\n".join(listed), transform=axes.transAxes, va="top", fontsize=7)
    axes.set_title(setting(alpha=shown.alpha, beta=shown.beta))
