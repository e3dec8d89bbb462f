import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from kgprobe.aggregate import parse_grouping, parse_groupings
from kgprobe.errors import DataError, UsageError
from kgprobe.metrics import RankAccumulator, scores
from kgprobe.ranks import RankFile
from support import random_ranks, tables, take, with_columns


def labels(grouping, ranks):
    return [grouping.label(code) for code in grouping.codes(ranks).tolist()]


def bands(ranks, text):
    grouping = parse_grouping(text)
    grouping.learn(ranks)
    return grouping, grouping.codes(ranks)


@pytest.mark.parametrize("name", ["relation", "side", "kind", "head", "candidates:3", "popularity:2"])
@settings(max_examples=20)
@given(ranks=tables(smallest=1))
def test_groups_divide_the_whole(ranks, name):
    whole = scores(ranks, ["MRR", "Hits@3", "MR"])
    found = scores(ranks, ["MRR", "Hits@3", "MR"], by=[name])
    for i in range(3):
        parts = [score for score in found if score.metric == whole[i].metric]
        assert sum(part.queries for part in parts) == whole[i].queries == len(ranks)
        total = sum(part.value * part.queries for part in parts)
        assert total / len(ranks) == pytest.approx(whole[i].value, rel=1e-12)


@pytest.mark.parametrize("name", ["relation", "side", "kind"])
def test_a_group_is_the_table_of_its_rows(name):
    ranks = random_ranks(80)
    values = ranks.column(name).to_pylist()
    found = scores(ranks, ["MRR", "MedianRank", "PROBE(alpha=0,beta=0)", "ZMRR"], by=[name])
    assert [score.group[name] for score in found][::4] == sorted(set(values))
    for score in found:
        own = take(ranks, [i for i, value in enumerate(values) if value == score.group[name]])
        (wanted,) = scores(own, [score.metric])
        assert (score.value, score.queries) == (pytest.approx(wanted.value, rel=1e-12), wanted.queries)


def test_several_groupings_are_crossed():
    ranks = random_ranks(60)
    found = scores(ranks, ["MRR"], by=["relation,side"])
    pairs = set(zip(ranks.column("relation").to_pylist(), ranks.column("side").to_pylist(), strict=True))
    assert [(s.group["relation"], s.group["side"]) for s in found] == sorted(pairs)


def test_epsilon_and_weights_are_those_of_the_whole_table():
    ranks = random_ranks(60)
    popularity = ranks.numbers("entity_popularity")
    smallest = float(popularity[popularity > 0].min())
    found = scores(ranks, ["PROBE(alpha=1,beta_e=0.5)"], by=["relation"])
    given = scores(ranks, [f"PROBE(alpha=1,beta_e=0.5,eps_e={smallest!r})"], by=["relation"])
    assert [s.value for s in found] == pytest.approx([s.value for s in given], rel=1e-14)


class TestLabels:
    def test_text_with_gaps(self):
        ranks = with_columns(random_ranks(4), topic=["b", None, "a", "b"])
        found = scores(ranks, ["MRR"], by=["topic"])
        assert [(s.group["topic"], s.queries) for s in found] == [(None, 1), ("a", 1), ("b", 2)]

    @pytest.mark.parametrize(
        "values",
        [[3, 1, 3, 2], [0.5, 0.25, 0.5, 1e-9], [True, False, True, True], [2**53, 2**53 + 1, 2**53, 1]],
        ids=["int", "float", "bool", "beyond float64"],
    )
    def test_numbers_keep_their_value_and_order(self, values):
        found = scores(with_columns(random_ranks(4), label=values), ["MRR"], by=["label"])
        assert [s.group["label"] for s in found] == sorted(set(values))
        assert [s.queries for s in found] == [values.count(v) for v in sorted(set(values))]

    def test_dates_are_named_by_text(self):
        day = datetime.date(2024, 2, 1)
        (score,) = scores(with_columns(random_ranks(2), day=[day, day]), ["MRR"], by=["day"])
        assert score.group == {"day": "2024-02-01"}

    def test_gaps_in_one_batch_do_not_rename_the_groups_of_another(self):
        accumulator = RankAccumulator(["MRR"], by=[parse_grouping("cluster")])
        accumulator.update(with_columns(random_ranks(3, seed=1), cluster=[1, 2, -1]))
        accumulator.update(with_columns(random_ranks(3, seed=2), cluster=pa.array([1, None, 2])))
        found = [(s.group["cluster"], s.queries) for s in accumulator.scores()]
        assert found == [(-1, 1), (1, 2), (2, 2), (None, 1)]

    def test_dictionaries_that_differ_between_batches(self):
        accumulator = RankAccumulator(["MRR"], by=[parse_grouping("topic")])
        for words in (["x", "y"], ["y", "z"]):
            accumulator.update(with_columns(random_ranks(2), topic=pa.array(words).dictionary_encode()))
        assert [(s.group["topic"], s.queries) for s in accumulator.scores()] == [("x", 1), ("y", 2), ("z", 1)]

    def test_lists_cannot_be_groups(self):
        with pytest.raises(UsageError, match="cannot be grouped"):
            scores(with_columns(random_ranks(2), things=[[1], [2]]), ["MRR"], by=["things"])


