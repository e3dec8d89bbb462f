from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from kgprobe.graph import KnowledgeGraph
from kgprobe.metrics import evaluate
from kgprobe.models.markov_learning import Logic
from kgprobe.predict import Model, Setting, rank_in
from kgprobe.resources import Resources
from kgprobe.train.plogicnet_learner import Choice, PLogicNetLearner, open_run
from rule_trainings import family, quick_rules

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def learner_after(taken: int, graph: KnowledgeGraph | None = None, **changes: Any) -> PLogicNetLearner:
    """A learner of six epochs in three iterations after some of them."""
    settings = quick_rules(
        "plogicnet", **{"seeds": (3,), "iterations": 3, "prior": 0.05, "fact_threshold": (0.05,), **changes}
    )
    learner = PLogicNetLearner(settings, graph or family(), CPU)
    for epoch in range(taken):
        learner.epoch(epoch, lambda steps, phase: None)
    return learner


def logic_of(learner: PLogicNetLearner) -> Logic:
    return Logic.from_tensors(learner.weights(0), family(), learner.runs[0].options.combine)


def valid_score(scorer: Any, target: str) -> float:
    setting = Setting.build(family(), split="valid", filter="train+valid")
    return evaluate(rank_in(setting, Model("model", scorer), Resources(threads=1)), [target])[target]


def test_hidden_facts_are_believed_from_the_second_iteration_on() -> None:
    first, second = learner_after(2), learner_after(3)
    assert len(logic_of(first).hidden) == 0
    hidden = logic_of(second).hidden
    assert len(hidden) > 0
    known = {tuple(fact) for fact in family().triples("train").tolist()}
    assert not known & {tuple(fact) for fact in hidden.tolist()}
    assert len(second.runs[0].learner.graph.triples("train")) == len(known) + len(hidden)
    x, r, y = hidden[0]
    assert y in logic_of(second).grounder.adjacency.of(r)[[x]].indices


@pytest.mark.parametrize(("epochs", "iterations"), [(6, 3), (7, 3), (5, 5), (4, 1)])
def test_iterations_share_the_epochs(epochs: int, iterations: int) -> None:
    learner = learner_after(0, epochs=epochs, iterations=iterations)
    began = []
    for epoch in range(epochs):
        before = learner.runs[0].learner
        learner.epoch(epoch, lambda steps, phase: None)
        began += [epoch] * (learner.runs[0].learner is not before)
    assert began == [iteration * epochs // iterations for iteration in range(iterations)]
    assert learner.runs[0].learner.settings.epochs == epochs - began[-1]


def test_weights_open_to_the_same_scores() -> None:
    learner = learner_after(5)
    opened = open_run(learner.runs[0].settings, family(), learner.weights(0), CPU)
    given, relation = np.divmod(np.arange(15 * 3), 3)
    for side in ("tail", "head"):
        assert torch.equal(opened.score(side, given, relation), learner.run(0).score(side, given, relation))


@pytest.mark.parametrize("target", ["MRR", "MR"])
def test_the_weight_of_rules_is_the_one_that_validation_facts_like_best(target: str) -> None:
    weights = (0.0, 0.5, 2.0, 30.0)
    learner = learner_after(4, logic_weights=weights, select=(target,))
    scores = [valid_score(replace(learner.run(0), logic_weight=weight), target) for weight in weights]
    assert len(set(scores)) > 1
    best = (max if target == "MRR" else min)(scores)
    assert learner.run(0).logic_weight == weights[scores.index(best)]
    assert learner.weights(0)["logic_weight"].item() == learner.run(0).logic_weight


def test_without_validation_facts_the_first_weight_and_thresholds_are_taken() -> None:
    facts = KnowledgeGraph.from_triples(train=family().triples("train"), num_entities=15, num_relations=3)
    several = learner_after(4, facts, logic_weights=(0.5, 4.0), rule_threshold=(0.3, 0.0), fact_threshold=(0.05, 0.02))
    single = learner_after(4, facts, logic_weights=(0.5,), rule_threshold=(0.3,), fact_threshold=(0.05,))
    assert several.run(0).logic_weight == 0.5
    assert {name: own.tolist() for name, own in several.weights(0).items()} == {
        name: own.tolist() for name, own in single.weights(0).items()
    }


def test_of_several_thresholds_validation_facts_choose() -> None:
    scores = {}
    for least in (0.0, 0.9):
        learner = learner_after(1, rule_threshold=(least,))
        settings = learner.runs[0].settings
        alone = replace(learner.run(0), embedding=_Nothing())
        scores[least] = Choice(settings, family(), CPU).score(alone)
    chosen = learner_after(1, rule_threshold=(0.9, 0.0))
    best = max(scores, key=lambda least: scores[least])
    assert scores[0.0] != scores[0.9]
    assert logic_of(chosen).network.rules.precision.min() >= best
    assert len(logic_of(chosen).network.rules) == len(logic_of(learner_after(1, rule_threshold=(best,))).network.rules)


class _Nothing:
    def score(self, side: str, given: np.ndarray, relation: np.ndarray) -> torch.Tensor:
        return torch.zeros(len(given), 15)


def test_annotation_by_the_embedding_changes_what_is_learned() -> None:
    plain, annotated = learner_after(3), learner_after(3, annotation=1.0)
    assert logic_of(plain).hidden.tolist() == logic_of(annotated).hidden.tolist()
    assert logic_of(plain).network.weights.tolist() != logic_of(annotated).network.weights.tolist()


@pytest.mark.parametrize("stop", range(1, 6))
def test_a_run_that_goes_on_from_a_state_ends_the_same(stop: int) -> None:
    through, stopped = learner_after(6, annotation=0.5), learner_after(stop, annotation=0.5)
    kept = {name: own.clone() for name, own in stopped.state().items()}
    again = learner_after(0, annotation=0.5)
    again.load(kept)
    losses = [again.epoch(epoch, lambda steps, phase: None) for epoch in range(stop, 6)]
    assert all(torch.isfinite(loss).all() for loss in losses)
    expected, found = through.state(), again.state()
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_without_rules_it_learns_what_transe_learns() -> None:
    bare = learner_after(2, groundings=0, iterations=1, epochs=2, subsampling=False)
    assert len(bare.run(0).rules) == 0
    given, relation = np.divmod(np.arange(15 * 3), 3)
    assert torch.equal(bare.run(0).score("tail", given, relation), bare.run(0).embedding.score("tail", given, relation))


def test_phases_are_told() -> None:
    told = set()
    learner = learner_after(0)
    learner.epoch(0, lambda steps, phase: told.add(phase))
    assert {"mining", "weighing rules", "training"} <= told


def test_rules_of_the_published_form_follow_bodies_of_two_relations_forwards_only() -> None:
    learner = learner_after(3, reverse=False, combine="mean")
    rules = logic_of(learner).network.rules
    assert {1, 2} <= set(rules.length.tolist())
    assert (rules.body[rules.length == 2] < 3).all()
    assert np.isfinite(learner.run(0).score("head", np.arange(15), np.full(15, 1)).numpy()).all()
