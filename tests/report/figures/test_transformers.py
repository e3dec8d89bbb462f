import math

import numpy as np
import pytest

from kgprobe.errors import UsageError
from kgprobe.report.figures.transformers import draw_transformers


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
