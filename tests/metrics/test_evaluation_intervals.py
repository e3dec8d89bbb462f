"""Metrics of ranks that are intervals, held against exact tables of all kinds between their ends."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kgprobe.aggregate import Geometry, Uniform, surface
from kgprobe.errors import DataError, UsageError
from kgprobe.metrics import RankAccumulator, evaluate, parse, scores
from kgprobe.metrics.metric import DistributionMetric
from kgprobe.ranks import RankFile, Ranks
from kgprobe.ranks.schema import POPULARITY
from kgprobe.transform import Power
from support import DISPERSION, EVERYTHING, metrics, random_ranks, tables, with_columns

MONOTONE = [name for name in EVERYTHING if parse(name).facts.monotone]


@st.composite
def interval_tables(draw: st.DrawFn, **options: int) -> Ranks:
    """Tables in which some ranks, but perhaps none, are intervals."""
    ranks = draw(tables(**options))
    chosen = np.array(draw(st.lists(st.booleans(), min_size=len(ranks), max_size=len(ranks))))
    share = np.array(draw(st.lists(st.floats(0, 1), min_size=len(ranks), max_size=len(ranks))))
    return opened(ranks, chosen, share)


def opened(ranks: Ranks, chosen: np.ndarray, share: np.ndarray) -> Ranks:
    """The table whose chosen ranks reach from their best to some share of the way to the last candidate."""
    best = np.where(chosen, ranks.optimistic, ranks.rank)
    worst = best + np.floor(share * (ranks.candidates - best))
    return with_columns(
        ranks,
        rank=best,
        ties=np.where(chosen, 0, ranks.ties).astype(int),
        worst_rank=[end if open_ else None for end, open_ in zip(worst.tolist(), chosen.tolist(), strict=True)],
    )


def somewhere_between(ranks: Ranks, seed: int) -> Ranks:
    """Exact ranks between the ends, each where chance puts it."""
    part = np.random.default_rng(seed).random(len(ranks))
    inside = ranks.rank + np.floor(part * (ranks.worst_rank - ranks.rank + 1))
    return with_columns(ranks.at_best(), rank=np.minimum(inside, ranks.worst_rank))


def by_name(found):
    return {(str(score.metric), *score.group.values()): score for score in found}


class TestTheDeclaration:
    """What a metric declares about monotonicity is true."""

    @settings(max_examples=300)
    @given(metrics(), tables(), st.data())
    def test_a_worse_rank_never_makes_a_monotone_metric_better(self, metric, ranks, data):
        assume(metric.facts.monotone)
        # A popularity of 0 with an epsilon of 0 is another test's business.
        popularity = {name: np.maximum(ranks.numbers(name), 1e-3) for name in POPULARITY}
        ranks = with_columns(ranks, rank=ranks.optimistic, ties=[0] * len(ranks), **popularity)
        row = data.draw(st.integers(0, len(ranks) - 1))
        worse = ranks.rank.copy()
        worse[row] = data.draw(st.integers(int(worse[row]), int(ranks.candidates[row])))
        before, after = (
            next(iter(evaluate(table, [metric]).values())) for table in (ranks, with_columns(ranks, rank=worse))
        )
        assume(math.isfinite(before) and math.isfinite(after))
        sign = 1 if metric.higher_is_better else -1
        assert sign * (before - after) >= -1e-9 * max(1.0, abs(before))

    @pytest.mark.parametrize("name", DISPERSION)
    def test_worse_ranks_move_the_others_both_ways(self, name):
        ranks = with_columns(random_ranks(3, smallest=40), rank=[10.0, 20.0, 30.0], ties=[0] * 3)
        here, below, above = (
            evaluate(with_columns(ranks, rank=rank), [name])[name]
            for rank in ([10.0, 20.0, 30.0], [20.0, 20.0, 30.0], [10.0, 25.0, 40.0])
        )
        assert below < here < above

    def test_these_are_all_that_are_not_monotone(self):
        assert {parse(name).name for name in EVERYTHING if name not in MONOTONE} == set(DISPERSION)


class TestTheInterval:
    @settings(max_examples=30)
    @given(
        interval_tables(runs=2),
        st.sampled_from([None, "relation", "entity", "side"]),
        st.sampled_from(["mean", "expected", "optimistic", "pessimistic"]),
        st.sampled_from([None, "weight"]),
        st.sampled_from([(), ("kind",), ("side", "popularity:2")]),
        st.integers(0, 1000),
    )
    def test_it_holds_whatever_lies_between_and_its_ends_are_reached(self, ranks, macro, tie, weight, by, seed):
        names = [n for n in MONOTONE if tie != "expected" or not isinstance(parse(n), DistributionMetric)]
        options = {"macro": macro, "tie": tie, "weight": weight, "by": by}
        found = by_name(scores(ranks, names, **options))
        best, worst, between = (
            by_name(scores(table, names, **options))
            for table in (ranks.at_best(), ranks.at_worst(), somewhere_between(ranks, seed))
        )
        for key, score in found.items():
            ends = sorted([best[key].value, worst[key].value])
            assert [score.low, score.high] == pytest.approx(ends, rel=1e-12, nan_ok=True), key
            if not math.isnan(ends[0]):
                slack = 1e-12 * max(1.0, *map(abs, ends))
                assert score.low - slack <= between[key].value <= score.high + slack, key
            if score.low < score.high:
                assert math.isnan(score.value), key
                assert score.std is None
            else:
                assert score.value == pytest.approx(best[key].value, rel=1e-12, nan_ok=True), key
            same = ("seeds", "queries", "left_out")
            assert [getattr(score, name) for name in same] == [getattr(best[key], name) for name in same]

    def test_a_metric_that_no_interval_touches_has_its_value(self):
        ranks = with_columns(
            random_ranks(4, smallest=40), rank=[1.0, 11, 12, 2], ties=[0] * 4, worst_rank=[None, 20.0, 40.0, None]
        )
        hits, mrr = scores(ranks, ["Hits@10", "MRR"])
        assert (hits.value, hits.low, hits.high, hits.intervals) == (0.5, 0.5, 0.5, 2)
        assert math.isnan(mrr.value)
        assert mrr.low == pytest.approx((1 + 1 / 20 + 1 / 40 + 1 / 2) / 4, rel=1e-14)
        assert mrr.high == pytest.approx((1 + 1 / 11 + 1 / 12 + 1 / 2) / 4, rel=1e-14)

    @settings(max_examples=30)
    @given(interval_tables(most_rows=16))
    def test_a_group_without_intervals_is_exact_whatever_the_others_have(self, ranks):
        for score in scores(ranks, EVERYTHING, by=["kind"]):
            own = ranks.filter(np.array(ranks.column("kind").to_pylist()) == score.group["kind"])
            assert score.intervals == own.intervals[score.metric.counted(own.candidates)].sum()
            if not score.intervals and not math.isnan(score.value):
                assert score.low == score.high == score.value

    def test_with_seeds_the_ends_are_means_over_them(self):
        ranks = with_columns(
            random_ranks(4, smallest=40),
            rank=[1.0, 10, 2, 4],
            ties=[0] * 4,
            worst_rank=[None, 20.0, 8.0, 8.0],
            seed=[1, 1, 2, 2],
        )
        (score,) = scores(ranks, ["MR"])
        assert (score.low, score.high) == ((5.5 + 3) / 2, (10.5 + 8) / 2)
        assert (score.std, score.seeds, score.intervals) == (None, 2, 2)

    def test_exact_tables_have_equal_ends(self):
        for ranks in (random_ranks(9), with_columns(random_ranks(9), worst_rank=random_ranks(9).rank)):
            for score in scores(ranks, EVERYTHING):
                assert score.low == score.high == score.value
                assert score.intervals == 0

    def test_an_interval_of_weight_zero_says_nothing(self):
        ranks = with_columns(
            random_ranks(2, smallest=40), rank=[2.0, 3], ties=[0, 0], worst_rank=[None, 9.0], weight=[1.0, 0.0]
        )
        mr, std = scores(ranks, ["MR", "StdRank"], weight="weight")
        assert (mr.value, mr.low, mr.high, mr.intervals) == (2, 2, 2, 0)
        assert std.value == 0

    def test_a_file_is_streamed_to_the_same_intervals(self, tmp_path):
        whole = random_ranks(300, smallest=1, runs=3)
        ranks = opened(whole, np.arange(300) % 3 == 0, np.ones(300))
        ranks.write(tmp_path / "ranks.parquet")
        of_file = scores(RankFile(tmp_path / "ranks.parquet"), MONOTONE, macro="relation")
        for one, other in zip(of_file, scores(ranks, MONOTONE, macro="relation"), strict=True):
            assert (one.low, one.high) == pytest.approx((other.low, other.high), rel=1e-12)
            assert one.intervals == other.intervals > 0


@pytest.mark.parametrize("name", DISPERSION)
def test_a_metric_that_is_not_monotone_has_no_value(name):
    ranks = with_columns(random_ranks(4, smallest=40), rank=[1.0, 2, 3, 4], ties=[0] * 4, worst_rank=[None] * 3 + [9.0])
    (score,) = scores(ranks, [name])
    assert all(math.isnan(number) for number in (score.value, score.low, score.high))
    assert (score.std, score.intervals, score.queries) == (None, 1, 4)


class TestRefusal:
    """Where one number is asked for, there is none."""

    RANKS = with_columns(random_ranks(3, smallest=9), rank=[1.0, 2, 3], ties=[0] * 3, worst_rank=[None, None, 9.0])

    @pytest.mark.parametrize(
        "ask",
        [
            lambda ranks: evaluate(ranks, ["MRR"]),
            lambda ranks: RankAccumulator(["MRR"]).update(ranks),
            lambda ranks: surface(ranks, [1.0], [0.0]),
            lambda ranks: Geometry.of(ranks, Power(1.0), Uniform()),
        ],
        ids=["evaluate", "accumulator", "surface", "geometry"],
    )
    def test_intervals_are_counted_and_the_ways_out_are_named(self, ask):
        with pytest.raises(DataError, match="1 of 3 ranks are intervals") as caught:
            ask(self.RANKS)
        assert "at_best()" in caught.value.remedy
        ask(self.RANKS.at_best())
        ask(self.RANKS.at_worst())

    @pytest.mark.parametrize("options", [{"by": ["rank:2"]}, {"weight": "rank"}, {"by": ["side", "worst_rank"]}])
    def test_ranks_that_may_be_intervals_neither_group_nor_weigh(self, options):
        with pytest.raises(UsageError, match="cannot be used as groups or sample weights"):
            scores(self.RANKS, ["MRR"], **options)

    def test_a_refused_table_leaves_no_trace(self):
        accumulator = RankAccumulator(["MRR"])
        with pytest.raises(DataError):
            accumulator.update(self.RANKS)
        assert accumulator.scores()[0].queries == 0


class TestAccumulatorsAtAnEnd:
    def test_two_of_them_give_both_ends_of_a_stream(self):
        (score,) = scores(TestRefusal.RANKS, ["MRR"])
        best, worst = (RankAccumulator(["MRR"], at=end) for end in ("best", "worst"))
        for accumulator in (best, worst):
            for batch in TestRefusal.RANKS.batches(2):
                accumulator.update(batch)
        assert (worst.compute()["MRR"], best.compute()["MRR"]) == pytest.approx((score.low, score.high), rel=1e-14)

    def test_different_ends_do_not_merge(self):
        with pytest.raises(UsageError, match="different settings"):
            RankAccumulator(["MRR"], at="best").merge(RankAccumulator(["MRR"], at="worst"))

    def test_an_unknown_end_is_refused(self):
        with pytest.raises(UsageError, match="unknown end of an interval"):
            RankAccumulator(["MRR"], at="top")
