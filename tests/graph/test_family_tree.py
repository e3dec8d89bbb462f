"""The graph has all kinship triples, split at random by the shares asked for, under readable names.

Each rule is checked on the output with plain sets and dicts, which share nothing with the matrices of the code.

The people of the default graph follow the rules of growth, and their numbers are those that were published.
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import pytest

from kgprobe.errors import UsageError
from kgprobe.graph import family_tree as growth
from kgprobe.graph.family_tree import (
    MAX_CHILDREN,
    MAX_DEPTH,
    RELATIONS,
    People,
    family_tree,
    grow_people,
    kinship_triples,
)
from kgprobe.graph.knowledge_graph import KnowledgeGraph


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return family_tree()


def test_the_same_seed_gives_the_same_graph_and_another_seed_another(graph: KnowledgeGraph) -> None:
    again, other = family_tree(), family_tree(seed=1)
    assert again.content_hash == graph.content_hash
    assert other.content_hash != graph.content_hash
    assert (graph.num_entities, len(graph.triples())) == (6006, 189240)


def test_people_do_not_depend_on_the_shares_and_are_those_of_grow_people() -> None:
    every = family_tree(seed=0, valid=0, test=0).triples("train")
    rng = np.random.Generator(np.random.PCG64(0))
    for same in (kinship_triples(grow_people()), kinship_triples(grow_people(seed=rng))):
        assert np.array_equal(every[np.lexsort((every[:, 2], every[:, 0], every[:, 1]))], same)


@pytest.mark.parametrize(("valid", "test"), [(0.1, 0.1), (0, 0), (0, 0.3), (0.5, 0), (0.25, 0.7)])
def test_splits_have_their_shares_and_are_all_triples_each_once(valid: float, test: float) -> None:
    graph = family_tree(trees=3, people_per_tree=60, valid=valid, test=test)
    every = kinship_triples(grow_people(trees=3, people_per_tree=60))
    assert len(graph.triples("valid")) == int(valid * len(every))
    assert len(graph.triples("test")) == int(test * len(every))
    split = [tuple(row) for row in graph.triples("train", "valid", "test").tolist()]
    assert len(split) == len(set(split))
    assert set(split) == {tuple(row) for row in every.tolist()}


def test_each_split_is_a_random_sample(graph: KnowledgeGraph) -> None:
    everything = np.bincount(graph.triples()[:, 1]) / len(graph.triples())
    for split in ("train", "valid", "test"):
        triples = graph.triples(split)
        share = np.bincount(triples[:, 1], minlength=23) / len(triples)
        assert (np.abs(share - everything) < 5 * np.sqrt(everything / len(triples))).all()
        half = len(triples) // 2
        assert abs(triples[:half, 0].mean() / triples[half:, 0].mean() - 1) < 0.05  # shuffled within, too


def test_names() -> None:
    graph = family_tree(trees=11, people_per_tree=100, seed=2)
    assert graph.name == "family-tree"
    assert graph.num_relations == 23
    assert graph.relation_label(range(23)) == list(RELATIONS)
    people = grow_people(trees=11, people_per_tree=100, seed=2)
    width = len(str(np.bincount(people.tree).max() - 1))
    names = [f"tree{t:02}-person{i:0{width}}" for t in range(11) for i in range(int((people.tree == t).sum()))]
    assert graph.entity_label(range(graph.num_entities)) == names


def test_all_that_is_wrong_is_listed() -> None:
    with pytest.raises(UsageError) as error:
        family_tree(trees=0, people_per_tree=1, seed=-1, valid=-0.1, test=float("nan"))
    starts = [problem.split(",")[0] for problem in error.value.problems]
    assert starts == ["trees is 0", "people_per_tree is 1", "seed is -1", "valid is -0.1", "test is nan"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"trees": 2.5}, "trees is 2.5, expected a whole number of at least 1"),
        ({"trees": True}, "trees is True, expected a whole number of at least 1"),
        ({"people_per_tree": "many"}, "people_per_tree is 'many', expected a whole number of at least 2"),
        ({"seed": 0.5}, "seed is 0.5, expected a whole number of at least 0"),
        ({"trees": 10**8}, "100,000,000 trees of 300 people are more than 2,147,483,647 people"),
        ({"valid": 1}, "valid is 1, expected a share from 0 to less than 1"),
        ({"test": "0.1"}, "test is '0.1', expected a share from 0 to less than 1"),
        ({"valid": 0.5, "test": 0.5}, "valid and test together are 1, nothing is left for train"),
    ],
)
def test_senseless_numbers_are_refused(arguments: dict[str, object], problem: str) -> None:
    with pytest.raises(UsageError) as error:
        family_tree(**arguments)  # type: ignore[arg-type]
    assert error.value.problems == [problem]


def test_the_smallest_graph_still_has_something_to_train_on() -> None:
    graph = family_tree(trees=1, people_per_tree=2, valid=0.5, test=0.49)
    assert graph.num_entities == 3
    assert [len(graph.triples(split)) for split in ("train", "valid", "test")] == [1, 5, 4]


def test_numpy_numbers_are_numbers() -> None:
    graph = family_tree(np.int16(120), np.int16(300), np.int64(0), np.float32(0.25), np.float64(0))  # type: ignore[arg-type]
    assert graph.content_hash == family_tree(120, 300, 0, 0.25, 0).content_hash


def test_importing_does_not_load_scipy() -> None:
    code = "import sys, kgprobe.graph.family_tree; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


Pairs: TypeAlias = set[tuple[int, int]]

NAMES = [
    *("parentOf", "fatherOf", "motherOf", "childOf", "sonOf", "daughterOf", "siblingOf", "brotherOf", "sisterOf"),
    *("grandfatherOf", "grandmotherOf", "grandchildOf", "grandsonOf", "granddaughterOf"),
    *("auntOf", "uncleOf", "nieceOf", "nephewOf", "cousinOf", "girlCousinOf", "boyCousinOf", "husbandOf", "wifeOf"),
]


@pytest.fixture(scope="module")
def people() -> People:
    return grow_people()


@pytest.fixture(scope="module")
def found(graph: KnowledgeGraph) -> dict[str, Pairs]:
    """The graph's own triples by the name of the relation."""
    return by_name(graph.triples())


