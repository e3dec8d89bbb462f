"""How many queries two models rank first, second, in the first ten and so on, and where one has more than the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kgprobe.report.figures.style import PAGE, Look, in_style, looks, panels, plain, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kgprobe.compare import Lineup
    from kgprobe.ranks import Ranks

Floats = NDArray[np.float64]

BINS = ("1", "2", "3-10", "11-100", "101-1,000", ">1,000")
_UPPER = np.array([1.0, 2.0, 10.0, 100.0, 1000.0])
_WIDTH = 0.4


def rank_counts(ranks: Ranks) -> Floats:
    """How many queries are in each bin; a mean rank between two bins, as 2.5, is in the worse.

    Example:
        >>> from kgprobe.ranks import Ranks
        >>> ranks = Ranks.from_columns(
        ...     head=[0, 1, 2], relation=[0] * 3, tail=[3] * 3, side=["tail"] * 3,
        ...     rank=[1, 2.5, 99], candidates=[99] * 3,
        ... )
        >>> rank_counts(ranks).tolist()
        [1.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    """
    return np.bincount(np.searchsorted(_UPPER, ranks.rank), minlength=len(BINS)).astype(np.float64)


def mean_counts(lineup: Lineup, model: str) -> Floats:
    """The counts of a model, mean over its seeds."""
    return np.asarray(np.mean([rank_counts(run) for run in lineup.runs[model]], axis=0))


@in_style
def draw_rank_histogram(lineup: Lineup, first: str, second: str, look_of: Mapping[str, Look] | None = None) -> Figure:
    """The ranks of two models in the bins of the paper, and how many more the first has in each.

    Args:
        lineup: Has both models.
        first: One of them.
        second: The other.
        look_of: Looks of the models, where they shall be those of other figures.
    """
    look = look_of or looks([first, second])
    figure, (counts, difference) = panels(PAGE, 2.4, 1, 2, width_ratios=[3, 2])
    place = np.arange(len(BINS))
    found = {model: mean_counts(lineup, model) for model in (first, second)}
    for shift, (model, values) in zip((-_WIDTH / 2, _WIDTH / 2), found.items(), strict=True):
        own = look[model]
        bars = counts.bar(
            place + shift, values, _WIDTH, color=own.colour, hatch=own.hatch, edgecolor="white", label=plain(model)
        )
        counts.bar_label(bars, [_rounded(value) for value in values], fontsize=7, rotation=90, padding=2)
        bars.set_label(plain(model))
    counts.set_ylim(0, 1.22 * max(1.0, *(values.max() for values in found.values())))
    counts.set_ylabel("queries")
    counts.legend(loc="upper right")
    more = found[first] - found[second]
    ahead = [look[first] if value >= 0 else look[second] for value in more]
    bars = difference.bar(
        place, more, 0.6, color=[own.colour for own in ahead], hatch=[own.hatch for own in ahead], edgecolor="white"
    )
    difference.bar_label(bars, ["+" * (value > 0) + _rounded(value) for value in more.tolist()], fontsize=7, padding=2)
    difference.axhline(0, color="black", linewidth=0.6)
    difference.margins(y=0.15)
    difference.set_ylabel("difference in queries")
    difference.set_title(f"{plain(first, 24)} less {plain(second, 24)}")
    for axes in (counts, difference):
        axes.set_xticks(place, BINS, rotation=30, ha="right", rotation_mode="anchor")
        axes.set_xlabel("rank")
        axes.tick_params("x", length=0)
        axes.yaxis.set_major_formatter(lambda value, _: whole(value))
    return figure


def _rounded(count: float) -> str:
    """Means over seeds need not be whole; of large ones nobody wants to know."""
    return whole(round(count, 1 if abs(count) < 10 else 0) + 0.0)  # no -0
