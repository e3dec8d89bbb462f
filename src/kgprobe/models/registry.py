"""The trainable models by name, and how a setting is declared: default, meaning, allowed values."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from kgprobe.errors import UsageError, nearest

if TYPE_CHECKING:
    from kgprobe.models.embedding_model import EmbeddingModel, Sizes
    from kgprobe.models.random_streams import RandomStreams


def option(
    default: Any,
    meaning: str,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    choices: tuple[Any, ...] = (),
) -> Any:
    """A field of a dataclass of settings.

    Args:
        default: The value where none is given; of a list, the kind of its first value is that of all.
        meaning: What it means, for help and documentation.
        least: The smallest value that makes sense, of a list for each of its values; and so on.
        most: The largest value that makes sense.
        above: A bound that the value must exceed.
        choices: All values that make sense.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Options:
        ...     dimension: int = option(128, "coordinates", least=1)
        >>> list(problems(Options(dimension=0)))
        ['dimension is 0, and must be at least 1']
    """
    rules = {"meaning": meaning, "least": least, "most": most, "above": above, "choices": choices}
    return dataclasses.field(default=default, metadata=rules)


def problems(options: Any) -> Iterator[str]:
    """What is wrong with the values of a dataclass of settings, all at once.

    Where each value makes sense alone, a method ``problems`` of the dataclass says what is wrong with them together.
    """
    found = list(problems_of_each(options))
    together = getattr(options, "problems", None)
    return iter(found if found or together is None else together())


def problems_of_each(options: Any) -> Iterator[str]:
    """What is wrong with the values taken one by one."""
    for field in dataclasses.fields(options):
        if "meaning" in field.metadata:
            yield from _problems_of(field.name, getattr(options, field.name), field.default, field.metadata)


def _problems_of(name: str, value: Any, default: Any, rules: Any) -> Iterator[str]:
    if not _fits(value, type(default)):
        yield f"{name} is {value!r}, and must be {_article(type(default))}"
    elif not isinstance(value, tuple):
        yield from _out_of_range(name, value, rules)
    elif not value:
        yield f"{name} is empty, and must have one value or more"
    else:
        for one in value:
            yield from _problems_of(f"a value of {name}", one, default[0], rules)


def _fits(value: Any, wanted: type) -> bool:
    if wanted is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return type(value) is wanted


def _article(wanted: type) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", tuple: "a list"}
    return names[wanted]


def _out_of_range(name: str, value: Any, rules: Any) -> Iterator[str]:
    if rules["choices"] and value not in rules["choices"]:
        yield f"{name} is {value!r}, and must be one of {', '.join(map(str, rules['choices']))}"
    if rules["least"] is not None and value < rules["least"]:
        yield f"{name} is {value}, and must be at least {rules['least']}"
    if rules["above"] is not None and value <= rules["above"]:
        yield f"{name} is {value}, and must be above {rules['above']}"
    if rules["most"] is not None and value > rules["most"]:
        yield f"{name} is {value}, and must be at most {rules['most']}"


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


def build(name: str, sizes: Sizes, options: Any, noise: RandomStreams) -> EmbeddingModel:
    """A new model, one run for each seed of the noise.

    Args:
        name: Name of the model.
        sizes: Number of entities and relations.
        options: An instance of the model's ``Options``.
        noise: Where its parameters are drawn from, and what it drops out as it trains.

    Example:
        >>> from kgprobe.models.embedding_model import Sizes
        >>> from kgprobe.models.random_streams import RandomStreams
        >>> options = model_kind("distmult").load().Options(dimension=4)
        >>> model = build("DistMult", Sizes(entities=3, relations=2), options, RandomStreams([0, 1], "cpu"))
        >>> model.entity.shape
        torch.Size([2, 3, 4])
    """
    make: Any = model_kind(name).load()
    model: EmbeddingModel = make(sizes, options, noise)
    return model
