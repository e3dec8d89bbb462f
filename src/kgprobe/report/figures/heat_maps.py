"""Which model does best where: scores over (alpha, beta), normalised over the models at every point."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from kgprobe.report.figures.axes import grid_axis
from kgprobe.report.figures.style import HEAT, PAGE, ROBUSTNESS, SHARPNESS, in_style, panels, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kgprobe.compare.decision import DecisionMap

_FEW_CELLS = 6
"""Up to so many cells a side, their values are written into them."""
_FEW_PANELS = 9


@in_style
def draw_heat_maps(plane: DecisionMap) -> Figure:
    """One panel for each model: alpha across, beta upwards, colour from the worst to the best model of that point.

    Example:
        >>> from kgprobe.compare.decision import decision_map
        >>> from kgprobe.report.figures.geometry import paper_example
        >>> figure = draw_heat_maps(decision_map(paper_example(), [1.0, 0.25], [0.0, 0.8], replicates=10))
        >>> [axes.get_title() for axes in figure.axes[:3]]
        ['A', 'B', 'C']
    """
    count = len(plane.models)
    columns = min(count, 3 if count <= _FEW_PANELS else 6)
    rows = math.ceil(count / columns)
    figure, drawn = panels(PAGE, 0.4 + rows * (0.85 * PAGE / max(columns, 3)), rows, columns, sharex=True, sharey=True)
    across, upwards = np.argsort(plane.alphas), np.argsort(plane.betas)
    for axes, model, values in zip(drawn, plane.models, plane.normalised(), strict=False):
        shown = values[np.ix_(across, upwards)].T
        image = axes.imshow(shown, origin="lower", cmap=HEAT, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        grid_axis(axes, "x", plane.alphas[across].tolist())
        grid_axis(axes, "y", plane.betas[upwards].tolist())
        axes.set_title(plain(model, 96 // max(3, columns)), fontsize=8 if columns <= 3 else 7)
        if max(shown.shape) <= _FEW_CELLS and columns <= 3:
            for (row, column), value in np.ndenumerate(shown):
                ink = "white" if value < 0.5 else "black"
                axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7, color=ink)
    for axes in drawn[count:]:
        axes.remove()
    for axes in drawn[count - columns : count]:
        axes.set_xlabel(SHARPNESS)
        axes.tick_params(labelbottom=True)
    for axes in drawn[:count:columns]:
        axes.set_ylabel(ROBUSTNESS)
    figure.colorbar(image, ax=drawn[:count], label="worst model = 0, best = 1", aspect=12 * rows, pad=0.01)
    return figure
