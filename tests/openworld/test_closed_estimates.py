from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.metrics import RankAccumulator
from kgprobe.openworld import Estimation, estimate_closed
from kgprobe.openworld.closed_estimates import ClosedOrder, draws_needed
from kgprobe.openworld.world_ranks import rank_worlds
from kgprobe.openworld.world_tasks import all_task
from kgprobe.ranks import Ranks, RanksInfo, merge_seeds
from simulated_worlds import Gaussian, Learned, Scored, Simulated, simulate, simulate_models
from worlds import Dense, random_world

METRICS = ("MRR", "PROBE(alpha=0,beta=0)")


def _values(ranks: Ranks, metrics: Sequence[str] = METRICS) -> list[float]:
    accumulator = RankAccumulator(metrics)
    accumulator.update(ranks)
    return list(accumulator.compute().values())


def _estimates(
    world: Simulated, entities: int, rate: Any, metrics: Sequence[str] = METRICS, draws: int = 12, **given: Any
) -> Any:
    found = estimate_closed({"m": world.open}, metrics, missing=rate, entities=entities, draws=draws, **given)
    return found.estimates


@pytest.mark.parametrize("rate", [*(pytest.param(rate, marks=pytest.mark.slow) for rate in (0.1, 0.2)), 0.35])
@pytest.mark.parametrize(
    ("model", "kind", "queries"),
    [(Learned(0.9), "family", 60), (Gaussian(3.5), "mixed", 200)],
    ids=["learned", "gaussian"],
)
def test_errors_are_a_quarter_of_the_naive_ones_and_intervals_cover(
    model: Scored, kind: str, queries: int, rate: float
) -> None:
    # A check with few runs; benchmarks/openworld_estimate.py is the study.
    errors, naive, covered = [], [], []
    for seed in range(5):
        world, entities = simulate(seed, model, rate, kind=kind, queries=queries)
        for found, truth in zip(_estimates(world, entities, rate), _values(world.closed), strict=True):
            errors.append(abs(found.closed - truth))
            naive.append(abs(found.open - truth))
            covered.append(found.low <= truth <= found.high)
    assert np.mean(errors) <= np.mean(naive) / 4
    assert np.mean(covered) >= 0.8


def _orders(worlds: Sequence[Simulated], entities: int, rate: Any, **given: Any) -> list[ClosedOrder]:
    tables = {name: world.open for name, world in zip("ab", worlds, strict=True)}
    return estimate_closed(tables, "MRR", missing=rate, entities=entities, draws=8, **given).orders


def test_a_model_that_is_better_by_far_stays_so() -> None:
    worlds, entities = simulate_models(0, [Gaussian(1.5), Learned(0.9)], 0.2)
    (order,) = _orders(worlds, entities, 0.2)
    assert (order.first, order.second) == ("b", "a")
    assert order.probability > 0.99
    assert order.holds_up_to == order.tried_up_to == 0.5
    assert order.surely_up_to is not None
    assert order.surely_up_to > 0.3
    better, worse = (_values(world.closed)[0] for world in worlds[::-1])
    assert 0.6 < order.closed / (better - worse) < 1.4
    assert "holds up to a missing rate of at least 0.50" in str(order)


def test_models_that_are_alike_are_left_open() -> None:
    worlds, entities = simulate_models(2, [Gaussian(3.0), Gaussian(3.0)], 0.2)
    (order,) = _orders(worlds, entities, 0.2, curve=False)
    assert 0.02 < order.probability < 0.98
    assert order.holds_up_to is order.surely_up_to is None
    assert str(order) == f"{order.first} beats {order.second} by MRR with probability {order.probability:.0%}"


def test_what_models_have_in_common_does_not_blur_their_difference() -> None:
    (world,), entities = simulate_models(0, [Gaussian(3.0)], 0.2)
    tables = {"a": world.open, "b": world.open}
    found = estimate_closed(tables, "MRR", missing=0.2, entities=entities, draws=16, curve=False)
    (order,) = found.orders
    assert (order.open, order.closed) == (0.0, 0.0)
    apart = np.hypot(*(one.high - one.low for one in found.estimates))
    assert 0 < order.high - order.low < 0.7 * apart
    assert order.probability == 0.5


def test_an_order_that_missing_triples_turned_round_is_found() -> None:
    # One model knows the queries with many answers, of which more are missing, the other those with few.
    size = np.repeat([2, 60], [300, 30])
    many, few = np.repeat([0.1, 0.9], [300, 30]), np.repeat([0.8, 0.1], [300, 30])
    worlds, entities = simulate_models(2, [Learned(many), Learned(few)], 0.35, size)
    opened, closed = ([_values(getattr(world, kind))[0] for world in worlds] for kind in ("open", "closed"))
    assert opened[0] < opened[1]
    assert closed[0] > closed[1]
    (order,) = _orders(worlds, entities, 0.35)
    assert (order.first, order.open) == ("b", pytest.approx(opened[1] - opened[0]))
    assert order.closed < 0
    assert order.probability < 0.2
    assert order.low <= closed[1] - closed[0] <= order.high
    assert order.holds_up_to is not None
    assert 0 < order.holds_up_to < 0.35
    assert order.surely_up_to is not None
    assert order.surely_up_to <= order.holds_up_to


