import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.aggregate import Geometry, KeyedSums, Sums, Tie, surface, tied_rank, tied_score
from kgprobe.aggregate.weights import table_weights
from kgprobe.comparison import line_up
from kgprobe.comparison.estimators import estimator
from kgprobe.decision.influence import Influences
from kgprobe.errors import DataError, UsageError
from kgprobe.metrics import PROBE, evaluate, parse, scores
from kgprobe.metrics.metric import DistributionMetric
from kgprobe.ranks import Ranks
from kgprobe.transform import AffinePower, Identity, Log, Power, TopK
from support import EVERYTHING, random_ranks, tables, with_columns

ROWS = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, 2.5]), st.sampled_from([-1.0, 7.0]), st.integers(-50, 50)), max_size=30
)


def columns(rows):
    return [np.array([row[i] for row in rows], dtype=float) for i in range(3)]


def state(sums: KeyedSums) -> dict[tuple[float, ...], list[float]]:
    return dict(zip(zip(*(key.tolist() for key in sums.keys), strict=True), sums.sums.T.tolist(), strict=True))


@settings(max_examples=60)
@given(ROWS, st.lists(st.integers(0, 3), min_size=30, max_size=30), st.permutations(range(4)))
def test_any_split_in_any_order_gives_the_same_sums(rows, part_of, order):
    whole = KeyedSums(keys=2, terms=2)
    a, b, x = columns(rows)
    whole.add([a, b], np.stack([np.ones(len(rows)), x]))

    merged = KeyedSums(keys=2, terms=2)
    for part in order:
        a, b, x = columns([row for row, owner in zip(rows, part_of, strict=False) if owner == part])
        piece = KeyedSums(keys=2, terms=2)
        piece.add([a, b], np.stack([np.ones(len(x)), x]))
        merged.merge(piece)
    assert state(merged) == state(whole)


def test_without_keys_there_is_one_sum():
    sums = KeyedSums(keys=0, terms=1)
    sums.add([], np.array([[1.0, 2.0]]))
    sums.add([], np.array([[4.0]]))
    assert sums.sums.tolist() == [[7.0]]


def test_merging_leaves_the_other_as_it_was():
    one, other = KeyedSums(1, 1), KeyedSums(1, 1)
    other.add([np.array([1.0])], np.array([[5.0]]))
    one.merge(other)
    one.add([np.array([1.0])], np.array([[1.0]]))
    assert (one.sums.tolist(), other.sums.tolist()) == ([[6.0]], [[5.0]])


def test_many_combinations_over_many_batches():
    sums = KeyedSums(keys=1, terms=1)
    batches = [np.arange(start, start + 40_000) % 150_000 for start in range(0, 200_000, 20_000)]
    for batch in batches:
        sums.add([batch.astype(float)], np.ones((1, batch.size)))
    wanted = np.bincount(np.concatenate(batches))
    assert sums.keys[0].size == 150_000
    assert (sums.sums[0] == wanted[sums.keys[0].astype(int)]).all()


MEANS = [name for name in EVERYTHING if not isinstance(parse(name), DistributionMetric)]


@settings(max_examples=40)
@given(tables())
def test_expected_is_the_mean_over_the_tie_group(ranks):
    for transformer in (Power(1.0), AffinePower(0.3), AffinePower(0.0), TopK(3), Log(), Identity()):
        found = tied_score(transformer, ranks, Tie.expected)
        for i in range(len(ranks)):
            group = np.arange(ranks.optimistic[i], ranks.pessimistic[i] + 1)
            wanted = transformer(group, np.full(group.size, ranks.candidates[i])).mean()
            assert found[i] == pytest.approx(wanted, rel=1e-12, abs=1e-15)


@settings(max_examples=40)
@given(tables())
def test_the_single_rank_of_each_policy(ranks):
    for tie in (Tie.mean, Tie.optimistic, Tie.pessimistic):
        score = tied_score(Identity(), ranks, tie)
        assert score.tolist() == tied_rank(ranks, tie).tolist()
    assert (tied_rank(ranks, Tie.optimistic) == ranks.rank - ranks.ties / 2).all()
    assert (tied_rank(ranks, Tie.pessimistic) == ranks.rank + ranks.ties / 2).all()


@settings(max_examples=30)
@given(tables(runs=2))
def test_optimistic_expected_pessimistic_are_in_order(ranks):
    best, middle, worst, mean = (
        evaluate(ranks, MEANS, tie=tie) for tie in ("optimistic", "expected", "pessimistic", "mean")
    )
    for name in best:
        sign = 1 if parse(name).higher_is_better else -1
        if np.isnan(best[name]):
            continue
        slack = 1e-12 * (1 + abs(best[name]))
        assert sign * best[name] >= sign * middle[name] - slack, name
        assert sign * middle[name] >= sign * worst[name] - slack, name
        assert sign * best[name] + slack >= sign * mean[name] >= sign * worst[name] - slack, name


