from pathlib import Path

import numpy as np
import pytest

from figure_inputs import small_lineup
from kgprobe import load_graph, read_ranks, surface
from kgprobe.compare import line_up
from kgprobe.compare.decision import decision_map
from kgprobe.report.figures.heat_maps import draw_heat_maps

ALPHAS, BETAS = [1.0, 0.0, -1.0], [0.8, 0.0]


def _panels(figure) -> dict[str, np.ndarray]:
    return {axes.get_title(): np.asarray(axes.images[0].get_array()) for axes in figure.axes if axes.images}


def test_panels_are_scores_between_the_worst_and_the_best_model() -> None:
    lineup = small_lineup()
    panels = _panels(draw_heat_maps(decision_map(lineup, ALPHAS, BETAS, replicates=10)))
    values = np.stack([np.mean([surface(run, ALPHAS, BETAS) for run in runs], axis=0) for runs in lineup.runs.values()])
    wanted = (values - values.min(axis=0)) / np.ptp(values, axis=0)
    for model, panel in zip(lineup.models, wanted, strict=True):
        np.testing.assert_allclose(panels[model], panel[::-1, ::-1].T, atol=1e-9)
    every = np.stack(list(panels.values()))
    assert (every.min(axis=0) == 0).all()
    assert (every.max(axis=0) == 1).all()


def test_axes_ascend_whatever_the_order_given() -> None:
    axes = draw_heat_maps(decision_map(small_lineup(), ALPHAS, BETAS, replicates=10)).axes[0]
    assert [label.get_text().replace("\N{MINUS SIGN}", "-") for label in axes.get_xticklabels()] == ["-1", "0", "1"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0", "0.8"]
    assert axes.get_ylim()[0] < axes.get_ylim()[1]


def test_few_cells_are_written_out_and_many_are_not() -> None:
    lineup = small_lineup()
    few = draw_heat_maps(decision_map(lineup, ALPHAS, BETAS, replicates=10)).axes[0]
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
