from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgprobe as kp
import rule_trainings

QUICK: dict[str, dict[str, Any]] = {
    "plogicnet": {"epochs": 3, "dimension": 16, "validate_every": 3},
    "rnnlogic": {
        "epochs": 5,
        "em_iterations": 1,
        "rules_per_relation": 100,
        "mined_rules": 150,
        "sampled_rules": 50,
        "pretraining_steps": 50,
        "generator_steps": 20,
        "learning_rate": 0.01,
    },
}

"""Trainings of some seconds, with what is packaged for umls otherwise."""

LEAST = {"plogicnet": 0.79, "rnnlogic": 0.72}

SELECT = ["PROBE(alpha=1,beta=0)"]


def _of_tails_and_heads(fitted: kp.Fitted) -> tuple[float, float]:
    ranks = fitted.ranks[SELECT[0]]
    tail, head = (
        kp.evaluate(ranks.filter(chosen), SELECT)[SELECT[0]] for chosen in (ranks.predicts_tail, ~ranks.predicts_tail)
    )
    return tail, head


@pytest.mark.slow
@pytest.mark.parametrize("model", QUICK)
def test_a_short_training_answers_the_questions_of_umls_on_both_sides(data: Path, model: str) -> None:
    fitted = kp.fit(model, data / "graphs" / "umls", threads=1, **QUICK[model] | {"select": SELECT})
    tail, head = _of_tails_and_heads(fitted)
    assert min(tail, head) > LEAST[model] - 0.02
    assert (tail + head) / 2 > LEAST[model]


def _generations(people: int = 63) -> kp.KnowledgeGraph:
    """Parents, grandparents and children of a tree, a tenth of them held out twice."""
    parent = {person: (person - 1) // 2 for person in range(1, people)}
    parents = [(person, 0, of) for person, of in parent.items()]
    grandparents = [(person, 1, parent[of]) for person, of in parent.items() if of in parent]
    children = [(of, 2, person) for person, of in parent.items()]
    facts = np.random.default_rng(0).permutation([*parents, *grandparents, *children])
    tenth = len(facts) // 10
    train, valid, test = np.split(facts, [-2 * tenth, -tenth])
    return rule_trainings.of_facts(train, valid, test, entities=people, relations=3)


@pytest.mark.parametrize("model", QUICK)
def test_a_training_of_a_moment_answers_the_questions_of_a_family_on_both_sides(model: str) -> None:
    settings = rule_trainings.QUICK[model] | {"epochs": 20, "validate_every": 10, "batch_size": 32, "select": SELECT}
    fitted = kp.fit(model, _generations(), threads=1, device="cpu", **settings | {"seeds": (0,), "learning_rate": 0.01})
    assert min(_of_tails_and_heads(fitted)) > 0.8
