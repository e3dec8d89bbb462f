"""The sparse loss is that of brute force, and so are its gradients.

Rules begin with what their statistics say, and are held there as strongly as is asked for.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.models.rules.groundings import Grounder
from kgprobe.models.rules.rule_table import Rules
from kgprobe.train.rnnlogic.grounded_queries import Amount, GroundedQueries, ground_queries, shares
from kgprobe.train.rnnlogic.predictor_training import Chunk, RulePrior, fact_losses, scored
from kgprobe.train.rnnlogic.rnnlogic_learner import RNNLogicLearner
from kgprobe.train.setting_sources import from_values
from kgprobe.train.settings import Settings, resolve
from rnnlogic_oracle import adjacency_of, dense_losses, every_rule, random_model, random_triples
from rule_trainings import family, quick_rules
from trainings import CPU, one_thread


def grounded(facts: np.ndarray, entities: int, rules: Rules, amount: Amount | None = None) -> GroundedQueries:
    grounder = Grounder(adjacency_of(facts, entities, rules.relations))
    return ground_queries(grounder, rules, amount or Amount(), np.random.default_rng(0))


def losses_of(model: torch.nn.Module, queries: GroundedQueries, most: int) -> tuple[dict, torch.Tensor]:
    """The loss of every fact that is asked, in chunks of so many scores, and their sum."""
    found, total = {}, torch.zeros((), dtype=torch.float64)
    for chosen in queries.chunks(torch.randperm(len(queries), generator=torch.Generator().manual_seed(1)), most):
        chunk = Chunk(queries, chosen)
        losses = fact_losses(chunk, scored(model, chunk), *model.base(chunk.relation))
        query = chunk.fact_query[chunk.asked]
        names = zip(queries.given[chosen][query], chunk.relation[query], chunk.target[chunk.asked], strict=True)
        found |= dict(zip((tuple(map(int, name)) for name in names), losses, strict=True))
        total = total + losses.sum()
    return found, total


KINDS = [
    {"predictor": "linear", "counts": "count", "bias": "none"},
    {"predictor": "linear", "counts": "log", "bias": "entity"},
    {"predictor": "plus", "counts": "any", "bias": "answer"},
    {"predictor": "plus", "counts": "log", "bias": "entity"},
]


@pytest.mark.parametrize(
    ("seed", "kind"), list(enumerate(KINDS)), ids=["-".join(map(str, kind.values())) for kind in KINDS]
)
def test_the_loss_and_its_gradients_are_those_of_brute_force(seed: int, kind: dict) -> None:
    facts, entities = random_triples(seed), 9
    rules = every_rule(2, seed=seed)
    model = random_model(rules, entities, seed, **KINDS[seed])
    wanted = dense_losses(model, facts, entities, rules)
    sum(wanted.values()).backward()
    gradients = {name: own.grad.clone() for name, own in model.named_parameters()}
    model.zero_grad()
    for most in (1, 10_000):
        found, total = losses_of(model, grounded(facts, entities, rules), most)
        assert found.keys() == wanted.keys()
        for fact, loss in wanted.items():
            assert found[fact].item() == pytest.approx(loss.item(), rel=1e-9, abs=1e-9), fact
        model.zero_grad()
        total.backward()
        for name, own in model.named_parameters():
            torch.testing.assert_close(own.grad, gradients[name], rtol=1e-7, atol=1e-8)


def test_facts_that_are_left_out_are_answers_all_the_same() -> None:
    facts, entities = random_triples(3), 9
    rules = every_rule(2, seed=3)
    model = random_model(rules, entities, bias="entity")
    wanted = dense_losses(model, facts, entities, rules)
    found, _ = losses_of(model, grounded(facts, entities, rules, Amount(facts=6, of_query=1)), 10_000)
    assert 0 < len(found) <= 4 * 6
    assert len({(given, relation) for given, relation, _ in found}) == len(found)
    for fact, loss in found.items():
        assert loss.item() == pytest.approx(wanted[fact].item(), rel=1e-9)


def test_scores_too_large_for_an_exponential_give_a_loss() -> None:
    facts, entities = random_triples(5), 9
    every = every_rule(2, seed=5)
    rules = every.at((every.body % 2 != every.head[:, None] % 2).all(1) & (every.length > 1))
    model = random_model(rules, entities, predictor="linear", counts="count", bias="entity")
    with torch.no_grad():
        model.rule.mul_(300)
    wanted = dense_losses(model, facts, entities, rules)
    found, total = losses_of(model, grounded(facts, entities, rules), 10_000)
    total.backward()
    assert torch.isfinite(model.rule.grad).all()
    assert max(loss.item() for loss in wanted.values()) > 1000
    for fact, loss in wanted.items():
        assert found[fact].item() == pytest.approx(loss.item(), rel=1e-9, abs=1e-9)


def test_without_rules_the_base_is_all_there_is() -> None:
    facts, entities = random_triples(0), 9
    rules = Rules.empty(2)
    model = random_model(rules, entities, bias="answer")
    wanted = dense_losses(model, facts, entities, rules)
    found, _ = losses_of(model, grounded(facts, entities, rules), 10_000)
    assert [found[fact].item() for fact in wanted] == pytest.approx([loss.item() for loss in wanted.values()])


def fan() -> tuple[np.ndarray, Rules]:
    """1000 queries of a relation that take three each: themselves, one path, and that it is lost without the fact."""
    facts = np.stack([np.arange(1000), np.zeros(1000, int), np.arange(1000) % 7], 1)
    return facts, Rules.from_bodies(1, [0, 1], [[0, 1, 0], [1, 0, 1]])


def test_grounding_stops_when_there_is_enough_of_it() -> None:
    facts, rules = fan()
    some = grounded(facts, 1000, rules, Amount(groundings=3000))
    assert np.bincount(some.relation)[1] == 7
    taken = sum(len(part.columns["rule"]) for part in (some.entries, some.changed))
    assert 2700 <= taken + len(some) <= 3000
    assert len(set(zip(some.relation.tolist(), some.given.tolist(), strict=True))) == len(some)
    assert len(grounded(facts, 1000, rules)) == 1007


def test_queries_that_no_rule_leads_anywhere_are_all_asked() -> None:
    facts, _ = fan()
    assert len(grounded(facts, 1000, Rules.empty(1))) == 1007


@given(st.lists(st.tuples(st.floats(1, 1e4), st.integers(1, 10**6)), min_size=1, max_size=20), st.integers(1, 10**9))
def test_groundings_are_shared_by_the_fourth_root_of_queries_and_small_relations_have_all(
    relations: list[tuple[float, int]], most: int
) -> None:
    cost, queries = np.array(relations).T
    found = shares(cost * queries, queries, Amount(groundings=most)) / (cost * queries)
    if (cost * queries).sum() <= most:
        assert (found > 1 - 1e-9).all()
        return
    assert (found * cost * queries).sum() == pytest.approx(most)
    part = found < 1 - 1e-9
    level = (found * queries**0.25)[part]
    assert level == pytest.approx(np.full(len(level), level[0]))
    assert (queries[~part] ** 0.25 <= level[0] * (1 + 1e-6)).all()


RULES = replace(
    Rules.from_bodies(1, [0, 0, 1], [[1], [0], [0]]),
    support=np.array([10.0, 0.0, 5.0]),
    pairs=np.array([15.0, 0.0, 95.0]),
)

INITIAL = torch.tensor([10 / 20, 0.0, 5 / 100])


def settings_of(**changes: Any) -> Settings:
    return resolve("rnnlogic", [from_values("test", changes)]).settings


@pytest.mark.parametrize("predictor", ["linear", "both", "plus"])
@pytest.mark.parametrize("bias", ["none", "answer"])
def test_the_gradient_is_that_of_squared_distances(predictor: str, bias: str) -> None:
    settings = settings_of(regularisation=3.0, bias_regularisation=5.0, initial_weight=0.4)
    model = random_model(RULES, entities=4, predictor=predictor, bias=bias).float()
    RulePrior.of(settings, RULES, 7, CPU).pull(model)
    if predictor == "plus":
        assert model.rule.grad is None
    else:
        torch.testing.assert_close(model.rule.grad[:, 0], 2 * 3 / 7 * (model.rule[:, 0].detach() - 0.4 * INITIAL))
        assert not model.rule.grad[:, 1:].any()
    if model.bias is not None:
        torch.testing.assert_close(model.bias.grad, 2 * 5 / 7 * model.bias.detach())


def test_without_regularisation_nothing_pulls() -> None:
    model = random_model(RULES, entities=4)
    RulePrior.of(settings_of(initial_weight=2.0), RULES, 7, CPU).pull(model)
    assert all(own.grad is None for own in model.parameters())


@pytest.mark.parametrize("strength", [0.0, 1e7])
def test_weights_stay_where_they_begin_if_they_are_held_there(strength: float) -> None:
    held = {"regularisation": strength, "bias_regularisation": strength, "initial_weight": 1.5}
    settings = quick_rules("rnnlogic", predictor="linear", bias="answer", **held, seeds=(0,), learning_rate=1e-3)
    with one_thread():
        learner = RNNLogicLearner(settings, family(), CPU)
        for epoch in range(6):
            learner.epoch(epoch, lambda steps, phase: None)
    tensors = learner.weights(0)
    support, pairs = (tensors[f"rules.{name}"] for name in ("support", "pairs"))
    moved = tensors["model.rule"][:, 0] - 1.5 * support / (pairs + 5)
    assert bool(moved.abs().max() < 2e-3) == bool(tensors["model.bias"].abs().max() < 2e-3) == (strength > 0)
