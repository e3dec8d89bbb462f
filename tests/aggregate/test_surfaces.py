import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.aggregate import Surface, surface
from kgprobe.aggregate.surfaces import Powers
from kgprobe.errors import DataError, UsageError
from kgprobe.metrics import evaluate, scores
from kgprobe.metrics.popularity_metrics import PROBE
from kgprobe.ranks import RankFile, Ranks
from support import random_ranks, tables, take, with_columns


def test_rounding_does_not_add_up_over_many_steps():
    exponents, base = np.linspace(-3, 3, 3001), np.linspace(1.1, 60, 50)
    found = np.empty((exponents.size, base.size))
    Powers(exponents).fill(np.log(base), found)
    assert np.abs(found / base ** exponents[:, None] - 1).max() < 8e-14


@pytest.mark.parametrize(
    "exponents", [[0.0], [2.0, -1.0], [0.0, 1.0, 5.0], np.arange(-10, 11) / 10, np.linspace(-400, 400, 9)]
)
def test_even_and_uneven_steps(exponents):
    base = np.array([0.25, 1.0, 3.0])
    found = np.empty((len(exponents), 3))
    Powers(np.asarray(exponents)).fill(np.log(base), found)
    assert found == pytest.approx(base ** np.asarray(exponents)[:, None], rel=1e-12)


def test_a_power_that_vanishes_does_not_take_the_next_ones_along():
    exponents = np.linspace(-400, 0, 9)
    found = np.empty((9, 1))
    Powers(exponents).fill(np.log([10.0]), found)
    assert found[0, 0] == 0
    assert found[2:, 0] == pytest.approx(10.0 ** exponents[2:], rel=1e-12)


SHARP = [math.inf, 100.0, 1.0, 0.3, 1e-12, 1e-310, 0.0, -1e-12, -0.7, -1.0, -100.0, -math.inf]

ROBUST = [0.0, 0.4, 1.0, -0.5, -2.0]


def point_by_point(source, alphas, betas, *, tie="mean", **eps):
    metrics = [PROBE(alpha=a, beta=b, **eps) for a in alphas for b in betas]
    values = evaluate(source, metrics, tie=tie)
    return np.array([values[str(metric)] for metric in metrics]).reshape(len(alphas), len(betas))


@settings(max_examples=40)
@given(tables(smallest=1, runs=3), st.sampled_from(["mean", "expected", "optimistic", "pessimistic"]))
def test_every_point_is_what_evaluate_says(ranks, tie):
    found = surface(ranks, SHARP, ROBUST, tie=tie)
    assert found == pytest.approx(point_by_point(ranks, SHARP, ROBUST, tie=tie), rel=0, abs=1e-13)
    assert found.left_out == scores(ranks, "PROBE", tie=tie)[0].left_out


@pytest.mark.parametrize(
    "alphas",
    [
        np.linspace(-1, 1, 21),
        np.linspace(1, -1, 201),
        np.linspace(-100, 100, 21),
        np.linspace(60, -60, 7),
        np.linspace(-1e-3, 1e-3, 21),
        np.linspace(-1e-9, 1e-9, 5),
        np.linspace(1e-9, 1, 10),
        np.geomspace(1e-6, 100, 9),
    ],
    ids=["usual", "fine", "wide", "falling", "narrow", "tiny", "from almost 0", "uneven"],
)
def test_regular_and_irregular_grids(alphas):
    ranks = random_ranks(300, largest=10**6)
    betas = np.linspace(0, 1, 6)
    found = surface(ranks, alphas, betas)
    assert found == pytest.approx(point_by_point(ranks, alphas, betas), rel=0, abs=1e-13)


@pytest.mark.parametrize("betas", [np.linspace(-3, 3, 13), np.linspace(0, 60, 4), [60.0, -60.0], [-400.0, 0, 400.0]])
def test_large_betas_neither_overflow_nor_vanish(betas):
    ranks = random_ranks(200)
    assert surface(ranks, [1.0], betas) == pytest.approx(point_by_point(ranks, [1.0], betas), rel=1e-9, abs=1e-13)


@pytest.mark.parametrize(("eps_e", "eps_r"), [(1e-5, 1e-3), (0.5, None), (None, 0.01), (1e-200, 1e-200)])
def test_a_given_epsilon(eps_e, eps_r):
    ranks = random_ranks(50)
    found = surface(ranks, [1.0, 0.0], ROBUST, eps_e=eps_e, eps_r=eps_r)
    wanted = point_by_point(ranks, [1.0, 0.0], ROBUST, eps_e=eps_e, eps_r=eps_r)
    assert found == pytest.approx(wanted, rel=1e-10, abs=1e-13)