@pytest.fixture(scope="module")
def expected(people: People) -> dict[str, Pairs]:
    return what_follows(people)


def by_name(triples: np.ndarray) -> dict[str, Pairs]:
    pairs: dict[str, Pairs] = {name: set() for name in RELATIONS}
    for head, relation, tail in triples.tolist():
        pairs[RELATIONS[relation]].add((head, tail))
    return pairs


def what_follows(people: People) -> dict[str, Pairs]:
    """Every fact, person by person, from parents, spouses and sexes."""
    known = zip(people.father.tolist(), people.mother.tolist(), strict=True)
    parents = {child: both for child, both in enumerate(known) if both != (-1, -1)}
    children: defaultdict[int, list[int]] = defaultdict(list)
    for child, both in parents.items():
        for parent in both:
            children[parent].append(child)
    siblings = {c: {s for p in both for s in children[p]} - {c} for c, both in parents.items()}
    woman = people.female.tolist()

    parent_of = {(p, c) for c, both in parents.items() for p in both}
    sibling_of = {(s, c) for c in siblings for s in siblings[c]}
    grandparent_of = {(g, c) for p, c in parent_of for g in parents.get(p, ())}
    elder_of = {(s, c) for p, c in parent_of for s in siblings.get(p, ())}
    cousin_of = {(x, c) for a, c in elder_of for x in children[a]}
    spouse_of = {(a, b) for a, b in enumerate(people.spouse.tolist()) if b != -1}

    def women(pairs: Pairs) -> Pairs:
        return {(a, b) for a, b in pairs if woman[a]}

    def men(pairs: Pairs) -> Pairs:
        return {(a, b) for a, b in pairs if not woman[a]}

    return {
        "parentOf": parent_of,
        "fatherOf": men(parent_of),
        "motherOf": women(parent_of),
        "childOf": swapped(parent_of),
        "sonOf": men(swapped(parent_of)),
        "daughterOf": women(swapped(parent_of)),
        "siblingOf": sibling_of,
        "brotherOf": men(sibling_of),
        "sisterOf": women(sibling_of),
        "grandfatherOf": men(grandparent_of),
        "grandmotherOf": women(grandparent_of),
        "grandchildOf": swapped(grandparent_of),
        "grandsonOf": men(swapped(grandparent_of)),
        "granddaughterOf": women(swapped(grandparent_of)),
        "auntOf": women(elder_of),
        "uncleOf": men(elder_of),
        "nieceOf": women(swapped(elder_of)),
        "nephewOf": men(swapped(elder_of)),
        "cousinOf": cousin_of,
        "girlCousinOf": women(cousin_of),
        "boyCousinOf": men(cousin_of),
        "husbandOf": men(spouse_of),
        "wifeOf": women(spouse_of),
    }


def swapped(pairs: Pairs) -> Pairs:
    return {(b, a) for a, b in pairs}


