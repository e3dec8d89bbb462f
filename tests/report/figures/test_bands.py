import numpy as np
import pytest

from figure_inputs import small_lineup
from kgprobe.compare.decision import decision_map
from kgprobe.errors import UsageError
from kgprobe.report.figures.bands import draw_bands

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
