import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.models.rules.paths import Adjacency
from kgprobe.models.rules.rule_statistics import Measure
from kgprobe.models.rules.rule_table import Rules
from rule_oracles import World, by_rule, worlds


@given(worlds(), st.data(), st.sampled_from([1, 1 << 30]))
def test_statistics_are_those_that_loops_find(world: World, data: st.DataObject, memory: int) -> None:
    atom = st.integers(0, 2 * world.relations - 1)
    size = data.draw(st.integers(1, 4))
    keys = data.draw(st.lists(st.tuples(*[atom] * (size + 1)), min_size=1, max_size=5, unique=True))
    rules = Rules.from_bodies(world.relations, [key[0] for key in keys], [key[1:] for key in keys])
    measured = Measure(world.adjacency, memory=memory).of(rules)
    assert by_rule(measured) == {key: world.statistics(key[0], key[1:]) for key in keys}


def test_a_sample_of_beginnings_stands_for_all() -> None:
    random = np.random.default_rng(0)
    graph = Adjacency(np.column_stack([random.integers(0, n, 3000) for n in (300, 2, 300)]), entities=300, relations=2)
    rules = Rules.from_bodies(2, [0, 1], [[1, 2, 0], [1, 3, 1]])
    exact = Measure(graph).of(rules)
    samples = [Measure(graph, starts=60, seed=seed).of(rules) for seed in range(100)]
    for name in ("support", "pairs", "path_support", "paths"):
        values = np.array([getattr(sample, name) for sample in samples])
        np.testing.assert_allclose(values.mean(axis=0), getattr(exact, name), rtol=0.04)
    assert (np.array([sample.paths for sample in samples]) == exact.paths).all()
    assert len({sample.pairs[0] for sample in samples}) > 1


def test_a_sampled_confidence_is_a_share() -> None:
    """Support and pairs are seen from the same beginnings: there is never more of the one than of the other."""
    always = World([triple for x in range(9) for triple in ((x, 0, 9), (x, 1, 9))], entities=10, relations=2)
    rules = Rules.from_bodies(2, [0], [[1, 3, 1]])
    sampled = Measure(always.adjacency, starts=2).of(rules)
    assert sampled.confidence.tolist() == [1.0]
    assert sampled.support.tolist() == [9.0]


@settings(max_examples=30)
@given(worlds())
def test_a_rule_read_from_its_other_end_has_the_same_statistics(world: World) -> None:
    rules = Rules.from_bodies(world.relations, [0, world.relations], [[0, 0, world.relations], [0, -1, -1]])
    one, other = Measure(world.adjacency).of(rules), Measure(world.adjacency).of(rules.reversed())
    assert list(by_rule(one).values()) == list(by_rule(other).values())
