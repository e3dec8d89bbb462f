"""Two models over all alpha at once: their scores, and their difference with a band that holds everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from kgprobe.report.figures.style import (
    ALPHA,
    BETA,
    PAGE,
    SHARPNESS,
    Look,
    in_style,
    legend_above,
    looks,
    panels,
    plain,
    refuse_many,
    setting,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kgprobe.compare.decision import DecisionMap


@in_style
def draw_bands(plane: DecisionMap, first: str, second: str, look_of: Mapping[str, Look] | None = None) -> Figure:
    """Scores of two models over alpha above, their difference with its simultaneous band below, a column for each beta.

    Where the band does not hold 0, the sign of the difference is beyond noise: for all alpha and beta at once.

    Args:
        plane: Has both models; its band holds for all pairs of its models.
        first: One of them.
        second: The other, which is subtracted.
        look_of: Looks of the models, where they shall be those of other figures.

    Example:
        >>> from kgprobe.compare.decision import decision_map
        >>> from kgprobe.report.figures.geometry import paper_example
        >>> plane = decision_map(paper_example(), np.linspace(-1, 1, 5), [0.0], replicates=10)
        >>> figure = draw_bands(plane, "A", "C")
        >>> bool(np.allclose(figure.axes[1].lines[0].get_ydata(), (plane.scores[0] - plane.scores[2])[:, 0]))
        True
    """
    look = look_of or looks([first, second])
    a, b = plane.models.index(first), plane.models.index(second)
    refuse_many("panels in a row", len(plane.betas), 4)
    columns = len(plane.betas)
    figure, drawn = panels(
        PAGE, 3.4, 2, columns, sharex=True, sharey="row" if columns > 1 else False, height_ratios=[3, 2]
    )
    order = np.argsort(plane.alphas)
    alphas = plane.alphas[order]
    for j, beta in enumerate(plane.betas):
        above, below = drawn[j], drawn[columns + j]
        for model, index in ((first, a), (second, b)):
            own = look[model]
            above.plot(
                alphas,
                plane.scores[index, order, j],
                color=own.colour,
                linestyle=own.line,
                marker=own.marker,
                markevery=max(1, len(alphas) // 8),
                label=plain(model),
            )
        difference, band = (plane.scores[a] - plane.scores[b])[order, j], plane.bands[a, b, order, j]
        below.plot(alphas, difference, color="black")
        below.fill_between(alphas, difference - band, difference + band, color="0.8", linewidth=0)
        below.axhline(0, color="black", linewidth=0.6, linestyle=(0, (4, 2)))
        above.set_title(setting(beta=float(beta)))
        below.set_xlabel(SHARPNESS)
    drawn[0].set_ylabel(f"PROBE({ALPHA}, {BETA})")
    drawn[columns].set_ylabel(f"{plain(first, 12)}\nless {plain(second, 12)}")
    handles, names = drawn[0].get_legend_handles_labels()
    level = plane.settings["level"]
    band_name = f"difference, {level:.0%} band for all {ALPHA} and {BETA} at once"
    legend_above(figure, [*handles, below.collections[0]], [*names, band_name])
    return figure
