import numpy as np
import pytest
from matplotlib.figure import Figure

from kgprobe.report.figures.axes import grid_axis, log_axis, place_of_zero


def _ticks(low: float, high: float, zero_at: float | None = None) -> dict[float, str]:
    axes = Figure().add_subplot()
    log_axis(axes, "y", low, high, zero_at=zero_at)
    return {tick: label.get_text() for tick, label in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)}


def test_a_long_axis_names_some_powers_and_always_one() -> None:
    assert _ticks(1e-7, 1) == {1e-6: "10⁻⁶", 1e-4: "10⁻⁴", 1e-2: "10⁻²", 1.0: "1"}


def test_zero_stands_below_the_smallest_value() -> None:
    values = np.array([0.0, 0.02, 0.5])
    zero = place_of_zero(values)
    assert zero == pytest.approx(0.02 / 3)
    assert list(_ticks(0.005, 1, zero).values()) == ["0", "10⁻¹", "1"]


def test_zero_has_no_place_where_nothing_is_zero_or_all_is() -> None:
    assert place_of_zero(np.array([0.1, 0.2])) is None
    assert place_of_zero(np.array([0.0, 0.0])) is None


@pytest.mark.parametrize(("count", "shown"), [(5, 5), (10, 10), (41, 5)])
def test_a_grid_names_all_cells_or_some(count: int, shown: int) -> None:
    axes = Figure().add_subplot()
    grid_axis(axes, "x", np.linspace(-1, 1, count).tolist())
    assert len(axes.get_xticks()) == shown
    assert axes.get_xticklabels()[0].get_text() == "\N{MINUS SIGN}1"
