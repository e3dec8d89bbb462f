import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.aggregate import parse_groupings, surface
from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.metrics import DEFAULT_METRICS, RankAccumulator, evaluate, parse, scores
from kgprobe.metrics.metric import DistributionMetric
from kgprobe.ranks import RankFile, Ranks, concatenate, merge_seeds
from support import EVERYTHING, random_ranks, tables, take, with_columns

FIT_FOR_EXPECTATION = [name for name in EVERYTHING if not isinstance(parse(name), DistributionMetric)]


def learned(names, ranks):
    groupings = parse_groupings(names)
    for grouping in groupings:
        grouping.learn(ranks)
    return groupings


def assert_same_scores(found, wanted):
    assert [(s.metric, s.group, s.seeds, s.queries, s.left_out) for s in found] == [
        (s.metric, s.group, s.seeds, s.queries, s.left_out) for s in wanted
    ]
    for one, other in zip(found, wanted, strict=True):
        # A spread of 0 between seeds is rounding noise, so it is held against the value.
        scale = 1e-12 * max(1.0, abs(other.value)) if math.isfinite(other.value) else 0
        assert one.value == pytest.approx(other.value, rel=1e-12, abs=scale, nan_ok=True), one.metric
        assert one.effective == pytest.approx(other.effective, rel=1e-12, nan_ok=True), one.metric
        assert (one.std is None) == (other.std is None)
        if one.std is not None:
            assert one.std == pytest.approx(other.std, rel=1e-9, abs=10 * scale, nan_ok=True), one.metric


@settings(max_examples=40)
@given(
    tables(smallest=1, runs=2, most_rows=16),
    st.lists(st.integers(0, 3), min_size=16, max_size=16),
    st.permutations(range(4)),
    st.sampled_from([None, "relation", "entity", "side"]),
    st.sampled_from(["mean", "expected", "optimistic", "pessimistic"]),
    st.sampled_from([None, "weight"]),
    st.sampled_from([(), ("kind",), ("relation", "popularity:3"), ("side", "candidates:2")]),
)
def test_any_partition_in_any_order_gives_what_evaluate_gives(ranks, part_of, order, macro, tie, weight, by):
    names = FIT_FOR_EXPECTATION if tie == "expected" else EVERYTHING
    wanted = scores(ranks, names, by=by, macro=macro, tie=tie, weight=weight)

    total = RankAccumulator(names, by=learned(by, ranks), macro=macro, tie=tie, weight=weight)
    for part in order:
        own = RankAccumulator(names, by=learned(by, ranks), macro=macro, tie=tie, weight=weight)
        rows = [i for i in range(len(ranks)) if part_of[i] == part]
        for chunk in (rows[::2], rows[1::2]):
            own.update(take(ranks, chunk))
        total.merge(own)
    assert_same_scores(total.scores(), wanted)


def test_row_by_row_equals_all_at_once():
    ranks = random_ranks(60, smallest=1, runs=3)
    accumulator = RankAccumulator(EVERYTHING)
    for row in np.random.default_rng(0).permutation(60).tolist():
        accumulator.update(take(ranks, [row]))
    assert accumulator.compute() == pytest.approx(evaluate(ranks, EVERYTHING), rel=1e-12)


def test_default_epsilon_is_that_of_all_parts_together():
    """Alone, each part would choose another epsilon."""
    ranks = with_columns(
        random_ranks(4), entity_popularity=[0.5, 0.4, 0.001, 0.002], relation_popularity=[1.0, 0.9, 0.01, 0.02]
    )
    first, second = (RankAccumulator(["PROBE(alpha=1,beta=1)"]) for _ in range(2))
    first.update(take(ranks, [0, 1]))
    second.update(take(ranks, [2, 3]))
    first.merge(second)
    assert first.compute() == pytest.approx(evaluate(ranks, ["PROBE(alpha=1,beta=1)"]), rel=1e-13)


def test_compute_can_be_called_between_updates():
    ranks = random_ranks(20)
    accumulator = RankAccumulator(["MRR", "PROBE(alpha=0,beta=0.5)"])
    accumulator.update(take(ranks, range(10)))
    assert accumulator.compute() == pytest.approx(evaluate(take(ranks, range(10)), accumulator.metrics), rel=1e-13)
    accumulator.update(take(ranks, range(10, 20)))
    assert accumulator.compute() == pytest.approx(evaluate(ranks, accumulator.metrics), rel=1e-13)
    assert accumulator.compute() == accumulator.compute()


def test_reset_forgets_everything():
    accumulator = RankAccumulator(["MRR", "MedianRank"])
    accumulator.update(random_ranks(20, seed=1))
    accumulator.reset()
    assert all(math.isnan(value) for value in accumulator.compute().values())
    accumulator.update(random_ranks(20, seed=2))
    assert accumulator.compute() == evaluate(random_ranks(20, seed=2), ["MRR", "MedianRank"])


