import numpy as np
import pytest

import kgprobe as kp
from kgprobe.audit import model_skill
from kgprobe.audit.model_skill import QueryCells, Skills, is_outlier, outliers, skills_of, uncorrelated_models
from kgprobe.audit.view import prepare

SIZE = 6000


def world(models: int, seed: int, *, noise: float = 0.2) -> Skills:
    """Models that find the same queries hard, in 20 relations of different difficulty."""
    rng = np.random.default_rng(seed)
    relation = rng.integers(0, 20, SIZE)
    hard = rng.uniform(0.2, 0.8, 20)[relation] + rng.normal(0, 0.2, SIZE)
    scale = hard + rng.normal(0, noise, (models, SIZE))
    names = tuple(str(model) for model in range(models))
    return Skills(names, np.stack([scale, scale]), scale, relation, np.arange(SIZE) % 2 == 1)


def replaced(skills: Skills, model: int, values: np.ndarray) -> Skills:
    scales = skills.scales.copy()
    scales[:, model] = values
    return Skills(skills.models, scales, skills.reciprocal_rank, skills.relation, skills.predicts_tail)


def shuffled_in_cells(skills: Skills, model: int, rows: np.ndarray) -> np.ndarray:
    """The hardest fault to see: every relation and side keeps its values."""
    rng, values = np.random.default_rng(1), skills.scales[0, model].copy()
    for cell in range(len(skills.cells.size)):
        at = np.flatnonzero(rows & (skills.cells.which == cell))
        values[at] = values[rng.permutation(at)]
    return values


@pytest.mark.parametrize("models", [3, 4, 8])
def test_shuffled_values_are_found_and_nobody_else(models: int) -> None:
    for seed in range(10):
        skills = world(models, seed)
        assert list(uncorrelated_models(skills)) == []
        for side, rows in {
            "both": np.ones(SIZE, bool),
            "head": ~skills.predicts_tail,
            "tail": skills.predicts_tail,
        }.items():
            found = list(uncorrelated_models(replaced(skills, 1, shuffled_in_cells(skills, 1, rows))))
            assert [(one.model, one.side, one.queries) for one in found] == [(1, side, int(rows.sum()))]
            assert abs(found[0].own) < 0.1 < found[0].others == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("share", [0.6, 1.5])
def test_a_model_that_is_not_as_good_may_know_something_else(share: float) -> None:
    skills = world(4, 0)
    other = shuffled_in_cells(skills, 1, np.ones(SIZE, bool))
    assert [one.model for one in uncorrelated_models(replaced(skills, 1, other))] == [1]
    assert list(uncorrelated_models(replaced(skills, 1, other * share))) == []


def test_a_model_that_agrees_a_little_is_not_accused() -> None:
    skills = world(4, 0)
    other = shuffled_in_cells(skills, 1, np.ones(SIZE, bool))
    assert list(uncorrelated_models(replaced(skills, 1, 0.6 * other + 0.4 * skills.scales[0, 0]))) == []


def test_others_that_do_not_agree_are_no_witnesses() -> None:
    skills = world(4, 0, noise=0.5)
    assert list(uncorrelated_models(replaced(skills, 1, shuffled_in_cells(skills, 1, np.ones(SIZE, bool))))) == []


def test_few_models_and_few_queries_tell_nothing() -> None:
    skills = world(3, 0)
    odd = replaced(skills, 1, shuffled_in_cells(skills, 1, np.ones(SIZE, bool)))
    assert [one.model for one in uncorrelated_models(odd)] == [1]
    assert list(uncorrelated_models(odd.without(0))) == []
    few = np.arange(SIZE) < 900
    part = Skills(odd.models, odd.scales[:, :, few], odd.scales[0][:, few], odd.relation[few], odd.predicts_tail[few])
    assert list(uncorrelated_models(part)) == []


@pytest.mark.parametrize("varies", [0.0, 0.1])
def test_a_model_that_hardly_varies_leaves_nothing_to_agree_with(varies: float) -> None:
    skills = world(3, 0)
    noise = np.random.default_rng(1).normal(0, varies, SIZE)
    assert list(uncorrelated_models(replaced(skills, 2, skills.scales[0].mean() + noise))) == []
    found = uncorrelated_models(
        replaced(skills, 2, skills.scales[0].mean() + np.random.default_rng(1).normal(0, 0.25, SIZE))
    )
    assert [one.model for one in found] == [2]


CELLS, SIZE_OUTLIERS = 40, 60


