from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.text import Text

from figure_inputs import small_lineup
from kgprobe.aggregate import surface
from kgprobe.comparison import Lineup, line_up
from kgprobe.decision import DecisionMap, decision_map
from kgprobe.errors import UsageError
from kgprobe.graph import load_graph
from kgprobe.ranks import read_ranks
from kgprobe.report.figures.geometry_figures import paper_example
from kgprobe.report.figures.plane_figures import (
    cell_edges,
    draw_bands,
    draw_decision_map,
    draw_heat_map_grid,
    draw_heat_maps,
)
from kgprobe.report.figures.style import looks

ALPHAS, BETAS = [1.0, 0.5, 0.0, -0.5], [0.0, 0.8]


def test_scores_difference_and_band_are_those_of_the_map() -> None:
    plane = decision_map(small_lineup(), ALPHAS, BETAS, replicates=100)
    figure = draw_bands(plane, "third", "one")
    first, second = plane.models.index("third"), plane.models.index("one")
    for j in range(len(BETAS)):
        above, below = figure.axes[j], figure.axes[len(BETAS) + j]
        for line, model in zip(above.lines, (first, second), strict=True):
            assert line.get_xdata().tolist() == sorted(ALPHAS)
            np.testing.assert_array_equal(line.get_ydata(), plane.scores[model, ::-1, j])
        difference = plane.scores[first, ::-1, j] - plane.scores[second, ::-1, j]
        np.testing.assert_array_equal(below.lines[0].get_ydata(), difference)
        corners = below.collections[0].get_paths()[0].vertices
        for alpha, middle, band in zip(sorted(ALPHAS), difference, plane.bands[first, second, ::-1, j], strict=True):
            ends = corners[corners[:, 0] == alpha, 1]
            assert (ends.min(), ends.max()) == pytest.approx((middle - band, middle + band))


def test_more_panels_than_fit_in_a_row_are_refused() -> None:
    plane = decision_map(small_lineup(), [1.0], np.linspace(0, 0.8, 5), replicates=10)
    with pytest.raises(UsageError, match="5 panels in a row"):
        draw_bands(plane, "one", "other")


ALPHAS_DECISION, BETAS_DECISION = np.linspace(1, -1, 9), np.linspace(0, 0.8, 5)


@pytest.fixture(scope="module")
def plane() -> DecisionMap:
    return decision_map(small_lineup(), ALPHAS_DECISION, BETAS_DECISION, replicates=200)


def test_every_cell_has_the_colour_of_its_winner(plane: DecisionMap) -> None:
    mesh = draw_decision_map(plane).axes[0].collections[0]
    shown = mesh.to_rgba(mesh.get_array())
    for i in range(len(ALPHAS_DECISION)):
        for j in range(len(BETAS_DECISION)):
            best = plane.models[int(plane.scores[:, i, j].argmax())]
            column = len(ALPHAS_DECISION) - 1 - i  # alpha was given in descending order
            assert tuple(shown[j, column, :3]) == pytest.approx(to_rgb(looks(plane.models)[best].colour))


def test_cells_within_noise_are_hatched(plane: DecisionMap) -> None:
    axes = draw_decision_map(plane).axes[0]
    outlines = [patch.get_path() for patch in axes.patches if isinstance(patch, PathPatch)]
    inside = {
        (i, j)
        for i, alpha in enumerate(ALPHAS_DECISION)
        for j, beta in enumerate(BETAS_DECISION)
        if any(
            x0 < alpha < x1 and y0 < beta < y1
            for outline in outlines
            for (x0, y0), (x1, y1) in [
                (cell.min(axis=0), cell.max(axis=0)) for cell in outline.vertices.reshape(-1, 5, 2)
            ]
        )
    }
    assert inside == {tuple(cell) for cell in np.argwhere(~plane.beyond_noise).tolist()}
    assert inside


def test_a_map_that_is_certain_everywhere_is_not_hatched(plane: DecisionMap) -> None:
    made = decision_map(small_lineup(), ALPHAS_DECISION, BETAS_DECISION, replicates=10)
    certain = replace(made, bands=np.zeros_like(made.bands), effective=np.full_like(made.effective, 1e3))
    assert not draw_decision_map(certain).axes[0].patches


def test_on_the_curves_two_models_are_equal_and_best() -> None:
    from scipy.interpolate import RegularGridInterpolator

    fine = decision_map(paper_example(), np.linspace(-1, 1, 41), np.linspace(0, 0.8, 33), replicates=10)
    lines = draw_decision_map(fine).axes[0].lines
    assert len(lines) == 3
    score = RegularGridInterpolator((fine.alphas, fine.betas), np.moveaxis(fine.scores, 0, -1))
    for line in lines:
        points = np.stack(line.get_data(), axis=1)
        for values in score(points[~np.isnan(points).any(axis=1)]):
            best, second = np.sort(values)[::-1][:2]
            assert best - second < 1e-2


