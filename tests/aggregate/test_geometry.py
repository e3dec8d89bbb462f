import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.aggregate import CandidateWeight, Geometry, PopularityWeight, Uniform
from kgprobe.errors import DataError
from kgprobe.metrics import evaluate, parse, scores
from kgprobe.transform import AffinePower, Power
from support import random_ranks, tables, with_columns


@settings(max_examples=50)
@given(tables(smallest=1), st.sampled_from([1.0, 0.0, -1.0, 0.4]), st.floats(-2, 2), st.floats(-2, 2))
def test_probe_is_an_inner_product_with_weights_that_sum_to_one(ranks, alpha, beta_e, beta_r):
    geometry = Geometry.of(ranks, AffinePower(alpha), PopularityWeight(beta_e, beta_r))
    metric = parse(f"PROBE(alpha={alpha},beta_e={beta_e!r},beta_r={beta_r!r})")
    (score,) = scores(ranks, [metric])
    assert geometry.weights.sum() == pytest.approx(1, abs=1e-14)
    assert (geometry.weights >= 0).all()
    assert geometry.value == pytest.approx(score.value, rel=1e-12, abs=1e-14)
    assert geometry.contributions.sum() == pytest.approx(geometry.value, rel=1e-12, abs=1e-14)
    assert geometry.effective_queries == pytest.approx(score.effective, rel=1e-12)
    assert 1 - 1e-12 <= geometry.effective_queries <= score.queries + 1e-9
    assert len(geometry.scores) == score.queries


def test_uniform_weights_have_as_many_effective_queries_as_there_are():
    assert Geometry.of(random_ranks(37), Power(1.0), Uniform()).effective_queries == pytest.approx(37, rel=1e-14)


def test_candidate_weights():
    ranks = random_ranks(30)
    geometry = Geometry.of(ranks, AffinePower(0.0), CandidateWeight(in_log=True))
    assert geometry.value == pytest.approx(evaluate(ranks, ["nWMR"])["nWMR"], rel=1e-12)


def test_a_single_candidate_is_left_out_only_where_it_says_nothing():
    ranks = with_columns(random_ranks(2, smallest=9), rank=[1.0, 1.0], ties=[0, 0], candidates=[1, 9])
    assert Geometry.of(ranks, AffinePower(1.0), Uniform()).scores.tolist() == [1.0]
    assert Geometry.of(ranks, Power(1.0), Uniform()).scores.tolist() == [1.0, 1.0]


def test_the_cosine_is_one_where_scores_and_weights_are_parallel():
    ranks = with_columns(random_ranks(4, smallest=9), rank=[2.0] * 4, ties=[0] * 4)
    assert Geometry.of(ranks, Power(1.0), Uniform()).cosine == pytest.approx(1, abs=1e-14)
    worst = with_columns(random_ranks(2), rank=[9.0, 9.0], ties=[0, 0], candidates=[9, 9])
    assert Geometry.of(worst, AffinePower(1.0), Uniform()).cosine == 0


@pytest.mark.parametrize("eps", [None, 0.1])
def test_missing_popularity_is_refused_not_spread(eps):
    ranks = with_columns(random_ranks(3), entity_popularity=pa.array([0.1, None, 0.2]))
    with pytest.raises(DataError, match="entity popularity is not recorded"):
        Geometry.of(ranks, AffinePower(1.0), PopularityWeight(1.0, 0.0, eps_e=eps))


def test_the_example_of_the_paper_by_hand():
    ranks = with_columns(
        random_ranks(3),
        rank=[1.0, 2.0, 300.0],
        ties=[0, 0, 0],
        candidates=[1000] * 3,
        entity_popularity=[0.5, 0.5, 0.1],
        relation_popularity=[0.8, 0.8, 0.25],
    )
    geometry = Geometry.of(ranks, AffinePower(1.0), PopularityWeight(0.8, 0.8, eps_e=1e-5, eps_r=1e-5))
    scores_by_hand = (np.array([1, 1 / 2, 1 / 300]) - 1 / 1000) / (1 - 1 / 1000)
    weights_by_hand = (np.array([0.5, 0.5, 0.1]) + 1e-5) ** -0.8 * (np.array([0.8, 0.8, 0.25]) + 1e-5) ** -0.8
    assert geometry.scores == pytest.approx(scores_by_hand, rel=1e-13)
    assert geometry.weights == pytest.approx(weights_by_hand / weights_by_hand.sum(), rel=1e-13)
