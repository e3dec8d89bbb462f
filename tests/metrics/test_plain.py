import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe import evaluate
from kgprobe.metrics.plain import weighted_median
from support import random_ranks, tables, with_columns

RANKS = with_columns(
    random_ranks(4), rank=[1.0, 2.5, 4.0, 10.0], ties=[0, 1, 0, 0], candidates=[10] * 4, weight=[1.0, 2.0, 1.0, 4.0]
)


def value(name, **options):
    return next(iter(evaluate(RANKS, [name], **options).values()))


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
def test_by_hand(name, wanted):
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