def test_a_range_of_rates_widens_intervals_and_has_its_middle_in_the_middle() -> None:
    worlds, entities = simulate_models(3, [Gaussian(3.0), Gaussian(2.5)], 0.2)
    found = {
        rate: estimate_closed(
            {"a": worlds[0].open, "b": worlds[1].open}, "MRR", missing=rate, entities=entities, draws=4, curve=False
        )
        for rate in (0.1, 0.2, 0.3, (0.1, 0.3))
    }
    for number in range(2):
        ends, alone = found[(0.1, 0.3)].estimates[number], [found[rate].estimates[number] for rate in (0.1, 0.2, 0.3)]
        assert ends.low == pytest.approx(min(one.low for one in alone))
        assert ends.high == pytest.approx(max(one.high for one in alone))
        assert ends.closed == alone[1].closed
        assert ends.most == alone[2].most
    (wide,), alone = found[(0.1, 0.3)].orders, [found[rate].orders[0] for rate in (0.1, 0.2, 0.3)]
    assert wide.probability == pytest.approx(np.mean([one.probability for one in alone]))
    assert (wide.low, wide.high) == (min(one.low for one in alone), max(one.high for one in alone))
    same = estimate_closed({"a": worlds[0].open}, "MRR", missing=(0.2, 0.2), entities=entities, draws=4)
    assert same.estimates[0] == found[0.2].estimates[0]


@pytest.mark.parametrize("odds", [0.25, 4.0])
def test_the_right_odds_are_better_than_none(odds: float) -> None:
    errors = []
    for seed in range(3):
        world, entities = simulate(seed, Gaussian(3.0), 0.2, kind="mixed", queries=400, odds=odds)
        truth = _values(world.closed)[0]
        values = {
            stress: _estimates(world, entities, 0.2, odds=stress, draws=4)[0].closed for stress in (0.25, 1.0, 4.0)
        }
        # The more the last answers are missing, the less the known ones say for the model.
        assert values[0.25] > values[1.0] > values[4.0]
        errors.append([abs(values[odds] - truth), abs(values[1.0] - truth)])
    right, none = np.mean(errors, axis=0)
    assert right < 0.7 * none


def test_all_kinds_of_metrics_are_estimated() -> None:
    metrics = ("PROBE(alpha=0,beta=0.5)", "StratMRR", "GMR", "MedianRank", "Hits@10", "MR")
    world, entities = simulate(4, Gaussian(2.5), 0.3, queries=150)
    found = _estimates(world, entities, 0.3, metrics)
    truth = _values(world.closed, metrics)
    assert [one.open for one in found] == pytest.approx(_values(world.open, metrics))
    for one, true in zip(found, truth, strict=True):
        assert one.low <= one.closed <= one.high
        assert abs(one.closed - true) < abs(one.open - true)
        assert (one.most > one.open) == one.metric.higher_is_better


def test_without_missing_triples_the_estimate_is_the_open_value() -> None:
    world, entities = simulate(5, Gaussian(2.5), 0.3, kind="few", queries=60)
    for found in _estimates(world, entities, 0.0, ("MRR", "MR", "PROBE(alpha=1,beta=0.5)")):
        assert found.open == found.closed == found.most == pytest.approx(found.low) == pytest.approx(found.high)


def test_several_training_runs_are_averaged() -> None:
    worlds, entities = simulate_models(6, [Gaussian(3.0), Gaussian(2.0)], 0.2)
    runs = merge_seeds({0: worlds[0].open, 1: worlds[1].open})
    both = estimate_closed({"m": runs}, "MRR", missing=0.2, entities=entities, draws=8).estimates[0]
    alone = [
        estimate_closed({"m": world.open}, "MRR", missing=0.2, entities=entities, draws=8).estimates[0]
        for world in worlds
    ]
    assert both.open == pytest.approx(np.mean([one.open for one in alone]))
    assert both.closed == pytest.approx(np.mean([one.closed for one in alone]))
    assert both.high - both.low < max(one.high - one.low for one in alone)


def test_the_held_out_share_of_a_tail_task_is_used() -> None:
    rate = 0.35
    world, entities = simulate(7, Learned(0.9), rate, kind="few", queries=3000, least=6)
    found = estimate_closed({"m": world.open}, "MRR", missing=rate, entities=entities, draws=8)
    given = estimate_closed({"m": world.open}, "MRR", missing=rate, entities=entities, draws=8, held_out=0.3)
    assert found.assumptions.held_out == pytest.approx(0.3)
    assert found.estimates[0].closed == pytest.approx(given.estimates[0].closed)
    (truth,) = _values(world.closed, ["MRR"])
    assert abs(found.estimates[0].closed - truth) < abs(found.estimates[0].open - truth) / 4


