from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe import DataError, KnowledgeGraph, Ranks, RanksInfo, UsageError
from kgprobe.openworld.estimate.answers import HeldOut
from kgprobe.openworld.pair import rank_worlds
from kgprobe.openworld.task import all_task
from worlds import Dense, random_world


def _table(rank: list[float], head: list[int], side: list[str], info: RanksInfo | None = None) -> Ranks:
    number = len(rank)
    return Ranks.from_columns(
        head=head,
        relation=[0] * number,
        tail=np.arange(number),
        side=side,
        rank=rank,
        candidates=[50] * number,
        info=info,
    )


@pytest.mark.parametrize("seed", range(3))
def test_counts_are_those_of_a_loop_on_both_sides(seed: int) -> None:
    world = random_world(seed)
    ranks = rank_worlds(Dense.random(world, seed), world, all_task(world)).open
    found = HeldOut.of(ranks, world.graph)
    sides = ranks.column("side").to_pylist()
    rows = list(zip(ranks.head.tolist(), ranks.relation.tolist(), ranks.tail.tolist(), sides, strict=True))
    query_of = [(side, relation, head if side == "tail" else tail) for head, relation, tail, side in rows]
    members, places = defaultdict(list), defaultdict(list)
    for row, query in enumerate(query_of):
        members[query].append(row)
        places[query].append(int(found.above[row]))
    for row, query in enumerate(query_of):
        own = [ranks.rank[other] for other in members[query]]
        assert found.held_out[row] == len(own)
        before, tied = sum(own < ranks.rank[row]), sum(own == ranks.rank[row])
        assert before <= found.above[row] < before + tied
        facts = world.graph.triples().tolist()
        given = [f for f in facts if (query[0], f[1], f[0] if query[0] == "tail" else f[2]) == query]
        assert found.known[row] == len(given)
    assert all(sorted(own) == list(range(len(own))) for own in places.values())  # ties have different places
    assert found.queries == len(members)
    assert len(set(zip(query_of, found.query.tolist(), strict=True))) == len(members)


def test_filtered_candidates_tell_what_the_graph_tells() -> None:
    world = random_world(4)
    ranks = rank_worlds(Dense.random(world), world, all_task(world)).open
    by_graph, by_number = HeldOut.of(ranks, world.graph), HeldOut.of(ranks, entities=world.num_entities)
    np.testing.assert_array_equal(by_graph.known, world.num_entities - ranks.candidates + 1)
    np.testing.assert_array_equal(by_graph.known, by_number.known)
    without_train = KnowledgeGraph.from_triples(test=world.graph.triples(), num_entities=world.num_entities)
    np.testing.assert_array_equal(HeldOut.of(ranks, without_train).known, by_graph.known)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3), st.sampled_from(["head", "tail"])), min_size=1))
def test_places_of_a_query_are_all_different_and_in_order_of_ranks(rows: list[tuple[int, int, str]]) -> None:
    rank, head, side = (list(column) for column in zip(*rows, strict=True))
    found = HeldOut.of(_table([float(r) for r in rank], head, side), entities=200)
    for query in range(found.queries):
        own = np.flatnonzero(found.query == query)
        in_order = own[np.argsort(found.above[own])]
        assert found.above[in_order].tolist() == list(range(len(own)))
        assert (np.diff(found.ranks.rank[in_order]) >= 0).all()


def test_neither_a_graph_nor_a_number_of_entities_is_an_error_of_the_request() -> None:
    with pytest.raises(UsageError, match="give the graph"):
        HeldOut.of(_table([1.0], [0], ["tail"]))


@pytest.mark.parametrize("filtered", [(), ("train",), ("train", "valid")])
def test_ranks_that_are_not_filtered_by_their_own_split_are_refused(filtered: tuple[str, ...]) -> None:
    ranks = _table([1.0], [0], ["tail"], RanksInfo(split="test", filtered=filtered))
    with pytest.raises(DataError, match="the ranks are not filtered") as caught:
        HeldOut.of(ranks, entities=60)
    assert (", ".join(filtered) or "nothing") in str(caught.value)


def test_ranks_that_say_nothing_of_their_filter_are_believed() -> None:
    assert HeldOut.of(_table([1.0], [0], ["tail"]), entities=60).known.tolist() == [11]


def test_no_rows_are_refused() -> None:
    with pytest.raises(DataError, match="no held-out answer"):
        HeldOut.of(_table([], [], []), entities=60)


def test_intervals_are_refused() -> None:
    ranks = Ranks.from_columns(
        head=[0], relation=[0], tail=[1], side=["tail"], rank=[2], candidates=[9], worst_rank=[4.0]
    )
    with pytest.raises(DataError):
        HeldOut.of(ranks, entities=60)


def test_a_graph_with_fewer_answers_than_the_table_is_refused_with_all_its_rows() -> None:
    ranks = _table([1.0, 2.0, 3.0, 1.0], [0, 0, 0, 1], ["tail"] * 4)
    with pytest.raises(DataError, match=r"rows 1-3: .* such as 3 and 2"):
        HeldOut.of(ranks, entities=51)


def test_a_number_of_entities_below_the_candidates_is_refused() -> None:
    with pytest.raises(DataError, match="do not fit"):
        HeldOut.of(_table([1.0], [0], ["tail"]), entities=20)


def test_candidates_that_the_graph_knows_to_be_answers_are_refused() -> None:
    graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [1, 0, 2]], test=[[0, 0, 2], [1, 0, 3]], num_entities=5)
    ranks = Ranks.from_columns(
        head=[0, 1], relation=[0, 0], tail=[2, 3], side=["tail"] * 2, rank=[1, 2], candidates=[4, 5]
    )
    with pytest.raises(DataError, match=r"rows? 2: there are more candidates"):
        HeldOut.of(ranks, graph)