@pytest.mark.parametrize(("alphas", "betas"), [([0.5], [0.0]), ([1.0, 0.0], [0.4]), ([0.5], [0.0, 0.8])])
def test_maps_of_one_row_or_column_can_be_drawn(alphas: list[float], betas: list[float]) -> None:
    axes = draw_decision_map(decision_map(small_lineup(), alphas, betas, replicates=10)).axes[0]
    assert axes.collections[0].get_array().shape == (len(betas), len(alphas))


def test_cells_reach_half_way_to_their_neighbours() -> None:
    assert cell_edges(np.array([0.0, 0.2, 0.4])).tolist() == pytest.approx([-0.1, 0.1, 0.3, 0.5])


def test_winners_are_named_in_the_map_and_legend() -> None:
    fine = decision_map(paper_example(), np.linspace(-1, 1, 41), np.linspace(0, 0.8, 33), replicates=10)
    figure = draw_decision_map(fine)
    shares = {model: float((fine.winner == i).mean()) for i, model in enumerate(fine.models)}
    assert {text.get_text() for text in figure.axes[0].texts} == {m for m, share in shares.items() if share > 0.1}
    assert [text.get_text() for text in figure.legends[0].get_texts()][:-2] == [m for m in "ABC" if shares[m]]


def test_a_name_that_would_cover_what_others_win_is_only_in_the_legend() -> None:
    runs = {f"{model}, a model with a long name": runs for model, runs in paper_example().runs.items()}
    lineup = Lineup(runs, dict.fromkeys(runs, 0))
    figure = draw_decision_map(decision_map(lineup, np.linspace(-1, 1, 41), np.linspace(0, 0.8, 33), replicates=10))
    assert len(figure.axes[0].texts) < 3
    assert len(figure.legends[0].get_texts()) == 5


def test_the_map_ends_where_its_values_end(plane: DecisionMap) -> None:
    axes = draw_decision_map(plane).axes[0]
    assert (axes.get_xlim(), axes.get_ylim()) == ((-1, 1), (0, 0.8))


ALPHAS_HEAT_MAPS, BETAS_HEAT_MAPS = [1.0, 0.0, -1.0], [0.8, 0.0]


def _panels(figure) -> dict[str, np.ndarray]:
    return {axes.get_title(): np.asarray(axes.images[0].get_array()) for axes in figure.axes if axes.images}


def test_panels_are_scores_between_the_worst_and_the_best_model() -> None:
    lineup = small_lineup()
    panels = _panels(draw_heat_maps(decision_map(lineup, ALPHAS_HEAT_MAPS, BETAS_HEAT_MAPS, replicates=10)))
    values = np.stack(
        [
            np.mean([surface(run, ALPHAS_HEAT_MAPS, BETAS_HEAT_MAPS) for run in runs], axis=0)
            for runs in lineup.runs.values()
        ]
    )
    wanted = (values - values.min(axis=0)) / np.ptp(values, axis=0)
    for model, panel in zip(lineup.models, wanted, strict=True):
        np.testing.assert_allclose(panels[model], panel[::-1, ::-1].T, atol=1e-9)
    every = np.stack(list(panels.values()))
    assert (every.min(axis=0) == 0).all()
    assert (every.max(axis=0) == 1).all()


