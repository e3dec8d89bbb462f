from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.errors import DataError
from kgprobe.models.markov_learning import Learning, hidden_triples, learn, probabilities, select_rules
from kgprobe.models.markov_network import Conclusions, Network, WeightPrior
from kgprobe.models.rules.groundings import Grounder
from kgprobe.models.rules.mining import mine
from kgprobe.models.rules.paths import Adjacency
from kgprobe.models.rules.rule_table import Rules
from rule_oracles import World, worlds


@pytest.mark.parametrize("scale", [0.01, 1.0, 50.0])
@pytest.mark.parametrize("triples", [0.5, 7.0, 19.5])
def test_as_many_triples_are_expected_as_are_asked_for(scale: float, triples: float) -> None:
    scores = np.random.default_rng(0).normal(size=20) * scale + 100
    likely = probabilities(scores, triples)
    assert likely.sum() == pytest.approx(triples, abs=1e-3)
    assert (np.diff(likely[np.argsort(scores)]) >= 0).all()


def test_all_scores_are_moved_alike() -> None:
    scores = np.random.default_rng(0).normal(size=20)
    likely = probabilities(scores, 7.0)
    assert np.ptp(np.log(likely / (1 - likely)) - scores) == pytest.approx(0, abs=1e-6)


def test_equal_scores_share_what_is_expected() -> None:
    assert probabilities(np.zeros(4), 1.0) == pytest.approx(np.full(4, 0.25))


@pytest.mark.parametrize(("triples", "each"), [(0, 0.0), (3, 1.0), (9, 1.0)])
def test_none_or_all_of_them(triples: float, each: float) -> None:
    assert probabilities(np.arange(3.0), triples).tolist() == [each] * 3
    assert probabilities(np.empty(0), triples).tolist() == []


LEARNING = Learning("log", WeightPrior(1.0, 60))