def test_merging_leaves_the_other_as_it_was():
    one, other = RankAccumulator(["MRR"]), RankAccumulator(["MRR"])
    one.update(random_ranks(5, seed=1))
    other.update(random_ranks(5, seed=2))
    before = other.compute()
    one.merge(other)
    one.update(random_ranks(5, seed=3))
    assert other.compute() == before


def test_labels_of_a_merged_part_are_known():
    one, other = (RankAccumulator(["MRR"], by=parse_groupings(["topic"])) for _ in range(2))
    one.update(with_columns(random_ranks(1, seed=1), topic=["a"]))
    other.update(with_columns(random_ranks(1, seed=2), topic=["b"]))
    one.merge(other)
    assert [score.group for score in one.scores()] == [{"topic": "a"}, {"topic": "b"}]


def test_a_refused_table_leaves_no_trace():
    accumulator = RankAccumulator(["MRR", "PROBE(beta=1)"])
    bad = take(random_ranks(5), range(5)).to_arrow().drop_columns(["entity_popularity"])
    with pytest.raises(DataError, match="not recorded"):
        accumulator.update(type(random_ranks(1))(bad))
    assert [score.queries for score in accumulator.scores()] == [0, 0]
    accumulator.update(random_ranks(5))
    assert accumulator.compute() == evaluate(random_ranks(5), accumulator.metrics)


@pytest.mark.parametrize(
    "other",
    [
        RankAccumulator(["MR"]),
        RankAccumulator(["MRR"], macro="side"),
        RankAccumulator(["MRR"], tie="optimistic"),
        RankAccumulator(["MRR"], weight="weight"),
        RankAccumulator(["MRR"], by=parse_groupings(["side"])),
    ],
    ids=["metrics", "macro", "tie", "weight", "groups"],
)
def test_different_settings_do_not_merge(other):
    with pytest.raises(UsageError, match="different settings"):
        RankAccumulator(["MRR"]).merge(other)


def test_bands_with_different_edges_do_not_merge():
    one, other = (RankAccumulator(["MRR"], by=learned(["rank:3"], random_ranks(30, seed=s))) for s in (1, 2))
    with pytest.raises(UsageError, match="different settings"):
        one.merge(other)


def test_with_groups_there_is_no_single_value():
    with pytest.raises(UsageError, match=r"call scores\(\)"):
        RankAccumulator(["MRR"], by=parse_groupings(["side"])).compute()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0], "negative"),
        ([1.0, math.nan], "negative or not finite"),
        (["a", "b"], "not numbers"),
        ([1, None], "negative or not finite"),
    ],
)
def test_sample_weights_must_be_numbers_of_at_least_zero(weights, message):
    with pytest.raises(DataError, match=message):
        evaluate(with_columns(random_ranks(2), w=weights), ["MRR"], weight="w")


def test_the_weight_column_must_exist():
    with pytest.raises(UsageError, match="no column 'w'"):
        evaluate(random_ranks(2), ["MRR"], weight="w")


def test_an_unknown_macro_is_answered_with_the_known_ones():
    with pytest.raises(UsageError, match="unknown macro 'tail'") as caught:
        evaluate(random_ranks(2), ["MRR"], macro="tail")
    assert "relation, entity, side" in str(caught.value)


def test_weights_that_are_all_0_are_refused():
    ranks = with_columns(random_ranks(3), weight=[0.0] * 3)
    with pytest.raises(DataError, match="all sample weights are 0"):
        scores(ranks, ["MRR", "MedianRank", "IMedianRank", "VarRank", "StdRank", "MADRank", "ZMR"], weight="weight")


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
                every = [score.value for score in groups if str(score.metric) == name and score.reason is None]
                mean = np.mean(every) if every else math.nan
                assert value == pytest.approx(mean, rel=1e-11, abs=1e-12, nan_ok=True), name

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
    @pytest.mark.parametrize("by", [[], ["relation"], ["candidates:2"]])
    def test_an_empty_table_is_refused(self, by):
        with pytest.raises(DataError, match="the table is empty"):
            scores(take(random_ranks(2), []), ["MRR", "MedianRank", "ZPROBE"], by=by)

    def test_an_accumulator_without_queries_says_so(self):
        for score in RankAccumulator(["MRR", "MedianRank", "ZPROBE"]).scores():
            assert math.isnan(score.value)
            assert score.reason is not None
            assert (score.queries, score.seeds, score.effective) == (0, 0, 0)

    def test_evaluate_warns_of_a_metric_that_is_undefined(self):
        ranks = with_columns(random_ranks(2), rank=[1.0, 1.0], ties=[0, 0], candidates=[1, 1])
        with pytest.warns(UserWarning, match="AMRI is undefined: every query has a single candidate"):
            found = evaluate(ranks, ["MRR", "AMRI"])
        assert found["MRR"] == 1
        assert math.isnan(found["AMRI"])

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


