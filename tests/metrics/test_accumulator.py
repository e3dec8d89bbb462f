import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe import DataError, RankAccumulator, UsageError, evaluate, parse, scores
from kgprobe.aggregate import parse_groupings
from kgprobe.metrics.base import DistributionMetric
from support import EVERYTHING, random_ranks, tables, take, with_columns

FIT_FOR_EXPECTATION = [name for name in EVERYTHING if not isinstance(parse(name), DistributionMetric)]


def learned(names, ranks):
    groupings = parse_groupings(names)
    for grouping in groupings:
        grouping.learn(ranks)
    return groupings


def assert_same_scores(found, wanted):
    assert [(s.metric, s.group, s.seeds, s.queries, s.left_out) for s in found] == [
        (s.metric, s.group, s.seeds, s.queries, s.left_out) for s in wanted
    ]
    for one, other in zip(found, wanted, strict=True):
        # A spread of 0 between seeds is rounding noise, so it is held against the value.
        scale = 1e-12 * max(1.0, abs(other.value)) if math.isfinite(other.value) else 0
        assert one.value == pytest.approx(other.value, rel=1e-12, abs=scale, nan_ok=True), one.metric
        assert one.effective == pytest.approx(other.effective, rel=1e-12, nan_ok=True), one.metric
        assert (one.std is None) == (other.std is None)
        if one.std is not None:
            assert one.std == pytest.approx(other.std, rel=1e-9, abs=10 * scale, nan_ok=True), one.metric


@settings(max_examples=40)
@given(
    tables(smallest=1, runs=2, most_rows=16),
    st.lists(st.integers(0, 3), min_size=16, max_size=16),
    st.permutations(range(4)),
    st.sampled_from([None, "relation", "entity", "side"]),
    st.sampled_from(["mean", "expected", "optimistic", "pessimistic"]),
    st.sampled_from([None, "weight"]),
    st.sampled_from([(), ("kind",), ("relation", "popularity:3"), ("side", "candidates:2")]),
)
def test_any_partition_in_any_order_gives_what_evaluate_gives(ranks, part_of, order, macro, tie, weight, by):
    names = FIT_FOR_EXPECTATION if tie == "expected" else EVERYTHING
    wanted = scores(ranks, names, by=by, macro=macro, tie=tie, weight=weight)

    total = RankAccumulator(names, by=learned(by, ranks), macro=macro, tie=tie, weight=weight)
    for part in order:
        own = RankAccumulator(names, by=learned(by, ranks), macro=macro, tie=tie, weight=weight)
        rows = [i for i in range(len(ranks)) if part_of[i] == part]
        for chunk in (rows[::2], rows[1::2]):
            own.update(take(ranks, chunk))
        total.merge(own)
    assert_same_scores(total.scores(), wanted)


def test_row_by_row_equals_all_at_once():
    ranks = random_ranks(60, smallest=1, runs=3)
    accumulator = RankAccumulator(EVERYTHING)
    for row in np.random.default_rng(0).permutation(60).tolist():
        accumulator.update(take(ranks, [row]))
    assert accumulator.compute() == pytest.approx(evaluate(ranks, EVERYTHING), rel=1e-12)


def test_default_epsilon_is_that_of_all_parts_together():
    """Alone, each part would choose another epsilon."""
    ranks = with_columns(
        random_ranks(4), entity_popularity=[0.5, 0.4, 0.001, 0.002], relation_popularity=[1.0, 0.9, 0.01, 0.02]
    )
    first, second = (RankAccumulator(["PROBE(alpha=1,beta=1)"]) for _ in range(2))
    first.update(take(ranks, [0, 1]))
    second.update(take(ranks, [2, 3]))
    first.merge(second)
    assert first.compute() == pytest.approx(evaluate(ranks, ["PROBE(alpha=1,beta=1)"]), rel=1e-13)


def test_compute_can_be_called_between_updates():
    ranks = random_ranks(20)
    accumulator = RankAccumulator(["MRR", "PROBE(alpha=0,beta=0.5)"])
    accumulator.update(take(ranks, range(10)))
    assert accumulator.compute() == pytest.approx(evaluate(take(ranks, range(10)), accumulator.metrics), rel=1e-13)
    accumulator.update(take(ranks, range(10, 20)))
    assert accumulator.compute() == pytest.approx(evaluate(ranks, accumulator.metrics), rel=1e-13)
    assert accumulator.compute() == accumulator.compute()


