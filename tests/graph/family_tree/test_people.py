"""The people of the default graph follow the rules of growth, and their numbers are those that were published."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from kgprobe.errors import UsageError
from kgprobe.graph.family_tree import MAX_CHILDREN, MAX_DEPTH, RELATIONS, People, facts, grow_people
from kgprobe.graph.family_tree import people as growth


@pytest.fixture(scope="module")
def people() -> People:
    return grow_people()


def ancestor_steps(people: People) -> np.ndarray:
    """Length of each person's longest line of ancestors."""
    steps = np.zeros(len(people), dtype=int)
    born = people.father >= 0
    for _ in range(MAX_DEPTH + 3):
        above = np.maximum(steps[people.father], steps[people.mother])
        steps = np.where(born, above + 1, 0)
    return steps


def test_parents_are_a_married_couple_and_come_in_twos(people: People) -> None:
    born = people.father >= 0
    assert (born == (people.mother >= 0)).all()
    assert (people.spouse[people.father[born]] == people.mother[born]).all()
    assert people.female[people.mother[born]].all()
    assert not people.female[people.father[born]].any()


def test_everybody_has_at_most_one_spouse_of_the_other_sex(people: People) -> None:
    married = np.flatnonzero(people.spouse >= 0)
    assert (people.spouse[people.spouse[married]] == married).all()
    assert (people.female[people.spouse[married]] != people.female[married]).all()


def test_both_sexes_are_equally_likely(people: People) -> None:
    first = grow_people(trees=1000, people_per_tree=2).female[::3]
    for female in (people.female[people.father >= 0], first):
        assert abs(female.mean() - 0.5) < 4 * 0.5 / len(female) ** 0.5


def test_nobody_is_their_own_ancestor_and_lines_are_one_longer_than_levels(people: People) -> None:
    steps = ancestor_steps(people)
    assert steps.max() == MAX_DEPTH + 1  # a circle would have made it larger at each round
    assert steps.min() == 0


def test_levels_differ_by_at_most_the_depth_limit(people: People) -> None:
    for tree in range(20):
        assert np.ptp(people.level[people.tree == tree]) == MAX_DEPTH
    assert (people.level[np.flatnonzero(np.diff(people.tree, prepend=-1))] == 0).all()


def test_people_join_in_the_order_and_on_the_level_of_the_growth_rules(people: People) -> None:
    father, mother, level = people.father.tolist(), people.mother.tolist(), people.level.tolist()
    children: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for child in range(len(people)):
        if father[child] >= 0:
            children[father[child], mother[child]].append(child)
    couples = {tuple(sorted(pair)) for pair in enumerate(people.spouse.tolist()) if pair[1] >= 0}
    assert couples == {tuple(sorted(couple)) for couple in children}
    kinds = set()
    for couple, family in children.items():
        first, second = sorted(couple)
        if level[first] == level[second]:  # joined as the parents of one who was there before
            assert second == first + 1 == couple[1]
            assert [child < first for child in family] == [True] + [False] * (len(family) - 1)
        else:  # the second joined as a spouse, right before their first child
            assert level[second] == level[first] + 1
            assert family[0] == second + 1
        assert {level[child] for child in family} <= {level[parent] + 1 for parent in couple}
        kinds.add(level[second] - level[first])
    assert kinds == {0, 1}


def test_a_tree_is_one_piece_and_trees_have_nothing_to_do_with_each_other(people: People) -> None:
    nearest = np.arange(len(people))
    links = [(a, b) for kin in (people.father, people.mother, people.spouse) for a, b in enumerate(kin) if b >= 0]
    one, other = np.array(links).T
    for _ in range(40):
        least = np.minimum(nearest[one], nearest[other])
        np.minimum.at(nearest, one, least)
        np.minimum.at(nearest, other, least)
    assert (people.tree[one] == people.tree[other]).all()
    assert (nearest == np.searchsorted(people.tree, people.tree)).all()


def test_trees_stop_at_the_size_asked_for(people: People) -> None:
    assert set(np.bincount(people.tree).tolist()) == {300, 301}
    assert (np.diff(people.tree) >= 0).all()
    assert set(np.bincount(grow_people(trees=50, people_per_tree=2).tree).tolist()) == {3}


def test_couples_have_no_more_children_than_allowed(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    assert np.bincount(people.father[people.father >= 0]).max() <= MAX_CHILDREN
    monkeypatch.setattr(growth, "MAX_CHILDREN", 3)
    smaller = grow_people(trees=5, people_per_tree=100)
    assert np.bincount(smaller.father[smaller.father >= 0]).max() == 3


def test_the_published_graph_could_be_one_of_ours() -> None:
    """Its counts lie within the spread of twelve seeds (three standard deviations of a prediction)."""
    names = {"parentOf": 8516, "siblingOf": 13382, "grandchildOf": 9358, "cousinOf": 32348, "husbandOf": 1726}
    published = np.array([*names.values(), 17741, 192532, 1746, 1230, 1261, 1267, 500])
    rows = []
    for seed in range(12):
        people = grow_people(seed=seed)
        triples = facts(people)
        count = dict(zip(RELATIONS, np.bincount(triples[:, 1], minlength=23).tolist(), strict=True))
        chains = np.bincount(ancestor_steps(people), minlength=5).tolist()
        elders = count["auntOf"] + count["uncleOf"]
        rows.append([*(count[name] for name in names), elders, len(triples), *chains])
        assert 6000 <= len(people) <= 6020
        assert 10 <= np.bincount(people.father[people.father >= 0]).max() <= MAX_CHILDREN
    mean, spread = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1)
    assert (np.abs(published - mean) <= 3 * spread * (1 + 1 / 12) ** 0.5).all()
    assert (spread <= 0.1 * mean).all()  # or else the check above would let anything pass
    assert 0.97 < mean[6] / published[6] < 1.03


def test_growing_alone_refuses_senseless_numbers_too() -> None:
    with pytest.raises(UsageError) as error:
        grow_people(trees=-1, people_per_tree=0)
    assert len(error.value.problems) == 2
