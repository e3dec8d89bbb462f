import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.aggregate import CandidateWeight, PopularityWeight, StratumWeight, Uniform
from kgprobe.aggregate.weights import Extremes, settle
from kgprobe.errors import DataError, UsageError
from kgprobe.metrics import RankAccumulator, evaluate, parse
from support import random_ranks, tables, take, with_columns

PROBE = parse("PROBE(alpha=0.5,beta=0.7)")

WANTED = [(PROBE.weighting, PROBE.fewest_candidates)]


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.sampled_from([0.0, 0.001, 0.2, 0.7, 1.0]), max_size=4), max_size=4),
)
def test_extremes_do_not_depend_on_the_batches(batches):
    joined = Extremes()
    for batch in batches:
        joined = joined.joined(np.array(batch, dtype=float))
    values = [value for batch in batches for value in batch]
    positive = [value for value in values if value > 0]
    assert joined.values == {f(some) for f, some in ((min, values), (max, values), (min, positive)) if some}


@settings(max_examples=40)
@given(tables(), st.floats(-2, 2), st.floats(-2, 2), st.sampled_from([None, 0.01]))
def test_batch_by_batch_the_weights_are_those_of_the_whole(ranks, beta_e, beta_r, eps):
    weighting = PopularityWeight(beta_e, beta_r, eps, eps)
    if not weighting.columns:
        return
    columns = {name: ranks.numbers(name) for name in weighting.columns}
    whole = weighting.weights(columns, np.ones(len(ranks)))
    (settled,) = settle(ranks, [(weighting, True)])
    rows = [settled({name: column[[i]] for name, column in columns.items()}).item() for i in range(len(ranks))]
    assert np.array(rows) / np.sum(rows) == pytest.approx(whole / whole.sum(), rel=1e-12)
    assert max(rows) <= 1 + 1e-12


def test_queries_that_do_not_count_set_no_reference():
    ranks = with_columns(
        random_ranks(3), candidates=[1, 90, 90], rank=[1.0, 2.0, 3.0], ties=[0] * 3, entity_popularity=[0.001, 0.2, 0.3]
    )
    weighting = PopularityWeight(1.0, 0.0)
    several, all_of_them = settle(ranks, [(weighting, 2), (weighting, 1)])
    assert sorted(set(several.reference["entity_popularity"].tolist())) == [0.2, 0.3]
    assert sorted(set(all_of_them.reference["entity_popularity"].tolist())) == [0.001, 0.3]


def test_an_accumulator_with_settled_weights_gives_what_one_without_gives():
    ranks = random_ranks(60, smallest=1, runs=2)
    known = settle(ranks, WANTED)
    with_them, without = RankAccumulator([PROBE], settled=known), RankAccumulator([PROBE])
    for start in range(0, 60, 7):
        for accumulator in (with_them, without):
            accumulator.update(take(ranks, range(start, min(start + 7, 60))))
    assert with_them.compute() == pytest.approx(without.compute(), rel=1e-13)
    assert with_them.compute() == pytest.approx(evaluate(ranks, [PROBE]), rel=1e-13)
    assert [s.effective for s in with_them.scores()] == pytest.approx(
        [s.effective for s in without.scores()], rel=1e-12
    )


def test_parts_that_looked_at_different_tables_do_not_merge():
    parts = [random_ranks(20, seed=1), with_columns(random_ranks(20, seed=2), entity_popularity=[0.7] * 20)]
    one, other = (RankAccumulator([PROBE], settled=settle(part, WANTED)) for part in parts)
    with pytest.raises(UsageError, match="different settings"):
        one.merge(other)
    one.merge(RankAccumulator([PROBE], settled=settle(parts[0], WANTED)))


ENTITY, RELATION = np.array([0.0, 0.1, 0.4, 0.4]), np.array([0.2, 0.0, 1.0, 0.5])

BOTH = {"entity_popularity": ENTITY, "relation_popularity": RELATION}

ONCE = np.ones(4)


def ratios(weights: np.ndarray) -> list[float]:
    """Weights are given up to a factor: relative to the last one."""
    return (weights / weights[-1]).tolist()


def test_uniform():
    assert Uniform().columns == ()
    assert Uniform().weights({}, ONCE).tolist() == [1, 1, 1, 1]


def test_popularity_weight_is_equation_3():
    found = PopularityWeight(0.5, 2.0, eps_e=0.01, eps_r=0.03).weights(BOTH, ONCE)
    wanted = (0.01 + ENTITY) ** -0.5 * (0.03 + RELATION) ** -2.0
    assert ratios(found) == pytest.approx(ratios(wanted), rel=1e-14)


def test_default_epsilon_is_the_smallest_popularity_above_zero():
    found = PopularityWeight(1.0, 1.0).weights(BOTH, ONCE)
    wanted = PopularityWeight(1.0, 1.0, eps_e=0.1, eps_r=0.2).weights(BOTH, ONCE)
    assert found.tolist() == wanted.tolist()


