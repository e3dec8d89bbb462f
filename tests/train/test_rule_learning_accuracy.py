from pathlib import Path
from typing import Any

import pytest

import kgprobe as kp

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


@pytest.mark.parametrize("model", QUICK)
def test_a_short_training_answers_the_questions_of_umls_on_both_sides(data: Path, model: str) -> None:
    select = ["PROBE(alpha=1,beta=0)"]
    fitted = kp.fit(model, data / "graphs" / "umls", threads=1, **QUICK[model] | {"select": select})
    ranks = fitted.ranks[select[0]]
    tail, head = (
        kp.evaluate(ranks.filter(chosen), select)[select[0]] for chosen in (ranks.predicts_tail, ~ranks.predicts_tail)
    )
    assert min(tail, head) > LEAST[model] - 0.02
    assert (tail + head) / 2 > LEAST[model]