def test_reset_forgets_everything():
    accumulator = RankAccumulator(["MRR", "MedianRank"])
    accumulator.update(random_ranks(20, seed=1))
    accumulator.reset()
    assert all(math.isnan(value) for value in accumulator.compute().values())
    accumulator.update(random_ranks(20, seed=2))
    assert accumulator.compute() == evaluate(random_ranks(20, seed=2), ["MRR", "MedianRank"])


def test_merging_leaves_the_other_as_it_was():
    one, other = RankAccumulator(["MRR"]), RankAccumulator(["MRR"])
    one.update(random_ranks(5, seed=1))
    other.update(random_ranks(5, seed=2))
    before = other.compute()
    one.merge(other)
    one.update(random_ranks(5, seed=3))
    assert other.compute() == before


def test_labels_of_a_merged_part_are_known():
    one, other = (RankAccumulator(["MRR"], by=parse_groupings(["topic"])) for _ in range(2))
    one.update(with_columns(random_ranks(1, seed=1), topic=["a"]))
    other.update(with_columns(random_ranks(1, seed=2), topic=["b"]))
    one.merge(other)
    assert [score.group for score in one.scores()] == [{"topic": "a"}, {"topic": "b"}]


def test_a_refused_table_leaves_no_trace():
    accumulator = RankAccumulator(["MRR", "PROBE(beta=1)"])
    bad = take(random_ranks(5), range(5)).to_arrow().drop_columns(["entity_popularity"])
    with pytest.raises(DataError, match="not recorded"):
        accumulator.update(type(random_ranks(1))(bad))
    assert [score.queries for score in accumulator.scores()] == [0, 0]
    accumulator.update(random_ranks(5))
    assert accumulator.compute() == evaluate(random_ranks(5), accumulator.metrics)


@pytest.mark.parametrize(
    "other",
    [
        RankAccumulator(["MR"]),
        RankAccumulator(["MRR"], macro="side"),
        RankAccumulator(["MRR"], tie="optimistic"),
        RankAccumulator(["MRR"], weight="weight"),
        RankAccumulator(["MRR"], by=parse_groupings(["side"])),
    ],
    ids=["metrics", "macro", "tie", "weight", "groups"],
)
def test_different_settings_do_not_merge(other):
    with pytest.raises(UsageError, match="different settings"):
        RankAccumulator(["MRR"]).merge(other)


def test_bands_with_different_edges_do_not_merge():
    one, other = (RankAccumulator(["MRR"], by=learned(["rank:3"], random_ranks(30, seed=s))) for s in (1, 2))
    with pytest.raises(UsageError, match="different settings"):
        one.merge(other)


def test_with_groups_there_is_no_single_value():
    with pytest.raises(UsageError, match=r"call scores\(\)"):
        RankAccumulator(["MRR"], by=parse_groupings(["side"])).compute()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0], "negative"),
        ([1.0, math.nan], "negative or no numbers"),
        (["a", "b"], "no numbers"),
        ([1, None], "no numbers"),
    ],
)
def test_sample_weights_must_be_numbers_of_at_least_zero(weights, message):
    with pytest.raises(DataError, match=message):
        evaluate(with_columns(random_ranks(2), w=weights), ["MRR"], weight="w")


def test_the_weight_column_must_exist():
    with pytest.raises(UsageError, match="no column 'w'"):
        evaluate(random_ranks(2), ["MRR"], weight="w")


def test_an_unknown_macro_is_answered_with_the_known_ones():
    with pytest.raises(UsageError, match="macro 'tail' is not known") as caught:
        evaluate(random_ranks(2), ["MRR"], macro="tail")
    assert "relation, entity, side" in str(caught.value)


def test_the_median_of_weights_that_vanish_is_unknown():
    ranks = with_columns(random_ranks(3), weight=[0.0] * 3)
    found = evaluate(
        ranks, ["MRR", "MedianRank", "IMedianRank", "VarRank", "StdRank", "MADRank", "ZMR"], weight="weight"
    )
    assert all(math.isnan(value) for value in found.values())
