"""The graph has all facts, split at random by the shares asked for, under readable names."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from kgprobe.errors import UsageError
from kgprobe.graph.family_tree import RELATIONS, facts, family_tree, grow_people
from kgprobe.graph.graph import KnowledgeGraph


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
    for same in (facts(grow_people()), facts(grow_people(seed=rng))):
        assert np.array_equal(every[np.lexsort((every[:, 2], every[:, 0], every[:, 1]))], same)


@pytest.mark.parametrize(("valid", "test"), [(0.1, 0.1), (0, 0), (0, 0.3), (0.5, 0), (0.25, 0.7)])
def test_splits_have_their_shares_and_are_all_facts_each_once(valid: float, test: float) -> None:
    graph = family_tree(trees=3, people_per_tree=60, valid=valid, test=test)
    every = facts(grow_people(trees=3, people_per_tree=60))
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
        ({"valid": 0.5, "test": 0.5}, "valid and test together are 1, which leaves nothing for train"),
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
