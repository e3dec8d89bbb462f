from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.ranks import RankFile, Ranks, RanksInfo, concatenate, merge_seeds, read_ranks
from kgprobe.ranks.table_builder import TableBuilder
from support import random_ranks

Make = Callable[..., Ranks]


@given(st.lists(st.integers(0, 40), max_size=4))
def test_pieces_put_together_again_are_the_whole(cuts: list[int]) -> None:
    n = 40
    whole = Ranks.from_columns(
        head=np.arange(n),
        relation=np.zeros(n, dtype=int),
        tail=np.ones(n, dtype=int),
        side=np.where(np.arange(n) % 3, "tail", "head"),
        rank=np.arange(n) / 2 + 1,
        candidates=np.full(n, 99),
        ties=np.where(np.arange(n) % 4, np.arange(n) % 2, np.nan),
        labels={"kind": pa.array([f"k{i % 5}" for i in range(n)]).dictionary_encode()},
    )
    edges = [0, *sorted(cuts), n]
    pieces = [whole.filter((np.arange(n) >= a) & (np.arange(n) < b)) for a, b in pairwise(edges)]
    assert concatenate(pieces).to_arrow().to_pylist() == whole.to_arrow().to_pylist()


def test_a_column_that_one_table_lacks_is_null_there(make: Make) -> None:
    both = concatenate([make(ties=[0] * 4), make(head=[5, 5, 6, 6])])
    assert both.column("ties").to_pylist() == [0] * 4 + [None] * 4


def test_facts_on_which_tables_differ_are_forgotten(make: Make) -> None:
    one = RanksInfo(model="a", graph="g", filtered=("train",), settings={"format": "csv", "source": "x"})
    two = RanksInfo(model="b", graph="g", filtered=("train", "test"), settings={"format": "csv", "source": "y"})
    info = concatenate([make(info=one), make(head=[5, 5, 6, 6], info=two)]).info
    assert info == RanksInfo(graph="g", settings={"format": "csv"})


def test_tables_that_share_a_query_are_refused(make: Make) -> None:
    with pytest.raises(DataError, match="not usable") as caught:
        concatenate([make(), make()])
    assert caught.value.problems == ["the same query (and seed) occurs again: 4 rows (rows 5-8)"]


def test_tables_with_and_without_seeds_do_not_go_together(make: Make) -> None:
    with pytest.raises(DataError) as caught:
        concatenate([make(seed=1), make()])
    assert caught.value.problems == ["seed is missing, though the table has seeds: 4 rows (rows 5-8)"]


def test_labels_of_different_kinds_do_not_go_together(make: Make) -> None:
    with pytest.raises(DataError, match="label columns") as caught:
        concatenate([make(labels={"kind": [1] * 4}), make(head=[5, 5, 6, 6], labels={"kind": ["a"] * 4})])
    assert "kind" in caught.value.problems[0]


def test_nothing_cannot_be_concatenated() -> None:
    with pytest.raises(UsageError):
        concatenate([])


def test_runs_are_told_apart_by_their_seed(make: Make) -> None:
    merged = merge_seeds({3: make(seed=8), 1: make(rank=[2, 2, 2, 2])})
    assert merged.seed is not None
    assert merged.seed.tolist() == [3] * 4 + [1] * 4
    assert merged.rank.tolist() == [1, 2.5, 3, 4, 2, 2, 2, 2]


def test_tables_with_and_without_intervals_go_together(make: Make) -> None:
    some = make(worst_rank=[None, None, 7, 6])
    both = concatenate([make(head=[5, 5, 6, 6]), some])
    assert both.column("worst_rank").to_pylist() == [None] * 6 + [7, 6]
    assert both.intervals.tolist() == [False] * 6 + [True] * 2
    assert merge_seeds({1: some, 2: make()}).intervals.tolist() == [False, False, True, True] + [False] * 4


def test_the_target_is_the_entity_of_the_predicted_side(make: Make) -> None:
    ranks = make()
    assert ranks.predicts_tail.tolist() == [False, True, False, True]
    assert ranks.target.tolist() == [0, 1, 1, 2]


def test_ties_spread_the_rank_to_both_sides(make: Make) -> None:
    ranks = make(ties=[0, 3, None, 2])
    assert ranks.optimistic.tolist()[:2] + ranks.optimistic.tolist()[3:] == [1, 1, 3]
    assert ranks.pessimistic.tolist()[:2] + ranks.pessimistic.tolist()[3:] == [1, 4, 5]
    assert np.isnan(ranks.ties[2])
    assert np.isnan(ranks.optimistic[2])


def test_what_is_not_recorded_is_nan_or_none(make: Make) -> None:
    ranks = make()
    assert ranks.seed is None
    for values in (ranks.ties, ranks.numbers("entity_popularity"), ranks.numbers("nothing")):
        assert np.isnan(values).tolist() == [True] * 4


