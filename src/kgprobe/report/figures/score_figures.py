"""Figures of scores: one panel per metric, one line per model or group, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kgprobe.report.figures import style

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from kgprobe.comparison.results import Comparison
    from kgprobe.metrics import Scores
    from kgprobe.openworld import Estimation

_COLUMNS, _MOST_PANELS, _MOST_LINES = 4, 24, 60
_WIDEST_NAME = 24


@dataclass(frozen=True)
class Mark:
    """A value with its interval in the panel of a metric.

    Attributes:
        metric: Names the panel.
        line: Names the line of the panel: a model, a group, or both.
        model: The model, which sets colour and marker; empty where there is one model.
        value: The value.
        low: Lower end of its interval; NaN for none.
        high: Upper end.
        open: The value in the open world, drawn as an empty marker; NaN for none.
    """

    metric: str
    line: str
    model: str
    value: float
    low: float = math.nan
    high: float = math.nan
    open: float = math.nan


def draw_comparison(comparison: Comparison) -> Figure:
    """The estimates of a comparison with their confidence intervals."""
    return draw_marks(
        [
            Mark(
                str(estimate.metric),
                _line(estimate.model, estimate.group),
                estimate.model,
                estimate.value,
                estimate.interval.low,
                estimate.interval.high,
            )
            for estimate in comparison.estimates
        ],
        {"value": f"value, {comparison.settings.level:.0%} interval"},
    )


def draw_estimation(estimation: Estimation) -> Figure:
    """The closed-world estimates with their intervals, and the open-world values."""
    return draw_marks(
        [
            Mark(str(one.metric), one.model, one.model, one.closed, one.low, one.high, one.open)
            for one in estimation.estimates
        ],
        {"value": "estimate for the closed world", "open": "value in the open world"},
    )


def draw_scores(scores: Scores) -> Figure:
    """The scores of the groups of a rank table; where ranks are intervals, the range of possible values."""
    return draw_marks(
        [
            Mark(str(one.metric), _line("", scores.named(one.group)) or "all queries", "", one.value, one.low, one.high)
            for one in scores
        ]
    )


def _line(model: str, group: Mapping[str, Any]) -> str:
    return ", ".join(filter(None, [model, *map(str, group.values())]))


@style.in_style
def draw_marks(marks: Sequence[Mark], names: Mapping[str, str] | None = None) -> Figure:
    """One panel per metric; in each, one line of a value and its interval per model or group.

    Args:
        marks: The values.
        names: What the legend calls full (``value``) and empty (``open``) markers; without it there is no legend.

    Example:
        >>> figure = draw_marks([Mark("MRR", "A", "A", 0.3, 0.2, 0.4), Mark("MRR", "B", "B", 0.2)])
        >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
        ['A', 'B']
    """
    metrics, lines = _distinct(mark.metric for mark in marks), _distinct(mark.line for mark in marks)
    style.refuse_many("metrics", len(metrics), _MOST_PANELS)
    style.refuse_many("models and groups", len(lines), _MOST_LINES)
    look = style.looks(_distinct(mark.model for mark in marks))
    columns = min(len(metrics), _COLUMNS) or 1
    rows = math.ceil(len(metrics) / columns) or 1
    figure, panels = style.panels(
        max(style.COLUMN, style.PAGE * columns / _COLUMNS), rows * (0.55 + 0.2 * len(lines)) + 0.3, rows, columns
    )
    for axes, metric in zip(panels, metrics, strict=False):
        for mark in marks:
            if mark.metric == metric:
                _draw(axes, lines.index(mark.line), mark, look[mark.model])
        axes.set(title=_title(metric), ylim=(len(lines) - 0.5, -0.5))
        axes.set_yticks(range(len(lines)), [])
        axes.tick_params("y", length=0)
        axes.locator_params(axis="x", nbins=3)
    for axes in panels[: len(metrics) : columns]:
        axes.set_yticks(range(len(lines)), [style.plain(line, _WIDEST_NAME) for line in lines])
    for axes in panels[len(metrics) :]:
        axes.remove()
    if names:
        style.legend_above(figure, _handles(names), list(names.values()))
    return figure


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _draw(axes: Axes, place: int, mark: Mark, look: style.Look) -> None:
    if np.isfinite([mark.low, mark.high]).all():
        axes.hlines(place, mark.low, mark.high, look.colour, linewidth=1.3)
    axes.plot(mark.value, place, color=look.colour, marker=look.marker)
    if not math.isnan(mark.open):
        axes.plot(mark.open, place, color=look.colour, marker=look.marker, markerfacecolor="white")


def _title(metric: str) -> str:
    greek = metric.replace("alpha=", f"{style.ALPHA}=").replace("beta=", f"{style.BETA}=")
    return style.plain(greek.replace("=-", f"={style.MINUS}"), 26)


def _handles(names: Mapping[str, str]) -> list[Artist]:
    from matplotlib.lines import Line2D

    fill = {"value": "black", "open": "white"}
    return [
        Line2D([], [], color="black", linestyle="-" if name == "value" else "", marker="o", markerfacecolor=fill[name])
        for name in names
    ]
