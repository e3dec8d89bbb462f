"""What rules explain, by brute force: the fact taken out of the graph, one fact at a time.

The search proposes rules that explain facts, and chooses by the generator and by what was explained.
"""

import numpy as np
import pytest
import torch

from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.rnnlogic import RNNLogicOptions
from kgprobe.models.rules.groundings import Grounder
from kgprobe.models.rules.rule_table import Rules
from kgprobe.train.rnnlogic.grounded_queries import Amount, ground_queries
from kgprobe.train.rnnlogic.rule_search import RuleSearch, explained
from rnnlogic_oracle import adjacency_of, dense_counts, every_rule, random_model, random_triples

ENTITIES = 9


@pytest.mark.parametrize("counts", ["count", "log"])
@pytest.mark.parametrize("most", [1, 10_000])
def test_shares_are_those_of_brute_force(counts: str, most: int) -> None:
    facts, rules = random_triples(2, ENTITIES), every_rule(2, share=0.1, seed=2)
    model = random_model(rules, ENTITIES, predictor="linear", counts=counts, bias="none")
    weight = model.rule.detach().numpy()[:, 0]
    transform = np.log1p if counts == "log" else np.asarray
    whole = dense_counts(facts, ENTITIES, rules)
    wanted, asked = np.zeros(len(rules)), np.zeros(4)
    for place in range(2 * len(facts)):
        x, r, y = facts[place % len(facts)].tolist()
        x, r, y = (x, r, y) if place < len(facts) else (y, r + 2, x)
        own = np.flatnonzero(rules.head == r)
        left = dense_counts(np.delete(facts, place % len(facts), 0), ENTITIES, rules)[own, x, y]
        candidates = max((whole[own, x] > 0).any(0).sum(), 1)
        says = weight[own] * transform(left) - weight[own] * transform(whole[own, x]).sum(1) / candidates
        part = np.where(left > 0, np.exp(says - says.max(initial=0)), 0)
        wanted[own] += part / max(part.sum(), 1e-300)
        asked[r] += 1
    grounder = Grounder(adjacency_of(facts, ENTITIES, 2))
    queries = ground_queries(grounder, rules, Amount(), np.random.default_rng(0))
    np.testing.assert_allclose(explained(model, queries, most).numpy(), wanted / asked[rules.head], atol=1e-9)


def test_rules_that_lead_nowhere_explain_nothing() -> None:
    facts = np.array([[0, 0, 1], [1, 0, 2], [0, 1, 2]])
    rules = Rules.from_bodies(2, [1, 1], [[0, 0], [1, 1]])
    grounder = Grounder(adjacency_of(facts, 3, 2))
    queries = ground_queries(grounder, rules, Amount(), np.random.default_rng(0))
    model = random_model(rules, 3, predictor="linear", bias="none")
    assert explained(model, queries, 100).tolist() == [1, 0]


def test_no_rules_explain_nothing() -> None:
    facts = np.array([[0, 0, 1]])
    grounder = Grounder(adjacency_of(facts, 2, 1))
    queries = ground_queries(grounder, Rules.empty(1), Amount(), np.random.default_rng(0))
    assert explained(random_model(Rules.empty(1), 2, predictor="linear"), queries, 100).tolist() == []


OPTIONS = RNNLogicOptions(
    rule_length=2,
    rules_per_relation=6,
    sampled_rules=20,
    em_steps=10,
    generator_dimension=8,
    generator_hidden=16,
    generator_batch=64,
    pretraining_steps=100,
    generator_rate=0.01,
    generator_steps=10,
)


def searched(iterations: int, seed: int = 0) -> RuleSearch:
    """A search on a family: relation 0 is parent, 1 is grandparent."""
    parent = [[child // 3, 0, child] for child in range(3, 60)]
    grand = [[child // 9, 1, child] for child in range(9, 60)]
    grounder = Grounder(adjacency_of(np.array(parent + grand), 60, 2))
    search = RuleSearch(OPTIONS, grounder, RandomStreams([seed], "cpu"), seed, torch.device("cpu"))
    search.begin(np.random.default_rng(9), lambda phase: None)
    for iteration in range(iterations):
        search.iterate(np.random.default_rng(iteration), lambda phase: None)
    return search


@pytest.mark.parametrize("iterations", [0, 2])
def test_the_rules_that_made_the_graph_are_chosen(iterations: int) -> None:
    rules = searched(iterations).chosen()
    found = {(head, *body) for head, body in zip(rules.head.tolist(), rules.body.tolist(), strict=True)}
    assert {(1, 0, 0), (3, 2, 2)} <= found
    assert len(found) == len(rules)
    assert (np.diff(rules.head) >= 0).all()
    assert np.bincount(rules.head).max() <= 6
    assert (rules.pairs > 0).sum() > len(rules) / 2
    parents = rules.at((rules.head == 1) & (rules.body == [0, 0]).all(1))
    assert parents.support.tolist() == [51]
    assert parents.confidence.tolist() == [1]


def test_what_explains_is_remembered_with_its_largest_share() -> None:
    search = searched(2)
    rule = np.flatnonzero((search.found.head == 1) & (search.found.body == [0, 0]).all(1))
    assert search.score[rule] > 0.3
    assert search.score[search.found.head == 1].max() == search.score[rule]
    assert (search.score >= 0).all()
    assert (search.score <= 1).all()


def test_no_rule_concludes_what_it_presumes() -> None:
    rules = searched(1).chosen()
    assert not ((rules.body[:, 0] == rules.head) & (rules.length == 1)).any()


def test_a_search_goes_on_from_its_state() -> None:
    search, other = searched(1), searched(0, seed=0)
    other.load(search.state())
    for own in (search, other):
        own.noise.reseed(5)
        own.iterate(np.random.default_rng(5), lambda phase: None)
    assert np.array_equal(search.found.body, other.found.body)
    assert np.array_equal(search.score, other.score)
