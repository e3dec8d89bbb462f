import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from kgprobe.models.markov_network import COMBINATIONS, Others, Pairs, WeightPrior, connected_pairs, most_likely
from kgprobe.models.rules.groundings import Grounder
from kgprobe.models.rules.rule_table import Rules
from rule_oracles import World, worlds


def by_newton(features: np.ndarray, truth: np.ndarray, strength: float) -> np.ndarray:
    """Logistic regression with a last column of ones, whose weight has no prior, by Newton's method."""
    rows = np.column_stack([features, np.ones(len(features))])
    held = np.append(np.full(features.shape[1], strength), 0.0)
    weights = np.zeros(rows.shape[1])
    for _ in range(50):
        likely = 1 / (1 + np.exp(-rows @ weights))
        gradient = rows.T @ (likely - truth) + held * weights
        bend = rows.T @ (rows * (likely * (1 - likely))[:, None]) + np.diag(held)
        weights -= np.linalg.solve(bend, gradient)
    return weights


@pytest.mark.parametrize("strength", [0.1, 3.0])
def test_weights_are_those_of_a_regression_over_all_pairs_one_by_one(strength: float) -> None:
    rng = np.random.default_rng(0)
    features = rng.poisson(0.7, (60, 4)).astype(float)
    truth = np.clip((rng.random(60) < 0.4) + rng.choice([0, 0.25], 60), 0, 1)
    everything = np.concatenate([features, np.zeros((40, 4))])
    expected = by_newton(everything, np.concatenate([truth, np.ones(3), np.zeros(37)]), strength)
    weights, bias = most_likely(csr_array(features), truth, Others(40, 3), WeightPrior(strength, 1000))
    assert np.append(weights, bias) == pytest.approx(expected, abs=2e-3)


def test_without_rules_the_bias_is_what_the_number_of_triples_says() -> None:
    weights, bias = most_likely(csr_array((0, 0)), np.zeros(0), Others(100, 20), WeightPrior(1.0, 100))
    assert len(weights) == 0
    assert bias == pytest.approx(np.log(20 / 80), abs=1e-3)


def test_without_triples_everything_stays_finite() -> None:
    weights, bias = most_likely(csr_array(np.ones((2, 1))), np.zeros(2), Others(7, 0), WeightPrior(1.0, 30))
    assert np.isfinite([*weights, bias]).all()
    assert weights[0] < 0


def test_a_strong_prior_leaves_weights_near_nothing() -> None:
    features, truth = csr_array(np.ones((9, 1))), np.ones(9)
    loose, held = (most_likely(features, truth, Others(50, 0), WeightPrior(s, 200))[0][0] for s in (0.1, 1e4))
    assert abs(held) < 0.01 < 2 < loose


def by_loops(world: World, head: int, bodies: list[list[int]], starts: list[int]) -> dict[tuple[int, int], list[float]]:
    """Numbers of paths of all pairs that any rule joins, each in a graph that lacks the pair's own triple."""
    joined = {(row, y) for row, x in enumerate(starts) for body in bodies for y in world.ends(body, x)}
    return {
        (row, y): [world.ends(body, starts[row], world.triple(starts[row], head, y))[y] for body in bodies]
        for row, y in joined
    }


@given(worlds(), st.data())
def test_pairs_are_those_that_loops_find_without_the_triple_itself(world: World, data: st.DataObject) -> None:
    relation = st.integers(0, 2 * world.relations - 1)
    head, bodies = data.draw(relation), data.draw(st.lists(st.lists(relation, min_size=1, max_size=3), max_size=5))
    starts = sorted(data.draw(st.sets(st.integers(0, world.entities - 1), min_size=1)))
    rules = Rules.from_bodies(
        world.relations, [head] * len(bodies), [body + [-1] * (3 - len(body)) for body in bodies] or [[-1] * 3][:0]
    )
    pairs = connected_pairs(Grounder(world.adjacency), rules, np.array(starts))
    places = list(zip(pairs.row.tolist(), pairs.target.tolist(), strict=True))
    assert places == sorted(places)
    counts = pairs.counts.toarray().tolist()
    assert dict(zip(places, counts, strict=True)) == by_loops(world, head, bodies, starts)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("any", [[1, 0, 1], [0, 0, 0]]),
        ("log", [[np.log(2), 0, np.log(4)], [0, 0, 0]]),
        ("count", [[1, 0, 3], [0, 0, 0]]),
        ("mean", [[1 / 4, 0, 3 / 4], [0, 0, 0]]),
    ],
)
def test_numbers_of_paths_are_combined(name: str, expected: list[list[float]]) -> None:
    counts = csr_array(np.array([[1.0, 0, 3], [0, 0, 0]]))
    assert COMBINATIONS[name](counts).toarray() == pytest.approx(np.array(expected))
    assert counts.toarray().tolist() == [[1, 0, 3], [0, 0, 0]]


def test_pairs_are_found_by_what_they_join() -> None:
    pairs = Pairs(np.array([0, 2, 2, 3]), np.array([1, 4, 0], np.int32), csr_array((3, 1)))
    assert pairs.at(np.array([0, 1, 2, 0]), np.array([4, 4, 0, 0]), entities=5).tolist() == [1, -1, 2, -1]
