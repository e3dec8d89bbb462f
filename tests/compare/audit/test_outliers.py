import numpy as np
import pytest

from kgprobe.compare.audit.outliers import apart, standings
from kgprobe.compare.audit.skill import Cells

CELLS, SIZE = 40, 60


def world(models: int, seed: int, *, level: float = 0.85) -> tuple[np.ndarray, Cells]:
    """Models that differ in level, and a little in every cell, on cells of different difficulty."""
    rng = np.random.default_rng(seed)
    which = np.repeat(np.arange(CELLS), SIZE)
    difficulty = rng.uniform(0.15, 0.9, CELLS)
    levels = rng.uniform(level, 1.0, models)
    means = levels[:, None] * difficulty + rng.normal(0, 0.03, (models, CELLS))
    scale = means[:, which] + rng.normal(0, 0.3, (models, CELLS * SIZE))
    return scale, Cells(np.arange(CELLS) // 2, np.arange(CELLS) % 2 == 1, which, np.full(CELLS, SIZE))


@pytest.mark.parametrize("models", [3, 4, 6, 12])
def test_sound_models_do_not_stand_apart(models: int) -> None:
    for seed in range(40):
        scale, cells = world(models, seed)
        in_cells, on_sides = standings(scale, cells)
        assert not apart((in_cells, in_cells), (0.3, 0.3), 3.4).any()
        assert not apart((on_sides, on_sides), (0.1, 0.1), 3.4).any()


@pytest.mark.parametrize("models", [3, 4, 6, 12])
@pytest.mark.parametrize("shift", [-0.8, 0.7])
def test_one_odd_cell_is_found_and_nothing_else(models: int, shift: float) -> None:
    for seed in range(10):
        scale, cells = world(models, seed)
        at = np.abs(np.stack([cells.mean(row) for row in scale]).mean(axis=0) - (0.8 if shift < 0 else 0.25)).argmin()
        scale[1, cells.which == at] += shift
        in_cells, _ = standings(scale, cells)
        assert np.argwhere(apart((in_cells, in_cells), (0.3, 0.3), 3.4)).tolist() == [[1, at]]


def test_a_side_is_found_as_a_whole_even_where_it_is_level() -> None:
    scale, cells = world(5, 0)
    scale[2, cells.predicts_tail[cells.which]] = 0.0
    _, on_sides = standings(scale, cells)
    assert np.argwhere(apart((on_sides, on_sides), (0.2, 0.2), 3.4)).tolist() == [[2, 1]]
    assert on_sides.distance[2, 1] < 0


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_a_weak_model_is_expected_to_be_weak(share: float) -> None:
    scale, cells = world(5, 3)
    scale[4] *= share
    in_cells, on_sides = standings(scale, cells)
    assert not apart((in_cells, in_cells), (0.2, 0.2), 3.4)[4].any()
    assert not apart((on_sides, on_sides), (0.1, 0.1), 3.4)[4].any()


def test_a_model_far_ahead_is_expected_to_be_ahead() -> None:
    scale, cells = world(5, 3, level=0.5)
    scale[4] = 1 - 0.2 * (1 - scale[4])
    in_cells, _ = standings(scale, cells)
    assert not apart((in_cells, in_cells), (0.3, 0.3), 3.4)[4].any()


def test_both_scales_must_agree() -> None:
    scale, cells = world(4, 0)
    odd = scale.copy()
    odd[0, cells.which == 7] -= 0.9
    sound, _ = standings(scale, cells)
    apart_there, _ = standings(odd, cells)
    assert apart((apart_there, apart_there), (0.2, 0.2), 3.4)[0, 7]
    assert not apart((apart_there, sound), (0.2, 0.2), 3.4)[0, 7]


def test_few_cells_tell_nothing() -> None:
    which = np.repeat([0, 1], 50)
    cells = Cells(np.array([0, 0]), np.array([False, True]), which, np.array([50, 50]))
    scale = np.random.default_rng(0).random((3, 100))
    scale[0, which == 1] = 9.0
    for standing in standings(scale, cells):
        assert not apart((standing, standing), (0.0, 0.0), 0.0).any()
