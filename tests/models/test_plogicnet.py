from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from kgprobe.models.markov_network import Conclusions, Network
from kgprobe.models.plogicnet import PLogicNet, PLogicNetOptions
from kgprobe.models.registry import model_kind, problems
from kgprobe.models.rules.groundings import Grounder
from kgprobe.models.rules.paths import Adjacency
from kgprobe.models.rules.rule_table import Rules
from kgprobe.models.transe import TransEOptions
from kgprobe.predict.adapters.opening import FunctionScorer
from kgprobe.train.setting_sources import from_values
from kgprobe.train.settings import resolve

FACTS = np.array([[0, 0, 1], [1, 0, 2], [0, 0, 3], [3, 0, 2], [2, 1, 0], [4, 0, 4], [1, 1, 4]])

ENTITIES, RELATIONS = 6, 2

RULES = Rules.from_bodies(RELATIONS, [0, 1, 1, 1], [[3, -1], [0, 0], [2, 2], [2, -1]])

WEIGHTS = np.array([0.5, 2.0, 1.0, -0.25])


def embedded(side: str, given: Any, relation: Any) -> torch.Tensor:
    table = torch.from_numpy(np.random.default_rng(1).normal(size=(2, RELATIONS, ENTITIES, ENTITIES))).float()
    return table[int(side == "head"), torch.as_tensor(np.asarray(relation)), torch.as_tensor(np.asarray(given))]


def model(rules: Rules = RULES, weights: np.ndarray = WEIGHTS, logic_weight: float = 2.0, **options: Any) -> PLogicNet:
    settings = PLogicNetOptions(**{"combine": "log", **options})
    grounder = Grounder(Adjacency(FACTS, ENTITIES, RELATIONS))
    network = Network(rules, weights, np.zeros(RELATIONS))
    conclusions = Conclusions.of(network, grounder, settings.combine)
    return PLogicNet(FunctionScorer(embedded), network, conclusions, grounder, settings, logic_weight)


def queries() -> tuple[np.ndarray, np.ndarray]:
    given, relation = np.divmod(np.arange(ENTITIES * RELATIONS), RELATIONS)
    return given, relation


@pytest.mark.parametrize("side", ["tail", "head"])
def test_scores_are_those_of_the_embedding_plus_weighted_logic(side: str) -> None:
    given, relation = queries()
    scores = model().score(side, given, relation).numpy()
    logic = scores - embedded(side, given, relation).numpy()
    one, of = (0, 2) if side == "tail" else (2, 0)
    # Two paths 0 -> 1 -> 2 and 0 -> 3 -> 2 of the second rule; no other rule of relation 1 joins them.
    assert logic[given.tolist().index(one) + 1, of] == pytest.approx(2 * 2 * np.log(3), abs=1e-5)
    assert not logic[given == 5].any()


def test_the_same_pair_gets_the_same_logic_from_both_sides() -> None:
    given, relation = queries()
    logic = [model().score(side, given, relation) - embedded(side, given, relation) for side in ("tail", "head")]
    tail, head = (part.reshape(ENTITIES, RELATIONS, ENTITIES) for part in logic)
    assert torch.allclose(tail, head.permute(2, 1, 0), atol=1e-5)
    assert tail.any()


def test_scores_of_a_query_do_not_depend_on_what_else_is_asked() -> None:
    given, relation = queries()
    together = model().score("tail", given, relation)
    order = np.random.default_rng(0).permutation(len(given))
    assert (model().score("tail", given[order], relation[order]) == together[order]).all()
    assert (model().score("tail", given[3:4], relation[3:4]) == together[3:4]).all()


def test_an_embedding_is_left_as_it_was() -> None:
    kept = torch.zeros(1, ENTITIES)
    scored = replace(model(), embedding=FunctionScorer(lambda side, given, relation: kept))
    assert scored.score("tail", np.array([0]), np.array([1])).any()
    assert not kept.any()


def test_without_rules_it_is_the_embedding() -> None:
    given, relation = queries()
    bare = model(Rules.empty(RELATIONS), np.empty(0))
    assert (bare.score("head", given, relation) == embedded("head", given, relation)).all()
    assert len(bare.rules) == len(bare.weights) == 0
    assert bare.explain("tail", 0, 1, np.array([2]))[0].parts["rules"] == 0


@pytest.mark.parametrize("combine", ["any", "log", "count", "mean"])
@pytest.mark.parametrize("side", ["tail", "head"])
def test_a_score_is_explained_by_parts_and_by_what_it_loses_without_each_rule(side: str, combine: str) -> None:
    whole = model(combine=combine)
    given = 0 if side == "tail" else 2
    for relation in range(RELATIONS):
        scores = whole.score(side, np.array([given]), np.array([relation]))[0]
        for said in whole.explain(side, given, relation, np.arange(ENTITIES)):
            assert said.score == scores[said.candidate]
            assert sum(said.parts.values()) == pytest.approx(said.score, abs=1e-5)
            assert list(said.gain) == sorted(said.gain, reverse=True)
            for rule, gain in zip(said.rule, said.gain, strict=True):
                others = np.arange(len(RULES)) != rule % len(RULES)
                without = model(RULES.at(others), WEIGHTS[others], combine=combine)
                left = without.score(side, np.array([given]), np.array([relation]))[0, said.candidate]
                assert gain == pytest.approx(float(said.score - left), abs=1e-5)
                assert whole.rules.head[rule] == (relation if side == "tail" else relation + RELATIONS)


def test_explained_rules_and_paths_are_those_that_lead_to_the_candidate() -> None:
    said = model().explain("tail", 0, 1, np.array([2, 5]))
    assert (said[0].rule.tolist(), said[0].paths.tolist()) == ([1], [2.0])
    assert len(said[1].rule) == 0


def test_rules_are_told_in_both_directions_with_what_a_path_is_worth() -> None:
    whole = model()
    assert whole.rules.head.tolist() == [0, 1, 1, 1, 2, 3, 3, 3]
    assert whole.weights == pytest.approx(np.tile(2 * WEIGHTS * np.log(2), 2))
    assert model(combine="mean").weights == pytest.approx(np.tile(2 * WEIGHTS, 2))


def test_an_entity_answers_itself_only_where_rules_say_so() -> None:
    plain, strict = model(), model(self_loop_penalty=100.0)
    given, relation = queries()
    lost = plain.score("tail", given, relation) - strict.score("tail", given, relation)
    rows = np.arange(len(given))
    raised = plain.score("tail", given, relation) - embedded("tail", given, relation)
    expected = np.where(raised[rows, given] > 0, 0, 100)
    assert lost[rows, given].tolist() == pytest.approx(expected)
    lost[rows, given] = 0
    assert not lost.any()
    assert {0, 100} <= set(expected.tolist())
    said = strict.explain("tail", 5, 0, np.array([5]))[0]
    assert sum(said.parts.values()) == pytest.approx(said.score, abs=1e-4)


def test_it_is_found_by_name_and_has_the_options_of_transe() -> None:
    options = model_kind("plogicnet").load().Options(dimension=7, gamma=3.0, norm=2)
    assert options.embedding == TransEOptions(7, 3.0, 2)


def test_what_is_wrong_with_options_is_said() -> None:
    assert list(problems(PLogicNetOptions(fact_threshold=(0.5, 1.0))))
    assert "combine" in next(problems(PLogicNetOptions(combine="product")))
    with pytest.raises(Exception, match="cannot be trained") as error:
        resolve("plogicnet", [from_values("test", {"epochs": 2, "iterations": 3})])
    assert "iterations" in str(error.value)