def test_draws_are_repeated_by_the_seed_and_counted() -> None:
    worlds, entities = simulate_models(8, [Gaussian(3.0), Gaussian(2.0)], 0.2)
    told: list[float] = []

    def estimated(seed: int) -> Estimation:
        tables = {"a": worlds[0].open, "b": worlds[1].open}
        return estimate_closed(
            tables,
            "MRR",
            missing=(0.1, 0.2),
            entities=entities,
            draws=4,
            seed=seed,
            progress=told.append,
            curve=not told,
        )

    first = estimated(0)
    assert sum(told) == draws_needed(2, (0.1, 0.2), 4, curve=True)
    assert first.estimate_rows() == estimated(0).estimate_rows()
    other = estimated(1)
    assert [one.closed for one in other.estimates] == [one.closed for one in first.estimates]
    assert [one.low for one in other.estimates] != [one.low for one in first.estimates]


def test_rows_have_what_is_assumed() -> None:
    worlds, entities = simulate_models(9, [Gaussian(3.0), Gaussian(2.0)], 0.2)
    tables = {"a": worlds[0].open, "b": worlds[1].open}
    found = estimate_closed(tables, METRICS, missing=(0.1, 0.3), entities=entities, odds=2.0, draws=4, curve=False)
    rows = found.to_rows()
    assert [row["kind"] for row in rows] == ["estimate"] * 4 + ["order"] * 2
    assert {(row["missing"], row["missing_high"], row["odds"], row["held_out"]) for row in rows} == {
        (0.1, 0.3, 2.0, None)
    }
    assert [row["metric"] for row in rows] == [*METRICS] * 3


def test_both_sides_of_a_real_world_are_estimated_from_its_graph() -> None:
    world = random_world(0)
    ranks = rank_worlds(Dense.random(world), world, all_task(world)).open
    by_graph = estimate_closed({"m": ranks}, "MRR", missing=0.4, graph=world.graph, draws=4).estimates[0]
    by_number = estimate_closed({"m": ranks}, "MRR", missing=0.4, entities=world.num_entities, draws=4).estimates[0]
    assert by_graph.closed == by_number.closed > by_graph.open


def _one(**changes: Any) -> Ranks:
    columns: dict[str, Any] = {"head": [0, 1], "relation": [0, 0], "tail": [1, 0], "side": ["tail"] * 2, "rank": [1, 2]}
    return Ranks.from_columns(**(columns | {"candidates": [3, 3]} | changes))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"missing": 1.0}, "the missing rate is 1.0"),
        ({"missing": -0.1}, "the missing rate is -0.1"),
        ({"missing": (0.1, 1.0)}, "the missing rate is 1.0"),
        ({"missing": (0.3, 0.1)}, "missing rates from 0.3 to 0.1"),
        ({"odds": 0.0}, "the odds of missing answers are 0.0"),
        ({"held_out": 2.0}, "the held-out share is 2.0"),
        ({"draws": 3}, "draws is 3"),
        ({"seed": -1}, "seed is -1"),
        ({"level": 1.0}, "level is 1.0"),
        ({"entities": None}, "cannot be determined from ranks alone"),
        ({"metrics": "MRX"}, "MRX"),
    ],
)
def test_impossible_requests_are_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        estimate_closed({"m": _one()}, **({"missing": 0.1, "entities": 9} | given))


@pytest.mark.parametrize(
    ("tables", "problem"),
    [
        ({"m": _one(info=RanksInfo(split="test", filtered=()))}, "not filtered"),
        ({"m": _one(worst_rank=[2.0, None])}, "interval"),
        ({"m": _one(head=[], relation=[], tail=[], side=[], rank=[], candidates=[])}, "no query"),
        ({"m": _one(), "n": _one(head=[0, 2])}, "queries"),
        ({"m": _one(candidates=[11, 11])}, "do not fit"),
        ({"m": Path("nowhere.parquet")}, "nowhere.parquet"),
    ],
    ids=["unfiltered", "intervals", "empty", "other queries", "other entities", "no file"],
)
def test_tables_that_tell_nothing_are_refused(tables: dict[str, Any], problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        estimate_closed(tables, missing=0.1, entities=9)


def test_a_graph_that_was_not_ranked_is_refused() -> None:
    graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[2, 0, 1]], num_entities=4)
    columns: dict[str, Any] = {"relation": [0] * 3, "side": ["tail"] * 3, "rank": [1, 2, 3], "candidates": [3] * 3}
    same_query = _one(head=[0] * 3, tail=[1, 2, 3], **columns)
    with pytest.raises(DataError, match="fit"):
        estimate_closed({"m": same_query}, "MRR", missing=0.1, graph=graph)
