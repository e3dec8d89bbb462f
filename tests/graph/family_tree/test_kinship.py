"""Each rule is checked on the output with plain sets and dicts, which share nothing with the matrices of the code."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import pytest

from kgprobe.graph.family_tree import RELATIONS, People, facts, family_tree, grow_people
from kgprobe.graph.graph import KnowledgeGraph

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
def graph() -> KnowledgeGraph:
    return family_tree()


@pytest.fixture(scope="module")
def found(graph: KnowledgeGraph) -> dict[str, Pairs]:
    """The graph's own facts by the name of the relation."""
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


def test_the_number_of_facts_is_that_of_the_published_identity(
    graph: KnowledgeGraph, found: Mapping[str, Pairs]
) -> None:
    n = {name: len(pairs) for name, pairs in found.items()}
    grandparents, elders = n["grandfatherOf"] + n["grandmotherOf"], n["auntOf"] + n["uncleOf"]
    by_identity = 4 * n["parentOf"] + 2 * n["siblingOf"] + 3 * grandparents + 2 * elders + 2 * n["cousinOf"]
    assert len(graph.triples()) == sum(n.values()) == by_identity + 2 * n["husbandOf"]


def test_facts_are_sorted_and_distinct(people: People) -> None:
    triples = facts(people)
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
    triples = facts(family)
    named = by_name(triples)
    assert len(triples) == len(np.unique(triples, axis=0))
    assert named["siblingOf"] == {(2, 3), (3, 2), (6, 7), (7, 6), (8, 10), (10, 8)}
    assert named["cousinOf"] == {(8, 9), (9, 8), (9, 10), (10, 9)}
    assert named["girlCousinOf"] == {(9, 8), (9, 10), (10, 9)}
    assert named["grandmotherOf"] == {(1, 8), (1, 9), (1, 10), (5, 8), (5, 9)}
    assert named == what_follows(family)