def test_results_are_keyed_by_canonical_name_in_the_order_asked():
    found = evaluate(random_ranks(5), ["hits@3", "probe(.5)", "mean rank", "Hits@3"])
    assert list(found) == ["Hits@3", "PROBE(alpha=0.5,beta=0)", "MR"]
    assert all(type(value) is float for value in found.values())


def test_metrics_may_be_values():
    ranks = random_ranks(5)
    assert evaluate(ranks, [parse("MRR")]) == evaluate(ranks, ["MRR"])


def test_asking_for_more_changes_no_value():
    ranks = random_ranks(50, smallest=1)
    together = evaluate(ranks, EVERYTHING)
    for name in EVERYTHING:
        ((canonical, alone),) = evaluate(ranks, [name]).items()
        assert together[canonical] == pytest.approx(alone, rel=1e-14)


def test_a_file_is_streamed_to_the_same_values(tmp_path):
    ranks = random_ranks(300, smallest=1, runs=3)
    ranks.write(tmp_path / "ranks.parquet")
    file = RankFile(tmp_path / "ranks.parquet")
    for options in ({}, {"macro": "relation"}, {"tie": "pessimistic"}, {"weight": "weight"}):
        wanted = evaluate(ranks, EVERYTHING, **options)
        assert evaluate(file, EVERYTHING, **options) == pytest.approx(wanted, rel=1e-12)


def test_more_rows_than_a_batch_holds():
    ranks = random_ranks(140_000, largest=500)
    r, size = ranks.rank, ranks.candidates
    found = evaluate(ranks, ["MRR", "MR", "MedianRank", "PROBE(alpha=1,beta=0)"])
    assert list(found.values()) == pytest.approx(
        [np.mean(1 / r), r.mean(), np.median(r), np.mean((1 / r - 1 / size) / (1 - 1 / size))], rel=1e-13
    )


class TestGraph:
    @pytest.fixture
    def graph(self):
        train = np.array([[0, 0, 1], [0, 1, 1], [2, 1, 1], [3, 0, 0]])
        return KnowledgeGraph("tiny", 5, 2, {"train": train, "test": np.array([[3, 1, 1], [4, 0, 0]])})

    @pytest.fixture
    def ranks(self):
        return Ranks.from_columns(
            head=[3, 3, 4],
            relation=[1, 1, 0],
            tail=[1, 1, 0],
            side=["head", "tail", "head"],
            rank=[1, 2, 4],
            candidates=[5, 5, 4],
        )

    def test_popularity_comes_from_the_graph(self, ranks, graph):
        # delta(e): entity 3 is in 1 of 8 places, 1 in 3, 4 in none; delta(r|e): 0 of 1, 2 of 3, none
        weights = (
            np.array([1 / 8 + 1 / 8, 3 / 8 + 1 / 8, 0 + 1 / 8]) ** -1 * np.array([2 / 3, 2 / 3 + 2 / 3, 2 / 3]) ** -1
        )
        f = np.array([1, (1 / 2 - 1 / 5) / (1 - 1 / 5), 0])
        found = evaluate(ranks, ["PROBE(alpha=1,beta=1)"], graph=graph)["PROBE(alpha=1,beta=1)"]
        assert found == pytest.approx((weights * f).sum() / weights.sum(), rel=1e-13)

    def test_it_replaces_what_the_table_has(self, ranks, graph):
        wrong = with_columns(ranks, entity_popularity=[0.9, 0.9, 0.1], relation_popularity=[0.1, 0.2, 0.3])
        assert evaluate(wrong, ["PROBE(beta=1)"], graph=graph) == evaluate(ranks, ["PROBE(beta=1)"], graph=graph)

    def test_a_file_gets_it_too(self, ranks, graph, tmp_path):
        ranks.write(tmp_path / "ranks.parquet")
        file = RankFile(tmp_path / "ranks.parquet")
        assert evaluate(file, ["PROBE(beta=1)"], graph=graph) == evaluate(ranks, ["PROBE(beta=1)"], graph=graph)

    def test_ids_outside_the_graph_are_refused(self, ranks, graph):
        with pytest.raises(DataError, match="not usable") as caught:
            evaluate(with_columns(ranks, head=[3, 3, 99]), ["MRR"], graph=graph)
        assert "outside the graph" in str(caught.value)


