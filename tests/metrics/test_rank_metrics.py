import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.metrics import evaluate, scores
from kgprobe.metrics.rank_metrics import weighted_median
from kgprobe.transform import AffinePower, Identity, Power, TopK
from support import random_ranks, tables, with_columns

RANKS = with_columns(random_ranks(3), rank=[1.0, 2.5, 4.0], ties=[0, 1, 0], candidates=[4, 10, 5])


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("AMR", 7.5 / (2.5 + 5.5 + 3)),
        ("AMRI", 1 - (7.5 - 3) / (11 - 3)),
        ("AHits@2", (1 / 3 - (1 / 2 + 1 / 5 + 2 / 5) / 3) / (1 - (1 / 2 + 1 / 5 + 2 / 5) / 3)),
        ("ZMR", (11 - 7.5) / math.sqrt((15 + 99 + 24) / 12)),
        ("ZHits@2", (1 - 1.1) / math.sqrt(0.25 + 0.16 + 0.24)),
        ("WMR", math.exp((9 * math.log(2.5) + 4 * math.log(4)) / 16)),
    ],
)
def test_by_hand(name, wanted):
    assert evaluate(RANKS, [name])[name] == pytest.approx(wanted, rel=1e-13)


@settings(max_examples=40)
@given(tables())
def test_adjusted_and_z_scored_metrics_from_their_definition(ranks):
    kinds = {"AMRR": Power(1.0), "AHits@3": TopK(3), "AMRI": Identity(), "APROBE(alpha=0.5,beta=0)": AffinePower(0.5)}
    z = {"AMRR": "ZMRR", "AHits@3": "ZHits@3", "AMRI": "ZMR", "APROBE(alpha=0.5,beta=0)": "ZPROBE(alpha=0.5,beta=0)"}
    found = evaluate(ranks, [*kinds, *z.values()])
    for name, transformer in kinds.items():
        every = [transformer(np.arange(1, n + 1), np.full(int(n), n)) for n in ranks.candidates]
        mean = np.mean([scores.mean() for scores in every])
        deviation = math.sqrt(sum(scores.var() for scores in every)) / len(ranks)
        value = transformer(ranks.rank, ranks.candidates).mean()
        sign = 1 if transformer.higher_is_better else -1
        if abs(1 - mean) > 1e-9:
            assert found[name] == pytest.approx((value - mean) / (1 - mean), rel=1e-10, abs=1e-13)
            assert found[z[name]] == pytest.approx(sign * (value - mean) / deviation, rel=1e-9, abs=1e-12)


@settings(max_examples=40)
@given(tables())
def test_chance_is_zero_on_average(ranks):
    """Every query at every rank at once: exactly the uniform distribution."""
    size = int(ranks.candidates[0])
    everywhere = with_columns(
        random_ranks(size), rank=np.arange(1.0, size + 1), ties=[0] * size, candidates=[size] * size
    )
    names = [
        "AMRI",
        "AMRR",
        "ZMR",
        "ZMRR",
        "APROBE(alpha=0.3,beta=0)",
        "ZPROBE(alpha=-2,beta=0)",
        "APROBE(alpha=inf,beta=0)",
    ]
    assert evaluate(everywhere, names) == pytest.approx(dict.fromkeys(names, 0), abs=1e-10)
    assert evaluate(everywhere, ["AMR"])["AMR"] == pytest.approx(1, rel=1e-13)


def test_adjusted_probe_at_minus_one_is_the_mean_of_the_index_of_every_query():
    ranks = random_ranks(40)
    index = 1 - 2 * (ranks.rank - 1) / (ranks.candidates - 1)
    found = evaluate(ranks, ["APROBE(alpha=-1,beta=0)"])["APROBE(alpha=-1,beta=0)"]
    assert found == pytest.approx(index.mean(), rel=1e-12)


@settings(max_examples=40)
@given(tables(smallest=1))
def test_normalised_wmr_holds_wmr_against_the_worst(ranks):
    worst = with_columns(ranks, rank=ranks.candidates, ties=np.zeros(len(ranks), dtype=int))
    found, worst_wmr = evaluate(ranks, ["WMR", "nWMR"]), evaluate(worst, ["WMR"])["WMR"]
    assert found["nWMR"] == pytest.approx(1 - math.log(found["WMR"]) / math.log(worst_wmr), rel=1e-11, abs=1e-14)


def test_wmr_by_hand_leaves_out_what_weighs_nothing():
    ranks = with_columns(random_ranks(3), rank=[1.0, 3.0, 2.0], ties=[0] * 3, candidates=[1, 5, 3])
    (score,) = scores(ranks, ["WMR"])
    assert score.value == pytest.approx(math.exp((4 * math.log(3) + 2 * math.log(2)) / 6), rel=1e-14)
    assert (score.queries, score.left_out) == (2, 1)
    assert score.effective == pytest.approx(36 / 20, rel=1e-14)


@pytest.mark.parametrize(
    "name", ["AMR", "AMRI", "AMRR", "AHits@1", "ZMR", "ZMRR", "ZHits@1", "WMR", "nWMR", "PROBE", "ZPROBE"]
)
def test_a_single_candidate_is_left_out_and_counted(name):
    ranks = with_columns(random_ranks(5), rank=[1.0, 1, 2, 3, 4], ties=[0] * 5, candidates=[1, 9, 9, 9, 9])
    (score,) = scores(ranks, [name])
    (wanted,) = scores(type(ranks)(ranks.to_arrow().slice(1)), [name])
    assert score.value == pytest.approx(wanted.value, rel=1e-14)
    assert (score.queries, score.left_out) == (4, 1)


