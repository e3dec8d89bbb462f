"""Settings that are sensible for a model on a graph of some size that nobody has searched settings for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from kgprobe.graph import KnowledgeGraph

_TINY = 300

"""Up to so many entities, training against all of them costs no more than drawing some."""

_VALIDATIONS = 40

"""Into so many validations a training is cut, unless an epoch is longer than that."""

_VALIDATION_FACTS = 5000

"""So many validation facts tell checkpoints apart; more take longer than they are worth."""


@dataclass(frozen=True)
class Size:
    """The size of a graph.

    Attributes:
        entities: Number of entities.
        facts: Number of training facts.
        valid: Number of validation facts.
    """

    entities: int
    facts: int
    valid: int

    @classmethod
    def of(cls, graph: KnowledgeGraph) -> Size:
        """The size of a graph."""
        return cls(graph.num_entities, len(graph.triples("train")), len(graph.triples("valid")))

    def __str__(self) -> str:
        return f"{self.entities:,} entities and {self.facts:,} facts"


Values: TypeAlias = dict[str, Any]

Recipe: TypeAlias = Callable[[Size], Values]


def defaults(model: str, size: Size) -> Values:
    """The settings of a model that depend on it or on the size of the graph.

    Args:
        model: Name of the model.
        size: The size of the graph.

    Example:
        >>> small, large = Size(135, 1959, 1306), Size(40943, 86835, 3034)
        >>> [defaults("ComplEx", size)["batch_size"] for size in (small, large)]
        [128, 1024]
        >>> [defaults("RotatE", size)["objective"] for size in (small, large)]
        ['one_vs_all', 'negative_sampling']
    """
    recipe = RECIPES.get(model.lower(), _factorisation)(size)
    epochs = recipe["epochs"]
    validation_facts = _VALIDATION_FACTS if size.valid > 2 * _VALIDATION_FACTS else 0
    return recipe | {"validate_every": max(1, epochs // _VALIDATIONS), "validation_facts": validation_facts}


def _distance(size: Size) -> Values:
    """Distances learn from a margin between a fact and the false ones that come closest (Sun et al. 2019)."""
    batch_size = _batch_size(size.facts, 128, 1024)
    tiny = size.entities <= _TINY
    return {
        "objective": "one_vs_all" if tiny else "negative_sampling",
        "loss": "self_adversarial",
        "negatives": 256,
        "adversarial_temperature": 1.0,
        "subsampling": True,
        "optimiser": "adam",
        "learning_rate": 2e-3 if size.facts < 50_000 else 5e-4,
        "schedule": "steps",
        "batch_size": batch_size,
        "epochs": _epochs(size.facts, batch_size, steps=4_000 if tiny else 30_000, most=1000),
    }


def _factorisation(size: Size) -> Values:
    """Products learn from all entities at once, kept small by the nuclear norm (Lacroix et al. 2018)."""
    batch_size = _batch_size(size.facts, 128, 1024)
    return {
        "objective": "one_vs_all",
        "loss": "cross_entropy",
        "reciprocal": True,
        "regulariser": "n3",
        "regularisation": 0.05,
        "optimiser": "adagrad",
        "learning_rate": 0.1,
        "batch_size": batch_size,
        "epochs": _epochs(size.facts, batch_size, steps=8_000, most=200),
    }


def _tucker(size: Size) -> Values:
    """The core tensor learns all answers of a query at once (Balazevic et al. 2019)."""
    batch_size = _batch_size(size.facts, 128, 512)
    return {
        "objective": "k_vs_all",
        "loss": "binary_cross_entropy",
        "reciprocal": True,
        "label_smoothing": 0.1,
        "optimiser": "adam",
        "learning_rate": 3e-3 if size.facts < 50_000 else 1e-3,
        "batch_size": batch_size,
        "epochs": _epochs(size.facts, batch_size, steps=10_000, most=300),
    }


def _plogicnet(size: Size) -> Values:
    """As the TransE that it is made of, which is trained once more after each time that rules have been weighed."""
    return _distance(size)


def _rnnlogic(size: Size) -> Values:
    """Rules come first, in a few epochs; to weigh them takes few more."""
    return {
        "optimiser": "adam",
        "learning_rate": 5e-3 if size.facts < 50_000 else 2e-3,
        "batch_size": _batch_size(size.facts, 64, 512),
        "epochs": 20,
    }


RECIPES: Mapping[str, Recipe] = {
    "transe": _distance,
    "rotate": _distance,
    "house": _distance,
    "distmult": _factorisation,
    "complex": _factorisation,
    "tucker": _tucker,
    "plogicnet": _plogicnet,
    "rnnlogic": _rnnlogic,
}

"""How each model is trained best, as far as is known of graphs in general."""


def _batch_size(facts: int, least: int, most: int) -> int:
    """A power of two that makes about 50 steps of an epoch, within bounds."""
    return min(most, max(least, 1 << max(0, (2 * facts // 50).bit_length() - 1)))


def _epochs(facts: int, batch_size: int, steps: int, most: int) -> int:
    """How many epochs make so many steps, in round numbers: at least 50, since every fact must be seen often."""
    wanted = steps * batch_size / max(1, 2 * facts)
    return int(min(most, max(50, round(wanted, -1))))
