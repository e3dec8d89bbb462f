"""What rules explain, by brute force: the fact taken out of the graph, one fact at a time."""

import numpy as np
import pytest

from kgprobe.models.rules.ground import Grounder
from kgprobe.models.rules.rule import Rules
from kgprobe.train.rules.rnnlogic.posterior import explained
from kgprobe.train.rules.rnnlogic.queries import Amount, training_queries
from rnnlogic_oracle import adjacency_of, dense_counts, every_rule, random_facts, random_model

ENTITIES = 9


@pytest.mark.parametrize("counts", ["count", "log"])
@pytest.mark.parametrize("most", [1, 10_000])
def test_shares_are_those_of_brute_force(counts: str, most: int) -> None:
    facts, rules = random_facts(2, ENTITIES), every_rule(2, share=0.1, seed=2)
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
    queries = training_queries(grounder, rules, Amount(), np.random.default_rng(0))
    np.testing.assert_allclose(explained(model, queries, most).numpy(), wanted / asked[rules.head], atol=1e-9)


def test_rules_that_lead_nowhere_explain_nothing() -> None:
    facts = np.array([[0, 0, 1], [1, 0, 2], [0, 1, 2]])
    rules = Rules.from_bodies(2, [1, 1], [[0, 0], [1, 1]])
    grounder = Grounder(adjacency_of(facts, 3, 2))
    queries = training_queries(grounder, rules, Amount(), np.random.default_rng(0))
    model = random_model(rules, 3, predictor="linear", bias="none")
    assert explained(model, queries, 100).tolist() == [1, 0]


def test_no_rules_explain_nothing() -> None:
    facts = np.array([[0, 0, 1]])
    grounder = Grounder(adjacency_of(facts, 2, 1))
    queries = training_queries(grounder, Rules.empty(1), Amount(), np.random.default_rng(0))
    assert explained(random_model(Rules.empty(1), 2, predictor="linear"), queries, 100).tolist() == []