def test_queries_that_do_not_count_do_not_set_epsilon():
    count = np.array([1.0, 0.0, 1.0, 1.0])
    found = PopularityWeight(1.0, 0.0).weights({"entity_popularity": ENTITY}, count)[count > 0]
    wanted = (0.4 + ENTITY[count > 0]) ** -1
    assert ratios(found) == pytest.approx(ratios(wanted), rel=1e-14)


@pytest.mark.parametrize(
    ("weighting", "columns"),
    [
        (PopularityWeight(0, 0), ()),
        (PopularityWeight(1, 0), ("entity_popularity",)),
        (PopularityWeight(0, 1), ("relation_popularity",)),
        (PopularityWeight(1, 1), ("entity_popularity", "relation_popularity")),
        (StratumWeight(0, 0), ()),
        (StratumWeight(1, 1), ("entity_popularity", "relation")),
        (CandidateWeight(), ("candidates",)),
    ],
)
def test_a_weighting_asks_only_for_what_it_uses(weighting, columns):
    assert weighting.columns == columns


def test_beta_zero_is_uniform():
    assert PopularityWeight(0.0, 0.0).weights({}, ONCE).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("beta", [1e4, -1e4])
def test_no_weight_overflows(beta):
    found = PopularityWeight(beta, beta).weights(BOTH, ONCE)
    assert found.max() == 1
    assert np.isfinite(found).all()


@settings(max_examples=60)
@given(st.floats(-2, 2), st.lists(st.floats(1e-6, 1), min_size=2, max_size=8))
def test_rarer_weighs_more_where_beta_is_positive(beta, popularity):
    found = PopularityWeight(beta, 0.0).weights({"entity_popularity": np.array(popularity)}, np.ones(len(popularity)))
    rising = found[np.argsort(popularity)] * (1 if beta <= 0 else -1)
    assert (np.diff(rising) >= -1e-12).all()
    assert 0 < found.min() <= found.max() == 1


def test_epsilon_zero_with_popularity_zero_is_refused():
    with pytest.raises(DataError, match="infinite weight"):
        PopularityWeight(1.0, 0.0, eps_e=0.0).weights({"entity_popularity": ENTITY}, ONCE)


def test_epsilon_zero_is_fine_where_every_popularity_is_positive():
    found = PopularityWeight(1.0, 0.0, eps_e=0.0).weights({"entity_popularity": ENTITY[1:]}, np.ones(3))
    assert found == pytest.approx([1, 0.25, 0.25], rel=1e-14)


def test_epsilon_zero_is_fine_where_the_unpopular_query_does_not_count():
    count = np.array([0.0, 1.0, 1.0, 1.0])
    found = PopularityWeight(1.0, 0.0, eps_e=0.0).weights({"entity_popularity": ENTITY}, count)
    assert ratios(found[1:]) == pytest.approx([4, 1, 1], rel=1e-14)


def test_no_popularity_above_zero_leaves_no_default():
    with pytest.raises(DataError, match="entity popularity above 0"):
        PopularityWeight(1.0, 0.0).weights({"entity_popularity": np.zeros(2)}, np.ones(2))


def test_unknown_popularity_is_refused():
    with pytest.raises(DataError, match="relation popularity is not recorded"):
        PopularityWeight(0.0, 1.0, eps_r=0.1).weights({"relation_popularity": np.array([0.1, np.nan])}, np.ones(2))


def test_stratum_weight_counts_the_queries_of_a_relation():
    # relation 7 has 1 + 3 queries in two cells, relation 9 has 9
    columns = {"relation": np.array([7.0, 9.0, 7.0])}
    found = StratumWeight(0.0, 0.5).weights(columns, np.array([1.0, 9.0, 3.0]))
    assert ratios(found) == pytest.approx([1, 2 / 3, 1], rel=1e-14)


def test_stratum_weight_of_the_entity_is_shifted_like_the_popularity_weight():
    columns = {"entity_popularity": ENTITY}
    assert (StratumWeight(0.7, 0.0).weights(columns, ONCE) == PopularityWeight(0.7, 0.0).weights(columns, ONCE)).all()


def test_stratum_weight_multiplies_both():
    columns = {"entity_popularity": ENTITY, "relation": np.array([1.0, 1.0, 1.0, 2.0])}
    found = StratumWeight(1.0, 1.0).weights(columns, ONCE)
    wanted = 1 / (ENTITY + 0.1) / np.array([3, 3, 3, 1])
    assert ratios(found) == pytest.approx(ratios(wanted), rel=1e-14)


def test_candidate_weight_is_the_number_of_wrong_candidates():
    columns = {"candidates": np.array([2.0, 10.0])}
    assert CandidateWeight().weights(columns, np.ones(2)).tolist() == [1, 9]
    found = CandidateWeight(in_log=True).weights(columns, np.ones(2))
    assert found == pytest.approx([np.log(2), 9 * np.log(10)], rel=1e-15)
