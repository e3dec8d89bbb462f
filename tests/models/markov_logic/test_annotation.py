import numpy as np
import pytest

from kgprobe.models.markov_logic.annotation import probabilities


@pytest.mark.parametrize("scale", [0.01, 1.0, 50.0])
@pytest.mark.parametrize("facts", [0.5, 7.0, 19.5])
def test_as_many_facts_are_expected_as_are_asked_for(scale: float, facts: float) -> None:
    scores = np.random.default_rng(0).normal(size=20) * scale + 100
    likely = probabilities(scores, facts)
    assert likely.sum() == pytest.approx(facts, abs=1e-3)
    assert (np.diff(likely[np.argsort(scores)]) >= 0).all()


def test_all_scores_are_moved_alike() -> None:
    scores = np.random.default_rng(0).normal(size=20)
    likely = probabilities(scores, 7.0)
    assert np.ptp(np.log(likely / (1 - likely)) - scores) == pytest.approx(0, abs=1e-6)


def test_equal_scores_share_what_is_expected() -> None:
    assert probabilities(np.zeros(4), 1.0) == pytest.approx(np.full(4, 0.25))


@pytest.mark.parametrize(("facts", "each"), [(0, 0.0), (3, 1.0), (9, 1.0)])
def test_none_or_all_of_them(facts: float, each: float) -> None:
    assert probabilities(np.arange(3.0), facts).tolist() == [each] * 3
    assert probabilities(np.empty(0), facts).tolist() == []
