"""The case studies drawn: both ranks of every query, and the relations that its entities are known for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kgprobe.report.figures.axes import log_axis
from kgprobe.report.figures.cases import Case, CaseStudy, Profile
from kgprobe.report.figures.style import PAGE, Look, in_style, legend_above, looks, panels, plain, whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEADING = 0.75
"""The height of a group's heading, where a query has 1."""
_QUERY, _OTHERS = "0.2", ("0.62", "0.78", "0.70", "0.86")
_LONGEST = 26


@in_style
def draw_case_studies(study: CaseStudy, look_of: Mapping[str, Look] | None = None) -> Figure:
    """Queries in groups of popularity: left the ranks by both models, right what the entities are known for.

    Args:
        study: The queries, chosen by `case_study`.
        look_of: Looks of the models, where they shall be those of other figures.
    """
    look = look_of or looks([study.first, study.second])
    height = sum(_HEADING + len(group.cases) for group in study.groups)
    figure, (ranks, profiles) = panels(PAGE, 1.0 + 0.36 * height, 1, 2, sharey=True, width_ratios=[3, 2])
    places: list[float] = []
    top = 0.0
    for group in study.groups:
        heading = (
            f"{group.name} ({group.queries:,} queries; geometric mean rank "
            f"{plain(study.first, 14)} {group.means[0]:,.1f}, {plain(study.second, 14)} {group.means[1]:,.1f})"
        )
        ranks.annotate(
            heading,
            (0, top + _HEADING / 2),
            xycoords=("figure fraction", "data"),
            va="center",
            weight="bold",
            fontsize=7,
        )
        top += _HEADING
        for case in group.cases:
            places.append(top + 0.5)
            _draw_ranks(ranks, case, places[-1], (look[study.first], look[study.second]))
            _draw_profiles(profiles, case, places[-1])
            top += 1
    cases = [case for group in study.groups for case in group.cases]
    most = max((rank for case in cases for rank in case.ranks), default=1.0)
    log_axis(ranks, "x", 0.8, 1.6 * max(10.0, most))
    ranks.set_yticks(places, [_query(case) for case in cases])
    ranks.set(ylim=(top, 0), xlabel="rank of the target\n(median over seeds)")
    profiles.set(xlim=(0, 1), xlabel="relations in the training triples\n(given entity above, target below)")
    profiles.set_xticks([0, 0.5, 1], ["0%", "50%", "100%"])
    for axes in (ranks, profiles):
        axes.spines["left"].set_visible(False)
        axes.tick_params("y", length=0)
    profiles.tick_params(labelleft=False)
    _name_colours(figure, study, look)
    return figure


def _query(case: Case) -> str:
    given, relation = plain(case.given.label, _LONGEST), plain(case.relation, _LONGEST)
    asked = f"({given}, {relation}, ?)" if case.predicts_tail else f"(?, {relation}, {given})"
    return f"{asked}\n→ {plain(case.target.label, _LONGEST)}"


def _draw_ranks(axes: Axes, case: Case, place: float, look: tuple[Look, Look]) -> None:
    axes.plot(case.ranks, (place, place), color="0.7", linewidth=1.2, zorder=1)
    close = max(case.ranks) < 3 * min(case.ranks)
    for rank, own in zip(case.ranks, look, strict=True):
        axes.plot(rank, place, color=own.colour, marker=own.marker, markersize=5, linestyle="none")
        outward = "right" if rank == min(case.ranks) else "left"
        ha = outward if close else "center"
        axes.annotate(whole(rank), (rank, place), xytext=(0, 5), textcoords="offset points", ha=ha, fontsize=7)


def _draw_profiles(axes: Axes, case: Case, place: float) -> None:
    for profile, middle in ((case.given, place - 0.2), (case.target, place + 0.2)):
        _draw_profile(axes, profile, case.relation, middle)


def _draw_profile(axes: Axes, profile: Profile, relation: str, middle: float) -> None:
    """The query's relation first and dark, then the others in greys."""
    own = profile.shares.get(relation, 0.0)
    others = [share for name, share in profile.shares.items() if name != relation]
    left = 0.0
    for i, share in enumerate([own, *others]):
        colour = _QUERY if i == 0 else _OTHERS[i % len(_OTHERS)]
        axes.barh(middle, share, 0.32, left, color=colour, edgecolor="white", linewidth=0.4)
        left += share
    note = f"{own:.0%} of {profile.occurrences:,}" if profile.occurrences else "not in training"
    axes.text(1.02, middle, note, va="center", fontsize=7)


def _name_colours(figure: Figure, study: CaseStudy, look: Mapping[str, Look]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    models = [
        Line2D([], [], color=look[m].colour, marker=look[m].marker, linestyle="none", label=plain(m))
        for m in (study.first, study.second)
    ]
    shares = [Patch(color=_QUERY, label="relation of the query"), Patch(color=_OTHERS[0], label="other relations")]
    handles = [*models, *shares]
    legend_above(figure, handles, [str(handle.get_label()) for handle in handles])
