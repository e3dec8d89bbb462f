import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau, spearmanr

from benches import SMALL, made_pairs, made_points
from kgprobe.openworld.bench_points import Points
from kgprobe.openworld.consistency import PairCounts, consistency, ranking, residual, spread


def _monotone_fit(pairs: list[tuple[float, float]]) -> dict[float, float]:
    """Pool neighbours that fall until none does; equal x share a block from the start."""
    blocks: list[list[Any]] = []
    for x in sorted({x for x, _ in pairs}):
        own = [y for a, y in pairs if a == x]
        blocks.append([[x], sum(own), len(own)])
        while len(blocks) > 1 and blocks[-2][1] / blocks[-2][2] >= blocks[-1][1] / blocks[-1][2]:
            last = blocks.pop()
            blocks[-1] = [blocks[-1][0] + last[0], blocks[-1][1] + last[1], blocks[-1][2] + last[2]]
    return {x: total / count for xs, total, count in blocks for x in xs}


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=15))
def test_residual_is_that_of_pooled_neighbours(pairs: list[tuple[int, int]]) -> None:
    opened, closed = np.array(pairs, dtype=float).T
    found = residual(opened, closed)
    if len(set(closed)) == 1:
        assert math.isnan(found)
        return
    fit = _monotone_fit([(float(x), float(y)) for x, y in pairs])
    squares = [(y - fit[x]) ** 2 for x, y in pairs]
    wanted = math.sqrt(sum(squares) / len(squares)) / (closed.max() - closed.min())
    assert found == pytest.approx(wanted, abs=1e-9)


def test_parallel_lines_have_the_spread_of_their_distance() -> None:
    closed = np.array([0.5, 0.7, 0.9, 0.6, 0.8, 1.0])
    model = np.array([0, 0, 0, 1, 1, 1])
    opened = 0.5 * closed + np.where(model == 0, 0.0, 0.03)
    # The models share 0.6 to 0.9, over which open gains 0.15; two values 0.03 apart deviate by 0.03 / sqrt(2).
    assert spread(opened, closed, model) == pytest.approx(0.03 / math.sqrt(2) / 0.15)


@pytest.mark.parametrize(
    ("closed", "model"),
    [([0.5, 0.6, 0.7, 0.8], [0, 0, 1, 1]), ([0.5, 0.6, 0.55], [0, 0, 1]), ([0.5, 0.6], [0, 0])],
    ids=["nothing-shared", "one-checkpoint", "one-model"],
)
def test_no_spread_without_lines_to_compare(closed: list[float], model: list[int]) -> None:
    assert math.isnan(spread(np.array(closed), np.array(closed), np.array(model)))


def test_lines_pass_through_the_mean_of_equal_places() -> None:
    closed, model = np.array([0.0, 0.0, 1.0, 0.0, 1.0]), np.array([0, 0, 0, 1, 1])
    opened = np.array([0.0, 0.2, 1.1, 0.1, 1.1])
    assert spread(opened, closed, model) == pytest.approx(0.0, abs=1e-12)


def test_inverted_pairs_are_those_of_a_loop_over_best_open_checkpoints() -> None:
    rng = np.random.default_rng(3)
    model = np.repeat(np.arange(6), 4)
    opened, closed = np.round(rng.random((2, 24)), 1)  # few digits: ties
    points = made_points(opened, closed, model)
    best = [max((i for i in range(24) if model[i] == m), key=lambda i: (opened[i], -i)) for m in range(6)]
    wanted = sum(
        (opened[a] - opened[b]) * (closed[a] - closed[b]) < 0 for n, a in enumerate(best) for b in best[n + 1 :]
    )
    found = ranking(points, 0)
    assert found.point.tolist() == best
    assert (found.inverted, found.pairs) == (wanted, 15)
    top, bottom = found.by_open.tolist(), found.by_closed.tolist()
    crossings = sum(
        (top.index(a) - top.index(b)) * (bottom.index(a) - bottom.index(b)) < 0 for a in range(6) for b in range(a)
    )
    assert crossings == wanted > 0


def test_a_known_case_by_hand() -> None:
    points = made_points([0.1, 0.3, 0.2, 0.25], [0.5, 0.9, 0.6, 0.95], [0, 0, 1, 1], mrr=[0.2, 0.8, 0.6, 0.9])
    found = consistency(points, 0)
    assert (found.every.pairs, found.every.discordant, found.every.tied) == (6, 1, 0)
    assert found.every.tau == pytest.approx(4 / 6)
    assert (found.late.points, found.late.pairs, found.late.discordant) == (3, 3, 1)
    assert found.late.tau_mrr == pytest.approx(1 / 3)
    assert (found.inverted, found.model_pairs) == (1, 1)
    assert found.discrimination == pytest.approx(0.05)
    assert found.gap == pytest.approx(((0.9 - 0.3) + (0.95 - 0.25)) / 2)


def test_a_metric_where_lower_is_better_is_turned_around() -> None:
    values = [0.1, 0.3, 0.2, 0.25], [0.5, 0.9, 0.6, 0.95]
    high = consistency(made_points(*values, [0, 0, 1, 1]), 0).to_row()
    low = consistency(made_points(*(-np.array(side) for side in values), [0, 0, 1, 1], metric="MR"), 0).to_row()
    del high["metric"], low["metric"]
    assert low == pytest.approx(high)


