from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binom, nbinom

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.openworld.missing_answers import HeldOut, MissingCounts, MissingSelection, check_odds, check_rate
from kgprobe.openworld.world_ranks import rank_worlds
from kgprobe.openworld.world_tasks import all_task
from kgprobe.ranks import Ranks, RanksInfo
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
        triples = world.graph.triples().tolist()
        given = [f for f in triples if (query[0], f[1], f[0] if query[0] == "tail" else f[2]) == query]
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


@pytest.mark.parametrize("rate", [0.1, 0.35, 0.7])
def test_geometric_numbers_of_answers_have_the_posterior_of_bayes(rate: float) -> None:
    # A geometric number of others of which each is missing with this rate: what is missing, given k known ones, is
    # negative binomial of shape k + 1.
    rng, stop = np.random.default_rng(0), 0.1
    total = rng.geometric(stop, 40_000) - 1
    known = 1 + rng.binomial(total, 1 - rate)
    found = MissingCounts.of(known, rate)
    exact = nbinom(known, 1 - (1 - stop) * rate)
    seen = known <= np.quantile(known, 0.95)
    assert np.abs(found.mean / exact.mean() - 1)[seen].max() < 0.1
    ratio = found.variance / exact.var()
    assert ratio[seen].min() > 0.75
    assert ratio[seen].max() < 1.25


def test_the_posterior_of_two_sizes_is_that_of_a_grid() -> None:
    rng, rate = np.random.default_rng(1), 0.3
    total = rng.choice([2, 40], 20_000)
    known = 1 + rng.binomial(total, 1 - rate)
    weight = np.array([binom.pmf(known - 1, size, 1 - rate) for size in (2, 40)])
    expect = (weight * np.array([2, 40])[:, None]).sum(axis=0) / weight.sum(axis=0) - (known - 1)
    found = MissingCounts.of(known, rate)
    small = known < 4
    assert np.abs(found.mean[small] - expect[small]).max() < 0.4
    assert np.abs(found.mean[~small] - expect[~small]).mean() < 2.0


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("kind", ["few", "many", "mixed"])
def test_as_many_are_missing_as_are_on_average(kind: str, rate: float) -> None:
    rng = np.random.default_rng(2)
    sizes = {
        "few": rng.geometric(0.5, 5000) - 1,
        "many": rng.integers(100, 2000, 5000),
        "mixed": np.exp(rng.normal(1.5, 1.2, 5000)).astype(int),
    }
    total = sizes[kind]
    known = 1 + rng.binomial(total, 1 - rate)
    missing = total - (known - 1)
    found = MissingCounts.of(known, rate)
    error = np.sqrt(rate * (1 - rate) * total.sum()) / len(total)
    assert abs(found.mean.mean() - missing.mean()) < 4 * error + 0.01 * missing.mean()
    # What is left to chance is as large as the variance says.
    assert ((missing - found.mean) ** 2).mean() == pytest.approx(found.variance.mean(), rel=0.25)


def test_weights_count_as_repeated_rows() -> None:
    known, times = np.array([1, 2, 5, 9]), np.array([3, 1, 4, 2])
    weighted = MissingCounts.of(known, 0.3, times.astype(float))
    repeated = MissingCounts.of(np.repeat(known, times), 0.3)
    np.testing.assert_allclose(np.repeat(weighted.mean, times), repeated.mean)
    np.testing.assert_allclose(np.repeat(weighted.variance, times), repeated.variance)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 300), min_size=1, max_size=30), st.floats(0, 0.95))
def test_any_numbers_have_a_mean_and_a_variance(known: list[int], rate: float) -> None:
    found = MissingCounts.of(np.array(known), rate)
    assert np.isfinite(found.mean).all()
    assert (found.mean >= 0).all()
    assert np.isfinite(found.variance).all()
    assert (found.variance >= 0).all()


def test_without_missing_triples_none_is_missing() -> None:
    found = MissingCounts.of(np.array([1, 4, 4]), 0.0)
    assert found.mean.tolist() == found.variance.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, float("nan"), float("inf")])
def test_rates_that_are_none_are_refused(rate: float) -> None:
    with pytest.raises(UsageError, match="the missing rate is"):
        check_rate(rate)


PLACES = np.array([0.01, 0.2, 0.5, 0.77, 0.99])

selections = st.builds(MissingSelection, st.floats(0.01, 0.95), st.floats(0.02, 50))


@given(selections)
def test_the_share_comes_out_and_the_odds_are_the_ratio_of_its_ends(selection: MissingSelection) -> None:
    share, _ = quad(lambda place: float(selection.chance(np.array(place))), 0, 1)
    assert share == pytest.approx(selection.missing, rel=1e-6)
    first, last = selection.chance(np.array([0.0, 1.0]))
    assert last / (1 - last) / (first / (1 - first)) == pytest.approx(selection.odds, rel=1e-6)


@given(selections)
def test_shares_before_a_place_are_integrals(selection: MissingSelection) -> None:
    def chance(place: float) -> float:
        return float(selection.chance(np.array(place)))

    for place in PLACES:
        missing, known = quad(chance, 0, place)[0], quad(lambda at: 1 - chance(at), 0, place)[0]
        assert float(selection.missing_before(np.array(place))) == pytest.approx(missing / selection.missing, rel=1e-5)
        assert float(selection.known_before(np.array(place))) == pytest.approx(
            known / (1 - selection.missing), rel=1e-5
        )


@given(selections)
def test_a_known_answer_stands_for_all_at_its_place(selection: MissingSelection) -> None:
    # Over the known ones, the weight averages 1, and weighted places are uniform: their mean is a half.
    def known(place: float) -> float:
        return (1 - float(selection.chance(np.array(place)))) / (1 - selection.missing)

    def weight(place: float) -> float:
        return float(selection.weight(np.array(place)))

    assert quad(lambda at: known(at) * weight(at), 0, 1)[0] == pytest.approx(1)
    assert quad(lambda at: known(at) * weight(at) * at, 0, 1)[0] == pytest.approx(0.5)


@given(st.floats(0.01, 0.95))
def test_without_odds_places_play_no_part(missing: float) -> None:
    alike = MissingSelection(missing)
    np.testing.assert_allclose(alike.chance(PLACES), missing)
    np.testing.assert_allclose(alike.weight(PLACES), 1)
    np.testing.assert_allclose(alike.missing_before(PLACES), PLACES)
    np.testing.assert_allclose(alike.known_before(PLACES), PLACES)
    nearly = MissingSelection(missing, 1 + 1e-6)
    np.testing.assert_allclose(nearly.missing_before(PLACES), PLACES, atol=1e-5)


@pytest.mark.parametrize("odds", [1e-200, 1e-9, 1e9, 1e200])
def test_extreme_odds_leave_numbers(odds: float) -> None:
    selection = MissingSelection(0.4, odds)
    for values in (selection.known_before(PLACES), 1 - selection.known_before(PLACES), selection.weight(PLACES)):
        assert np.isfinite(np.log(values)).all()
    known_first = selection.known_before(np.array(0.5)) > 0.8
    assert bool(known_first) == (odds > 1)


@pytest.mark.parametrize("odds", [0.0, -1.0, float("nan"), float("inf")])
def test_odds_that_are_none_are_refused(odds: float) -> None:
    with pytest.raises(UsageError, match="the odds of missing answers are"):
        check_odds(odds)