@pytest.mark.parametrize("name", ["MRR", "MR", "Hits@10", "MedianRank", "rawPROBE", "StratMRR"])
def test_plain_metrics_keep_a_single_candidate(name):
    ranks = with_columns(random_ranks(2), rank=[1.0, 4.0], ties=[0, 0], candidates=[1, 9], entity_popularity=[0.1, 0.2])
    (score,) = scores(ranks, [name])
    assert (score.queries, score.left_out) == (2, 0)


def test_a_sure_hit_has_no_adjusted_value():
    ranks = with_columns(random_ranks(3), rank=[1.0, 2, 3], ties=[0] * 3, candidates=[3, 4, 5])
    found = evaluate(ranks, ["AHits@10", "ZHits@10"])
    assert all(math.isnan(value) for value in found.values())


FEW_RANKS = with_columns(
    random_ranks(4), rank=[1.0, 2.5, 4.0, 10.0], ties=[0, 1, 0, 0], candidates=[10] * 4, weight=[1.0, 2.0, 1.0, 4.0]
)


def value(name, **options):
    return next(iter(evaluate(FEW_RANKS, [name], **options).values()))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("MR", 17.5 / 4),
        ("IMR", 4 / 17.5),
        ("GMR", 100 ** (1 / 4)),
        ("IGMR", 100 ** (-1 / 4)),
        ("MRR", (1 + 0.4 + 0.25 + 0.1) / 4),
        ("HMR", 4 / 1.75),
        ("Hits@1", 0.25),
        ("Hits@2", 0.25),
        ("Hits@3", 0.5),
        ("Hits@10", 1.0),
        ("pMRR(p=0.5)", (1 + 2.5**-0.5 + 0.5 + 10**-0.5) / 4),
        ("logMRR", math.log(2) * sum(1 / math.log(1 + r) for r in (1, 2.5, 4, 10)) / 4),
        ("MedianRank", 3.25),
        ("IMedianRank", 1 / 3.25),
        ("VarRank", np.var([1, 2.5, 4, 10])),
        ("StdRank", np.std([1, 2.5, 4, 10])),
        ("MADRank", 1.5),
    ],
)
def test_mean_ranks_and_hits_by_hand(name, wanted):
    assert value(name) == pytest.approx(wanted, rel=1e-14)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("MR", (1 + 5 + 4 + 40) / 8),
        ("MRR", (1 + 0.8 + 0.25 + 0.4) / 8),
        ("GMR", math.exp((2 * math.log(2.5) + math.log(4) + 4 * math.log(10)) / 8)),
        ("Hits@3", 3 / 8),
        ("MedianRank", 7.0),
        ("VarRank", np.cov([1, 2.5, 4, 10], aweights=[1, 2, 1, 4], ddof=0)),
        ("StdRank", math.sqrt(np.cov([1, 2.5, 4, 10], aweights=[1, 2, 1, 4], ddof=0))),
    ],
)
def test_by_hand_with_sample_weights(name, wanted):
    assert value(name, weight="weight") == pytest.approx(float(wanted), rel=1e-13)


def test_expected_ties_by_hand():
    assert value("MRR", tie="expected") == pytest.approx((1 + (1 / 2 + 1 / 3) / 2 + 0.25 + 0.1) / 4, rel=1e-14)
    assert value("Hits@2", tie="expected") == pytest.approx((1 + 0.5) / 4, rel=1e-14)
    assert value("GMR", tie="expected") == pytest.approx(math.exp((math.log(6) / 2 + math.log(40)) / 4), rel=1e-14)


@settings(max_examples=40)
@given(tables())
def test_the_median_is_that_of_the_statistics_module(ranks):
    assert evaluate(ranks, ["MedianRank"])["MedianRank"] == statistics.median(ranks.rank.tolist())


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 4)), min_size=1, max_size=12))
def test_a_whole_weight_is_so_many_copies(rows):
    rows = sorted(rows)
    copies = [rank for rank, weight in rows for _ in range(weight)]
    if copies:
        values, weights = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
        assert weighted_median(values, weights / 7) == statistics.median(copies)


def test_weights_of_one_change_nothing():
    ranks = with_columns(random_ranks(41), weight=np.ones(41))
    names = ["MRR", "MedianRank", "IMedianRank", "VarRank", "StdRank", "MADRank", "GMR"]
    assert evaluate(ranks, names, weight="weight") == pytest.approx(evaluate(ranks, names), rel=1e-14)


@settings(max_examples=30)
@given(tables())
def test_relations_between_metrics(ranks):
    v = evaluate(ranks, ["MR", "IMR", "GMR", "IGMR", "HMR", "MRR", "MedianRank", "IMedianRank", "VarRank", "StdRank"])
    assert v["MR"] * v["IMR"] == pytest.approx(1, rel=1e-13)
    assert v["GMR"] * v["IGMR"] == pytest.approx(1, rel=1e-13)
    assert v["HMR"] * v["MRR"] == pytest.approx(1, rel=1e-13)
    assert v["MedianRank"] * v["IMedianRank"] == pytest.approx(1, rel=1e-13)
    assert v["StdRank"] ** 2 == pytest.approx(v["VarRank"], rel=1e-13)
    assert v["MR"] >= v["GMR"] * (1 - 1e-13) >= v["HMR"] * (1 - 2e-13)
    assert evaluate(ranks, ["pMRR(p=1)"])["pMRR(p=1)"] == pytest.approx(v["MRR"], rel=1e-14)
