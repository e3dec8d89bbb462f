import math

import numpy as np
import pytest

from kgprobe.errors import UsageError
from kgprobe.report.figures.function_figures import draw_transformers, draw_weight_surface, draw_weights


def _curves(axes) -> dict[float, tuple[np.ndarray, np.ndarray]]:
    return {
        float(line.get_label().split(" = ")[1].replace("\N{MINUS SIGN}", "-")): (line.get_xdata(), line.get_ydata())
        for line in axes.lines
    }


@pytest.mark.parametrize("candidates", [2, 50, 1000, 40_943])
def test_curves_are_the_papers_formulas(candidates: int) -> None:
    raw, affine = draw_transformers([2.0, 0.5, 0.0, -1.0], candidates).axes
    for alpha, (rank, score) in _curves(raw).items():
        np.testing.assert_allclose(score, rank**-alpha, rtol=1e-12)
    for alpha, (rank, score) in _curves(affine).items():
        last = candidates**-alpha
        wanted = (rank**-alpha - last) / (1 - last) if alpha else 1 - np.log(rank) / math.log(candidates)
        np.testing.assert_allclose(score, wanted, rtol=1e-9, atol=1e-12)
        assert (rank[0], rank[-1]) == (1, candidates)


def test_the_raw_panel_leaves_out_what_rises() -> None:
    raw, affine = draw_transformers([1.0, -0.5]).axes
    assert list(_curves(raw)) == [1.0]
    assert list(_curves(affine)) == [1.0, -0.5]


def test_ranks_are_on_a_logarithmic_axis_named_in_full() -> None:
    axes = draw_transformers().axes[0]
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "10", "100", "1,000"]


def test_more_curves_than_anybody_can_read_are_refused() -> None:
    with pytest.raises(UsageError, match="13 curves"):
        draw_transformers(np.linspace(0, 1, 13).tolist())


@pytest.mark.parametrize("eps", [1e-5, 0.01])
def test_curves_are_the_papers_weights_relative_to_popularity_1(eps: float) -> None:
    betas = [0.0, 0.4, 0.8]
    (axes,) = draw_weights(betas, eps).axes
    for beta, line in zip(betas, axes.lines, strict=True):
        popularity = line.get_xdata()
        np.testing.assert_allclose(line.get_ydata(), ((eps + 1) / (eps + popularity)) ** beta, rtol=1e-12)
    assert axes.get_xscale() == axes.get_yscale() == "log"


def test_surfaces_are_products_of_both_weights() -> None:
    betas, eps = [0.0, 0.1, 0.8], 1e-5
    figure = draw_weight_surface(betas, eps)
    for axes, beta in zip(figure.axes, betas, strict=False):
        mesh = axes.collections[0]
        edges = mesh.get_coordinates()[0, :, 0]
        assert (edges[0], edges[-1]) == pytest.approx((1e-5, 1))
        centre = np.sqrt(edges[1:] * edges[:-1])
        one = ((eps + 1) / (eps + centre)) ** beta
        np.testing.assert_allclose(mesh.get_array(), np.outer(one, one), rtol=1e-9)


def test_panels_share_one_scale_of_colours() -> None:
    meshes = [axes.collections[0] for axes in draw_weight_surface([0.0, 0.8]).axes[:2]]
    assert meshes[0].norm.vmin == meshes[1].norm.vmin == 1
    assert meshes[0].norm.vmax == meshes[1].norm.vmax == meshes[1].get_array().max()


def test_negative_betas_can_be_drawn() -> None:
    mesh = draw_weight_surface([-0.5]).axes[0].collections[0]
    assert mesh.get_array().max() < 1
    assert draw_weights([-0.5]).axes[0].lines[0].get_ydata().max() <= 1 + 1e-12
