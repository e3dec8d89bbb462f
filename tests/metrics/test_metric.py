import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kgprobe.metrics import METRICS, evaluate, parse, scores
from kgprobe.metrics.metric import Facts, spelled
from support import DISPERSION, EVERYTHING, random_ranks, tables, take, with_columns

STRICT = [
    *("MR", "MRR", "GMR", "HMR", "IMR", "IGMR", "pMRR(p=0.33)", "logMRR", "WMR", "nWMR", "AMR", "AMRI", "AMRR"),
    *("ZMR", "ZMRR", "StratMRR(beta_e=0.5,beta_r=0.5)", "rawPROBE(alpha=-1,beta=0.4)"),
    *(f"{kind}(alpha={a},beta=0.4)" for kind in ("PROBE", "APROBE", "ZPROBE") for a in (2, 0.5, 0, -1)),
]

"""Any step forward of any rank is seen (anti-monotonicity)."""


@settings(max_examples=40)
@given(tables(smallest=1, runs=2), st.sampled_from(["mean", "optimistic", "pessimistic"]))
def test_values_keep_within_the_declared_range(ranks, tie):
    some_run_says_nothing = any((ranks.candidates[ranks.seed == s] == 1).all() for s in set(ranks.seed.tolist()))
    for name, value in evaluate(ranks, EVERYTHING, tie=tie).items():
        facts = parse(name).facts
        if math.isnan(value):  # or every query is a sure hit
            assert some_run_says_nothing or name.startswith(("AHits", "ZHits")), name
            continue
        assert facts.low - 1e-12 <= value <= facts.high + 1e-12, name


@settings(max_examples=40)
@given(tables(), st.integers(0, 10**6), st.integers(1, 10**6), st.sampled_from(["mean", "expected", "optimistic"]))
def test_a_step_forward_never_hurts(ranks, row, step, tie):
    unfit = (*DISPERSION, "MedianRank", "IMedianRank") if tie == "expected" else DISPERSION
    names = [name for name in EVERYTHING if name not in unfit]
    row %= len(ranks)
    room = int(ranks.optimistic[row]) - 1
    assume(room > 0)
    rank = ranks.rank.copy()
    rank[row] -= 1 + step % room
    before, after = (evaluate(r, names, tie=tie) for r in (ranks, with_columns(ranks, rank=rank)))
    for name in before:
        sign = 1 if parse(name).higher_is_better else -1
        if not math.isnan(before[name]):
            assert sign * (after[name] - before[name]) >= -1e-13 * (1 + abs(before[name])), name
    before, after = (evaluate(r, STRICT, tie=tie) for r in (ranks, with_columns(ranks, rank=rank)))
    for name in before:
        sign = 1 if parse(name).higher_is_better else -1
        assert sign * (after[name] - before[name]) > 0, name


@settings(max_examples=25)
@given(tables(runs=2), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(ranks, chance):
    order = list(range(len(ranks)))
    chance.shuffle(order)
    before, after = evaluate(ranks, EVERYTHING), evaluate(take(ranks, order), EVERYTHING)
    assert after == pytest.approx(before, rel=1e-12, abs=1e-14, nan_ok=True)


@settings(max_examples=25)
@given(tables(smallest=1))
def test_effective_queries_lie_between_one_and_all(ranks):
    for score in scores(ranks, EVERYTHING):
        assert min(score.queries, 1 - 1e-12) <= score.effective <= score.queries * (1 + 1e-12), score.metric
        assert score.queries + score.left_out == len(ranks)


@settings(max_examples=25)
@given(tables())
def test_uniform_weights_count_every_query(ranks):
    for score in scores(ranks, ["MRR", "MedianRank", "ZMR", "PROBE(alpha=0,beta=0)", "StratMRR(beta_e=0)"]):
        assert score.effective == pytest.approx(len(ranks), rel=1e-14)


def test_a_perfect_model_is_perfect():
    ranks = with_columns(random_ranks(5, smallest=12), rank=[1.0] * 5, ties=[0] * 5)
    unbounded = ("AMR", "ZMR", "ZMRR", "ZHits", "ZPROBE", "rawPROBE")  # their best value depends on the table
    for name, value in evaluate(ranks, [name for name in EVERYTHING if parse(name).name not in unbounded]).items():
        facts = parse(name).facts
        assert value == pytest.approx(facts.high if facts.higher_is_better else facts.low, abs=1e-14), name


def test_a_worst_model_is_worst():
    ranks = random_ranks(5, smallest=12)
    ranks = with_columns(ranks, rank=ranks.candidates, ties=[0] * 5)
    names = [n for n in EVERYTHING if n.startswith(("PROBE", "nWMR"))]
    assert evaluate(ranks, names) == pytest.approx(dict.fromkeys(map(str, map(parse, names)), 0.0), abs=1e-15)
    assert evaluate(ranks, ["AMRI"])["AMRI"] == pytest.approx(-1, abs=1e-14)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_facts_are_declared(metric):
    facts = metric.facts
    assert facts.title
    assert facts.reference
    assert facts.low < facts.high
    assert metric().higher_is_better == facts.higher_is_better
    assert metric.__doc__


def test_direction_of_the_raw_power_follows_alpha():
    assert parse("rawPROBE(alpha=1)").higher_is_better
    assert not parse("rawPROBE(alpha=-0.5)").higher_is_better


def test_ranges_are_closed_where_their_end_is_finite():
    assert Facts("", 0, 1, True, "").range == "[0, 1]"
    assert Facts("", -math.inf, math.inf, True, "").range == "(-inf, inf)"


@pytest.mark.parametrize("number", [0.1, 1 / 3, -2.0, 1e300, 5e-324, math.inf, -math.inf, 0.0, 2**60])
def test_numbers_are_spelled_exactly(number):
    assert float(spelled(number)) == number


def test_metrics_are_values():
    one, same, other = parse("PROBE(0.5)"), parse("PROBE(alpha=.5)"), parse("rawPROBE(0.5)")
    assert one == same != other
    assert {one: 1}[same] == 1
    with pytest.raises(AttributeError):
        one.alpha = 2
