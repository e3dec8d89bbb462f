import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from kgprobe.models.markov_logic.pairs import COMBINATIONS, Pairs, joined_pairs
from kgprobe.models.rules.ground import Grounder
from kgprobe.models.rules.rule import Rules
from rule_oracles import World, worlds


def by_loops(world: World, head: int, bodies: list[list[int]], starts: list[int]) -> dict[tuple[int, int], list[float]]:
    """Numbers of paths of all pairs that any rule joins, each in a graph that lacks the pair's own fact."""
    joined = {(row, y) for row, x in enumerate(starts) for body in bodies for y in world.ends(body, x)}
    return {
        (row, y): [world.ends(body, starts[row], world.fact(starts[row], head, y))[y] for body in bodies]
        for row, y in joined
    }


@given(worlds(), st.data())
def test_pairs_are_those_that_loops_find_without_the_fact_itself(world: World, data: st.DataObject) -> None:
    relation = st.integers(0, 2 * world.relations - 1)
    head, bodies = data.draw(relation), data.draw(st.lists(st.lists(relation, min_size=1, max_size=3), max_size=5))
    starts = sorted(data.draw(st.sets(st.integers(0, world.entities - 1), min_size=1)))
    rules = Rules.from_bodies(
        world.relations, [head] * len(bodies), [body + [-1] * (3 - len(body)) for body in bodies] or [[-1] * 3][:0]
    )
    pairs = joined_pairs(Grounder(world.adjacency), rules, np.array(starts))
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
