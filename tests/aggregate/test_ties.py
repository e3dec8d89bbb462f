import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from kgprobe import DataError, Ranks, UsageError, evaluate, parse
from kgprobe.aggregate import Tie, tied_rank, tied_score
from kgprobe.metrics.base import DistributionMetric
from kgprobe.transform import AffinePower, Hits, Identity, Log, Power
from support import EVERYTHING, random_ranks, tables, with_columns

MEANS = [name for name in EVERYTHING if not isinstance(parse(name), DistributionMetric)]


@settings(max_examples=40)
@given(tables())
def test_expected_is_the_mean_over_the_tie_group(ranks):
    for transformer in (Power(1.0), AffinePower(0.3), AffinePower(0.0), Hits(3), Log(), Identity()):
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
    assert "--tie mean" in caught.value.remedy


def test_a_tie_group_must_hold_whole_ranks():
    ranks = with_columns(random_ranks(3, smallest=9), rank=[2.0, 2.5, 4.0], ties=[1, 1, 2])
    with pytest.raises(DataError, match="whole ranks") as caught:
        evaluate(ranks, ["MRR"], tie="expected")
    assert "1 rows" in str(caught.value)


@pytest.mark.parametrize("name", ["MedianRank", "VarRank", "MADRank"])
def test_no_expectation_is_made_up(name):
    with pytest.raises(UsageError, match=f"no exact expectation over ties is known for {name}"):
        evaluate(random_ranks(5), [name, "MRR"], tie="expected")


@pytest.mark.parametrize("tie", ["optimistic", "pessimistic"])
def test_the_median_follows_the_policy(tie):
    ranks = with_columns(random_ranks(1, smallest=9), rank=[3.0], ties=[2])
    assert evaluate(ranks, ["MedianRank"], tie=tie) == {"MedianRank": 2.0 if tie == "optimistic" else 4.0}


def test_an_unknown_policy_is_answered_with_the_known_ones():
    with pytest.raises(UsageError, match="tie 'random' is not known") as caught:
        evaluate(random_ranks(2), ["MRR"], tie="random")
    assert "pessimistic" in str(caught.value)