def test_epsilon_zero_where_every_popularity_is_positive():
    ranks = with_columns(random_ranks(20), entity_popularity=[0.1, 0.2] * 10, relation_popularity=[1.0, 0.5] * 10)
    found = surface(ranks, [0.5], [1.0], eps_e=0.0, eps_r=0.0)
    assert found == pytest.approx(point_by_point(ranks, [0.5], [1.0], eps_e=0.0, eps_r=0.0), rel=1e-12)


def test_a_query_that_says_nothing_does_not_set_epsilon():
    ranks = with_columns(
        random_ranks(3, smallest=9),
        candidates=[1, 9, 9],
        rank=[1.0, 1.0, 4.0],
        ties=[0] * 3,
        entity_popularity=[1e-6, 0.1, 0.2],
        relation_popularity=[1e-6, 0.5, 0.4],
    )
    assert surface(ranks, [1.0], [1.0]) == pytest.approx(point_by_point(ranks, [1.0], [1.0]), rel=1e-13)
    assert surface(ranks, [1.0], [1.0]) == pytest.approx(surface(take(ranks, [1, 2]), [1.0], [1.0]), rel=1e-13)


def test_unweighted_columns_need_no_popularity():
    ranks = random_ranks(20)
    bare = Ranks(ranks.to_arrow().drop_columns(["entity_popularity", "relation_popularity"]))
    assert surface(bare, [1.0, 0.0], 0) == pytest.approx(surface(ranks, [1.0, 0.0], [0.0]), rel=1e-15)


def test_a_file_gives_the_surface_of_its_table(tmp_path):
    ranks = random_ranks(500, runs=2)
    ranks.write(tmp_path / "ranks.parquet")
    file = RankFile(tmp_path / "ranks.parquet")
    assert surface(file, SHARP, ROBUST) == pytest.approx(surface(ranks, SHARP, ROBUST), rel=1e-14)


def test_seeds_are_averaged_not_pooled():
    ranks = with_columns(random_ranks(9), seed=[1, 2, 2, 2, 2, 2, 2, 2, 2])
    apart = [surface(take(ranks, rows), [1.0, 0.0], ROBUST, eps_e=0.1, eps_r=0.1) for rows in ([0], range(1, 9))]
    together = surface(ranks, [1.0, 0.0], ROBUST, eps_e=0.1, eps_r=0.1)
    assert together == pytest.approx(np.mean(apart, axis=0), rel=1e-13)


def test_ranks_that_are_neither_whole_nor_half():
    ranks = with_columns(random_ranks(6), rank=[1.25, 1.5, 1.75, 2.1, 1.0, 1.9], candidates=[9] * 6, ties=[0] * 6)
    assert surface(ranks, SHARP, ROBUST) == pytest.approx(point_by_point(ranks, SHARP, ROBUST), rel=1e-12)


def test_ranks_too_far_apart_for_a_table_of_all_between():
    ranks = with_columns(
        random_ranks(4), rank=[1.0, 7e8, 3.5, 1e9], candidates=[2_000_000_000, 10**9, 5, 10**9 + 7], ties=[0] * 4
    )
    assert surface(ranks, SHARP, ROBUST) == pytest.approx(point_by_point(ranks, SHARP, ROBUST), rel=1e-12)


def test_a_large_table_in_several_batches():
    ranks = random_ranks(300_000, largest=40_000)
    found = surface(ranks, [1.0, 0.0, -0.5], [0.0, 0.5])
    assert found == pytest.approx(point_by_point(ranks, [1.0, 0.0, -0.5], [0.0, 0.5]), rel=1e-12)


def test_it_carries_its_axes_and_what_stands_behind_it():
    ranks = with_columns(random_ranks(5), candidates=[1, 9, 9, 9, 9], rank=[1.0, 1, 2, 3, 9], ties=[0] * 5)
    found = surface(ranks, [1, 0, -1], [0, 0.5])
    assert isinstance(found, Surface)
    assert found.shape == (3, 2)
    assert (found.alphas.tolist(), found.betas.tolist()) == ([1, 0, -1], [0, 0.5])
    assert found.left_out == 1
    wanted = [s.effective for s in scores(ranks, ["PROBE(beta=0)", "PROBE(beta=0.5)"])]
    assert found.effective == pytest.approx(wanted, rel=1e-12)
    assert found.effective[0] == 4
    assert ((100 * found).alphas == found.alphas).all()


