"""PyKEEN as an oracle: every metric that both define agrees to nine digits."""

import re

import numpy as np
import pykeen.metrics.ranking as pk
import pytest
from pykeen.metrics.utils import weighted_median as pykeen_weighted_median

from kgprobe.metrics import evaluate, parse
from support import random_ranks, with_columns

NORMAL_CONSISTENCY = 1.482602218505602

"""PyKEEN scales the unweighted MAD so that it estimates the deviation of a normal distribution."""

UNWEIGHTED_ONLY = {"VarRank": pk.Variance(), "StdRank": pk.StandardDeviation()}

BOTH = {
    "MR": pk.ArithmeticMeanRank(),
    "IMR": pk.InverseArithmeticMeanRank(),
    "GMR": pk.GeometricMeanRank(),
    "IGMR": pk.InverseGeometricMeanRank(),
    "HMR": pk.HarmonicMeanRank(),
    "MRR": pk.InverseHarmonicMeanRank(),
    "MedianRank": pk.MedianRank(),
    "IMedianRank": pk.InverseMedianRank(),
    "AMR": pk.AdjustedArithmeticMeanRank(),
    "AMRI": pk.AdjustedArithmeticMeanRankIndex(),
    "AMRR": pk.AdjustedInverseHarmonicMeanRank(),
    "ZMR": pk.ZArithmeticMeanRank(),
    "ZMRR": pk.ZInverseHarmonicMeanRank(),
    **{f"Hits@{k}": pk.HitsAtK(k) for k in (1, 3, 10)},
    **{f"AHits@{k}": pk.AdjustedHitsAtK(k=k) for k in (1, 3, 10)},
    **{f"ZHits@{k}": pk.ZHitsAtK(k=k) for k in (1, 3, 10)},
}

ONLY_THEIRS = {"Count", "AdjustedGeometricMeanRankIndex", "ZGeometricMeanRank"}

TABLES = [
    random_ranks(rows, seed=seed, largest=size) for rows, seed, size in [(1, 5, 40), (200, 1, 50), (999, 2, 40_000)]
]

WEIGHTS = ["fractions", "whole", "uneven"]


def weights_of(kind: str, rows: int) -> np.ndarray:
    rng = np.random.default_rng(rows)
    if kind == "fractions":
        return rng.random(rows) + 1e-3
    return rng.integers(1, 4, rows).astype(float) if kind == "whole" else np.exp(6 * rng.standard_normal(rows))


def theirs(metric, ranks, weights=None) -> float:
    return float(metric(ranks.rank.copy(), ranks.candidates.astype(np.int64), weights))


@pytest.mark.parametrize("name", [*BOTH, *UNWEIGHTED_ONLY])
@pytest.mark.parametrize("ranks", TABLES, ids=len)
def test_without_weights(name, ranks):
    wanted = theirs((BOTH | UNWEIGHTED_ONLY)[name], ranks)
    assert evaluate(ranks, [name])[name] == pytest.approx(wanted, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("ranks", TABLES, ids=len)
def test_with_weights(name, kind, ranks):
    weights = weights_of(kind, len(ranks))
    wanted = theirs(BOTH[name], ranks, weights)
    found = evaluate(with_columns(ranks, w=weights), [name], weight="w")[name]
    assert found == pytest.approx(wanted, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("ranks", TABLES, ids=len)
def test_median_absolute_deviation_up_to_its_scale(ranks):
    metric = pk.MedianAbsoluteDeviation()
    assert evaluate(ranks, ["MADRank"])["MADRank"] * NORMAL_CONSISTENCY == pytest.approx(
        theirs(metric, ranks), rel=1e-9
    )
    weights = weights_of("whole", len(ranks))
    found = evaluate(with_columns(ranks, w=weights), ["MADRank"], weight="w")["MADRank"]
    assert found == pytest.approx(theirs(metric, ranks, weights), rel=1e-9)


def test_their_median_absolute_deviation_changes_with_weights_of_one():
    ranks, ones = TABLES[1], np.ones(len(TABLES[1]))
    metric = pk.MedianAbsoluteDeviation()
    assert theirs(metric, ranks) == pytest.approx(NORMAL_CONSISTENCY * theirs(metric, ranks, ones), rel=1e-9)
    ours = with_columns(ranks, w=ones)
    assert evaluate(ours, ["MADRank"], weight="w") == evaluate(ours, ["MADRank"])


def test_their_weighted_median_is_drawn_towards_a_rank_of_weight_zero():
    rank, weight = np.array([1.0, 5.0, 9.0]), np.array([1.0, 0.0, 1.0])
    assert pykeen_weighted_median(rank, weight) == 3
    assert pykeen_weighted_median(rank[[0, 2]], weight[[0, 2]]) == 5
    ours = with_columns(random_ranks(3, smallest=9), rank=rank, ties=[0] * 3, w=weight)
    assert evaluate(ours, ["MedianRank"], weight="w") == {"MedianRank": 5}


def test_their_variance_ignores_weights():
    ranks, weights = TABLES[1], weights_of("uneven", len(TABLES[1]))
    assert theirs(pk.Variance(), ranks, weights) == theirs(pk.Variance(), ranks)
    found = evaluate(with_columns(ranks, w=weights), ["VarRank"], weight="w")["VarRank"]
    assert found == pytest.approx(np.cov(ranks.rank, aweights=weights, ddof=0).item(), rel=1e-9)


def test_nothing_of_theirs_is_forgotten():
    covered = {type(metric).__name__ for metric in (BOTH | UNWEIGHTED_ONLY).values()} | {"MedianAbsoluteDeviation"}
    every = {metric.__name__ for metric in pk.rank_based_metric_resolver}
    assert every - covered == ONLY_THEIRS


@pytest.mark.parametrize("name", [name for name in (BOTH | UNWEIGHTED_ONLY) if "@" not in name or "@10" in name])
def test_their_names_are_understood(name):
    theirs = (BOTH | UNWEIGHTED_ONLY)[name]
    for key in (theirs.key, *theirs.synonyms):
        if not key.endswith("hk"):  # ahk and zahk have no place for the number
            key = re.sub(r"(@k?|_k?)$", r"\g<0>10", key).replace("k10", "10")
            assert parse(key) == parse(name), key


@pytest.mark.parametrize("name", [name for name in (BOTH | UNWEIGHTED_ONLY) if "@" not in name])
def test_directions_agree(name):
    assert parse(name).higher_is_better == (BOTH | UNWEIGHTED_ONLY)[name].increasing
