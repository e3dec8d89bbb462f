"""Scores by the popularity of the triple: who does well on what is rare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kgprobe.report.figures.style import (
    ALPHA,
    BETA,
    COLUMN,
    Look,
    in_style,
    legend_above,
    looks,
    panels,
    plain,
    refuse_many,
    scientific,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kgprobe.compare.outcome import Comparison, Estimate

Floats = NDArray[np.float64]

METRIC = "PROBE(alpha=1,beta=0)"
BANDS = 5
_SPREAD = 0.5
"""The room that the models of a group share, where groups are 1 apart."""


@dataclass(frozen=True)
class Limits:
    """The ends of the interval in each group, and whether it can be trusted."""

    low: Floats
    high: Floats
    trusted: NDArray[np.bool_]


@dataclass(frozen=True)
class GroupScores:
    """A metric of several models in groups of queries, the least popular first.

    Attributes:
        metric: Its name.
        groups: What the groups are called.
        queries: How many queries are in each.
        values: The value in each group, by model.
        limits: Its intervals, by model.
    """

    metric: str
    groups: tuple[str, ...]
    queries: tuple[int, ...]
    values: Mapping[str, Floats]
    limits: Mapping[str, Limits]


def compared_groups(comparison: Comparison) -> GroupScores:
    """The values and intervals of a comparison by ``popularity``; of its first metric, where it has several.

    Example:
        >>> from kgprobe.compare import line_up
        >>> from kgprobe.compare.comparison import compare_models
        >>> from kgprobe.ranks import Ranks
        >>> ranks = Ranks.from_columns(
        ...     head=range(8), relation=[0] * 8, tail=[9] * 8, side=["tail"] * 8, rank=[1, 2] * 4, candidates=[5] * 8,
        ...     entity_popularity=[0.5, 0.1] * 4, relation_popularity=[1.0, 0.5] * 4,
        ... )
        >>> found = compared_groups(compare_models(line_up({"mine": ranks}), "MRR", by=["popularity:2"]))
        >>> found.groups, found.values["mine"].tolist(), found.limits["mine"].low.tolist()
        (('≤ 0.05', '≤ 0.5'), [0.5, 1.0], [0.5, 1.0])
    """
    metric = comparison.estimates[0].metric
    own: dict[str, list[Estimate]] = {}
    for estimate in comparison.estimates:
        if estimate.metric == metric:
            own.setdefault(estimate.model, []).append(estimate)
    one = next(iter(own.values()))
    return GroupScores(
        metric=str(metric),
        groups=tuple(_name(estimate.group["popularity"]) for estimate in one),
        queries=tuple(estimate.queries for estimate in one),
        values={model: np.array([estimate.value for estimate in found]) for model, found in own.items()},
        limits={
            model: Limits(
                np.array([estimate.interval.low for estimate in found]),
                np.array([estimate.interval.high for estimate in found]),
                np.array([estimate.interval.trusted for estimate in found]),
            )
            for model, found in own.items()
        },
    )


def _name(band: str) -> str:
    """A band by its upper limit: the lower one is that of its neighbour."""
    limit = float(band.rpartition(", ")[2].rstrip("]"))
    return f"≤ {scientific(limit)}" if limit > 0 else "0"


@in_style
def draw_popularity_groups(found: GroupScores, look_of: Mapping[str, Look] | None = None) -> Figure:
    """The value of every model in every group with its interval, which is dotted where it cannot be trusted.

    Args:
        found: The values.
        look_of: Looks of the models, where they shall be those of other figures.

    Example:
        >>> limits = Limits(np.array([0.1, 0.5]), np.array([0.3, 0.7]), np.array([True, False]))
        >>> found = GroupScores("MRR", ("rare", "popular"), (10, 12), {"A": np.array([0.2, 0.6])}, {"A": limits})
        >>> draw_popularity_groups(found).axes[0].lines[0].get_ydata().tolist()
        [0.2, 0.6]
    """
    count = len(found.values)
    refuse_many("models", count)
    look = look_of or looks(list(found.values))
    figure, (axes,) = panels(max(COLUMN, 0.7 * len(found.groups)), 2.9)
    place = np.arange(len(found.groups))
    for i, (model, values) in enumerate(found.values.items()):
        own = look[model]
        at = place + (_SPREAD * (i / (count - 1) - 0.5) if count > 1 else 0.0)
        axes.plot(
            at, values, color=own.colour, linestyle=own.line, linewidth=0.8, marker=own.marker, label=plain(model)
        )
        limits = found.limits[model]
        for kept, dashes in ((limits.trusted, ()), (~limits.trusted, (1.0, 1.0))):
            axes.vlines(at[kept], limits.low[kept], limits.high[kept], own.colour, (0.0, dashes), linewidth=1.2)
    axes.set_xticks(
        place, [f"{group}\n{queries:,}" for group, queries in zip(found.groups, found.queries, strict=True)]
    )
    axes.set_xlabel("triple popularity δ(e)·δ(r|e), and number of queries")
    axes.set_ylabel(_in_greek(found.metric))
    legend_above(figure, *axes.get_legend_handles_labels())
    return figure


def _in_greek(metric: str) -> str:
    return metric.replace("alpha=", f"{ALPHA} = ").replace("beta=", f"{BETA} = ").replace(",", ", ")
