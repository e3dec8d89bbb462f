import math

import numpy as np
import pytest

import kgprobe as kp
from benches import ENTITIES, KNOWN, MISSING, SMALL, made_pair, made_pairs
from kgprobe.errors import DataError
from kgprobe.metrics import parse
from kgprobe.openworld.bench_points import Points, room
from kgprobe.openworld.world import OPEN_WORLD_METRICS
from kgprobe.openworld.world_ranks import RankPair


def test_values_are_those_of_evaluate_in_both_worlds() -> None:
    pairs = made_pairs(2, 2)
    points = Points.of(pairs, SMALL)
    assert points.models == ("model-0", "model-1")
    assert points.model.tolist() == [0, 0, 1, 1]
    assert points.checkpoints == ("epoch-0", "epoch-5") * 2
    assert points.last.tolist() == [1, 3]
    tables = [pair for own in pairs.values() for pair in own.values()]
    for i, pair in enumerate(tables):
        for values, table in ((points.open, pair.open), (points.closed, pair.closed)):
            wanted = kp.evaluate(table, SMALL)
            assert values[:, i].tolist() == pytest.approx(list(wanted.values()), abs=1e-12)
        assert points.mrr[i] == pytest.approx(kp.evaluate(pair.closed, "MRR")["MRR"])
    assert points.queries == 40 * KNOWN


def test_the_mrr_is_known_though_nobody_asks_for_it() -> None:
    asked, whole = (Points.of(made_pairs(2, 1), metrics) for metrics in (["Hits@1"], ["MRR"]))
    assert asked.mrr.tolist() == whole.closed[0].tolist()
    assert [str(metric) for metric in asked.metrics] == ["Hits@1"]


@pytest.mark.parametrize("name", ["MRR", "Hits@10", "PROBE(alpha=0.5)", "PROBE(alpha=-1)", "MR", "logMRR"])
def test_room_is_a_perfect_value_less_the_mean_over_all_ranks(name: str) -> None:
    size = ENTITIES - KNOWN - MISSING + 1
    every = np.arange(1, size + 1)
    whole = {"head": every, "relation": every * 0, "tail": every * 0, "side": ["tail"] * size}
    random = kp.Ranks.from_columns(**whole, rank=every, candidates=[size] * size)
    perfect = kp.Ranks.from_columns(**whole, rank=[1] * size, candidates=[size] * size)
    best, chance = (sum(kp.evaluate(table, name).values()) for table in (perfect, random))
    assert room(parse(name), made_pair(1.0).closed) == pytest.approx(best - chance)


def test_nobody_knows_the_room_of_a_median() -> None:
    assert math.isnan(room(parse("MedianRank"), made_pair(1.0).closed))


def test_the_metrics_are_those_of_the_paper() -> None:
    assert [str(metric) for metric in OPEN_WORLD_METRICS] == [
        "MRR", "pMRR(p=1)", "pMRR(p=0.67)", "pMRR(p=0.5)", "pMRR(p=0.33)", "pMRR(p=0.25)", "logMRR",
        "Hits@1", "Hits@3", "Hits@10", *(f"PROBE(alpha={a},beta=0)" for a in (2, 1, 0.5, 0, -0.5, -1)),
    ]  # fmt: skip


def test_all_tables_of_other_queries_are_named() -> None:
    pairs = {"a": {"1": made_pair(1), "2": made_pair(1, queries=30)}, "b": {"1": made_pair(1, queries=20)}}
    with pytest.raises(DataError) as raised:
        Points.of(pairs, SMALL)
    assert raised.value.problems == [
        "a, 2: its queries are not those of the first rank tables",
        "b, 1: its queries are not those of the first rank tables",
    ]


@pytest.mark.parametrize(
    ("pairs", "problem"),
    [({}, "there are no points"), ({"a": {"1": made_pair(1)}}, "there is only one point")],
    ids=["none", "one"],
)
def test_two_points_are_needed(pairs: dict[str, dict[str, object]], problem: str) -> None:
    with pytest.raises(DataError) as raised:
        Points.of(pairs, SMALL)  # type: ignore[arg-type]
    assert raised.value.problems == [problem]


def _shuffled(pair: RankPair, seed: int) -> RankPair:
    """The same rows in another order."""
    rng = np.random.default_rng(seed)
    return RankPair(*(table.take(rng.permutation(len(table))) for table in (pair.open, pair.closed)))


def test_rows_in_another_order_are_the_same_point() -> None:
    pair = made_pair(1.0, queries=300)
    points = Points.of({"a": {str(seed): _shuffled(pair, seed) for seed in range(4)}})
    assert (
        np.ptp(points.open, axis=1).tolist()
        == np.ptp(points.closed, axis=1).tolist()
        == [0.0] * len(OPEN_WORLD_METRICS)
    )


def test_queries_without_alternatives_give_no_room() -> None:
    columns = {"head": [0, 1], "relation": [0, 0], "tail": [2, 2], "side": ["tail"] * 2, "rank": [1, 1]}
    ranks = kp.Ranks.from_columns(**columns, candidates=[1, 4])
    assert room(parse("PROBE(alpha=-1)"), ranks) == pytest.approx(0.5)
    assert room(parse("Hits@1"), ranks) == pytest.approx((0 + 0.75) / 2)
