import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.errors import UsageError
from kgprobe.models.rules.groundings import Grounder, Grounding
from kgprobe.models.rules.rule_table import Rules
from rule_oracles import World, listed, worlds

LOOP = World([(0, 0, 0), (0, 0, 1), (1, 0, 0)], entities=2, relations=1)


def some_rules(world: World, data: st.DataObject, head: int) -> Rules:
    atom = st.integers(0, 2 * world.relations - 1)
    bodies = data.draw(st.lists(st.lists(atom, min_size=1, max_size=4), max_size=6))
    longest = max(map(len, bodies), default=1)
    filled = [body + [-1] * (longest - len(body)) for body in bodies]
    return Rules.from_bodies(world.relations, [head] * len(bodies), filled)


def bodies(rules: Rules) -> list[list[int]]:
    return [[atom for atom in body if atom >= 0] for body in rules.body.tolist()]


def by_candidate(ends: list[dict[int, int]]) -> dict[int, dict[int, float]]:
    """Numbers of paths by candidate and rule, from those by rule and candidate."""
    found: dict[int, dict[int, float]] = {}
    for rule, end in enumerate(ends):
        for entity, count in end.items():
            if count:
                found.setdefault(entity, {})[rule] = float(count)
    return found


def well_formed(grounding: Grounding) -> None:
    for row in range(grounding.rows):
        first, last = grounding.candidates_at[row : row + 2]
        assert (np.diff(grounding.candidate[first:last]) > 0).all()
        for pair in range(first, last):
            rules = grounding.rule[grounding.rules_at[pair] : grounding.rules_at[pair + 1]]
            assert len(rules)
            assert (np.diff(rules) > 0).all()
    assert (grounding.count > 0).all()
    kinds = [grounding.candidates_at, grounding.candidate, grounding.rules_at, grounding.rule, grounding.count]
    assert [str(array.dtype) for array in kinds] == ["int64", "int32", "int64", "int32", "float32"]


@given(worlds(), st.data(), st.sampled_from([1, 200, 1 << 30]))
def test_paths_are_those_that_loops_find(world: World, data: st.DataObject, memory: int) -> None:
    rules = some_rules(world, data, head=0)
    starts = data.draw(st.lists(st.integers(0, world.entities - 1), max_size=6))
    found = Grounder(world.adjacency, memory).paths(rules, np.array(starts, dtype=np.int64))
    well_formed(found)
    assert listed(found) == [by_candidate([world.ends(body, x) for body in bodies(rules)]) for x in starts]


@given(worlds(), st.data(), st.sampled_from([1, 1 << 30]))
@settings(max_examples=150)
def test_paths_through_a_triple_are_those_that_go_when_it_goes(world: World, data: st.DataObject, memory: int) -> None:
    head = data.draw(st.integers(0, 2 * world.relations - 1))
    rules = some_rules(world, data, head)
    triples = data.draw(st.permutations(world.answers(head)))
    x, y = np.array(triples, dtype=np.int64).reshape(-1, 2).T
    found = Grounder(world.adjacency, memory).through(rules, x, y)
    well_formed(found)
    expected = [
        by_candidate([world.ends(body, x) - world.ends(body, x, world.triple(x, head, y)) for body in bodies(rules)])
        for x, y in triples
    ]
    assert listed(found) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ([0], {0: 1.0}),
        ([1], {0: 1.0}),
        ([0, 0], {0: 1.0, 1: 1.0}),
        ([0, 1], {0: 1.0, 1: 1.0}),
        ([0, 0, 0], {0: 3.0, 1: 1.0}),
    ],
    ids=["itself", "itself reversed", "twice", "there and back", "three times"],
)
def test_a_self_loop_is_taken_out_once_however_often_it_is_passed(body: list[int], expected: dict[int, float]) -> None:
    found = Grounder(LOOP.adjacency).through(Rules.from_bodies(1, [0], [body]), np.array([0]), np.array([0]))
    assert {entity: rules[0] for entity, rules in listed(found)[0].items()} == expected


def test_the_opposite_triple_stays() -> None:
    """(1, 0, 0) is a triple of its own: it supports (0, 0, 1) by symmetry."""
    found = Grounder(LOOP.adjacency).through(Rules.from_bodies(1, [0], [[1]]), np.array([0]), np.array([1]))
    assert listed(found) == [{}]


def test_what_is_no_triple_takes_nothing_away() -> None:
    found = Grounder(LOOP.adjacency).through(Rules.from_bodies(1, [0], [[0]]), np.array([1]), np.array([1]))
    assert listed(found) == [{}]


@given(worlds(), st.data())
def test_a_witness_is_a_path(world: World, data: st.DataObject) -> None:
    body = data.draw(st.lists(st.integers(0, 2 * world.relations - 1), min_size=1, max_size=4))
    x, y = data.draw(st.tuples(*[st.integers(0, world.entities - 1)] * 2))
    path = Grounder(world.adjacency).witness(body, x, y)
    paths = [list(one) for one in world.paths(body, x) if one[-1] == y]
    assert path in paths if paths else path is None


def test_neither_rules_nor_rows_are_needed() -> None:
    grounder = Grounder(LOOP.adjacency)
    rule, none = Rules.from_bodies(1, [0], [[0]]), np.empty(0, dtype=np.int64)
    assert listed(grounder.paths(Rules.empty(1), np.array([0, 1]))) == [{}, {}]
    assert listed(grounder.through(Rules.empty(1), np.array([0]), np.array([1]))) == [{}]
    assert grounder.paths(rule, none).rows == grounder.through(rule, none, none).rows == 0


def test_rules_of_several_relations_are_refused() -> None:
    with pytest.raises(UsageError, match="different heads"):
        Grounder(LOOP.adjacency).paths(Rules.from_bodies(1, [0, 1], [[0], [0]]), np.array([0]))
