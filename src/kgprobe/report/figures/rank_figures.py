"""Figures of ranks: histograms of two models, their ranks by popularity, and scores by popularity group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import Floats
from kgprobe.comparison.lineup import groups as divided
from kgprobe.report.figures import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kgprobe.comparison import Lineup
    from kgprobe.comparison.results import Comparison, Estimate
    from kgprobe.ranks import Ranks

BINS = ("1", "2", "3-10", "11-100", "101-1,000", ">1,000")
_UPPER = np.array([1.0, 2.0, 10.0, 100.0, 1000.0])
_WIDTH = 0.4


def rank_counts(ranks: Ranks) -> Floats:
    """The number of queries per bin; a mean rank between two bins, such as 2.5, is in the worse bin.

    Example:
        >>> from kgprobe.ranks import Ranks
        >>> ranks = Ranks.from_columns(
        ...     head=[0, 1, 2], relation=[0] * 3, tail=[3] * 3, side=["tail"] * 3,
        ...     rank=[1, 2.5, 99], candidates=[99] * 3,
        ... )
        >>> rank_counts(ranks).tolist()
        [1.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    """
    return _counts(ranks.rank)


def _counts(rank: Floats) -> Floats:
    return np.bincount(np.searchsorted(_UPPER, rank), minlength=len(BINS)).astype(np.float64)


def mean_counts(lineup: Lineup, model: str) -> Floats:
    """The number of queries per bin of a model, averaged over its seeds."""
    return np.asarray(np.mean([rank_counts(run) for run in lineup.runs[model]], axis=0))


@style.in_style
def draw_rank_histogram(
    lineup: Lineup, first: str, second: str, look_of: Mapping[str, style.Look] | None = None
) -> Figure:
    """Rank histograms of two models in the bins of the paper, and their difference."""
    look = look_of or style.looks([first, second])
    figure, (counts, difference) = style.panels(style.PAGE, 2.4, 1, 2, width_ratios=[3, 2])
    place = np.arange(len(BINS))
    counts_of = {model: mean_counts(lineup, model) for model in (first, second)}
    for shift, (model, values) in zip((-_WIDTH / 2, _WIDTH / 2), counts_of.items(), strict=True):
        own = look[model]
        bars = counts.bar(
            place + shift,
            values,
            _WIDTH,
            color=own.colour,
            hatch=own.hatch,
            edgecolor="white",
            label=style.plain(model),
        )
        counts.bar_label(bars, [_rounded(value) for value in values], fontsize=7, rotation=90, padding=2)
    counts.set_ylim(0, 1.22 * max(1.0, *(values.max() for values in counts_of.values())))
    counts.set_ylabel("queries")
    style.legend_above(figure, *counts.get_legend_handles_labels())
    more = counts_of[first] - counts_of[second]
    ahead = [look[first] if value >= 0 else look[second] for value in more]
    bars = difference.bar(
        place, more, 0.6, color=[own.colour for own in ahead], hatch=[own.hatch for own in ahead], edgecolor="white"
    )
    difference.bar_label(bars, ["+" * (value > 0) + _rounded(value) for value in more.tolist()], fontsize=7, padding=2)
    difference.axhline(0, color="black", linewidth=0.6)
    difference.margins(y=0.15)
    difference.set_ylabel("difference in queries")
    difference.set_title(f"{style.plain(first, 24)} minus {style.plain(second, 24)}")
    for axes in (counts, difference):
        axes.set_xticks(place, BINS, rotation=30, ha="right", rotation_mode="anchor")
        axes.set_xlabel("rank")
        axes.tick_params("x", length=0)
        axes.yaxis.set_major_formatter(lambda value, _: style.whole(value))
    return figure


def _rounded(count: float) -> str:
    """A mean count with one decimal if it is small."""
    return style.whole(round(count, 1 if abs(count) < 10 else 0) + 0.0)  # no -0


@dataclass(frozen=True)
class RankShares:
    """The ranks of two models in groups of queries by popularity, the least popular first.

    Attributes:
        groups: The names of the groups.
        queries: The number of queries of each group.
        shares: By model, the share of the queries of each group in each bin of ranks [groups, bins], mean over seeds.
        means: By model, the geometric mean rank in each group, over all queries and seeds.
    """

    groups: tuple[str, ...]
    queries: tuple[int, ...]
    shares: Mapping[str, Floats]
    means: Mapping[str, Floats]


def rank_shares(lineup: Lineup, first: str, second: str, *, groups: int = 4) -> RankShares:
    """The ranks of two models by the popularity of the triple, in groups of about equal size.

    Example:
        >>> from kgprobe.comparison import line_up
        >>> from kgprobe.ranks import Ranks
        >>> ranks = Ranks.from_columns(
        ...     head=range(4), relation=[0] * 4, tail=[9] * 4, side=["tail"] * 4,
        ...     rank=[1, 1, 2, 50], candidates=[99] * 4,
        ...     entity_popularity=[0.5, 0.1] * 2, relation_popularity=[1.0, 0.5] * 2,
        ... )
        >>> found = rank_shares(line_up({"a": ranks, "b": ranks}), "a", "b", groups=2)
        >>> found.groups, found.shares["a"].tolist()
        (('≤ 0.05', '≤ 0.5'), [[0.5, 0.0, 0.0, 0.5, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0, 0.0, 0.0]])
    """
    found = divided(lineup, f"popularity:{groups}")
    shares: dict[str, Floats] = {}
    means: dict[str, Floats] = {}
    for model in (first, second):
        ranks = np.stack([run.rank for run in lineup.runs[model]])
        own = [ranks[:, rows] for _, rows in found]
        shares[model] = np.stack([_counts(group.ravel()) / group.size for group in own])
        means[model] = np.exp([np.log(group).mean() for group in own])
    names = tuple(_name(name["popularity"]) for name, _ in found)
    return RankShares(names, tuple(len(rows) for _, rows in found), shares, means)


@style.in_style
def draw_popularity_ranks(found: RankShares) -> Figure:
    """For each group of queries two bars, one for each model: the share of its queries in each bin of ranks.

    Example:
        >>> shares = {"A": np.full((2, 6), 1 / 6), "B": np.eye(2, 6)}
        >>> means = {"A": np.array([3.0, 2.0]), "B": np.array([1.0, 2.0])}
        >>> axes = draw_popularity_ranks(RankShares(("rare", "popular"), (10, 12), shares, means)).axes[0]
        >>> [label.get_text() for label in axes.get_yticklabels()]
        ['A', 'B', 'A', 'B']
    """
    from matplotlib import colormaps
    from matplotlib.patches import Patch

    models = list(found.shares)
    count = len(found.groups)
    figure, (axes,) = style.panels(style.PAGE, 0.9 + 0.62 * count)
    colours = colormaps[style.HEAT](np.linspace(1.0, 0.0, len(BINS)))
    places, names = [], []
    for group in range(count):
        top = count - 1 - group  # the most popular queries are at the bottom
        for model, shift in zip(models, (0.2, -0.2), strict=True):
            share, place = found.shares[model][group], top + shift
            left = np.concatenate([[0.0], np.cumsum(share)[:-1]])
            axes.barh(place, share, 0.36, left, color=colours, edgecolor="white", linewidth=0.4)
            axes.text(1.01, place, f"{found.means[model][group]:,.1f}", va="center", fontsize=7)
            places.append(place)
            names.append(style.plain(model, 16))
        axes.text(-0.14, top, _group_text(found, group), ha="right", va="center", fontsize=7)
    axes.text(1.01, count - 0.45, "geometric\nmean rank", va="bottom", fontsize=7)
    axes.set_yticks(places, names)
    axes.set(xlim=(0, 1), ylim=(-0.5, count - 0.5), xlabel="share of the queries of the group")
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0%", "25%", "50%", "75%", "100%"])
    axes.tick_params("y", length=0)
    axes.spines["left"].set_visible(False)
    style.legend_above(figure, [Patch(color=colour) for colour in colours], [f"rank {BINS[0]}", *BINS[1:]])
    return figure


def _group_text(found: RankShares, group: int) -> str:
    ends = {0: "rarest\n", len(found.groups) - 1: "most popular\n"} if len(found.groups) > 1 else {}
    return f"{ends.get(group, '')}{found.groups[group]}\n{found.queries[group]:,} queries"


METRIC = "PROBE(alpha=1,beta=0)"
BANDS = 5
_SPREAD = 0.5  # width of the models of a group; groups are 1 apart


@dataclass(frozen=True)
class Limits:
    """The confidence interval in each group, and whether it is reliable."""

    low: Floats
    high: Floats
    trusted: NDArray[np.bool_]


@dataclass(frozen=True)
class GroupScores:
    """A metric of several models by group of queries, the least popular first."""

    metric: str
    groups: tuple[str, ...]
    queries: tuple[int, ...]
    values: Mapping[str, Floats]
    limits: Mapping[str, Limits]


def compared_groups(comparison: Comparison) -> GroupScores:
    """The values and intervals of a comparison by ``popularity``, for its first metric.

    Example:
        >>> from kgprobe.comparison import line_up
        >>> from kgprobe.comparison.model_comparison import compare_models
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
    """The name of a band: its upper limit."""
    limit = float(band.rpartition(", ")[2].rstrip("]"))
    return f"≤ {style.scientific(limit)}" if limit > 0 else "0"


@style.in_style
def draw_popularity_groups(found: GroupScores, look_of: Mapping[str, style.Look] | None = None) -> Figure:
    """The value of each model in each group with its confidence interval, dotted if it is not reliable.

    Example:
        >>> limits = Limits(np.array([0.1, 0.5]), np.array([0.3, 0.7]), np.array([True, False]))
        >>> found = GroupScores("MRR", ("rare", "popular"), (10, 12), {"A": np.array([0.2, 0.6])}, {"A": limits})
        >>> draw_popularity_groups(found).axes[0].lines[0].get_ydata().tolist()
        [0.2, 0.6]
    """
    count = len(found.values)
    style.refuse_many("models", count)
    look = look_of or style.looks(list(found.values))
    figure, (axes,) = style.panels(max(style.COLUMN, 0.7 * len(found.groups)), 2.9)
    place = np.arange(len(found.groups))
    for i, (model, values) in enumerate(found.values.items()):
        own = look[model]
        at = place + (_SPREAD * (i / (count - 1) - 0.5) if count > 1 else 0.0)
        axes.plot(
            at, values, color=own.colour, linestyle=own.line, linewidth=0.8, marker=own.marker, label=style.plain(model)
        )
        limits = found.limits[model]
        for kept, dashes in ((limits.trusted, ()), (~limits.trusted, (1.0, 1.0))):
            axes.vlines(at[kept], limits.low[kept], limits.high[kept], own.colour, (0.0, dashes), linewidth=1.2)
    axes.set_xticks(
        place, [f"{group}\n{queries:,}" for group, queries in zip(found.groups, found.queries, strict=True)]
    )
    axes.set_xlabel("triple popularity δ(e)·δ(r|e), and number of queries")
    axes.set_ylabel(_in_greek(found.metric))
    style.legend_above(figure, *axes.get_legend_handles_labels())
    return figure


def _in_greek(metric: str) -> str:
    return metric.replace("alpha=", f"{style.ALPHA} = ").replace("beta=", f"{style.BETA} = ").replace(",", ", ")
