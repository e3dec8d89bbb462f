"""Trainings of the models of rules that take no time, and graphs that leave them little to reason with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kgprobe.graph import KnowledgeGraph
from kgprobe.train.setting_sources import from_values
from kgprobe.train.settings import Settings, resolve
from runs import TARGETS

QUICK: dict[str, dict[str, Any]] = {
    "plogicnet": {
        "epochs": 6,
        "validate_every": 2,
        "dimension": 4,
        "iterations": 2,
        "logic_weights": (1.0, 4.0),
        "weight_steps": 5,
    },
    "rnnlogic": {
        "epochs": 6,
        "validate_every": 2,
        "rule_length": 2,
        "rules_per_relation": 8,
        "em_iterations": 2,
        "sampled_rules": 8,
        "em_facts": 10,
        "em_steps": 2,
        "generator_dimension": 4,
        "generator_hidden": 4,
        "generator_batch": 16,
        "pretraining_steps": 3,
        "generator_steps": 2,
        "rule_dimension": 4,
        "hidden": 4,
    },
}

"""What makes a training of each model short."""


def quick_rules(model: str, **changes: Any) -> Settings:
    """Settings of a training of a moment, with two targets and two seeds."""
    values = {"batch_size": 32, "patience": 0, "learning_rate": 0.01, "select": TARGETS, "seeds": (3, 8)}
    return resolve(model, [from_values("test", values | QUICK[model] | changes)]).settings


def family() -> KnowledgeGraph:
    """A graph of few people with their parents and grandparents, on which rules hold."""
    parent = {person: (person - 1) // 2 for person in range(1, 15)}
    parents = [(person, 0, of) for person, of in parent.items()]
    grandparents = [(person, 1, parent[of]) for person, of in parent.items() if of in parent]
    children = [(of, 2, person) for person, of in parent.items()]
    facts = np.random.default_rng(0).permutation([*parents, *grandparents, *children])
    return of_facts(facts[:28], facts[28:34], facts[34:], entities=15, relations=3)


def of_facts(
    train: ArrayLike,
    valid: ArrayLike = (),
    test: ArrayLike = (),
    entities: int = 8,
    relations: int = 2,
) -> KnowledgeGraph:
    """A graph of these facts."""
    splits = {"train": train, "valid": valid, "test": test}
    triples = {name: np.array(facts, dtype=np.int64).reshape(-1, 3) for name, facts in splits.items()}
    return KnowledgeGraph.from_triples(**triples, num_entities=entities, num_relations=relations, name="few")


_CHAIN = [[0, 0, 1], [1, 0, 2], [2, 0, 3], [3, 0, 4], [0, 1, 2], [1, 1, 3], [2, 1, 4]]

LITTLE: dict[str, KnowledgeGraph] = {
    "a relation without rules": of_facts([*_CHAIN, [5, 2, 6]], [[0, 2, 6]], [[5, 2, 1], [0, 0, 2]], relations=3),
    "a relation without facts": of_facts(_CHAIN, [[0, 2, 1]], [[1, 2, 0], [0, 0, 2]], relations=3),
    "no validation facts": of_facts(_CHAIN, [], [[0, 0, 2], [4, 1, 0]]),
    "no test facts": of_facts(_CHAIN, [[0, 0, 2]], []),
    "entities without neighbours": of_facts(_CHAIN, [[0, 0, 7]], [[6, 1, 7], [7, 0, 0]]),
    "one relation": of_facts([fact for fact in _CHAIN if not fact[1]], [[4, 0, 0]], [[0, 0, 2]], relations=1),
    "one fact": of_facts([[0, 0, 1]], [[1, 0, 0]], [[0, 0, 0]], entities=2, relations=1),
    "a loop": of_facts([[0, 0, 0], [0, 1, 1]], [[1, 0, 1]], [[1, 1, 0]], entities=3),
    "a fact twice": of_facts([*_CHAIN, _CHAIN[0]], [[0, 0, 2]], [[0, 0, 3]]),
}

"""Graphs that lack something."""
