import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.aggregate import Geometry, PopularityWeight
from kgprobe.errors import DataError, UsageError
from kgprobe.metrics import evaluate, parse, scores
from kgprobe.metrics.popularity_metrics import PROBE
from kgprobe.ranks import Ranks
from kgprobe.transform import AffinePower
from support import random_ranks, tables, with_columns


def value(ranks, name, **options):
    return evaluate(ranks, [name], **options)[str(parse(name))]


def by_the_paper(
    ranks: Ranks, alpha: float, beta_e: float, beta_r: float, eps_e: float | None, eps_r: float | None
) -> float:
    """Equations 2, 3 and 5 one query at a time."""
    top = bottom = 0.0
    rows = [i for i in range(len(ranks)) if ranks.candidates[i] > 1]
    popularity = [ranks.numbers(name)[rows] for name in ("entity_popularity", "relation_popularity")]
    eps = [given if given is not None else min(p[p > 0]) for given, p in zip((eps_e, eps_r), popularity, strict=True)]
    for at, i in enumerate(rows):
        r, size = ranks.rank[i], ranks.candidates[i]
        f = 1 - math.log(r) / math.log(size) if alpha == 0 else (r**-alpha - size**-alpha) / (1 - size**-alpha)
        w = (eps[0] + popularity[0][at]) ** -beta_e * (eps[1] + popularity[1][at]) ** -beta_r
        top, bottom = top + w * f, bottom + w
    return top / bottom


@settings(max_examples=60)
@given(
    tables(smallest=1),
    st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.3, 1.0, 2.0]),
    st.sampled_from([-1.0, 0.0, 0.4, 1.5]),
    st.sampled_from([-1.0, 0.0, 0.4, 1.5]),
    st.sampled_from([None, 1e-5, 0.2]),
    st.sampled_from([None, 1e-5, 0.2]),
)
def test_probe_is_the_formula_of_the_paper(ranks, alpha, beta_e, beta_r, eps_e, eps_r):
    metric = PROBE(alpha=alpha, beta_e=beta_e, beta_r=beta_r, eps_e=eps_e, eps_r=eps_r)
    wanted = by_the_paper(ranks, alpha, beta_e, beta_r, eps_e, eps_r)
    assert evaluate(ranks, [metric])[str(metric)] == pytest.approx(wanted, rel=1e-11, abs=1e-13)


@settings(max_examples=40)
@given(tables(smallest=1), st.sampled_from([-1.0, 0.0, 0.5, math.inf]), st.sampled_from([0.4, 1.0, -0.5]))
def test_chance_is_weighed_like_the_scores(ranks, alpha, beta):
    """Under random ranks the mean is the sum of w E[f], the variance the sum of w squared Var[f]."""
    geometry = Geometry.of(ranks, AffinePower(alpha), PopularityWeight(beta, beta))
    sizes = ranks.candidates[ranks.candidates > 1]
    every = [AffinePower(alpha)(np.arange(1, n + 1), np.full(int(n), n)) for n in sizes]
    mean = sum(w * f.mean() for w, f in zip(geometry.weights, every, strict=True))
    deviation = math.sqrt(sum(w * w * f.var() for w, f in zip(geometry.weights, every, strict=True)))
    adjusted = value(ranks, f"APROBE(alpha={alpha},beta={beta})")
    assert adjusted == pytest.approx((geometry.value - mean) / (1 - mean), rel=1e-10, abs=1e-12)
    z = value(ranks, f"ZPROBE(alpha={alpha},beta={beta})")
    assert z == pytest.approx((geometry.value - mean) / deviation, rel=1e-10, abs=1e-12)