def test_one_seed_is_that_of_every_row(make: Make) -> None:
    seed = make(seed=7).seed
    assert seed is not None
    assert seed.tolist() == [7] * 4


def test_a_column_that_is_not_there_is_a_usage_error(make: Make) -> None:
    assert make(labels={"kind": list("abcd")}).column("kind").to_pylist() == list("abcd")
    with pytest.raises(UsageError, match="no column 'kind'") as caught:
        make().column("kind")
    assert "head, relation, tail, side, rank, candidates" in str(caught.value)


def test_columns_of_different_lengths_are_refused(make: Make) -> None:
    with pytest.raises(DataError) as caught:
        make(rank=[1])
    (problem,) = caught.value.problems
    assert "different lengths" in problem
    assert "rank 1" in problem


def test_slices_are_the_table(make: Make) -> None:
    ranks = make(labels={"kind": list("abcd")})
    parts = list(ranks.batches(3))
    assert [len(part) for part in parts] == [3, 1]
    assert [row for part in parts for row in part.to_arrow().to_pylist()] == ranks.to_arrow().to_pylist()


def test_marked_rows_are_kept(make: Make) -> None:
    ranks = make(info=RanksInfo(model="m")).filter(np.array([True, False, False, True]))
    assert ranks.rank.tolist() == [1, 4]
    assert ranks.info.model == "m"


def test_popularity_is_that_of_the_target_and_replaces_what_was_there(make: Make, graph: KnowledgeGraph) -> None:
    ranks = make(entity_popularity=[0.9] * 4, labels={"kind": list("abcd")})
    attached = ranks.with_popularity(graph.popularity)
    assert attached.numbers("entity_popularity").tolist() == [2 / 8, 2 / 8, 2 / 8, 3 / 8]
    assert attached.numbers("relation_popularity").tolist() == [1, 1 / 2, 1 / 2, 2 / 3]
    assert ranks.numbers("entity_popularity").tolist() == [0.9] * 4
    assert attached.column_names[-3:] == ["entity_popularity", "relation_popularity", "kind"]


def test_changed_facts_leave_the_original_alone(make: Make) -> None:
    ranks = make(info=RanksInfo(model="a", graph="g"))
    assert ranks.with_info(model="b").info == RanksInfo(model="b", graph="g")
    assert ranks.info.model == "a"


def test_the_table_says_what_it_is(make: Make) -> None:
    assert repr(make()) == "Ranks(4 queries)"
    assert repr(make(info=RanksInfo(model="m")).filter(np.arange(4) == 0)) == "Ranks(1 query, model='m')"


def test_metadata_travel_with_the_arrow_table(make: Make) -> None:
    info = RanksInfo(model="m", filtered=("train",))
    assert RanksInfo.from_metadata(make(info=info).to_arrow().schema.metadata) == info


def test_where_worst_rank_is_not_given_the_rank_is_exact(make: Make) -> None:
    ranks = make(worst_rank=[None, 2.5, 6, float("nan")])
    assert ranks.worst_rank.tolist() == [1, 2.5, 6, 4]
    assert ranks.intervals.tolist() == [False, False, True, False]
    assert ranks.has_intervals
    assert make().worst_rank.tolist() == make().rank.tolist()
    assert not make().has_intervals
    assert not make(worst_rank=[1, 2.5, 3, 4]).has_intervals


def test_the_ends_of_intervals_are_exact_tables(make: Make) -> None:
    ranks = make(worst_rank=[None, None, 6, None], ties=[0, 1, 0, None], labels={"kind": list("abcd")})
    for end, rank in ((ranks.at_best(), [1, 2.5, 3, 4]), (ranks.at_worst(), [1, 2.5, 6, 4])):
        assert end.rank.tolist() == rank
        assert "worst_rank" not in end.column_names
        rest = [name for name in ranks.column_names if name not in ("rank", "worst_rank")]
        assert end.to_arrow().select(rest).equals(ranks.to_arrow().select(rest))
    assert ranks.rank.tolist() == [1, 2.5, 3, 4]
    assert make().at_worst().to_arrow().equals(make().to_arrow())


def written(path, **changes):
    n = 3000
    rng = np.random.default_rng(8)
    columns = {
        "head": np.arange(n) * 70_000,
        "relation": rng.integers(0, 300, n),
        "tail": np.arange(n),
        "side": np.where(np.arange(n) % 3, "tail", "head"),
        "rank": rng.integers(2, 2**25, n) / 2,
        "candidates": np.full(n, 2**40),
        "ties": np.where(np.arange(n) % 50, 0.0, np.nan),
        "entity_popularity": rng.integers(0, 40, n) / 70,
        "relation_popularity": rng.random(n),
        "labels": {"kind": [f"k{i % 5}" for i in range(n)]},
    }
    table = Ranks.from_columns(**columns | changes)
    table.write(path)
    return table


