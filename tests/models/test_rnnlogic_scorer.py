"""Scores are those of brute force, equal evidence ties, and explanations add up."""

from typing import Any

import numpy as np
import pytest
import torch

from kgprobe.models.rnnlogic_scorer import GroundingCache, RNNLogicScorer, RNNLogicWithEmbedding
from kgprobe.models.rules.explanations import RuleScorer
from kgprobe.models.rules.groundings import Grounder
from kgprobe.models.rules.rule_table import Rules
from kgprobe.predict.adapters.opening import FunctionScorer
from kgprobe.predict.scorers import Side
from rnnlogic_oracle import adjacency_of, dense_counts, dense_scores, every_rule, random_model, random_triples

ENTITIES = 9

KINDS: list[dict[str, Any]] = [
    {"predictor": "linear", "counts": "count", "bias": "none"},
    {"predictor": "plus", "counts": "any", "bias": "entity"},
    {"predictor": "both", "counts": "log", "bias": "answer"},
]

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))


def scorer_of(rules: Rules, memory: int = 1 << 20, **kind: Any) -> tuple[RNNLogicScorer, np.ndarray]:
    triples = random_triples(0, ENTITIES)
    grounder = Grounder(adjacency_of(triples, ENTITIES, 2))
    scorer = RNNLogicScorer(random_model(rules, ENTITIES, **kind), GroundingCache(grounder, rules, memory))
    return scorer, dense_counts(triples, ENTITIES, rules)


@every_kind
@pytest.mark.parametrize("memory", [0, 1 << 20], ids=["forgets", "remembers"])
def test_scores_are_those_of_brute_force(kind: dict[str, Any], memory: int) -> None:
    rules = every_rule(2)
    scorer, counts = scorer_of(rules, memory, **kind)
    given, relation = np.array([3, 0, 8, 3, 5, 3]), np.array([1, 0, 1, 1, 0, 0])
    for side, shift in (("tail", 0), ("head", 2)):
        expected = torch.stack(
            [
                dense_scores(scorer.model, counts, rules, int(r) + shift, int(x))
                for x, r in zip(given, relation, strict=True)
            ]
        )
        for _ in range(2):
            found = scorer.score(side, given, relation)  # type: ignore[arg-type]
            assert found.dtype == torch.float32
            torch.testing.assert_close(found, expected.detach().float(), rtol=1e-6, atol=1e-6)


def test_candidates_with_equal_evidence_tie() -> None:
    fan = np.array([[0, 0, leaf] for leaf in range(1, 400)])
    rules = Rules.from_bodies(1, [0, 0], [[0, 1, 0], [0, -1, -1]])
    grounder = Grounder(adjacency_of(fan, 401, 1))
    scorer = RNNLogicScorer(random_model(rules, 401, bias="none").float(), GroundingCache(grounder, rules))
    scores = scorer.score("tail", np.array([0]), np.array([0]))[0]
    assert len(set(scores[1:400].tolist())) == 1
    assert scores[400] == 0


@every_kind
def test_an_explanation_adds_up_to_the_score(kind: dict[str, Any]) -> None:
    rules = every_rule(2)
    scorer, counts = scorer_of(rules, **kind)
    assert isinstance(scorer, RuleScorer)
    for side, shift in (("tail", 0), ("head", 2)):
        asked = 1 + shift
        scores = scorer.score(side, np.array([3]), np.array([1]))[0]  # type: ignore[arg-type]
        own = rules.head == asked
        for why in scorer.explain(side, 3, 1, np.arange(ENTITIES)):  # type: ignore[arg-type]
            assert why.score == pytest.approx(scores[why.candidate].item(), abs=1e-6)
            assert sum(why.parts.values()) == pytest.approx(why.score, abs=1e-6)
            paths = np.where(own, counts[:, 3, why.candidate], 0)
            assert dict(zip(why.rule.tolist(), why.paths.tolist(), strict=True)) == {
                rule: paths[rule] for rule in np.flatnonzero(paths)
            }
            assert (np.diff(why.gain) <= 0).all()
            for rule, gain in list(zip(why.rule.tolist(), why.gain.tolist(), strict=True))[:4]:
                less = counts.copy()
                less[rule] = 0
                without = dense_scores(scorer.model, less, rules, asked, 3)[why.candidate].item()
                assert gain == pytest.approx(why.score - without, abs=1e-5)


@every_kind
def test_the_weight_of_a_rule_is_what_one_path_adds(kind: dict[str, Any]) -> None:
    rules = every_rule(2)
    scorer, _ = scorer_of(rules, **kind)
    for rule in (0, len(rules) // 2, len(rules) - 1):
        one = np.zeros((len(rules), ENTITIES, ENTITIES))
        head = int(rules.head[rule])
        none = dense_scores(scorer.model, one, rules, head, 0)[1].item()
        one[rule, 0, 1] = 1
        assert scorer.weights[rule] == pytest.approx(dense_scores(scorer.model, one, rules, head, 0)[1].item() - none)


def with_embedding(weight: float) -> tuple[RNNLogicWithEmbedding, torch.Tensor]:
    reasoning, _ = scorer_of(every_rule(2))
    table = torch.randn(ENTITIES, ENTITIES, generator=torch.Generator().manual_seed(0))
    embedding = FunctionScorer(lambda side, given, relation: table[given] + torch.tensor(relation).float()[:, None])
    return RNNLogicWithEmbedding(reasoning, embedding, weight), table


@pytest.mark.parametrize("side", ["head", "tail"])
def test_an_embedding_adds_its_weighted_scores(side: Side) -> None:
    both, table = with_embedding(0.3)
    given, relation = np.array([3, 0, 3]), np.array([1, 0, 0])
    expected = both.first.score(side, given, relation) + 0.3 * (table[given] + torch.tensor([[1.0], [0.0], [0.0]]))
    torch.testing.assert_close(both.score(side, given, relation), expected)


def test_an_explanation_names_the_part_of_the_embedding() -> None:
    both, table = with_embedding(0.3)
    assert isinstance(both, RuleScorer)
    scores = both.score("tail", np.array([3]), np.array([1]))[0].tolist()
    alone = both.first.explain("tail", 3, 1, np.arange(ENTITIES))
    for why, without in zip(both.explain("tail", 3, 1, np.arange(ENTITIES)), alone, strict=True):
        assert why.score == scores[why.candidate]
        assert why.parts["embedding"] == pytest.approx(0.3 * (table[3, why.candidate].item() + 1), abs=1e-6)
        assert {**why.parts, "embedding": 0} == {**without.parts, "embedding": 0}
        assert sum(why.parts.values()) == pytest.approx(why.score, abs=1e-6)
        assert (why.gain == without.gain).all()


def test_without_rules_all_that_is_left_is_the_base() -> None:
    scorer, _ = scorer_of(Rules.empty(2), bias="entity")
    scores = scorer.score("tail", np.array([0, 1]), np.array([0, 1]))
    torch.testing.assert_close(scores, scorer.model.bias.float().expand(2, -1))
    assert len(scorer.weights) == 0
    assert scorer.explain("head", 0, 1, np.array([2]))[0].rule.tolist() == []