def test_axes_ascend_whatever_the_order_given() -> None:
    axes = draw_heat_maps(decision_map(small_lineup(), ALPHAS_HEAT_MAPS, BETAS_HEAT_MAPS, replicates=10)).axes[0]
    assert [label.get_text().replace("\N{MINUS SIGN}", "-") for label in axes.get_xticklabels()] == ["-1", "0", "1"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0", "0.8"]
    assert axes.get_ylim()[0] < axes.get_ylim()[1]


def test_few_cells_are_written_out_and_many_are_not() -> None:
    lineup = small_lineup()
    few = draw_heat_maps(decision_map(lineup, ALPHAS_HEAT_MAPS, BETAS_HEAT_MAPS, replicates=10)).axes[0]
    shown = np.asarray(few.images[0].get_array())
    assert [text.get_text() for text in few.texts] == [f"{value:.2f}" for value in shown.ravel()]
    many = draw_heat_maps(decision_map(lineup, np.linspace(-1, 1, 9), [0.0], replicates=10)).axes[0]
    assert not many.texts


@pytest.mark.parametrize("models", [2, 4, 11])
def test_every_model_has_one_panel(models: int) -> None:
    names = [f"m{i}" for i in range(models)]
    figure = draw_heat_maps(decision_map(small_lineup(names), [1.0], [0.0], replicates=10))
    assert list(_panels(figure)) == names
    labelled = [axes for axes in figure.axes if axes.get_xlabel().startswith("sharpness")]
    assert len(labelled) == min(models, 3 if models <= 9 else 6)


def test_house_rises_from_last_to_first_on_published_ranks(data: Path) -> None:
    files = sorted((data / "published_ranks" / "wn18rr").glob("*.parquet"))
    lineup = line_up({file.stem: read_ranks(file) for file in files}, graph=load_graph("wn18rr"))
    panel = _panels(draw_heat_maps(decision_map(lineup, replicates=10)))["HousE"]
    assert panel.shape == (5, 5)
    assert panel[0, 4] == 0
    assert panel[0, 0] == 1


@pytest.mark.parametrize("alphas", [[1.0, -1.0, 0.0], [0.5], np.linspace(-1, 1, 30)])
def test_a_surface_is_drawn_with_ascending_axes(alphas: list[float]) -> None:
    found = surface(small_lineup().first, alphas, [0.8, 0.0])
    axes, bar = found.plot().axes
    order = np.argsort(alphas)
    drawn = np.asarray(axes.images[0].get_array())
    assert drawn.tolist() == np.asarray(found)[np.ix_(order, [1, 0])].T.tolist()
    assert [text.get_text() for text in axes.texts] == [f"{v:.3f}" for v in drawn.ravel()] * (len(alphas) <= 6)
    assert bar.get_ylabel().startswith("PROBE(")


def test_a_map_draws_itself() -> None:
    plane = decision_map(small_lineup(), ALPHAS, BETAS, replicates=100)
    own, drawn = (
        [text.get_text() for text in figure.legends[0].get_texts()]
        for figure in (plane.plot(), draw_decision_map(plane))
    )
    assert own == drawn


def _cells(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]


def test_a_grid_has_one_heat_map_per_graph_and_model() -> None:
    plane = decision_map(small_lineup(), [1.0, 0.0, -1.0], [0.0, 0.8], replicates=10)
    alone = decision_map(small_lineup(("one", "third")), [1.0, 0.0, -1.0], [0.0, 0.8], replicates=10)
    models, absent = ["one", "other", "third"], {("b", "other"): "O.O.M."}
    cells = _cells(draw_heat_map_grid({"a": plane, "b": alone}, models, absent))
    assert len(cells) == 6
    for row, own in enumerate((plane, alone)):
        for column, model in enumerate(models):
            axes = cells[3 * row + column]
            if model not in own.models:
                assert not axes.images
                assert [text.get_text() for text in axes.texts] == ["O.O.M."]
                continue
            low, high = own.scores.min(axis=0), own.scores.max(axis=0)
            wanted = (own.scores[own.models.index(model)] - low) / (high - low)
            # Alpha ascends to the right, beta upwards.
            np.testing.assert_allclose(axes.images[0].get_array(), wanted[::-1].T, rtol=1e-12)
    assert [label.get_text() for label in cells[0].get_yticklabels()] == ["0", "0.8"]
    assert [label.get_text() for label in cells[4].get_xticklabels()] == ["\N{MINUS SIGN}1", "0", "1"]
    assert [axes.get_title() for axes in cells[:3]] == models
    assert [cells[0].get_ylabel(), cells[3].get_ylabel()] == ["a\nβ", "b\nβ"]


def test_a_grid_of_the_paper_fits_on_a_page() -> None:
    models = [f"model {i}" for i in range(6)]
    plane = decision_map(small_lineup(models), [1.0, 0.5, 0.0, -0.5, -1.0], [0.0, 0.4, 0.8], replicates=10)
    figure = draw_heat_map_grid({f"graph {i}": plane for i in range(6)}, models)
    assert figure.get_figwidth() <= 7
    assert figure.get_figheight() <= 9.5
    assert min(text.get_fontsize() for text in figure.findobj(Text) if text.get_text()) >= 7
    boxes = [axes.get_window_extent() for axes in _cells(figure)]
    assert len(boxes) == 36
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


def test_a_model_without_a_reason_has_no_ranks() -> None:
    plane = decision_map(small_lineup(), [1.0], [0.0], replicates=10)
    cells = _cells(draw_heat_map_grid({"a": plane}, ["one", "lost"]))
    assert [text.get_text() for text in cells[1].texts] == ["no ranks"]
