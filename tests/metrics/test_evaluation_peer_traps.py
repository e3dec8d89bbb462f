"""What went wrong in other evaluators (field notes, section 1c) must not go wrong here."""

import numpy as np
import pytest
import torch
from pykeen.evaluation.ranks import Ranks as PykeenRanks

from kgprobe.aggregate import surface
from kgprobe.errors import DataError
from kgprobe.metrics import RankAccumulator, evaluate, parse, scores
from kgprobe.ranks import Ranks
from support import EVERYTHING, random_ranks, take


def query(rank, *, ties=0, candidates=20):
    return Ranks.from_columns(
        head=[0], relation=[0], tail=[1], side=["tail"], rank=[rank], ties=[ties], candidates=[candidates]
    )


def pykeen_rank(true: float, others: list[float]) -> float:
    found = PykeenRanks.from_scores(true_score=torch.tensor([[true]]), all_scores=torch.tensor([[true, *others]]))
    return float(found.realistic.item())


class TestTies:
    """Everybody else scores the mean rank of a tie; a coin would do better or worse than that."""

    def test_two_share_the_top(self):
        top = query(1.5, ties=1)
        assert evaluate(top, ["Hits@1", "MRR"], tie="expected") == {"Hits@1": 0.5, "MRR": 0.75}
        assert evaluate(top, ["Hits@1", "MRR"], tie="mean") == {"Hits@1": 0.0, "MRR": pytest.approx(2 / 3)}

    def test_ten_share_the_top(self):
        top = query(5.5, ties=9)
        assert evaluate(top, ["MRR"], tie="expected")["MRR"] == pytest.approx(0.2928968, abs=1e-7)
        assert evaluate(top, ["MRR"], tie="mean")["MRR"] == pytest.approx(0.182, abs=1e-3)

    def test_the_peer_does_score_the_mean_rank(self):
        assert pykeen_rank(0.7, [0.7]) == 1.5
        assert pykeen_rank(0.7, [0.7] * 9) == 5.5

    def test_a_model_that_says_nothing_is_no_better_than_chance(self):
        everything_tied = query(10.5, ties=19)
        found = evaluate(everything_tied, ["AMRI", "AMRR", "AHits@3", "APROBE(alpha=0.5,beta=0)"], tie="expected")
        assert found == pytest.approx(dict.fromkeys(found, 0.0), abs=1e-12)
        assert evaluate(everything_tied, ["MRR"], tie="optimistic") == {"MRR": 1.0}


class TestImpossibleRanks:
    def test_the_peer_rewards_scores_that_are_not_numbers(self):
        assert pykeen_rank(float("nan"), [float("nan")] * 5) == 0.5

    @pytest.mark.parametrize("rank", [0.5, 0.0, -1.0, float("nan"), float("inf"), 20.5, 21.0])
    def test_ranks_that_no_list_has(self, rank):
        with pytest.raises(DataError, match="not usable"):
            query(rank)

    def test_missing_ranks(self):
        with pytest.raises(DataError, match="not usable"):
            query(None)

    def test_a_tie_group_that_sticks_out(self):
        with pytest.raises(DataError, match="not usable"):
            query(1.5, ties=2)

    def test_everything_wrong_is_said_at_once(self):
        with pytest.raises(DataError) as caught:
            Ranks.from_columns(
                head=[0, 0, 0, 1], relation=[0] * 4, tail=[1] * 4, side=["tail", "tail", "both", "head"],
                rank=[0.5, 2, float("nan"), 99], candidates=[9] * 4,
            )  # fmt: skip
        text = str(caught.value)
        expected = ("rank is below 1", "not a number", "larger than the number", "side is neither", "occurs again")
        assert [part for part in expected if part not in text] == []

    def test_no_metric_exceeds_its_best_value(self):
        found = evaluate(
            query(1.0), [name for name in EVERYTHING if "beta=0.6" not in name and "Strat" not in name][:12]
        )
        assert found["MRR"] == 1
        assert all(value <= parse(name).facts.high for name, value in found.items())


class TestDuplicates:
    """Samplers that pad, filters with repeats and paired sorting all break on a query that occurs twice."""

    def test_the_same_query_again(self):
        columns = {"relation": [0, 0], "tail": [1, 1], "side": ["tail"] * 2, "rank": [1, 2], "candidates": [9, 9]}
        with pytest.raises(DataError, match="not usable") as caught:
            Ranks.from_columns(head=[0, 0], **columns)
        assert "occurs again" in str(caught.value)

    def test_both_sides_and_several_seeds_are_no_repeats(self):
        columns = {"head": [0, 0], "relation": [0, 0], "tail": [1, 1], "rank": [1, 2], "candidates": [9, 9]}
        assert len(Ranks.from_columns(side=["head", "tail"], **columns)) == 2
        assert len(Ranks.from_columns(side=["tail", "tail"], seed=[1, 2], **columns)) == 2