@pytest.mark.parametrize("last", [1.0, 2.0**24 + 1.5, 2.0**40])
def test_a_table_from_a_file_has_the_numbers_of_the_file_in_fewer_bytes(tmp_path, last) -> None:
    """Types widen in the last batch: ranks that single precision cannot hold, many distinct popularities, nulls."""
    rank = np.append(np.arange(2, 3001) / 2, last)
    popularity = np.append(np.tile([0.1, 0.2], 1250), np.random.default_rng(0).random(500))
    table = written(tmp_path / "a.parquet", rank=rank, entity_popularity=popularity)
    builder = TableBuilder(len(table))
    for batch in RankFile(tmp_path / "a.parquet").batches(500):
        builder.add(batch.to_arrow())
    found = Ranks.built(builder.table(), table.info)
    assert found.to_arrow().equals(read_ranks(tmp_path / "a.parquet").to_arrow())
    assert found.to_arrow().to_pylist() == table.to_arrow().to_pylist()
    assert found.to_arrow().schema.types == table.to_arrow().schema.types
    for name in ("head", "relation", "tail", "predicts_tail", "target", "rank", "candidates", "ties"):
        one, other = getattr(found, name), getattr(table, name)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    for name in ("entity_popularity", "relation_popularity"):
        np.testing.assert_array_equal(found.numbers(name), table.numbers(name))
        assert found.column(name).to_pylist() == table.column(name).to_pylist()
    assert found._table.nbytes < 0.9 * table._table.nbytes
    rows = np.array([7, 2999, 3])
    assert found.take(rows).to_arrow().to_pylist() == table.take(rows).to_arrow().to_pylist()


def test_equal_columns_are_stored_once_and_other_columns_are_kept(tmp_path) -> None:
    written(tmp_path / "a.parquet")
    other = written(tmp_path / "b.parquet", rank=np.full(3000, 2.5))
    one, two = (read_ranks(tmp_path / f"{name}.parquet") for name in "ab")
    before = pa.total_allocated_bytes()
    shared = two.sharing(one)
    assert shared.is_validated()
    assert shared.to_arrow().to_pylist() == other.to_arrow().to_pylist()
    assert (
        shared._table.column("head").chunk(0).buffers()[1].address
        == one._table.column("head").chunk(0).buffers()[1].address
    )
    assert pa.total_allocated_bytes() <= before
    assert shared.same_queries(one)
    assert shared.same_columns(one, ("candidates", "worst_rank"))
    assert not shared.same_columns(one, ("candidates", "rank"))
    assert not shared.same_queries(one.take(np.arange(3000)[::-1]))


def test_columns_of_large_tables_are_not_kept_in_memory(make: Make, monkeypatch) -> None:
    small, large = make(), make()
    assert small.rank is small.rank
    monkeypatch.setattr("kgprobe.ranks.table._MOST_KEPT", 2)
    assert "rank" not in vars(large)
    assert large.rank.tolist() == small.rank.tolist()
    assert "rank" not in vars(large)


@given(
    st.one_of(
        st.slices(20),
        st.integers(-20, 19),
        st.lists(st.integers(-20, 19), max_size=6),
        st.lists(st.booleans(), min_size=20, max_size=20).map(np.array),
    )
)
def test_rows_are_chosen_as_from_an_array(key: object) -> None:
    ranks = random_ranks(20)
    wanted = np.atleast_1d(np.arange(20)[np.asarray(key, dtype=np.int64) if isinstance(key, list) else key])
    chosen = ranks[key]
    assert chosen.to_rows() == [ranks.to_rows()[i] for i in wanted.tolist()]


def test_a_name_is_a_column_as_an_array() -> None:
    ranks = random_ranks(9).with_info(model="mine")
    coded = pa.array(["x", None, "y"] * 3).dictionary_encode()
    table = Ranks(ranks.to_arrow().append_column("coded", coded), ranks.info)
    assert table["coded"].tolist() == ["x", None, "y"] * 3
    for name in ranks.column_names:
        assert ranks[name].tolist() == ranks.column(name).to_pylist()
    assert table._ipython_key_completions_() == table.column_names


@pytest.mark.parametrize("key", [9, -10, [0, 9], [0.5], [True], [[1]], None, {"rank": 1}, object()])
def test_what_is_no_row_is_refused(key: object) -> None:
    with pytest.raises(UsageError, match="these are no rows of the table"):
        random_ranks(9)[key]
    with pytest.raises(UsageError, match="there is no column 'rnak'"):
        random_ranks(9)["rnak"]
    with pytest.raises(TypeError, match="not iterable"):
        iter(random_ranks(9))


def test_a_notebook_shows_ids_and_ranks_as_they_are_written() -> None:
    ranks = Ranks.from_columns(
        head=[12345], relation=[0], tail=[1], side=["tail"], rank=[2.5], worst_rank=[14000], candidates=[14000]
    ).with_info(graph="tiny", filtered=())
    html = ranks._repr_html_()
    assert all(f">{text}<" in html for text in ("12345", "2.5000", "14,000"))
    assert "graph tiny, filter none." in html
    assert "14,000.0" not in html
