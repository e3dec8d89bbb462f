"""Values of tables whose weights, candidates or parameters are extreme, compared with exact fractions and mpmath."""

import math
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest

from kgprobe.metrics import RankAccumulator, evaluate, scores
from kgprobe.ranks import Ranks
from support import EVERYTHING, random_ranks, take, with_columns

RANKS = [1.0, 2.0, 4.0, 8.0, 3.0, 5.0]
WEIGHTS = {
    "sum overflows": [1e308] * 6,
    "square overflows": [1e200, 3e200, 2e200, 1e200, 5e200, 1e200],
    "square underflows": [1e-200, 3e-200, 2e-200, 1e-200, 5e-200, 1e-200],
    "denormal": [5e-324, 1e-323, 5e-324, 2e-323, 5e-324, 5e-324],
    "both ends": [1e308, 1e-308, 1.5e308, 5e-324, 1e308, 2e-308],
    "some 0": [0.0, 1e308, 0.0, 5e307, 1e308, 0.0],
}


def table(**columns) -> Ranks:
    base = {"rank": RANKS, "ties": [0] * 6, "candidates": [20] * 6, "relation": [0, 1, 0, 1, 0, 1]}
    return with_columns(random_ranks(6), **(base | columns))


def exact_mean(values, weights) -> float:
    total = sum(map(Fraction, weights))
    return float(sum(Fraction(w) * Fraction(v) for w, v in zip(weights, values, strict=True)) / total)


def exact_effective(weights) -> float:
    exact = list(map(Fraction, weights))
    return float(sum(exact) ** 2 / sum(w * w for w in exact))


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
class TestExtremeSampleWeights:
    def test_a_mean_is_that_of_exact_fractions(self, weights):
        mr, hits = scores(table(weight=weights), ["MR", "Hits@3"], weight="weight")
        assert mr.value == pytest.approx(exact_mean(RANKS, weights), rel=1e-14)
        assert hits.value == pytest.approx(exact_mean([rank <= 3 for rank in RANKS], weights), rel=1e-14)
        assert mr.effective == pytest.approx(exact_effective(weights), rel=1e-13)

    def test_a_z_score_is_that_of_exact_fractions(self, weights):
        """The mean of 20 equally likely ranks is 10.5, their variance 399 / 12."""
        exact = list(map(Fraction, weights))
        distance = sum(w * (Fraction(21, 2) - Fraction(r)) for w, r in zip(exact, RANKS, strict=True))
        squared = distance**2 / (sum(w * w for w in exact) * Fraction(399, 12))
        (score,) = scores(table(weight=weights), ["ZMR"], weight="weight")
        assert score.value == pytest.approx(math.sqrt(squared) * (1 if distance > 0 else -1), rel=1e-12)

    def test_each_group_has_the_scale_of_its_own_weights(self, weights):
        found = scores(table(weight=weights), ["MR"], by=["relation"], weight="weight")
        for score in found:
            own = slice(score.group["relation"], None, 2)
            assert score.value == pytest.approx(exact_mean(RANKS[own], weights[own]), rel=1e-14)
            assert score.effective == pytest.approx(exact_effective(weights[own]), rel=1e-13)
        (macro,) = scores(table(weight=weights), ["MR"], macro="relation", weight="weight")
        assert macro.value == pytest.approx(np.mean([score.value for score in found]), rel=1e-14)

    def test_parts_merge_in_any_order(self, weights):
        names = ["MR", "ZMR", "MedianRank", "PROBE(beta=0.8)", "StratMRR"]
        whole = RankAccumulator(names, weight="weight")
        whole.update(table(weight=weights))
        merged = RankAccumulator(names, weight="weight")
        for start, end in list(pairwise([0, 1, 3, 4, 6]))[::-1]:
            part = RankAccumulator(names, weight="weight")
            part.update(take(table(weight=weights), range(start, end)))
            merged.merge(part)
        assert merged.compute() == pytest.approx(whole.compute(), rel=1e-12)

    def test_every_metric_is_that_of_weights_divided_by_a_power_of_two(self, weights):
        scaled = np.array(weights) * 2.0**-100
        if (scaled * 2.0**100 != weights).any():
            pytest.skip("these weights cannot be divided without loss")
        one, other = (evaluate(table(weight=w), EVERYTHING, weight="weight") for w in (weights, scaled))
        assert one == pytest.approx(other, rel=1e-12)