@settings(max_examples=20)
@given(tables())
def test_without_ties_every_policy_agrees(ranks):
    untied = with_columns(ranks, rank=np.floor(ranks.rank), ties=np.zeros(len(ranks), dtype=int))
    values = [evaluate(untied, MEANS, tie=tie) for tie in Tie]
    for name in values[0]:
        assert [v[name] for v in values] == pytest.approx([values[0][name]] * 4, rel=1e-14, nan_ok=True)


@pytest.mark.parametrize("tie", ["expected", "optimistic", "pessimistic"])
def test_ties_must_be_recorded(tie):
    ranks = with_columns(random_ranks(5), ties=pa.array([0, None, 0, None, 0], pa.int64()), rank=[1.0] * 5)
    with pytest.raises(DataError, match="not recorded in 2 of 5 rows"):
        evaluate(ranks, ["MRR"], tie=tie)
    assert evaluate(ranks, ["MRR"], tie="mean") == {"MRR": 1.0}


def test_a_table_without_the_column_knows_no_ties():
    bare = Ranks(random_ranks(4).to_arrow().drop_columns(["ties"]))
    with pytest.raises(DataError, match="not recorded in 4 of 4 rows") as caught:
        evaluate(bare, ["MRR"], tie="expected")
    assert "tie='mean'" in caught.value.remedy


def test_a_tie_group_must_hold_whole_ranks():
    ranks = with_columns(random_ranks(3, smallest=9), rank=[2.0, 2.5, 4.0], ties=[1, 1, 2])
    with pytest.raises(DataError, match="whole ranks") as caught:
        evaluate(ranks, ["MRR"], tie="expected")
    assert "1 rows" in str(caught.value)


@pytest.mark.parametrize("name", ["MedianRank", "VarRank", "MADRank"])
def test_no_expectation_is_made_up(name):
    with pytest.raises(UsageError, match=f"`tie='expected'` is not available for {name}"):
        evaluate(random_ranks(5), [name, "MRR"], tie="expected")


@pytest.mark.parametrize("tie", ["optimistic", "pessimistic"])
def test_the_median_follows_the_policy(tie):
    ranks = with_columns(random_ranks(1, smallest=9), rank=[3.0], ties=[2])
    assert evaluate(ranks, ["MedianRank"], tie=tie) == {"MedianRank": 2.0 if tie == "optimistic" else 4.0}


def test_an_unknown_policy_is_answered_with_the_known_ones():
    with pytest.raises(UsageError, match="unknown tie 'random'") as caught:
        evaluate(random_ranks(2), ["MRR"], tie="random")
    assert "pessimistic" in str(caught.value)


@pytest.mark.parametrize("tie", ["mean", "expected"])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (0.3, 0.8), (0.0, 2.0), (-1.0, -0.5)])
def test_the_weighted_mean_is_one_in_evaluate_surface_geometry_comparison_and_decision(alpha, beta, tie):
    ranks, metric, tie = random_ranks(300, smallest=1), PROBE(alpha=alpha, beta=beta), Tie(tie)
    counted = ranks.candidates > 1
    weights = table_weights(ranks, metric.weighting, counted)
    sums = Sums.of(tied_score(metric.transformer, ranks, tie), weights)
    pairs = zip(weights[counted], tied_score(metric.transformer, ranks, tie)[counted], strict=True)
    assert sums.mean == pytest.approx(math.fsum(w * s for w, s in pairs) / math.fsum(weights), rel=1e-14)
    (score,) = scores(ranks, metric, tie=tie)
    grid = surface(ranks, [alpha], [beta], tie=tie)
    assert (score.value, grid.item()) == pytest.approx((sums.mean, sums.mean), rel=1e-12)
    assert (score.effective, grid.effective.item()) == pytest.approx((sums.effective, sums.effective), rel=1e-12)
    lined = line_up({"mine": ranks})
    clusters = lined.clusters()
    one = estimator(lined, "mine", metric, clusters=clusters, tie=tie)
    assert (one.estimate, one.effective) == pytest.approx((sums.mean, sums.effective), rel=1e-12)
    ((_, _, table),) = Influences(lined, clusters, popular=True, tie=tie).tables(np.array([alpha]), np.array([beta]))
    influence = one.columns @ one.gradient(one.sums)
    assert table[:, 0, 0] == pytest.approx(influence, rel=1e-9, abs=1e-15)
    if tie is Tie.mean:
        geometry = Geometry.of(ranks, metric.transformer, metric.weighting)
        assert geometry.value == pytest.approx(sums.mean, rel=1e-12)