def unsure(relation: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.zeros(len(x))


def learned(graph: Adjacency, learning: Learning = LEARNING) -> tuple[Network, Conclusions]:
    rules = select_rules(mine(graph), 0.0, groundings=10_000)
    return learn(rules, Grounder(graph), learning, unsure, lambda: None)


def generations(people: int = 31) -> np.ndarray:
    """Parents of all and grandparents of half of the people of a tree."""
    parent = {person: (person - 1) // 2 for person in range(1, people)}
    grand = [(person, 1, parent[of]) for person, of in parent.items() if of in parent]
    return np.array([*((person, 0, of) for person, of in parent.items()), *grand[::2]])


def test_the_rule_that_made_the_triples_brings_back_those_that_were_left_out() -> None:
    graph = Adjacency(generations(), entities=31, relations=2)
    network, conclusions = learned(graph, Learning("any", WeightPrior(0.05, 100)))
    hidden = {tuple(triple) for triple in hidden_triples(network, conclusions, graph, least=0.3).tolist()}
    parent = {person: (person - 1) // 2 for person in range(1, 31)}
    true = {(person, 1, parent[of]) for person, of in parent.items() if of in parent}
    known = {tuple(triple) for triple in generations().tolist()}
    assert true - known <= hidden
    assert {triple for triple in hidden if triple[1] == 1} <= true


@settings(max_examples=40)
@given(worlds(triples=8), st.sampled_from(["any", "log", "count", "mean"]))
def test_conclusions_are_weights_times_paths_from_both_sides(world: World, combine: str) -> None:
    rules = select_rules(mine(world.adjacency), 0.0, groundings=10_000)
    weights = np.random.default_rng(0).normal(size=len(rules))
    network = Network(rules, weights, np.zeros(world.relations))
    conclusions = Conclusions.of(network, Grounder(world.adjacency), combine)
    tail = dense(conclusions, "tail", world)
    for relation in range(world.relations):
        own = [i for i in range(len(rules)) if rules.head[i] == relation]
        for x in range(world.entities):
            for y in range(world.entities):
                triple = (x, relation, y)
                bodies = [[atom for atom in rules.body[i].tolist() if atom >= 0] for i in own]
                paths = np.array([world.ends(body, x, triple)[y] for body in bodies], dtype=float)
                assert tail[relation, x, y] == pytest.approx(combined(combine, paths) @ weights[own], abs=1e-5)
    assert (dense(conclusions, "head", world) == tail.transpose(0, 2, 1)).all()


def combined(name: str, paths: np.ndarray) -> np.ndarray:
    rows = {"any": paths > 0, "log": np.log(1 + paths), "count": paths, "mean": paths / max(paths.sum(), 1)}
    return rows[name].astype(float)


def dense(conclusions: Conclusions, side: str, world: World) -> np.ndarray:
    given_, relation = np.divmod(np.arange(world.entities * world.relations), world.relations)
    query, entity, value = conclusions.rows(side, given_, relation)
    scores = np.zeros((len(given_), world.entities))
    scores[query, entity] = value
    return scores.reshape(world.entities, world.relations, -1).transpose(1, 0, 2)


@settings(max_examples=40)
@given(worlds(), st.sampled_from([0.05, 0.4]))
def test_hidden_triples_are_all_that_are_likely_and_not_known(world: World, least: float) -> None:
    network, conclusions = learned(world.adjacency)
    expected = set()
    for relation, matrix in enumerate(conclusions.by_relation):
        likely = 1 / (1 + np.exp(-(matrix.toarray().astype(float) + network.bias[relation])))
        joined = np.zeros_like(likely, dtype=bool)
        joined[np.repeat(np.arange(world.entities), np.diff(matrix.indptr)), matrix.indices] = True
        expected |= {(x, relation, y) for x, y in zip(*np.nonzero(joined & (likely >= least)), strict=True)}
    hidden = hidden_triples(network, conclusions, world.adjacency, least)
    assert {tuple(triple) for triple in hidden.tolist()} == expected - world.triples
    assert hidden.dtype == np.int32


def test_what_is_annotated_as_true_raises_weights() -> None:
    graph = Adjacency(generations(), entities=31, relations=2)
    rules = Rules.from_bodies(2, [1], [[0, 0]])
    low, high = (
        learn(rules, Grounder(graph), LEARNING, lambda relation, x, y, p=p: np.full(len(x), p), lambda: None)[0]
        for p in (0.0, 0.9)
    )
    assert high.weights[0] > low.weights[0] + 0.5


def test_rules_are_left_out_from_the_least_precise_on() -> None:
    table = Rules.from_bodies(2, [1, 0, 0, 2], [[0], [1], [3], [0]])
    table = replace(
        table, pairs=np.array([5.0, 5, 5, 5]), paths=np.full(4, 10.0), path_support=np.array([2.0, 9, 1, 9])
    )
    assert select_rules(table, 0.1, 100).body[:, 0].tolist() == [1, 3, 0]
    assert select_rules(table, 0.15, 100).body[:, 0].tolist() == [1, 0]
    assert select_rules(table, 0.0, 10).body[:, 0].tolist() == [1, 0]
    assert len(select_rules(table, 0.0, 0)) == 0


@settings(max_examples=40)
@given(worlds(relations=2, triples=6))
def test_every_small_graph_can_be_learned(world: World) -> None:
    network, conclusions = learned(world.adjacency)
    assert np.isfinite(network.weights).all()
    assert np.isfinite(network.bias).all()
    assert len(conclusions.by_relation) == world.relations
    again = Network.from_tensors(network.tensors())
    assert again.weights.tolist() == network.weights.tolist()
    assert again.rules.body.tolist() == network.rules.body.tolist()


@pytest.mark.parametrize("name", ["weights", "bias"])
def test_a_network_has_one_number_for_each_rule_and_relation(name: str) -> None:
    tensors = Network.empty(3).tensors()
    for wrong in ({**tensors, name: torch.zeros(7)}, {other: own for other, own in tensors.items() if other != name}):
        with pytest.raises(DataError, match=f"{name} has not one number"):
            Network.from_tensors(wrong)
