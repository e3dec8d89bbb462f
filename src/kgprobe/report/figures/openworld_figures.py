"""Figures of the scores and the order of models in the open and in the closed world."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kgprobe.arrays import Floats
from kgprobe.openworld.bench_points import Points
from kgprobe.openworld.consistency import ranking
from kgprobe.report.figures.style import MINUS, PAGE, Look, in_style, legend_above, looks, panels, plain, refuse_many

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS, _MOST = 4, 24
_GREY = "0.65"
_MARGIN = 0.04


@in_style
def draw_worlds(points: Points) -> Figure:
    """Open-world against closed-world values, one panel per metric and one line per model.

    The checkpoints of a model are sorted by closed-world value. On the grey line both values are equal. The axes have
    separate ranges, because open-world values often differ very little.

    Example:
        >>> from kgprobe.metrics import parse
        >>> values = np.array([[0.1, 0.4, 0.3, 0.2]])
        >>> names = ("1", "2", "1", "2")
        >>> points = Points(
        ...     (parse("MRR"),), ("a", "b"), np.array([0, 0, 1, 1]), names, values, values + 0.1, values[0], np.ones(1)
        ... )
        >>> [axes.get_title() for axes in draw_worlds(points).axes]
        ['MRR']
    """
    figure, every = _panels(points, 1.75)
    look = looks(points.models)
    for number, axes in enumerate(every):
        opened, closed = points.open[number], points.closed[number]
        for code, model in enumerate(points.models):
            own = np.flatnonzero(points.model == code)
            order = own[np.argsort(closed[own], kind="stable")]
            _line(axes, closed[order], opened[order], look[model])
        across, up = _limits(closed), _limits(opened)
        equal = min(across[0], up[0]), max(across[1], up[1])
        axes.plot(equal, equal, color=_GREY, linewidth=0.8, zorder=0)
        axes.set(xlim=across, ylim=up, title=_title(points, number))
        axes.locator_params(nbins=4)
    figure.supxlabel("closed world", fontsize=8)
    figure.supylabel("open world", fontsize=8)
    _legend(figure, points.models, look)
    return figure


@in_style
def draw_rank_connections(points: Points) -> Figure:
    """The order of the models by their best open-world score (above) and its closed-world score (below), best first.

    A line joins the two places of a model; each crossing is a pair of models whose order changes.
    """
    figure, every = _panels(points, 1.5)
    look = looks(points.models)
    for number, axes in enumerate(every):
        order = ranking(points, number)
        above, below = np.argsort(order.by_open), np.argsort(order.by_closed)
        for code, model in enumerate(points.models):
            own = look[model]
            axes.plot([above[code], below[code]], [1, 0], color=own.colour, linestyle=own.line, marker=own.marker)
        axes.set_title(f"{_title(points, number)}\n{order.inverted} of {order.pairs} inverted", fontsize=7)
        axes.set(ylim=(-0.15, 1.15), xticks=[])
        axes.set_yticks([0, 1], ["closed", "open"] if number % _COLUMNS == 0 else ["", ""])
        axes.tick_params("y", length=0)
        axes.spines[:].set_visible(False)
    figure.supxlabel("models, the best on the left", fontsize=8)
    _legend(figure, points.models, look)
    return figure


def _panels(points: Points, height: float) -> tuple[Figure, list[Axes]]:
    """One panel per metric; unused panels of the last row are removed."""
    count = len(points.metrics)
    refuse_many("metrics", count, _MOST)
    columns = min(count, _COLUMNS)
    rows = math.ceil(count / columns)
    figure, every = panels(PAGE * columns / _COLUMNS, height * rows + 0.6, rows, columns)
    for axes in every[count:]:
        axes.remove()
    return figure, every[:count]


def _limits(values: Floats) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    room = _MARGIN * ((high - low) or 1.0)
    return low - room, high + room


def _line(axes: Axes, x: Floats, y: Floats, look: Look) -> None:
    marked: dict[str, Any] = {"marker": look.marker, "markersize": 2, "markevery": max(1, len(x) // 12)}
    axes.plot(x, y, color=look.colour, linestyle=look.line, linewidth=0.7, **marked)


def _title(points: Points, number: int) -> str:
    metric = points.metrics[number]
    name = str(metric).replace(",beta=0)", ")").replace("=-", f"={MINUS}")
    return plain(name) + ("" if metric.higher_is_better else " ↓")


def _legend(figure: Figure, models: Sequence[str], look: dict[str, Look]) -> None:
    from matplotlib.lines import Line2D

    handles: list[Artist] = [
        Line2D([], [], color=own.colour, linestyle=own.line, marker=own.marker) for own in look.values()
    ]
    legend_above(figure, handles, [plain(model, 24) for model in models])
