import numpy as np
import pytest

from kgprobe.report.figures.weights import draw_weight_surface, draw_weights


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