@settings(max_examples=30)
@given(tables(smallest=1, runs=2), st.sampled_from(["mean", "expected", "optimistic"]))
def test_special_cases_of_the_raw_power(ranks, tie):
    assert value(ranks, "rawPROBE(alpha=1)", tie=tie) == pytest.approx(value(ranks, "MRR", tie=tie), rel=1e-14)
    assert value(ranks, "rawPROBE(alpha=-1)", tie=tie) == pytest.approx(value(ranks, "MR", tie=tie), rel=1e-14)
    assert value(ranks, "rawPROBE(alpha=inf)", tie=tie) == pytest.approx(value(ranks, "Hits@1", tie=tie), rel=1e-14)
    assert value(ranks, "rawPROBE(alpha=0)", tie=tie) == pytest.approx(1, rel=1e-14)


@settings(max_examples=30)
@given(tables(), st.sampled_from(["mean", "expected", "pessimistic"]))
def test_infinite_sharpness_is_hits_at_one(ranks, tie):
    assert value(ranks, "PROBE(alpha=inf)", tie=tie) == pytest.approx(value(ranks, "Hits@1", tie=tie), rel=1e-14)
    assert value(ranks, "APROBE(alpha=inf)", tie=tie) == pytest.approx(
        value(ranks, "AHits@1", tie=tie), rel=1e-10, abs=1e-13
    )
    assert value(ranks, "ZPROBE(alpha=inf)", tie=tie) == pytest.approx(
        value(ranks, "ZHits@1", tie=tie), rel=1e-10, abs=1e-13
    )


@settings(max_examples=30)
@given(tables(smallest=1))
def test_minus_one_is_the_mean_of_the_mean_rank_index_of_every_query(ranks):
    every = [r.value for r in scores(ranks, ["AMRI"], by=["head"]) if r.queries]  # one query a head
    assert value(ranks, "PROBE(alpha=-1)") == pytest.approx((np.mean(every) + 1) / 2, rel=1e-12, abs=1e-14)


@settings(max_examples=30)
@given(tables(runs=2))
def test_beta_zero_is_unweighted(ranks):
    r, size = ranks.rank, ranks.candidates
    score = (1 / r - 1 / size) / (1 - 1 / size)
    means = [score[ranks.seed == seed].mean() for seed in set(ranks.seed.tolist())]
    assert value(ranks, "PROBE(alpha=1,beta=0)") == pytest.approx(np.mean(means), rel=1e-12, abs=1e-15)


@settings(max_examples=30)
@given(tables(), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.3, 1.0]))
def test_beta_sets_both_exponents(ranks, alpha, beta):
    both = value(ranks, f"PROBE(alpha={alpha},beta={beta})")
    each = value(ranks, f"PROBE(alpha={alpha},beta_e={beta},beta_r={beta})")
    assert both == each


def test_entity_and_relation_are_weighed_apart():
    """The reference script of the paper takes a second exponent and ignores it."""
    ranks = with_columns(
        random_ranks(2), rank=[1.0, 2.0], ties=[0, 0], candidates=[9, 9],
        entity_popularity=[0.5, 0.1], relation_popularity=[0.1, 0.5],
    )  # fmt: skip
    entity, relation = value(ranks, "PROBE(beta_e=1)"), value(ranks, "PROBE(beta_r=1)")
    assert entity < value(ranks, "PROBE(beta=0)") < relation
    assert value(ranks, "PROBE(beta=1)") == pytest.approx(value(ranks, "PROBE(beta=0)"), rel=1e-13)


def test_the_score_is_not_divided_by_the_number_of_queries_again():
    ranks = with_columns(random_ranks(4), rank=[1.0] * 4, ties=[0] * 4)
    assert value(ranks, "PROBE(alpha=0.5,beta=0.8)") == pytest.approx(1, rel=1e-14)


