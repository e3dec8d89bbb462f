import numpy as np
import pytest

from kgprobe.compare.audit.blunders import blunders
from kgprobe.compare.audit.skill import Skills

SIZE = 4000


def world(models: int, *, fail: float, queries: int = 400) -> Skills:
    """Models that find everything easy, of which the last fails at a share of the tails of relation 0."""
    rng = np.random.default_rng(0)
    relation = np.where(np.arange(SIZE) < 2 * queries, 0, 1 + np.arange(SIZE) % 9)
    tail = np.arange(SIZE) % 2 == 1
    scale = rng.uniform(0.75, 1, (models, SIZE))
    at = np.flatnonzero((relation == 0) & tail)
    scale[-1, at[: int(fail * len(at))]] = 0.1
    return Skills(tuple("abcdef"[:models]), np.stack([scale, scale]), scale, relation, tail)


@pytest.mark.parametrize("models", [3, 6])
def test_a_relation_of_which_half_is_random(models: int) -> None:
    (found,) = blunders(world(models, fail=0.5))
    assert (found.model, found.cell, found.easy, found.share, found.elsewhere) == (models - 1, 1, 400, 0.5, 0.0)


SOUND = {
    "too few fail": world(4, fail=0.3),
    "too few queries": world(4, fail=0.5, queries=90),
    "two models": world(2, fail=0.5),
}


@pytest.mark.parametrize("name", SOUND)
def test_what_is_not_enough(name: str) -> None:
    assert list(blunders(SOUND[name])) == []


def test_a_model_that_fails_elsewhere_too_is_weak() -> None:
    skills = world(4, fail=0.5)
    skills.scales[:, -1, ::20] = 0.1
    assert list(blunders(skills)) == []


def test_queries_that_are_hard_for_one_other_model_do_not_count() -> None:
    skills = world(4, fail=0.5)
    skills.scales[:, 0, skills.relation == 0] = 0.5
    assert list(blunders(skills)) == []