def test_the_relations_keep_their_ids() -> None:
    assert list(RELATIONS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_relation_holds_what_its_rule_says_and_nothing_else(
    name: str, found: Mapping[str, Pairs], expected: Mapping[str, Pairs]
) -> None:
    assert expected[name]
    assert found[name] == expected[name]


@pytest.mark.parametrize(
    ("whole", "parts"),
    [
        ("parentOf", ("fatherOf", "motherOf")),
        ("childOf", ("sonOf", "daughterOf")),
        ("siblingOf", ("brotherOf", "sisterOf")),
        ("grandchildOf", ("grandsonOf", "granddaughterOf")),
        ("cousinOf", ("boyCousinOf", "girlCousinOf")),
    ],
)
def test_men_and_women_share_out_a_relation(whole: str, parts: tuple[str, str], found: Mapping[str, Pairs]) -> None:
    men, women = (found[part] for part in parts)
    assert men | women == found[whole]
    assert not {h for h, _ in men} & {h for h, _ in women}


@pytest.mark.parametrize(
    ("forth", "back"),
    [
        (("parentOf",), ("childOf",)),
        (("fatherOf", "motherOf"), ("sonOf", "daughterOf")),
        (("grandfatherOf", "grandmotherOf"), ("grandchildOf",)),
        (("auntOf", "uncleOf"), ("nieceOf", "nephewOf")),
        (("husbandOf",), ("wifeOf",)),
        (("siblingOf",), ("siblingOf",)),
        (("cousinOf",), ("cousinOf",)),
    ],
)
def test_relations_are_each_others_inverse(
    forth: tuple[str, ...], back: tuple[str, ...], found: Mapping[str, Pairs]
) -> None:
    assert set().union(*(found[name] for name in forth)) == swapped(set().union(*(found[name] for name in back)))


def test_nobody_is_kin_to_themselves_or_kin_of_two_kinds_by_blood(found: Mapping[str, Pairs]) -> None:
    assert all(head != tail for pairs in found.values() for head, tail in pairs)
    blood = ["parentOf", "siblingOf", "grandfatherOf", "grandmotherOf", "auntOf", "uncleOf", "cousinOf"]
    assert len(set().union(*(found[name] for name in blood))) == sum(len(found[name]) for name in blood)


def test_the_number_of_triples_is_that_of_the_published_identity(
    graph: KnowledgeGraph, found: Mapping[str, Pairs]
) -> None:
    n = {name: len(pairs) for name, pairs in found.items()}
    grandparents, elders = n["grandfatherOf"] + n["grandmotherOf"], n["auntOf"] + n["uncleOf"]
    by_identity = 4 * n["parentOf"] + 2 * n["siblingOf"] + 3 * grandparents + 2 * elders + 2 * n["cousinOf"]
    assert len(graph.triples()) == sum(n.values()) == by_identity + 2 * n["husbandOf"]


def test_triples_are_sorted_and_distinct(people: People) -> None:
    triples = kinship_triples(people)
    head, relation, tail = triples.astype(np.int64).T
    key = (relation * len(people) + head) * len(people) + tail
    assert triples.dtype == np.int32
    assert (np.diff(key) > 0).all()


def test_half_siblings_and_double_cousins_are_counted_once() -> None:
    # Parents 0 and 1 have the brothers 2 and 3, parents 4 and 5 the sisters 6 and 7; they marry and have the
    # cousins 8 and 9, who are cousins twice. 10 is another child of 2, by the unmarried 11.
    family = People(
        father=np.array([-1, -1, 0, 0, -1, -1, 4, 4, 2, 3, 2, -1], dtype=np.int32),
        mother=np.array([-1, -1, 1, 1, -1, -1, 5, 5, 6, 7, 11, -1], dtype=np.int32),
        spouse=np.array([1, 0, 6, 7, 5, 4, 2, 3, -1, -1, -1, -1], dtype=np.int32),
        female=np.array([0, 1, 0, 0, 0, 1, 1, 1, 0, 1, 1, 1], dtype=bool),
        tree=np.zeros(12, dtype=np.int32),
        level=np.zeros(12, dtype=np.int8),
    )
    triples = kinship_triples(family)
    named = by_name(triples)
    assert len(triples) == len(np.unique(triples, axis=0))
    assert named["siblingOf"] == {(2, 3), (3, 2), (6, 7), (7, 6), (8, 10), (10, 8)}
    assert named["cousinOf"] == {(8, 9), (9, 8), (9, 10), (10, 9)}
    assert named["girlCousinOf"] == {(9, 8), (9, 10), (10, 9)}
    assert named["grandmotherOf"] == {(1, 8), (1, 9), (1, 10), (5, 8), (5, 9)}
    assert named == what_follows(family)


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
        triples = kinship_triples(people)
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
