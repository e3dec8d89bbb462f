import math

import numpy as np
import pytest
from hypothesis import given, settings

from kgprobe import concatenate, evaluate, merge_seeds, scores
from support import EVERYTHING, random_ranks, tables, take, with_columns


def rows_where(ranks, flags):
    return take(ranks, np.flatnonzero(flags).tolist())


class TestSeeds:
    def test_the_value_is_the_mean_over_runs_with_its_deviation(self):
        runs = {seed: random_ranks(25, seed=seed) for seed in (1, 2, 3)}
        names = ["MRR", "PROBE(alpha=0.5,beta=0)", "MedianRank"]
        apart = [evaluate(run, names) for run in runs.values()]
        for score in scores(merge_seeds(runs), names):
            values = [run[str(score.metric)] for run in apart]
            assert score.value == pytest.approx(np.mean(values), rel=1e-13)
            assert score.std == pytest.approx(np.std(values, ddof=1), rel=1e-11)
            assert (score.seeds, score.queries) == (3, 25)

    def test_a_single_run_has_no_deviation(self):
        (score,) = scores(merge_seeds({7: random_ranks(5)}), ["MRR"])
        assert (score.std, score.seeds) == (None, 1)

    def test_runs_of_different_size_count_the_same(self):
        ranks = with_columns(random_ranks(4, smallest=9), seed=[1, 2, 2, 2], rank=[1.0, 2, 2, 2], ties=[0] * 4)
        (score,) = scores(ranks, ["MRR"])
        assert (score.value, score.queries) == (0.75, 3)
        assert score.effective == 2

    def test_an_infinite_value_has_no_deviation(self):
        ranks = with_columns(random_ranks(4, smallest=9), rank=[1.0, 2, 1, 3], ties=[0] * 4)
        (alone,) = scores(ranks, ["rawPROBE(alpha=-inf)"])
        assert (alone.value, alone.std) == (math.inf, None)
        (of_runs,) = scores(with_columns(ranks, seed=[1, 1, 2, 2]), ["rawPROBE(alpha=-inf)"])
        assert of_runs.value == math.inf
        assert math.isnan(of_runs.std)

    def test_a_group_that_some_runs_lack(self):
        ranks = with_columns(random_ranks(3), seed=[1, 1, 2], kind=["a", "b", "a"])
        assert [(s.group["kind"], s.seeds) for s in scores(ranks, ["MRR"], by=["kind"])] == [("a", 2), ("b", 1)]


class TestMacro:
    @settings(max_examples=15)
    @given(tables())
    def test_macro_is_the_mean_of_the_groups(self, ranks):
        columns = {"relation": "relation", "side": "side", "entity": "target"}
        ranks = with_columns(ranks, target=ranks.target)
        for macro, column in columns.items():
            macro_values = evaluate(ranks, EVERYTHING, macro=macro)
            groups = scores(ranks, EVERYTHING, by=[column])
            for name, value in macro_values.items():
                every = [score.value for score in groups if str(score.metric) == name]
                assert value == pytest.approx(np.mean(every), rel=1e-11, abs=1e-12, nan_ok=True), name

    def test_effective_queries_of_a_macro_mean(self):
        ranks = with_columns(random_ranks(4), relation=[0, 0, 0, 1])
        (score,) = scores(ranks, ["MRR"], macro="relation")
        weights = np.array([1 / 6, 1 / 6, 1 / 6, 1 / 2])
        assert score.effective == pytest.approx(1 / (weights**2).sum(), rel=1e-13)

    def test_a_cell_whose_queries_say_nothing_is_left_out(self):
        ranks = with_columns(random_ranks(3), relation=[0, 0, 1], candidates=[9, 9, 1], rank=[1.0, 9, 1], ties=[0] * 3)
        (score,) = scores(ranks, ["PROBE(alpha=1,beta=0)"], macro="relation")
        assert (score.value, score.queries, score.left_out) == (0.5, 2, 1)

    def test_a_cell_whose_sample_weights_vanish_is_left_out(self):
        ranks = with_columns(
            random_ranks(3), relation=[0, 0, 1], rank=[1.0, 2, 1], ties=[0] * 3, weight=[1.0, 1.0, 0.0]
        )
        assert evaluate(ranks, ["MRR", "MedianRank"], macro="relation", weight="weight") == {
            "MRR": 0.75,
            "MedianRank": 1.5,
        }

    def test_macro_inside_groups_and_seeds(self):
        ranks = random_ranks(80, runs=2)
        for score in scores(ranks, ["Hits@3"], by=["kind"], macro="relation"):
            own = rows_where(ranks, np.array(ranks.column("kind").to_pylist()) == score.group["kind"])
            assert score.value == pytest.approx(evaluate(own, ["Hits@3"], macro="relation")["Hits@3"], rel=1e-12)


