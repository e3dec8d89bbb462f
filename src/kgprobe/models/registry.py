"""The trainable models by name, and the declaration of their settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from kgprobe.errors import UsageError, nearest

if TYPE_CHECKING:
    from kgprobe.models.embedding_model import EmbeddingModel, Sizes
    from kgprobe.models.random_streams import Noise


class Trainable(Protocol):
    """The class of a model.

    Attributes:
        Options: The dataclass of its own settings. Beside these it may have ``problems()``, what is wrong with them
            taken together; ``problems_with(settings)``, what is wrong with the settings of the trainer beside them; and
            ``MEMORY``, the names of those that decide how much memory a step takes.
    """

    Options: Any


@dataclass(frozen=True)
class ModelKind:
    """A model that can be trained; its code is loaded when it is needed.

    Attributes:
        name: What the literature calls it, and, with a capital, its class too.
        module: Where its class is.
        summary: One line for help.
        without: The settings of the trainer that mean nothing to it.
    """

    name: str
    module: str
    summary: str
    without: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """Its name in commands, files and folders."""
        return self.name.lower()

    def load(self) -> type[Trainable]:
        """The class of the model.

        Raises:
            UsageError: What it needs is not installed.

        Example:
            >>> model_kind("rotate").load().Options(dimension=64).dimension
            64
        """
        missing = [name for name in ("torch", "safetensors") if find_spec(name) is None]
        if missing:
            raise UsageError(f"{self.name} needs {' and '.join(missing)}", remedy="pip install 'kgprobe[models]'")
        found: type[Trainable] = getattr(import_module(self.module), self.name[0].upper() + self.name[1:])
        return found


_OF_EMBEDDINGS = frozenset(
    (
        "objective",
        "loss",
        "negatives",
        "adversarial_temperature",
        "subsampling",
        "label_smoothing",
        "loss_alpha",
        "loss_beta",
        "loss_temperature",
        "reciprocal",
        "regulariser",
        "precision",
    )
)

"""What is there to be chosen of the training of embeddings alone."""

_KINDS = (
    ModelKind("TransE", "kgprobe.models.transe", "a relation moves the head to the tail"),
    ModelKind("DistMult", "kgprobe.models.distmult", "product of three real vectors; symmetric"),
    ModelKind("ComplEx", "kgprobe.models.complex", "product of three complex vectors"),
    ModelKind("RotatE", "kgprobe.models.rotate", "a relation turns complex coordinates"),
    ModelKind("HousE", "kgprobe.models.house", "a relation reflects and projects blocks of coordinates"),
    ModelKind("TuckER", "kgprobe.models.tucker", "a core tensor that all facts share"),
    ModelKind("pLogicNet", "kgprobe.models.plogicnet", "TransE and weighted rules that teach each other"),
    ModelKind("RNNLogic", "kgprobe.models.rnnlogic", "rules of a recurrent network, weighed", _OF_EMBEDDINGS),
)

MODELS: Mapping[str, ModelKind] = MappingProxyType({kind.key: kind for kind in _KINDS})

"""All models, by their names in commands."""


def model_kind(name: str) -> ModelKind:
    """The model of this name, in capitals or not.

    Raises:
        UsageError: There is none.

    Example:
        >>> model_kind("COMPLEX").name
        'ComplEx'
    """
    if name.lower() not in MODELS:
        known = (kind.name for kind in MODELS.values())
        raise UsageError(f"there is no model {name!r}{nearest(name, known)}", remedy="see kgprobe train --help")
    return MODELS[name.lower()]


def build(name: str, sizes: Sizes, options: Any, noise: Noise) -> EmbeddingModel:
    """A new model, one run for each seed of the noise.

    Args:
        name: Name of the model.
        sizes: Number of entities and relations.
        options: An instance of the model's ``Options``.
        noise: Where its parameters are drawn from, and what it drops out as it trains.

    Example:
        >>> from kgprobe.models.embedding_model import Sizes
        >>> from kgprobe.models.random_streams import Noise
        >>> options = model_kind("distmult").load().Options(dimension=4)
        >>> model = build("DistMult", Sizes(entities=3, relations=2), options, Noise([0, 1], "cpu"))
        >>> model.entity.shape
        torch.Size([2, 3, 4])
    """
    make: Any = model_kind(name).load()
    model: EmbeddingModel = make(sizes, options, noise)
    return model
