"""Default settings of every model, which depend on the size of the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from kgprobe.graph import KnowledgeGraph

_TINY = 300
"""Number of entities up to which scoring all of them costs no more than negative sampling."""

_VALIDATIONS = 40
"""Number of validations in a training."""

_VALIDATION_TRIPLES = 5000
"""Number of validation triples that suffices to select checkpoints."""


@dataclass(frozen=True)
class Size:
    """Numbers of entities, training triples and validation triples of a graph."""

    entities: int
    triples: int
    valid: int

    @classmethod
    def of(cls, graph: KnowledgeGraph) -> Size:
        return cls(graph.num_entities, len(graph.triples("train")), len(graph.triples("valid")))

    def __str__(self) -> str:
        return f"{self.entities:,} entities and {self.triples:,} triples"


Values: TypeAlias = dict[str, Any]
Recipe: TypeAlias = Callable[[Size], Values]


def defaults(model: str, size: Size) -> Values:
    """Default settings of a model for a graph of this size."""
    recipe = RECIPES.get(model.lower(), _factorisation)(size)
    epochs = recipe["epochs"]
    validation_facts = _VALIDATION_TRIPLES if size.valid > 2 * _VALIDATION_TRIPLES else 0
    return recipe | {"validate_every": max(1, epochs // _VALIDATIONS), "validation_facts": validation_facts}


def _distance(size: Size) -> Values:
    """Distance models: self-adversarial negative sampling (Sun et al. 2019)."""
    batch_size = _batch_size(size.triples, 128, 1024)
    tiny = size.entities <= _TINY
    return {
        "objective": "one_vs_all" if tiny else "negative_sampling",
        "loss": "self_adversarial",
        "negatives": 256,
        "adversarial_temperature": 1.0,
        "subsampling": True,
        "optimiser": "adam",
        "learning_rate": 2e-3 if size.triples < 50_000 else 5e-4,
        "schedule": "steps",
        "batch_size": batch_size,
        "epochs": _epochs(size.triples, batch_size, steps=4_000 if tiny else 30_000, most=1000),
    }


def _factorisation(size: Size) -> Values:
    """Factorisation models: cross entropy over all entities with the N3 regulariser (Lacroix et al. 2018)."""
    batch_size = _batch_size(size.triples, 128, 1024)
    return {
        "objective": "one_vs_all",
        "loss": "cross_entropy",
        "reciprocal": True,
        "regulariser": "n3",
        "regularisation": 0.05,
        "optimiser": "adagrad",
        "learning_rate": 0.1,
        "batch_size": batch_size,
        "epochs": _epochs(size.triples, batch_size, steps=8_000, most=200),
    }


def _tucker(size: Size) -> Values:
    """TuckER: binary cross entropy over all entities and answers (Balazevic et al. 2019)."""
    batch_size = _batch_size(size.triples, 128, 512)
    return {
        "objective": "k_vs_all",
        "loss": "binary_cross_entropy",
        "reciprocal": True,
        "label_smoothing": 0.1,
        "optimiser": "adam",
        "learning_rate": 3e-3 if size.triples < 50_000 else 1e-3,
        "batch_size": batch_size,
        "epochs": _epochs(size.triples, batch_size, steps=10_000, most=300),
    }


def _rnnlogic(size: Size) -> Values:
    """RNNLogic: few epochs, because most of the time is spent on the rules."""
    return {
        "optimiser": "adam",
        "learning_rate": 5e-3 if size.triples < 50_000 else 2e-3,
        "batch_size": _batch_size(size.triples, 64, 512),
        "epochs": 20,
    }


RECIPES: Mapping[str, Recipe] = {
    "transe": _distance,
    "rotate": _distance,
    "house": _distance,
    "distmult": _factorisation,
    "complex": _factorisation,
    "tucker": _tucker,
    "plogicnet": _distance,
    "rnnlogic": _rnnlogic,
}


def _batch_size(triples: int, least: int, most: int) -> int:
    """A power of two with about 50 steps in an epoch, within bounds."""
    return min(most, max(least, 1 << max(0, (2 * triples // 50).bit_length() - 1)))


def _epochs(triples: int, batch_size: int, steps: int, most: int) -> int:
    """Number of epochs with about this many steps, rounded to tens, at least 50."""
    epochs = steps * batch_size / max(1, 2 * triples)
    return int(min(most, max(50, round(epochs, -1))))