class TestPrecision:
    def test_large_ranks_survive(self):
        large = query(91_230_609.0, candidates=91_230_610)
        assert evaluate(large, ["MR", "MedianRank", "HMR"])["MR"] == 91_230_609
        assert evaluate(large, ["MedianRank"])["MedianRank"] == 91_230_609
        assert float(np.float32(91_230_609)) != 91_230_609  # what a float32 would have kept

    def test_half_ranks_survive_beside_large_ones(self):
        both = Ranks.from_columns(
            head=[0, 1],
            relation=[0, 0],
            tail=[2, 2],
            side=["tail"] * 2,
            rank=[91_230_608.5, 1.5],
            candidates=[10**8] * 2,
        )
        assert evaluate(both, ["MR"])["MR"] == 45_615_305

    def test_whole_numbers_are_as_good_as_floats(self):
        columns = {"head": [0, 1, 2], "relation": [0] * 3, "tail": [3] * 3, "side": ["tail"] * 3, "candidates": [9] * 3}
        whole, floats = (
            Ranks.from_columns(rank=np.array([1, 2, 9], dtype=kind), **columns) for kind in (np.int32, float)
        )
        names = [name for name in EVERYTHING if not parse(name).columns or parse(name).columns == ("rank",)]
        assert evaluate(whole, names) == pytest.approx(evaluate(floats, names), rel=1e-15, nan_ok=True)
        single = Ranks.from_columns(rank=np.array([1, 2.5, 9], dtype=np.float32), **columns)
        assert evaluate(single, ["MR"])["MR"] == pytest.approx(12.5 / 3, rel=1e-15)


class TestNothingIsTouched:
    """One peer's filter grows at every call, another sorts the caller's list."""

    def test_arrays_of_the_caller(self):
        given = {
            "head": np.array([2, 0, 1]), "relation": np.array([0, 0, 0]), "tail": np.array([3, 4, 5]),
            "rank": np.array([3.0, 1.0, 2.5]), "candidates": np.array([9, 8, 7]),
        }  # fmt: skip
        before = {name: column.copy() for name, column in given.items()}
        ranks = Ranks.from_columns(side=["tail", "head", "tail"], **given)
        evaluate(ranks, ["MRR", "MedianRank", "MADRank", "ZPROBE"])
        surface(ranks, [1.0, 0.0], [0.0])
        assert all((given[name] == before[name]).all() for name in given)

    def test_the_table(self):
        ranks = random_ranks(50, smallest=1)
        before = ranks.to_arrow()
        for tie in ("mean", "expected", "optimistic"):
            names = [n for n in EVERYTHING if tie != "expected" or "rank" not in parse(n).columns]
            scores(ranks, names, by=["relation", "candidates:3"], macro="side", tie=tie, weight="weight")
            surface(ranks, [1.0, 0.0], [0.0, 0.5], tie=tie)
        assert ranks.to_arrow().equals(before)

    def test_the_second_call_gives_what_the_first_gave(self):
        ranks = random_ranks(50)
        assert evaluate(ranks, EVERYTHING) == pytest.approx(evaluate(ranks, EVERYTHING), rel=0, nan_ok=True)


class TestDenominators:
    def test_what_is_left_out_is_counted_not_dropped_in_silence(self):
        ranks = random_ranks(200, smallest=1, largest=3)
        single = int((ranks.candidates == 1).sum())
        assert single > 10
        (probe, mrr) = scores(ranks, ["PROBE(alpha=1,beta=0)", "MRR"])
        assert (probe.left_out, probe.queries) == (single, 200 - single)
        assert (mrr.left_out, mrr.queries) == (0, 200)

    def test_a_perfect_model_has_rank_one_and_full_marks(self):
        found = evaluate(query(1.0), ["MR", "MRR", "Hits@1", "AMRI", "PROBE(alpha=0,beta=0)"])
        assert set(found.values()) == {1.0}

    def test_entities_unseen_in_training_are_kept(self):
        ranks = random_ranks(100)
        unseen = int((ranks.numbers("entity_popularity") == 0).sum())
        assert unseen > 0
        (score,) = scores(ranks, ["PROBE(alpha=1,beta=0.5)"])
        assert score.queries == 100

    def test_shards_add_up_to_the_whole_without_padding(self):
        ranks = random_ranks(101)
        shards = [RankAccumulator(["MRR", "MedianRank"]) for _ in range(4)]
        for i, shard in enumerate(shards):
            shard.update(take(ranks, range(i, 101, 4)))
            if i:
                shards[0].merge(shard)
        assert [score.queries for score in shards[0].scores()] == [101, 101]
        assert shards[0].compute() == pytest.approx(evaluate(ranks, ["MRR", "MedianRank"]), rel=1e-13)