def test_statistics_of_ranked_models_are_those_of_scipy() -> None:
    points = Points.of(made_pairs(5, 3), SMALL)
    for number, metric in enumerate(points.metrics):
        sign = 1 if metric.higher_is_better else -1
        found = consistency(points, number, late=0.2)
        assert found.every.tau == pytest.approx(kendalltau(points.open[number], points.closed[number]).statistic)
        assert found.every.rho == pytest.approx(spearmanr(points.open[number], points.closed[number]).statistic)
        assert found.every.tau_mrr == pytest.approx(kendalltau(sign * points.open[number], points.mrr).statistic)
        late = points.mrr > 0.2
        assert 2 < found.late.points == late.sum() < len(points)
        assert found.late.tau == pytest.approx(
            kendalltau(points.open[number][late], points.closed[number][late]).statistic
        )


def test_too_little_to_say_is_none() -> None:
    row = consistency(made_points([0.1, 0.2], [0.3, 0.3], [0, 1], mrr=[0.1, 0.1]), 0).to_row()
    assert {key for key, value in row.items() if value is None} == {
        "tau", "rho", "tau_mrr", "late_tau", "late_rho", "late_tau_mrr", "residual", "spread",
    }  # fmt: skip


def test_scores_are_rounded_before_models_are_ordered() -> None:
    closer, apart = (ranking(made_points([0.5, 0.5 + gap], [0.9, 0.1], [0, 1]), 0) for gap in (3e-7, 3e-5))
    assert (closer.inverted, apart.inverted) == (0, 1)
    assert (closer.by_open.tolist(), apart.by_open.tolist()) == ([0, 1], [1, 0])


def test_a_point_at_the_limit_is_not_late() -> None:
    points = made_points([0.1, 0.2, 0.3], [0.1, 0.2, 0.3], [0, 0, 1], mrr=[0.5, 0.6, 0.7])
    assert consistency(points, 0, late=0.5).late.points == 2


def test_a_model_with_one_late_point_draws_no_line() -> None:
    closed, model = np.array([0.0, 1.0, 0.0, 1.0, 0.5]), np.array([0, 0, 1, 1, 2])
    opened = np.array([0.0, 0.5, 0.1, 0.6, 9.0])
    assert spread(opened, closed, model) == spread(opened[:4], closed[:4], model[:4]) > 0


def test_worse_open_values_are_a_positive_gap_whatever_is_better() -> None:
    points = Points.of(made_pairs(3, 3), ["MRR", "MR"])
    gaps = [consistency(points, number).gap for number in range(2)]
    last = points.last
    assert gaps[0] == pytest.approx((points.closed[0, last] - points.open[0, last]).mean() / points.room[0])
    assert gaps[1] == pytest.approx((points.open[1, last] - points.closed[1, last]).mean() / -points.room[1])
    assert min(gaps) > 0


VALUES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 2)), min_size=2, max_size=14)


def _arrays(rows: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    first, second, model = np.array(rows).T
    return first.astype(float), second.astype(float), model


@given(VALUES)
def test_counts_are_those_of_a_loop_over_pairs(rows: list[tuple[int, int, int]]) -> None:
    first, second, model = _arrays(rows)
    counts = PairCounts.of(first, second, model, 3)
    products = [(a[0] - b[0]) * (a[1] - b[1]) for a, b in combinations(rows, 2)]
    assert counts.pairs == len(products)
    assert counts.tied == products.count(0)
    assert counts.discordant == sum(product < 0 for product in products)


@given(VALUES)
def test_tau_is_that_of_scipy(rows: list[tuple[int, int, int]]) -> None:
    first, second, model = _arrays(rows)
    wanted = kendalltau(first, second).statistic
    assert PairCounts.of(first, second, model, 3).tau().item() == pytest.approx(wanted, abs=1e-12, nan_ok=True)


@given(VALUES, st.lists(st.integers(0, 3), min_size=3, max_size=3))
def test_tau_of_drawn_models_is_that_of_their_copied_points(rows: list[tuple[int, int, int]], draws: list[int]) -> None:
    first, second, model = _arrays(rows)
    copied = [i for i, own in enumerate(model) for _ in range(draws[own])]
    wanted = kendalltau(first[copied], second[copied]).statistic if len(copied) > 1 else np.nan
    weights = np.array([draws, [1, 1, 1]], dtype=float)
    tau = PairCounts.of(first, second, model, 3).tau(weights)
    assert tau[0] == pytest.approx(wanted, abs=1e-12, nan_ok=True)
    assert tau[1] == pytest.approx(kendalltau(first, second).statistic, abs=1e-12, nan_ok=True)


def test_many_points_are_counted_in_parts() -> None:
    first, second = np.random.default_rng(0).normal(size=(2, 700))
    counts = PairCounts.of(first, second + first)
    assert counts.tau().item() == pytest.approx(kendalltau(first, second + first).statistic, abs=1e-12)
    assert counts.pairs == 700 * 699 // 2