@settings(max_examples=25)
@given(tables(smallest=1))
def test_values_lie_between_zero_and_one(ranks):
    found = surface(ranks, SHARP, ROBUST)
    assert found.min() >= -1e-14
    assert found.max() <= 1


@pytest.mark.parametrize(
    ("alphas", "betas", "message"),
    [
        ([math.nan], [0], "alphas must be a list of numbers"),
        (["sharp"], [0], "alphas must be a list of numbers"),
        ([], [0], "alphas must be a list of numbers"),
        ([[1.0]], [0], "alphas must be a list of numbers"),
        ([1], [math.nan], "betas must be a list of numbers"),
        ([1], [None], "betas must be a list of numbers"),
        ([1], [math.inf], "betas must be finite"),
    ],
)
def test_axes_that_make_no_sense(alphas, betas, message):
    with pytest.raises(UsageError, match=message):
        surface(random_ranks(3), alphas, betas)


@pytest.mark.parametrize("eps", [-1.0, math.nan, math.inf])
def test_an_epsilon_that_makes_no_sense(eps):
    with pytest.raises(UsageError, match="epsilon"):
        surface(random_ranks(3), [1], [1], eps_e=eps)


def test_an_unknown_tie_policy():
    with pytest.raises(UsageError, match="unknown tie 'best'"):
        surface(random_ranks(3), [1], [0], tie="best")


def test_epsilon_zero_with_popularity_zero():
    ranks = with_columns(random_ranks(2), entity_popularity=[0.0, 0.1], relation_popularity=[0.1, 0.1])
    with pytest.raises(DataError, match="infinite weight"):
        surface(ranks, [1], [1], eps_e=0.0, eps_r=0.0)


def test_beta_needs_popularity():
    ranks = with_columns(random_ranks(2), relation_popularity=pa.array([0.1, None]))
    with pytest.raises(DataError, match="needs the popularity"):
        surface(ranks, [1], [0, 1])


def test_nothing_to_evaluate():
    with pytest.raises(DataError, match="the table is empty"):
        surface(take(random_ranks(2), []), [1], [0])


@pytest.mark.parametrize("betas", [[0], [0, 0.8]])
def test_single_candidates_alone_are_the_cause_that_is_named(betas):
    alone = with_columns(random_ranks(2), rank=[1.0, 1.0], ties=[0, 0], candidates=[1, 1])
    with pytest.raises(DataError, match="every query has a single candidate"):
        surface(alone, [1], betas)


def test_the_weights_of_a_run_do_not_vanish_beside_those_of_another():
    """At beta 1,000 the rare targets of one run outweigh those of the other by more than a double can hold."""
    ranks = with_columns(
        random_ranks(4, runs=2),
        rank=[1.0, 2.0, 3.0, 4.0],
        ties=[0] * 4,
        candidates=[9] * 4,
        seed=[0, 0, 1, 1],
        entity_popularity=[0.001, 0.001, 0.4, 0.4],
        relation_popularity=[1.0] * 4,
    )
    found = surface(ranks, [1.0], [-1000.0, 1000.0])
    each = [surface(take(ranks, rows), [1.0], [0.0]).item() for rows in ([0, 1], [2, 3])]
    assert found.tolist() == [[pytest.approx(np.mean(each), rel=1e-12)] * 2]


def test_as_many_candidates_as_a_double_counts():
    ranks = with_columns(random_ranks(1), rank=[2.0**52], ties=[0], candidates=[2**53])
    assert surface(ranks, [0.0], [0.0]).item() == pytest.approx(1 - 52 / 53, rel=1e-12)


def test_a_beta_whose_weights_overflow_is_refused():
    with pytest.raises(UsageError, match="at most 1e\\+300"):
        surface(random_ranks(3), [1.0], [1e301])


@pytest.mark.filterwarnings("error")
def test_an_alpha_that_overflows_gives_the_limit() -> None:
    ranks = Ranks.from_columns(
        head=range(4), relation=[0] * 4, tail=[0] * 4, side=["tail"] * 4, rank=[1, 2, 9, 4], candidates=[9] * 4
    )
    found, limit = surface(ranks, [1e308, -1e308], [0.0]), surface(ranks, [np.inf, -np.inf], [0.0])
    assert found.tolist() == limit.tolist() == [[0.25], [0.75]]
