from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.patches import PathPatch

from figure_inputs import small_lineup
from kgprobe.compare import Lineup
from kgprobe.compare.decision import DecisionMap, decision_map
from kgprobe.report.figures.decision import cell_edges, draw_decision_map
from kgprobe.report.figures.geometry import paper_example
from kgprobe.report.figures.style import looks

ALPHAS, BETAS = np.linspace(1, -1, 9), np.linspace(0, 0.8, 5)


@pytest.fixture(scope="module")
def plane() -> DecisionMap:
    return decision_map(small_lineup(), ALPHAS, BETAS, replicates=200)


def test_every_cell_has_the_colour_of_its_winner(plane: DecisionMap) -> None:
    mesh = draw_decision_map(plane).axes[0].collections[0]
    shown = mesh.to_rgba(mesh.get_array())
    for i in range(len(ALPHAS)):
        for j in range(len(BETAS)):
            best = plane.models[int(plane.scores[:, i, j].argmax())]
            column = len(ALPHAS) - 1 - i  # alpha was given in descending order
            assert tuple(shown[j, column, :3]) == pytest.approx(to_rgb(looks(plane.models)[best].colour))


def test_cells_within_noise_are_hatched(plane: DecisionMap) -> None:
    axes = draw_decision_map(plane).axes[0]
    outlines = [patch.get_path() for patch in axes.patches if isinstance(patch, PathPatch)]
    inside = {
        (i, j)
        for i, alpha in enumerate(ALPHAS)
        for j, beta in enumerate(BETAS)
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
    made = decision_map(small_lineup(), ALPHAS, BETAS, replicates=10)
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