class TestQuantiles:
    @settings(max_examples=40)
    @given(ranks=tables(smallest=1))
    def test_bands_cover_everything_and_keep_equal_values_together(self, ranks):
        for text in ("candidates:4", "rank:3", "popularity:5", "entity_popularity:2"):
            grouping, codes = bands(ranks, text)
            values = grouping._values(ranks)
            assert codes.min() >= 0
            assert codes.max() < int(text[-1])
            order = np.argsort(values, kind="stable")
            assert (np.diff(codes[order]) >= 0).all(), "bands follow the values"
            assert len({(v, c) for v, c in zip(values, codes, strict=True)}) == len(set(values.tolist()))

    def test_distinct_values_are_divided_evenly(self):
        ranks = with_columns(random_ranks(100), candidates=np.arange(100) + 60)
        _, codes = bands(ranks, "candidates:4")
        assert np.bincount(codes.astype(int)).tolist() == [25, 25, 25, 25]

    def test_many_equal_lowest_values_are_a_band_of_their_own(self):
        popularity = [0.0] * 60 + [0.01 * (i + 1) for i in range(40)]
        ranks = with_columns(random_ranks(100), entity_popularity=popularity)
        found = scores(ranks, ["MRR"], by=["entity_popularity:5"])
        assert [(s.group["entity_popularity"], s.queries) for s in found] == [
            ("1: [0, 0]", 60),
            ("2: (0, 0.2]", 20),
            ("3: (0.2, 0.4]", 20),
        ]

    def test_a_single_value_is_a_single_band(self):
        ranks = with_columns(random_ranks(9), candidates=[60] * 9)
        (score,) = scores(ranks, ["MRR"], by=["candidates:4"])
        assert score.group == {"candidates": "1: [60, 60]"}

    def test_popularity_is_that_of_the_triple(self):
        ranks = random_ranks(50)
        product = ranks.numbers("entity_popularity") * ranks.numbers("relation_popularity")
        _, codes = bands(ranks, "popularity:2")
        assert product[codes == 0].max() < product[codes == 1].min()

    def test_ten_bands_and_more_stay_in_order(self):
        ranks = with_columns(random_ranks(120), candidates=np.arange(120) + 60)
        found = scores(ranks, ["MRR"], by=["candidates:12"])
        assert [int(s.group["candidates"].split(":")[0]) for s in found] == list(range(1, 13))

    def test_a_file_has_the_bands_of_its_table(self, tmp_path):
        ranks = random_ranks(60)
        ranks.write(tmp_path / "r.parquet")
        found = scores(RankFile(tmp_path / "r.parquet"), ["MRR"], by=["popularity:3", "candidates:2"])
        wanted = scores(ranks, ["MRR"], by=["popularity:3", "candidates:2"])
        assert [(s.group, s.value) for s in found] == [(s.group, s.value) for s in wanted]

    def test_bands_must_be_learned_first(self):
        with pytest.raises(UsageError, match="not known yet"):
            parse_grouping("rank:3").codes(random_ranks(3))

    def test_popularity_must_be_known(self):
        ranks = with_columns(random_ranks(3), entity_popularity=pa.array([0.1, None, 0.2]))
        with pytest.raises(DataError, match="cannot be grouped"):
            scores(ranks, ["MRR"], by=["popularity:2"])

    def test_no_rows_no_bands(self):
        with pytest.raises(DataError, match="no query"):
            parse_grouping("rank:3").learn(take(random_ranks(3), []))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("popularity", "needs a number of bands"),
        ("candidates:", "not a number of bands"),
        ("candidates:0", "not a number of bands"),
        ("candidates:-2", "not a number of bands"),
        ("candidates:two", "not a number of bands"),
        ("relation:5", "cannot be cut into bands"),
    ],
)
def test_groupings_that_make_no_sense(text, message):
    with pytest.raises(UsageError, match=message):
        parse_grouping(text)


def test_an_unknown_column_is_named_with_those_there_are():
    with pytest.raises(UsageError, match="no column 'colour'") as caught:
        scores(random_ranks(3), ["MRR"], by=["colour"])
    assert "kind" in str(caught.value)


def test_lists_of_groupings():
    assert [g.name for g in parse_groupings(["relation, side", "candidates:2", " "])] == [
        "relation",
        "side",
        "candidates",
    ]


@pytest.mark.parametrize("by", [5, ["side", 5], [None]])
def test_groups_that_are_no_names_are_refused(by):
    with pytest.raises(UsageError, match="`by` holds"):
        scores(random_ranks(5), "MRR", by=by)
