import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.models.registry import MODELS
from kgprobe.train.defaults import RECIPES, Size, defaults
from kgprobe.train.setting_sources import from_values
from kgprobe.train.settings import resolve

SIZES = [
    Size(2, 1, 0),
    Size(104, 3206, 2137),
    Size(3007, 23_483, 2038),
    Size(14_541, 272_115, 17_535),
    Size(123_182, 1_079_040, 5000),
    Size(10**7, 10**9, 10**6),
]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_defaults_make_sense_for_every_model_and_size(model: str, size: Size) -> None:
    settings = resolve(model, [from_values("defaults", defaults(model, size))]).settings
    assert settings.epochs // settings.validate_every <= 80
    assert settings.batch_size <= 1024


def test_every_model_has_a_recipe() -> None:
    assert set(RECIPES) == set(MODELS)


@given(st.sampled_from(sorted(MODELS)), st.integers(1, 10**8), st.integers(1, 10**8))
def test_more_facts_make_larger_steps_that_are_more_careful(model: str, one: int, other: int) -> None:
    few, many = (defaults(model, Size(5000, facts, 0)) for facts in sorted((one, other)))
    assert few["batch_size"] <= many["batch_size"]
    assert few["learning_rate"] >= many["learning_rate"]


def test_a_tiny_graph_is_trained_against_all_its_entities() -> None:
    tiny, small = (defaults("RotatE", Size(entities, 2000, 0))["objective"] for entities in (135, 3007))
    assert (tiny, small) == ("one_vs_all", "negative_sampling")


def test_many_validation_facts_are_sampled() -> None:
    few, many = (defaults("TransE", Size(5000, 10**5, valid))["validation_facts"] for valid in (5000, 17_535))
    assert few == 0
    assert 0 < many < 17_535
