import numpy as np
import pytest

from kgprobe.compare.audit.agreement import strangers
from kgprobe.compare.audit.skill import Skills

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
        assert list(strangers(skills)) == []
        for side, rows in {
            "both": np.ones(SIZE, bool),
            "head": ~skills.predicts_tail,
            "tail": skills.predicts_tail,
        }.items():
            found = list(strangers(replaced(skills, 1, shuffled_in_cells(skills, 1, rows))))
            assert [(one.model, one.side, one.queries) for one in found] == [(1, side, int(rows.sum()))]
            assert abs(found[0].own) < 0.1 < found[0].others == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("share", [0.6, 1.5])
def test_a_model_that_is_not_as_good_may_know_something_else(share: float) -> None:
    skills = world(4, 0)
    other = shuffled_in_cells(skills, 1, np.ones(SIZE, bool))
    assert [one.model for one in strangers(replaced(skills, 1, other))] == [1]
    assert list(strangers(replaced(skills, 1, other * share))) == []


def test_a_model_that_agrees_a_little_is_not_accused() -> None:
    skills = world(4, 0)
    other = shuffled_in_cells(skills, 1, np.ones(SIZE, bool))
    assert list(strangers(replaced(skills, 1, 0.6 * other + 0.4 * skills.scales[0, 0]))) == []


def test_others_that_do_not_agree_are_no_witnesses() -> None:
    skills = world(4, 0, noise=0.5)
    assert list(strangers(replaced(skills, 1, shuffled_in_cells(skills, 1, np.ones(SIZE, bool))))) == []


def test_few_models_and_few_queries_tell_nothing() -> None:
    skills = world(3, 0)
    odd = replaced(skills, 1, shuffled_in_cells(skills, 1, np.ones(SIZE, bool)))
    assert [one.model for one in strangers(odd)] == [1]
    assert list(strangers(odd.without(0))) == []
    few = np.arange(SIZE) < 900
    part = Skills(odd.models, odd.scales[:, :, few], odd.scales[0][:, few], odd.relation[few], odd.predicts_tail[few])
    assert list(strangers(part)) == []


@pytest.mark.parametrize("varies", [0.0, 0.1])
def test_a_model_that_hardly_varies_leaves_nothing_to_agree_with(varies: float) -> None:
    skills = world(3, 0)
    noise = np.random.default_rng(1).normal(0, varies, SIZE)
    assert list(strangers(replaced(skills, 2, skills.scales[0].mean() + noise))) == []
    found = strangers(replaced(skills, 2, skills.scales[0].mean() + np.random.default_rng(1).normal(0, 0.25, SIZE)))
    assert [one.model for one in found] == [2]