class TestStratified:
    @settings(max_examples=30)
    @given(tables())
    def test_one_on_the_relation_is_the_mean_over_relations(self, ranks):
        found = value(ranks, "StratMRR(beta_e=0,beta_r=1)")
        assert found == pytest.approx(evaluate(ranks, ["MRR"], macro="relation")["MRR"], rel=1e-12)
        found = value(ranks, "StratHits@3(beta_e=0,beta_r=1)")
        assert found == pytest.approx(evaluate(ranks, ["Hits@3"], macro="relation")["Hits@3"], rel=1e-12)

    def test_without_exponents_it_is_the_plain_metric(self):
        ranks = random_ranks(30)
        assert value(ranks, "StratMRR(beta_e=0,beta_r=0)") == pytest.approx(value(ranks, "MRR"), rel=1e-14)
        assert value(ranks, "StratHits@3(beta_e=0,beta_r=0)") == pytest.approx(value(ranks, "Hits@3"), rel=1e-14)

    def test_by_hand(self):
        ranks = with_columns(
            random_ranks(3), relation=[0, 0, 1], rank=[1.0, 2.0, 4.0], ties=[0] * 3, candidates=[9] * 3,
            entity_popularity=[0.1, 0.3, 0.0],
        )  # fmt: skip
        weights = np.array([1 / 0.2 / 2, 1 / 0.4 / 2, 1 / 0.1])
        wanted = (weights * [1, 0.5, 0.25]).sum() / weights.sum()
        assert value(ranks, "StratMRR(beta_e=1,beta_r=1)") == pytest.approx(wanted, rel=1e-13)
        wanted = (weights * [1, 1, 0]).sum() / weights.sum()
        assert value(ranks, "StratHits@2(beta_e=1,beta_r=1)") == pytest.approx(wanted, rel=1e-13)


class TestRefusals:
    @pytest.mark.parametrize("name", ["PROBE(beta=0.4)", "PROBE(beta_r=1)", "StratMRR", "ZPROBE(beta_e=-1)"])
    def test_weights_need_popularity(self, name):
        ranks = random_ranks(4)
        bare = Ranks(ranks.to_arrow().drop_columns(["entity_popularity", "relation_popularity"]))
        with pytest.raises(DataError, match="popularity is not recorded in 4 of 4 rows") as caught:
            evaluate(bare, [name])
        assert "graph" in str(caught.value)

    def test_without_weights_no_popularity_is_needed(self):
        bare = Ranks(random_ranks(4).to_arrow().drop_columns(["entity_popularity", "relation_popularity"]))
        assert len(evaluate(bare, ["PROBE(alpha=0.5,beta=0)", "ZPROBE(alpha=0,beta=0)", "StratMRR(beta_e=0)"])) == 3

    def test_some_missing_popularity_is_counted(self):
        ranks = with_columns(random_ranks(3), relation_popularity=pa.array([0.1, None, None]))
        with pytest.raises(DataError, match="relation popularity is not recorded in 2 of 3 rows"):
            evaluate(ranks, ["PROBE(beta=1)"])

    def test_epsilon_zero_with_popularity_zero(self):
        ranks = with_columns(random_ranks(2), entity_popularity=[0.0, 0.1])
        with pytest.raises(DataError, match="infinite weight"):
            evaluate(ranks, ["PROBE(beta_e=1,eps_e=0)"])

    def test_no_popularity_above_zero(self):
        ranks = with_columns(random_ranks(2), entity_popularity=[0.0, 0.0])
        with pytest.raises(DataError, match="entity popularity above 0"):
            evaluate(ranks, ["PROBE(beta_e=1)"])
        assert evaluate(ranks, ["PROBE(beta_e=1,eps_e=0.1)"])

    @pytest.mark.parametrize("given", [{"beta": 1, "beta_e": 1}, {"beta": 0, "beta_r": 2}, {"eps": 0.1, "eps_e": 0.1}])
    def test_contradictory_parameters(self, given):
        with pytest.raises(UsageError, match="so give either it or them"):
            PROBE(**given)

    @pytest.mark.parametrize(
        "given", [{"alpha": math.nan}, {"beta": math.inf}, {"beta_e": math.nan}, {"eps": math.nan}]
    )
    def test_parameters_that_are_no_numbers(self, given):
        with pytest.raises(UsageError, match="must be a"):
            PROBE(**given)