class TestSampleWeights:
    def test_they_multiply_the_weights_of_the_metric(self):
        ranks = random_ranks(30)
        twice = with_columns(ranks, weight=np.where(np.arange(30) < 10, 2.0, 1.0))
        more = take(ranks, range(10))
        copied = concatenate([ranks, with_columns(more, head=more.head + 100)])
        names = ["MRR", "PROBE(alpha=0.5,beta=0.7)", "AMRI", "WMR", "MedianRank", "VarRank"]
        assert evaluate(twice, names, weight="weight") == pytest.approx(evaluate(copied, names), rel=1e-12)

    def test_the_variance_of_chance_takes_their_square(self):
        ranks = with_columns(
            random_ranks(3), rank=[1.0, 2.0, 5.0], ties=[0] * 3, candidates=[5, 9, 7], weight=[1.0, 2.0, 3.0]
        )
        w, r, size = np.array([1.0, 2, 3]), ranks.rank, ranks.candidates
        wanted = (w * ((size + 1) / 2 - r)).sum() / math.sqrt((w**2 * (size**2 - 1) / 12).sum())
        assert evaluate(ranks, ["ZMR"], weight="weight")["ZMR"] == pytest.approx(wanted, rel=1e-13)

    def test_a_common_factor_changes_nothing(self):
        ranks = random_ranks(30)
        scaled = with_columns(ranks, weight=ranks.numbers("weight") * 1e-3)
        one, other = (scores(r, EVERYTHING, weight="weight") for r in (ranks, scaled))
        assert [s.value for s in one] == pytest.approx([s.value for s in other], rel=1e-11, nan_ok=True)
        assert [s.effective for s in one] == pytest.approx([s.effective for s in other], rel=1e-11)

    def test_a_weight_of_zero_takes_a_query_out(self):
        ranks = with_columns(random_ranks(10), weight=[1.0] * 6 + [0.0] * 4)
        names = ["MRR", "MedianRank", "VarRank", "ZMRR", "PROBE(alpha=0,beta=0)"]
        assert evaluate(ranks, names, weight="weight") == pytest.approx(
            evaluate(take(ranks, range(6)), names), rel=1e-12
        )


class TestNothingLeft:
    def test_an_empty_table_has_no_value(self):
        for score in scores(take(random_ranks(2), []), ["MRR", "MedianRank", "ZPROBE"]):
            assert math.isnan(score.value)
            assert (score.queries, score.seeds, score.effective) == (0, 0, 0)

    def test_an_empty_table_has_no_groups(self):
        assert scores(take(random_ranks(2), []), ["MRR"], by=["relation"]) == []

    def test_single_candidates_alone_have_no_value(self):
        ranks = with_columns(random_ranks(2), rank=[1.0, 1.0], ties=[0, 0], candidates=[1, 1])
        (score,) = scores(ranks, ["PROBE"])
        assert math.isnan(score.value)
        assert (score.queries, score.left_out) == (0, 2)


def test_a_run_that_says_nothing_is_not_a_run():
    ranks = with_columns(random_ranks(3), seed=[1, 1, 2], rank=[1.0, 9.0, 1.0], ties=[0] * 3, candidates=[9, 9, 1])
    (score,) = scores(ranks, ["PROBE(alpha=1,beta=0)"])
    assert (score.value, score.std, score.seeds, score.queries, score.left_out) == (0.5, None, 1, 2, 1)
    assert score.effective == 2
