import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.errors import UsageError
from kgprobe.graph.family_tree import family_tree
from kgprobe.models.rules.mining import mine
from kgprobe.models.rules.paths import Adjacency
from kgprobe.models.rules.rule_table import Rules, rule_text
from rule_oracles import World, by_rule, worlds

DEFINITIONS = {
    "parentOf": ["childOf(y, x)"],
    "childOf": ["parentOf(y, x)"],
    "siblingOf": ["brotherOf(x, y)", "sisterOf(x, y)", "siblingOf(y, x)"],
    "grandfatherOf": ["fatherOf(x, z), parentOf(z, y)", "husbandOf(x, z), grandmotherOf(z, y)"],
    "grandmotherOf": ["motherOf(x, z), parentOf(z, y)"],
    "grandchildOf": ["childOf(x, z), childOf(z, y)", "parentOf(z, x), parentOf(y, z)"],
    "grandsonOf": ["sonOf(x, z), childOf(z, y)"],
    "auntOf": ["sisterOf(x, z), parentOf(z, y)"],
    "uncleOf": ["brotherOf(x, z), parentOf(z, y)"],
    "nieceOf": ["daughterOf(x, z), siblingOf(z, y)"],
    "nephewOf": ["sonOf(x, z), siblingOf(z, y)"],
    "cousinOf": ["childOf(x, z), auntOf(z, y)", "childOf(x, z), uncleOf(z, y)", "cousinOf(y, x)"],
    "girlCousinOf": ["nieceOf(x, z), parentOf(z, y)"],
    "husbandOf": ["wifeOf(y, x)", "fatherOf(x, z), motherOf(y, z)"],
}

"""Bodies from which a relation of the family tree follows."""


@given(worlds(), st.sampled_from([1, 1 << 30]))
@settings(max_examples=100)
def test_short_rules_are_all_that_loops_find(world: World, memory: int) -> None:
    every = range(2 * world.relations)
    assert by_rule(mine(world.adjacency, memory=memory)) == world.rules(every, every, lengths=[1, 2])


@given(worlds())
@settings(max_examples=50)
def test_published_rules_go_along_relations(world: World) -> None:
    along = range(world.relations)
    expected = world.rules(along, range(2 * world.relations), [1]) | world.rules(along, along, [2])
    assert by_rule(mine(world.adjacency, reverse=False)) == expected


@given(worlds(entities=4, relations=2, triples=8), st.booleans())
@settings(max_examples=40)
def test_a_sample_as_large_as_the_graph_finds_every_long_rule(world: World, reverse: bool) -> None:
    atoms = range(2 * world.relations if reverse else world.relations)
    rules = mine(world.adjacency, length=3, reverse=reverse, triples=10**6, walks=300, most=10**6)
    assert by_rule(rules.at(rules.length == 3)) == world.rules(atoms, atoms, lengths=[3])


def test_longer_rules_are_found_too() -> None:
    """The first relation follows from a chain of the four others, and from nothing else."""
    chains = [(10 * copy + place, 1 + place, 10 * copy + place + 1) for copy in range(3) for place in range(4)]
    world = World([*chains, *((10 * copy, 0, 10 * copy + 4) for copy in range(3))], entities=30, relations=5)
    rules = mine(world.adjacency, length=4).of(0)
    assert by_rule(rules) == {(0, 1, 2, 3, 4): (3, 3, 3, 3)}


def test_no_triple_is_a_candidate_for_its_own_explanation() -> None:
    """From x to y, back, and to y again: such a path closes every triple, by way of the triple itself."""
    apart = World([(0, 0, 1), (2, 0, 3)], entities=4, relations=1)
    assert len(mine(apart.adjacency, length=4, least_support=0)) == 0


def test_a_sample_is_repeatable_and_depends_on_its_seed() -> None:
    graph = random_graph(seed=1)
    one, again, other = (by_rule(mine(graph, length=3, triples=5, walks=3, seed=seed)) for seed in (0, 0, 1))
    assert one == again
    assert one.keys() != other.keys()


def test_no_more_rules_are_measured_than_wanted() -> None:
    rules = mine(random_graph(seed=1), length=3, most=4, reverse=False)
    assert np.bincount(rules.head[rules.length == 3]).tolist() == [4, 4, 4]


def test_rules_with_little_support_are_left_out() -> None:
    graph = random_graph(seed=1)
    every, some = mine(graph), mine(graph, least_support=10)
    assert by_rule(some) == {rule: numbers for rule, numbers in by_rule(every).items() if numbers[0] >= 10}
    assert 0 < len(some) < len(every)


def test_it_tells_how_far_it_is() -> None:
    told: list[int] = []
    mine(random_graph(seed=1), length=3, progress=told.append)
    assert told == [1, 2, 3]


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_graph_without_triples_has_no_rules(length: int) -> None:
    assert len(mine(Adjacency(np.empty((0, 3), dtype=np.int64), entities=3, relations=2), length=length)) == 0


def test_a_length_of_zero_is_refused() -> None:
    with pytest.raises(UsageError, match="length is 0, and must be at least 1"):
        mine(random_graph(seed=1), length=0)


def test_rules_that_no_number_can_count_are_refused() -> None:
    graph = Adjacency(np.array([[0, 0, 1]]), entities=2, relations=10**4)
    with pytest.raises(UsageError, match="too many possible rules of length 4"):
        mine(graph, length=4)


@pytest.mark.parametrize("relation", DEFINITIONS)
def test_the_rules_of_the_family_tree_are_found(relation: str, family: tuple[list[str], Rules]) -> None:
    names, rules = family
    found = rules.of(names.index(relation))
    confidence = {rule_text(found, i, names.__getitem__): found.confidence[i] for i in range(len(found))}
    assert {confidence.get(f"{relation}(x, y) <- {body}") for body in DEFINITIONS[relation]} == {1.0}


def test_a_sample_of_the_family_tree_keeps_its_rules() -> None:
    """Of the conclusions of a rule that always holds, as many are known as triples are: 80 %."""
    graph = family_tree(trees=4, people_per_tree=100)
    rules = mine(Adjacency(graph.triples("train"), graph.num_entities, graph.num_relations))
    names = graph.relation_label(range(graph.num_relations))
    grandfather = rules.of(names.index("grandfatherOf"))
    texts = [rule_text(grandfather, i, names.__getitem__) for i in range(len(grandfather))]
    rule = texts.index("grandfatherOf(x, y) <- fatherOf(x, z), parentOf(z, y)")
    assert grandfather.confidence[rule] == pytest.approx(0.8, abs=0.06)


@pytest.fixture(scope="module")
def family() -> tuple[list[str], Rules]:
    """All triples of a small family tree."""
    graph = family_tree(trees=3, people_per_tree=60)
    names = graph.relation_label(range(graph.num_relations))
    return names, mine(Adjacency(graph.triples(), graph.num_entities, graph.num_relations))


def random_graph(seed: int) -> Adjacency:
    random = np.random.default_rng(seed)
    triples = np.column_stack([random.integers(0, limit, 120) for limit in (20, 3, 20)])
    return Adjacency(triples, entities=20, relations=3)