def test_a_bad_file_is_refused_with_everything_that_is_wrong(tmp_path):
    import pyarrow.parquet as pq

    table = random_ranks(3).to_arrow()
    at = table.column_names.index("rank")
    pq.write_table(table.set_column(at, "rank", [np.array([0.5, np.nan, 1e9])]), tmp_path / "bad.parquet")
    with pytest.raises(DataError) as caught:
        scores(RankFile(tmp_path / "bad.parquet"), ["MRR"])
    text = str(caught.value)
    assert all(part in text for part in ("bad.parquet", "rank is below 1", "not a number", "larger than the number"))


def test_a_large_beta_rests_on_the_rarest_query_even_where_entity_and_relation_are_rare_apart():
    ranks = Ranks.from_columns(
        head=[0, 1],
        relation=[0, 0],
        tail=[1, 0],
        side=["tail", "tail"],
        rank=[1, 3],
        candidates=[9, 9],
        entity_popularity=[1e-6, 0.5],
        relation_popularity=[1.0, 1e-4],
    )
    accumulator = RankAccumulator(["PROBE(beta=200)"])
    accumulator.update(ranks)
    assert evaluate(ranks, "PROBE(beta=200)") == accumulator.compute() == {"PROBE(alpha=1,beta=200)": 1.0}
    assert evaluate(ranks, ["PROBE(beta=1)", "PROBE(beta=200)"])["PROBE(alpha=1,beta=200)"] == 1.0
    assert surface(ranks, [1.0], [1.0, 200.0])[0, 1] == 1.0


class TestBy:
    def test_groups_are_evaluated_and_read_back_by_pandas(self):
        ranks = random_ranks(300, seed=4, runs=3)
        frame = ranks.to_pandas()
        found = evaluate(ranks, ["MRR", "MR"], by="relation,kind").to_pandas()
        wanted = frame.assign(value=1 / frame["rank"]).groupby(["relation", "kind", "seed"])["value"].mean()
        over_seeds = wanted.groupby(["relation", "kind"]).agg(["mean", "std"])
        own = found[found["metric"] == "MRR"].set_index(["relation", "kind"]).loc[over_seeds.index]
        assert own["value"].to_numpy() == pytest.approx(over_seeds["mean"].to_numpy(), rel=1e-12)
        assert own["std"].to_numpy() == pytest.approx(over_seeds["std"].to_numpy(), rel=1e-9)
        assert len(found) == 2 * len(over_seeds)

    def test_a_string_and_a_list_are_the_same_groups(self):
        ranks = random_ranks(50)
        assert (
            evaluate(ranks, "MRR", by="side") == evaluate(ranks, "MRR", by=["side"]) == scores(ranks, "MRR", by="side")
        )
        both = evaluate(ranks, "MRR", by=["side", "relation"])
        assert both == evaluate(ranks, "MRR", by="side,relation")
        assert repr(both) == f"Scores(MRR in {len(both)} groups by side, relation)"

    def test_relations_have_labels_and_names_of_the_graph(self):
        graph = KnowledgeGraph.from_triples(
            train=[[0, 0, 1]], num_entities=400, relation_labels=["P0", "P1", "P2", "P3"]
        )
        found = evaluate(random_ranks(50), ["MRR", "MR"], by="relation", graph=graph)
        assert {row["relation"]: row["relation_label"] for row in found.to_rows()} == {i: f"P{i}" for i in range(4)}
        assert str(found).splitlines()[2].split() == ["P0", *map(_text, found[:2]), str(found[0].queries)]
        assert "relation_label" not in evaluate(random_ranks(50), "MRR", by="relation").to_rows()[0]

    def test_a_stream_is_grouped_by_the_names_of_columns(self):
        ranks = random_ranks(50)
        stream = RankAccumulator("MRR", by=["side"])
        stream.update(ranks)
        assert stream.scores() == scores(ranks, "MRR", by="side")

    def test_the_usual_metrics_are_the_default(self):
        ranks = random_ranks(20)
        assert evaluate(ranks) == evaluate(ranks, DEFAULT_METRICS)
        assert [str(score.metric) for score in scores(ranks)] == [str(parse(name)) for name in DEFAULT_METRICS]

    def test_values_that_ranks_leave_open_are_shown_as_a_range(self):
        ranks = Ranks.from_columns(
            head=[0], relation=[0], tail=[1], side=["tail"], rank=[2], worst_rank=[4], candidates=[9]
        )
        (score,) = found = evaluate(ranks, "MRR", by="side")
        assert repr(score) == "Score(MRR: 0.2500 to 0.5000, side='tail', 1 query)"
        assert "0.2500 to 0.5000" in str(found)
        assert found.plot().axes[0].collections[0].get_segments()[0].tolist() == [[0.25, 0], [0.5, 0]]


def _text(score):
    return f"{score.value:.4f}"