def skill_in_cells(models: int, seed: int, *, level: float = 0.85) -> tuple[np.ndarray, QueryCells]:
    """Models that differ in level, and a little in every cell, on cells of different difficulty."""
    rng = np.random.default_rng(seed)
    which = np.repeat(np.arange(CELLS), SIZE_OUTLIERS)
    difficulty = rng.uniform(0.15, 0.9, CELLS)
    levels = rng.uniform(level, 1.0, models)
    means = levels[:, None] * difficulty + rng.normal(0, 0.03, (models, CELLS))
    scale = means[:, which] + rng.normal(0, 0.3, (models, CELLS * SIZE_OUTLIERS))
    return scale, QueryCells(np.arange(CELLS) // 2, np.arange(CELLS) % 2 == 1, which, np.full(CELLS, SIZE_OUTLIERS))


@pytest.mark.parametrize("models", [3, 4, 6, 12])
def test_sound_models_do_not_stand_apart(models: int) -> None:
    for seed in range(40):
        scale, cells = skill_in_cells(models, seed)
        in_cells, on_sides = outliers(scale, cells)
        assert not is_outlier((in_cells, in_cells), (0.3, 0.3), 3.4).any()
        assert not is_outlier((on_sides, on_sides), (0.1, 0.1), 3.4).any()


@pytest.mark.parametrize("models", [3, 4, 6, 12])
@pytest.mark.parametrize("shift", [-0.8, 0.7])
def test_one_odd_cell_is_found_and_nothing_else(models: int, shift: float) -> None:
    for seed in range(10):
        scale, cells = skill_in_cells(models, seed)
        at = np.abs(np.stack([cells.mean(row) for row in scale]).mean(axis=0) - (0.8 if shift < 0 else 0.25)).argmin()
        scale[1, cells.which == at] += shift
        in_cells, _ = outliers(scale, cells)
        assert np.argwhere(is_outlier((in_cells, in_cells), (0.3, 0.3), 3.4)).tolist() == [[1, at]]


def test_a_side_is_found_as_a_whole_even_where_it_is_level() -> None:
    scale, cells = skill_in_cells(5, 0)
    scale[2, cells.predicts_tail[cells.which]] = 0.0
    _, on_sides = outliers(scale, cells)
    assert np.argwhere(is_outlier((on_sides, on_sides), (0.2, 0.2), 3.4)).tolist() == [[2, 1]]
    assert on_sides.distance[2, 1] < 0


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_a_weak_model_is_expected_to_be_weak(share: float) -> None:
    scale, cells = skill_in_cells(5, 3)
    scale[4] *= share
    in_cells, on_sides = outliers(scale, cells)
    assert not is_outlier((in_cells, in_cells), (0.2, 0.2), 3.4)[4].any()
    assert not is_outlier((on_sides, on_sides), (0.1, 0.1), 3.4)[4].any()


def test_a_model_far_ahead_is_expected_to_be_ahead() -> None:
    scale, cells = skill_in_cells(5, 3, level=0.5)
    scale[4] = 1 - 0.2 * (1 - scale[4])
    in_cells, _ = outliers(scale, cells)
    assert not is_outlier((in_cells, in_cells), (0.3, 0.3), 3.4)[4].any()


def test_both_scales_must_agree() -> None:
    scale, cells = skill_in_cells(4, 0)
    odd = scale.copy()
    odd[0, cells.which == 7] -= 0.9
    sound, _ = outliers(scale, cells)
    apart_there, _ = outliers(odd, cells)
    assert is_outlier((apart_there, apart_there), (0.2, 0.2), 3.4)[0, 7]
    assert not is_outlier((apart_there, sound), (0.2, 0.2), 3.4)[0, 7]


def test_few_cells_tell_nothing() -> None:
    which = np.repeat([0, 1], 50)
    cells = QueryCells(np.array([0, 0]), np.array([False, True]), which, np.array([50, 50]))
    scale = np.random.default_rng(0).random((3, 100))
    scale[0, which == 1] = 9.0
    for standing in outliers(scale, cells):
        assert not is_outlier((standing, standing), (0.0, 0.0), 0.0).any()


def every_rank(candidates: int) -> kp.Ranks:
    """One query at each place."""
    n = np.arange(candidates)
    side = ["tail"] * candidates
    return kp.Ranks.from_columns(
        head=n, relation=n * 0, tail=n * 0, side=side, rank=n + 1, candidates=n * 0 + candidates
    )


@pytest.mark.parametrize("candidates", [5, 30, 2000])
def test_chance_is_0_and_the_first_place_1_on_both_scales(candidates: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_skill, "_ABLE", -1.0)
    skills = skills_of(prepare({"mine": every_rank(candidates)}, None))
    assert skills.scales.mean(axis=2) == pytest.approx(0, abs=1e-12)
    assert skills.scales.max(axis=2) == pytest.approx(1)
    assert skills.reciprocal_rank.max() == 1


def test_models_at_chance_and_models_with_intervals_are_no_witnesses(umls, on_umls) -> None:
    lists = kp.Ranks.from_columns(
        head=[0], relation=[0], tail=[1], side=["tail"], rank=[2], worst_rank=[9], candidates=[9]
    )
    files = {"random": kp.rank("random", umls), "CP": on_umls["CP"], "lists": lists}
    assert skills_of(prepare(files, umls)).models == ("CP",)


def test_cells_are_relations_by_side(on_umls) -> None:
    skills = skills_of(prepare(on_umls, None))
    cells = skills.cells
    for cell in range(0, len(cells.size), 9):
        members = (skills.relation == cells.relation[cell]) & (skills.predicts_tail == cells.predicts_tail[cell])
        assert np.array_equal(cells.which == cell, members)
        assert cells.size[cell] == members.sum()
        assert cells.mean(skills.scales[0, 0])[cell] == pytest.approx(skills.scales[0, 0, members].mean())


def test_without_a_model_the_others_stay(on_umls) -> None:
    skills = skills_of(prepare(on_umls, None))
    rest = skills.without(1)
    assert rest.models == ("frequency", "CP again", "RESCAL")
    assert np.array_equal(rest.scales, skills.scales[:, [0, 2, 3]])