class TestNothingWeighs:
    def test_a_group_without_weight_says_why_it_has_no_value(self):
        ranks = table(weight=[0.0, 1.0] * 3)
        for score in scores(ranks, ["MRR", "MedianRank", "ZMR"], by=["relation"], weight="weight"):
            if score.group["relation"]:
                assert score.reason is None
                assert math.isfinite(score.value)
            else:
                assert score.reason == "all sample weights are 0"
                assert math.isnan(score.value)
                assert score.effective == 0

    def test_a_macro_average_leaves_it_out_and_says_so(self):
        ranks = table(weight=[0.0, 1.0] * 3)
        (score,) = scores(ranks, ["MR"], macro="relation", weight="weight")
        assert (score.value, score.empty_cells, score.reason) == (5.0, 1, None)
        assert score.note == "1 groups of the macro average without any weight left out"

    def test_a_training_run_without_weight_is_left_out_with_a_note(self):
        ranks = table(weight=[0.0, 1.0] * 3, seed=[0, 1] * 3)
        (score,) = scores(ranks, ["MR"], weight="weight")
        assert (score.value, score.std, score.seeds, score.empty_seeds) == (5.0, None, 1, 1)
        assert score.note == "1 training runs without any weight left out"


class TestTooFewCandidates:
    SIZES = (5, 12, 10, 30, 11, 9)

    def test_sure_hits_are_left_out_and_change_nothing(self):
        """By the definition over all queries: (hits - expected) / (1 - expected), and the same over its deviation."""
        sizes = np.array(self.SIZES)
        adjusted, z = scores(table(candidates=self.SIZES), ["AHits@10", "ZHits@10"])
        chance = np.minimum(10 / sizes, 1)
        hits = np.array(RANKS) <= 10
        assert adjusted.value == pytest.approx((hits - chance).sum() / (1 - chance).sum(), rel=1e-14)
        assert z.value == pytest.approx((hits - chance).sum() / math.sqrt((chance * (1 - chance)).sum()), rel=1e-14)
        assert (adjusted.queries, adjusted.left_out, adjusted.note) == (
            3, 3, "3 queries with at most 10 candidates left out",
        )  # fmt: skip

    def test_a_relation_of_sure_hits_does_not_spoil_the_macro_average(self):
        ranks = table(candidates=[5, 12, 10, 30, 9, 11])
        (macro,) = scores(ranks, ["AHits@10"], macro="relation")
        (rest,) = scores(take(ranks, [1, 3, 5]), ["AHits@10"])
        assert (macro.value, macro.empty_cells) == (rest.value, 1)

    @pytest.mark.parametrize(
        ("metric", "size", "reason"),
        [
            ("AHits@10", 10, "every query has at most 10 candidates"),
            ("ZHits@20", 20, "every query has at most 20 candidates"),
            ("AHits@1", 1, "every query has a single candidate"),
            ("PROBE", 1, "every query has a single candidate"),
            ("PROBE(beta=0.8)", 1, "every query has a single candidate"),
            ("AMRI", 1, "every query has a single candidate"),
        ],
    )
    def test_where_none_is_left_the_reason_is_the_candidates(self, metric, size, reason):
        (score,) = scores(table(rank=[1.0] * 6, candidates=[size] * 6), [metric])
        assert math.isnan(score.value)
        assert score.reason == reason

    def test_pykeen_gives_0_where_the_value_is_undefined(self):
        """The difference is in the documentation: 0 would mean as good as chance, but no rank could be better."""
        pykeen = pytest.importorskip("pykeen.metrics.ranking")
        assert pykeen.AdjustedHitsAtK()(np.ones(3), np.full(3, 10)) == pytest.approx(0)


@pytest.mark.parametrize("beta", [-5, 4, 60, 1e4, -1e4, 1e300])
def test_a_group_has_a_value_though_all_its_weights_vanish_beside_others(beta):
    ranks = table(entity_popularity=[1e-300, 0.3, 1e-300, 0.4, 1e-299, 0.5], relation_popularity=[1.0] * 6)
    found = scores(ranks, [f"PROBE(alpha=1,beta_e={beta})"], by=["relation"])
    with mpmath.workdps(60):
        for score in found:
            own = slice(score.group["relation"], None, 2)
            popularity = [mpmath.mpf(p) + mpmath.mpf(1e-300) for p in ranks.numbers("entity_popularity")[own].tolist()]
            values = [(1 / mpmath.mpf(r) - mpmath.mpf(1) / 20) / (1 - mpmath.mpf(1) / 20) for r in RANKS[own]]
            largest = max(-beta * mpmath.log(p) for p in popularity)
            weights = [mpmath.exp(-beta * mpmath.log(p) - largest) for p in popularity]
            wanted = float(sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights))
            assert score.value == pytest.approx(wanted, rel=1e-9), score.group
            assert score.reason is None


def test_an_infinite_value_has_a_reason():
    (score,) = scores(table(), ["rawPROBE(alpha=-400)"])
    assert score.value == math.inf
    assert "too large for double precision" in score.reason
