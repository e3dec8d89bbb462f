"""Figures over the (alpha, beta) plane: decision map, heat maps, confidence bands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from kgprobe.arrays import Flags, Floats, Ints
from kgprobe.report.figures import style

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.path import Path

    from kgprobe.aggregate import Surface
    from kgprobe.decision import DecisionMap


@style.in_style
def draw_bands(plane: DecisionMap, first: str, second: str, look_of: Mapping[str, style.Look] | None = None) -> Figure:
    """Scores of two models over alpha, and below their difference with its simultaneous band; one column per beta.

    Where the band does not contain 0, the difference is significant, simultaneously for all alpha and beta.

    Example:
        >>> from kgprobe.decision import decision_map
        >>> from kgprobe.report.figures.geometry_figures import paper_example
        >>> plane = decision_map(paper_example(), np.linspace(-1, 1, 5), [0.0], replicates=10)
        >>> figure = draw_bands(plane, "A", "C")
        >>> bool(np.allclose(figure.axes[1].lines[0].get_ydata(), (plane.scores[0] - plane.scores[2])[:, 0]))
        True
    """
    look = look_of or style.looks([first, second])
    a, b = plane.models.index(first), plane.models.index(second)
    style.refuse_many("panels in a row", len(plane.betas), 4)
    columns = len(plane.betas)
    figure, drawn = style.panels(
        style.PAGE, 3.4, 2, columns, sharex=True, sharey="row" if columns > 1 else False, height_ratios=[3, 2]
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
                label=style.plain(model),
            )
        difference, band = (plane.scores[a] - plane.scores[b])[order, j], plane.bands[a, b, order, j]
        below.plot(alphas, difference, color="black")
        below.fill_between(alphas, difference - band, difference + band, color="0.8", linewidth=0)
        below.axhline(0, color="black", linewidth=0.6, linestyle=(0, (4, 2)))
        above.set_title(style.setting(beta=float(beta)))
        below.set_xlabel(style.SHARPNESS)
    drawn[0].set_ylabel(f"PROBE({style.ALPHA}, {style.BETA})")
    drawn[columns].set_ylabel(f"{style.plain(first, 12)}\nminus {style.plain(second, 12)}")
    handles, names = drawn[0].get_legend_handles_labels()
    level = plane.settings.level
    band_name = f"difference, {level:.0%} simultaneous band over {style.ALPHA} and {style.BETA}"
    style.legend_above(figure, [*handles, below.collections[0]], [*names, band_name])
    return figure


_FEW_CELLS = 6  # up to this grid size, values are written into the cells
_FEW_PANELS = 9


@style.in_style
def draw_heat_maps(plane: DecisionMap) -> Figure:
    """One panel per model: alpha across, beta upwards, colour from the worst (0) to the best (1) model at each point.

    Example:
        >>> from kgprobe.decision import decision_map
        >>> from kgprobe.report.figures.geometry_figures import paper_example
        >>> figure = draw_heat_maps(decision_map(paper_example(), [1.0, 0.25], [0.0, 0.8], replicates=10))
        >>> [axes.get_title() for axes in figure.axes[:3]]
        ['A', 'B', 'C']
    """
    count = len(plane.models)
    columns = min(count, 3 if count <= _FEW_PANELS else 6)
    rows = math.ceil(count / columns)
    figure, drawn = style.panels(
        style.PAGE, 0.4 + rows * (0.85 * style.PAGE / max(columns, 3)), rows, columns, sharex=True, sharey=True
    )
    across, upwards = np.argsort(plane.alphas), np.argsort(plane.betas)
    for axes, model, values in zip(drawn, plane.models, plane.normalised(), strict=False):
        shown = values[np.ix_(across, upwards)].T
        image = axes.imshow(
            shown, origin="lower", cmap=style.HEAT, vmin=0, vmax=1, aspect="auto", interpolation="nearest"
        )
        style.grid_axis(axes, "x", plane.alphas[across].tolist())
        style.grid_axis(axes, "y", plane.betas[upwards].tolist())
        axes.set_title(style.plain(model, 96 // max(3, columns)), fontsize=8 if columns <= 3 else 7)
        if max(shown.shape) <= _FEW_CELLS and columns <= 3:
            for (row, column), value in np.ndenumerate(shown):
                ink = "white" if value < 0.5 else "black"
                axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7, color=ink)
    for axes in drawn[count:]:
        axes.remove()
    for axes in drawn[count - columns : count]:
        axes.set_xlabel(style.SHARPNESS)
        axes.tick_params(labelbottom=True)
    for axes in drawn[:count:columns]:
        axes.set_ylabel(style.ROBUSTNESS)
    figure.colorbar(image, ax=drawn[:count], label="worst model = 0, best = 1", aspect=12 * rows, pad=0.01)
    return figure


@style.in_style
def draw_heat_map_grid(
    planes: Mapping[str, DecisionMap], models: Sequence[str], absent: Mapping[tuple[str, str], str] | None = None
) -> Figure:
    """One heat map per graph (row) and model (column), each normalised over the models of its graph at every point.

    Args:
        planes: The maps of the graphs, by name, with the same alphas and betas.
        models: The models, in the order of the columns.
        absent: What is written instead of a heat map, by graph and model, such as "O.O.M."; by default "no ranks".

    Example:
        >>> from kgprobe.decision import decision_map
        >>> from kgprobe.report.figures.geometry_figures import paper_example
        >>> plane = decision_map(paper_example(), [1.0, 0.25], [0.0, 0.8], replicates=10)
        >>> figure = draw_heat_map_grid({"tiny": plane}, ["A", "D"], {("tiny", "D"): "O.O.M."})
        >>> len(figure.axes[0].images), [text.get_text() for text in figure.axes[1].texts]
        (1, ['O.O.M.'])
    """
    style.refuse_many("models", len(models))
    rows, columns = len(planes), len(models)
    width = min(style.PAGE, 1.6 + 1.1 * columns)
    figure, drawn = style.panels(width, 0.7 + rows * (width - 1.0) / columns, rows, columns, sharex=True, sharey=True)
    texts = absent or {}
    images = []
    for row, (graph, plane) in enumerate(planes.items()):
        own = dict(zip(plane.models, plane.normalised(), strict=True))
        across, upwards = np.argsort(plane.alphas), np.argsort(plane.betas)
        for axes, model in zip(drawn[row * columns :], models, strict=False):
            style.grid_axis(axes, "x", plane.alphas[across].tolist())
            style.grid_axis(axes, "y", plane.betas[upwards].tolist())
            axes.set_box_aspect(1)
            if row == 0:
                axes.set_title(style.plain(model, 84 // columns), fontsize=7)
            if model in own:
                shown = own[model][np.ix_(across, upwards)].T
                images.append(
                    axes.imshow(
                        shown, origin="lower", cmap=style.HEAT, vmin=0, vmax=1, aspect="auto", interpolation="nearest"
                    )
                )
            else:
                axes.set(xlim=(-0.5, len(across) - 0.5), ylim=(-0.5, len(upwards) - 0.5), facecolor="0.95")
                text = texts.get((graph, model), "no ranks")
                axes.text(0.5, 0.5, style.plain(text), transform=axes.transAxes, ha="center", va="center", fontsize=7)
        drawn[row * columns].set_ylabel(f"{style.plain(graph, 20)}\n{style.BETA}")
    for axes in drawn[(rows - 1) * columns :]:
        axes.set_xlabel(style.ALPHA)
        axes.tick_params("x", labelrotation=90 if columns > 3 else 0)
    if images:
        figure.colorbar(images[0], ax=drawn, label="worst model = 0, best = 1", aspect=10 * rows + 4, pad=0.01)
    return figure


@style.in_style
def draw_surface(surface: Surface) -> Figure:
    """PROBE of one model over alpha (across) and beta (upwards), with the values in the cells of a small grid.

    Example:
        >>> from kgprobe.aggregate import surface
        >>> from kgprobe.report.figures.geometry_figures import paper_example
        >>> figure = draw_surface(surface(paper_example().first, [1.0, 0.0], [0.0, 0.8]))
        >>> figure.axes[0].images[0].get_array().shape
        (2, 2)
    """
    across, upwards = np.argsort(surface.alphas), np.argsort(surface.betas)
    shown = np.asarray(surface)[np.ix_(across, upwards)].T
    figure, (axes,) = style.panels(style.COLUMN, 2.6)
    image = axes.imshow(shown, origin="lower", cmap=style.HEAT, aspect="auto", interpolation="nearest")
    style.grid_axis(axes, "x", surface.alphas[across].tolist())
    style.grid_axis(axes, "y", surface.betas[upwards].tolist())
    axes.set(xlabel=style.SHARPNESS, ylabel=style.ROBUSTNESS)
    if max(shown.shape) <= _FEW_CELLS:
        middle = (np.nanmin(shown) + np.nanmax(shown)) / 2
        for (row, column), value in np.ndenumerate(shown):
            ink = "white" if value < middle else "black"
            axes.text(column, row, f"{value:.3f}", ha="center", va="center", fontsize=7, color=ink)
    figure.colorbar(image, ax=axes, label=f"PROBE({style.ALPHA}, {style.BETA})", aspect=14, pad=0.02)
    return figure


_LETTER = 0.023  # width of a letter relative to the map; names that do not fit are only in the legend


@style.in_style
def draw_decision_map(plane: DecisionMap, look_of: Mapping[str, style.Look] | None = None) -> Figure:
    """The best model by colour, hatched where its lead is not significant, and the curves where the two best are equal.

    Example:
        >>> from kgprobe.decision import decision_map
        >>> from kgprobe.report.figures.geometry_figures import paper_example
        >>> plane = decision_map(paper_example(), np.linspace(-1, 1, 5), np.linspace(0, 0.8, 5), replicates=10)
        >>> [text.get_text() for text in draw_decision_map(plane).legends[0].get_texts()]
        ['A', 'B', 'C', 'not significant', 'equal']
    """
    from matplotlib.colors import ListedColormap
    from matplotlib.ticker import MaxNLocator

    look = look_of or style.looks(plane.models)
    figure, (axes,) = style.panels(style.COLUMN, 3.0)
    across, upwards = np.argsort(plane.alphas), np.argsort(plane.betas)
    edges = cell_edges(plane.alphas[across]), cell_edges(plane.betas[upwards])
    winner = plane.winner[np.ix_(across, upwards)].T
    unclear = ~plane.beyond_noise[np.ix_(across, upwards)].T
    colours = ListedColormap([look[model].colour for model in plane.models])
    axes.pcolormesh(*edges, winner, cmap=colours, vmin=-0.5, vmax=len(plane.models) - 0.5, rasterized=True)
    if unclear.any():
        _hatch(axes, _outline(*edges, unclear))
    for first, second in combinations([plane.models[i] for i in np.unique(winner)], 2):
        for curve in plane.crossings(first, second):
            axes.plot(*_among_the_best(plane, first, second, curve).T, color="black", linewidth=1.4)
    axes.set(xlim=_span(plane.alphas), ylim=_span(plane.betas), xlabel=style.SHARPNESS, ylabel=style.ROBUSTNESS)
    _name_regions(axes, plane.models, winner, edges)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        axis.set_major_formatter(lambda value, _: style.signed(round(value, 9)))
    axes.spines[["top", "right"]].set_visible(True)
    _name_colours(figure, [plane.models[i] for i in np.unique(winner)], look)
    return figure


def cell_edges(values: Floats) -> Floats:
    """The limits of cells around ascending values.

    Example:
        >>> cell_edges(np.array([0.0, 1.0, 3.0])).tolist(), cell_edges(np.array([2.0])).tolist()
        ([-0.5, 0.5, 2.0, 4.0], [1.5, 2.5])
    """
    if len(values) == 1:
        return np.asarray(values[0] + np.array([-0.5, 0.5]))
    middle = (values[1:] + values[:-1]) / 2
    return np.array([2 * values[0] - middle[0], *middle, 2 * values[-1] - middle[-1]])


def _span(values: Floats) -> tuple[float, float]:
    """The range of the values; a single value gets a margin."""
    room = 0.5 * (len(values) == 1)
    return float(values.min()) - room, float(values.max()) + room


def _outline(x: Floats, y: Floats, cells: Flags) -> Path:
    """All marked cells [y, x] as one path, so that the hatching is continuous."""
    from matplotlib.path import Path as Outline

    row, column = np.nonzero(cells)
    left, right, bottom, top = x[column], x[column + 1], y[row], y[row + 1]
    corners = [(left, bottom), (right, bottom), (right, top), (left, top), (left, bottom)]
    points = np.stack([np.stack(corner, axis=1) for corner in corners], axis=1).reshape(-1, 2)
    steps = [Outline.MOVETO, Outline.LINETO, Outline.LINETO, Outline.LINETO, Outline.CLOSEPOLY]
    return Outline(points, np.tile(steps, len(row)))


def _hatch(axes: Axes, outline: Path) -> None:
    from matplotlib.patches import PathPatch

    axes.add_patch(PathPatch(outline, facecolor="none", edgecolor="white", hatch="/////", linewidth=0))


def _among_the_best(plane: DecisionMap, first: str, second: str, curve: Floats) -> Floats:
    """The curve without the parts where a third model is better than both."""
    at = [np.abs(axis[None, :] - curve[:, [i]]).argmin(axis=1) for i, axis in enumerate((plane.alphas, plane.betas))]
    best = {plane.models.index(first), plane.models.index(second)}
    kept = np.isin(plane.winner[tuple(at)], list(best))
    return np.where(kept[:, None], curve, np.nan)


def _name_regions(axes: Axes, models: Sequence[str], winner: Ints, edges: tuple[Floats, Floats]) -> None:
    """Write the name of each model into the widest part of its region, if it fits."""
    from scipy.ndimage import distance_transform_edt

    across, upwards = np.clip(edges[0], *axes.get_xlim()), np.clip(edges[1], *axes.get_ylim())
    for code in np.unique(winner):
        own = winner == code
        inside = distance_transform_edt(np.pad(own, 1))[1:-1, 1:-1]
        row, column = np.unravel_index(int(inside.argmax()), own.shape)
        others = np.flatnonzero(~own[row])
        left = across[others[others < column].max(initial=-1) + 1]
        right = across[others[others > column].min(initial=own.shape[1])]
        name = style.plain(models[code], 20)
        if (right - left) / np.ptp(across) < _LETTER * (len(name) + 1):
            continue
        axes.text(
            (left + right) / 2,
            (upwards[row] + upwards[row + 1]) / 2,
            name,
            ha="center",
            va="center",
            bbox={"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": "none"},
        )


def _name_colours(figure: Figure, winners: list[str], look: Mapping[str, style.Look]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Artist] = [
        *(Patch(color=look[model].colour) for model in winners),
        Patch(facecolor="0.6", edgecolor="white", hatch="/////", linewidth=0),
        Line2D([], [], color="black", linewidth=1.4),
    ]
    style.legend_above(figure, handles, [*(style.plain(model, 20) for model in winners), "not significant", "equal"])
