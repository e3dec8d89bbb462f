"""From which settings a search draws, for each model; the wider ones for graphs that train in seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

SMALL = ("umls", "kinship", "nations", "family", "codex-s", "family-tree")

Values = dict[str, Any]


def draw(model: str, graph: str, rng: np.random.Generator) -> Values:
    """Settings drawn for a model on a graph."""
    return SPACES[model](rng, graph in SMALL)


def _log(rng: np.random.Generator, low: float, high: float) -> float:
    return float(f"{np.exp(rng.uniform(np.log(low), np.log(high))):.3g}")


def _one(rng: np.random.Generator, *choices: Any) -> Any:
    return choices[rng.integers(len(choices))]


def _factorisation(rng: np.random.Generator, small: bool) -> Values:
    shared = {"dimension": _one(rng, 64, 128, 256) if small else _one(rng, 128, 256, 512), "reciprocal": True}
    shared |= {"dropout": _one(rng, 0.0, 0.2, 0.4, 0.6), "batch_size": _one(rng, 64, 128, 256, 512)}
    if rng.random() < 0.6:
        return shared | {
            "objective": "one_vs_all",
            "loss": "cross_entropy",
            "regulariser": "n3",
            "regularisation": _log(rng, 1e-4, 0.2),
            "optimiser": "adagrad",
            "learning_rate": _log(rng, 0.02, 0.5),
        }
    return shared | {
        "objective": "k_vs_all",
        "loss": _one(rng, "binary_cross_entropy", "cross_entropy"),
        "label_smoothing": _one(rng, 0.0, 0.1),
        "initial_scale": 0.05,
        "optimiser": "adam",
        "learning_rate": _log(rng, 5e-4, 1e-2),
        "regulariser": "none",
        "regularisation": 0.0,
    }


def _tucker(rng: np.random.Generator, small: bool) -> Values:
    objective, loss = _one(
        rng,
        ("k_vs_all", "binary_cross_entropy"),
        ("k_vs_all", "cross_entropy"),
        ("one_vs_all", "cross_entropy"),
    )
    by_fact = objective == "one_vs_all"
    kept_small = by_fact and _one(rng, True, False)
    return {
        "objective": objective,
        "loss": loss,
        "subsampling": by_fact and _one(rng, True, False),
        "dimension": _one(rng, 64, 128, 200, 256, 300),
        "relation_dimension": _one(rng, 16, 32, 64, 128),
        "dropout_input": _one(rng, 0.15, 0.3, 0.4, 0.5, 0.6),
        "dropout_relation": _one(rng, 0.0, 0.2, 0.4, 0.6),
        "dropout_output": _one(rng, 0.15, 0.3, 0.5, 0.7),
        "regulariser": "n3" if kept_small else "none",
        "regularisation": _log(rng, 0.1, 5.0) if kept_small else 0.0,
        "label_smoothing": _one(rng, 0.0, 0.1, 0.2),
        "learning_rate": _log(rng, 3e-4, 6e-3),
        "batch_size": _one(rng, 64, 128, 256),
        "schedule": _one(rng, "constant", "cosine"),
        "epochs": _one(rng, 100, 200, 400) if small else 150,
    }


def _distance(rng: np.random.Generator, small: bool) -> Values:
    sampled, weighted, entropy = (
        ("negative_sampling", "self_adversarial"),
        ("one_vs_all", "self_adversarial"),
        ("one_vs_all", "cross_entropy"),
    )
    objective, loss = _one(rng, sampled, weighted, entropy) if small else sampled
    return {
        "objective": objective,
        "loss": loss,
        "label_smoothing": _one(rng, 0.0, 0.1) if loss == "cross_entropy" else 0.0,
        "adversarial_temperature": _one(rng, 0.0, 0.25, 0.5, 1.0, 2.0),
        "gamma": _one(rng, 3.0, 6.0, 9.0, 12.0, 24.0),
        "learning_rate": _log(rng, 5e-4, 1e-2),
        "subsampling": _one(rng, True, True, False),
        "reciprocal": _one(rng, True, True, False),
        "dimension": _one(rng, 128, 256, 512),
        "batch_size": _one(rng, 128, 256, 512),
        "schedule": _one(rng, "steps", "cosine"),
        "epochs": _one(rng, 100, 200) if small else 80,
        "regulariser": "norm",
        "regularisation": _one(rng, 0.0, 0.03, 0.1, 0.3, 0.45),
    }


def _house(rng: np.random.Generator, small: bool) -> Values:
    return _distance(rng, small) | {
        "block": _one(rng, 2, 4, 8, 16),
        "projections": _one(rng, 0, 1, 1, 2),
        "threshold": _one(rng, 0.5, 0.9),
    }


SPACES: Mapping[str, Callable[[np.random.Generator, bool], Values]] = {
    "distmult": _factorisation,
    "complex": _factorisation,
    "tucker": _tucker,
    "transe": _distance,
    "rotate": _distance,
    "house": _house,
}
