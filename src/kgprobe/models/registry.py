"""The trainable models by name, and declared settings: default, meaning and allowed values."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from operator import gt, le, lt
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from kgprobe.errors import UsageError, nearest, shown

if TYPE_CHECKING:
    from kgprobe.models.embedding_model import EmbeddingModel, Sizes
    from kgprobe.models.random_streams import RandomStreams


class Trainable(Protocol):
    """The class of a model.

    Attributes:
        Options: The dataclass of the model's own settings, declared by `option`. It may also have ``problems()``
            (invalid combinations of its settings), ``problems_with(settings)`` (invalid combinations with the settings
            of the trainer) and ``MEMORY`` (names of the settings that determine how much memory a step takes).
    """

    Options: Any


@dataclass(frozen=True)
class ModelKind:
    """A trainable model, whose module is imported when `load` is called.

    Attributes:
        name: Name in the literature; with a capital first letter, the name of its class.
        module: The module of its class.
        summary: One line for help.
        without: Settings of the trainer that do not apply to it.
    """

    name: str
    module: str
    summary: str
    without: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """The name in commands, files and folders."""
        return self.name.lower()

    def load(self) -> type[Trainable]:
        """Import the class of the model.

        Raises:
            UsageError: An optional dependency is not installed.

        Example:
            >>> model_kind("rotate").load().Options(dimension=64).dimension
            64
        """
        missing = [name for name in ("torch", "safetensors") if find_spec(name) is None]
        if missing:
            raise UsageError(f"{self.name} needs {' and '.join(missing)}", remedy="pip install 'kgprobe[models]'")
        model: type[Trainable] = getattr(import_module(self.module), self.name[0].upper() + self.name[1:])
        return model


# Settings of the trainer that apply to embedding models only.
_LOSS_SETTINGS = {"objective", "loss", "loss_alpha", "loss_beta", "loss_temperature", "negatives", "label_smoothing"}
_EMBEDDING_SETTINGS = frozenset(
    {"adversarial_temperature", "subsampling", "reciprocal", "regulariser", "precision", *_LOSS_SETTINGS}
)

_KINDS = (
    ModelKind("TransE", "kgprobe.models.transe", "a relation translates the head to the tail"),
    ModelKind("DistMult", "kgprobe.models.distmult", "trilinear product of real embeddings; symmetric"),
    ModelKind("ComplEx", "kgprobe.models.complex", "trilinear product of complex embeddings"),
    ModelKind("RotatE", "kgprobe.models.rotate", "a relation rotates complex coordinates"),
    ModelKind("HousE", "kgprobe.models.house", "a relation reflects and projects blocks of coordinates"),
    ModelKind("TuckER", "kgprobe.models.tucker", "Tucker decomposition: a core tensor shared by all triples"),
    ModelKind("pLogicNet", "kgprobe.models.plogicnet", "TransE and a Markov logic network, trained in turns"),
    ModelKind("RNNLogic", "kgprobe.models.rnnlogic", "weighted rules from a recurrent generator", _EMBEDDING_SETTINGS),
)

MODELS: Mapping[str, ModelKind] = MappingProxyType({kind.key: kind for kind in _KINDS})


def model_kind(name: str) -> ModelKind:
    """Look up a model by name, in upper or lower case.

    Raises:
        UsageError: There is no such model.

    Example:
        >>> model_kind("COMPLEX").name
        'ComplEx'
    """
    if name.lower() not in MODELS:
        known = (kind.name for kind in MODELS.values())
        raise UsageError(f"there is no model {name!r}{nearest(name, known)}", remedy="see kgprobe train --help")
    return MODELS[name.lower()]


def build(name: str, sizes: Sizes, options: Any, streams: RandomStreams) -> EmbeddingModel:
    """Build an embedding model with one stacked run for each seed of the random streams.

    Example:
        >>> from kgprobe.models.embedding_model import Sizes
        >>> from kgprobe.models.random_streams import RandomStreams
        >>> options = model_kind("distmult").load().Options(dimension=4)
        >>> model = build("DistMult", Sizes(entities=3, relations=2), options, RandomStreams([0, 1], "cpu"))
        >>> model.entity.shape
        torch.Size([2, 3, 4])
    """
    make: Any = model_kind(name).load()
    model: EmbeddingModel = make(sizes, options, streams)
    return model


def option(
    default: Any,
    meaning: str,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    choices: tuple[Any, ...] = (),
) -> Any:
    """Declare a field of a dataclass of settings.

    Args:
        default: Default value; it also sets the type, for a tuple the type of each element.
        meaning: Description for help and documentation.
        least: Smallest allowed value; bounds and choices of a tuple apply to each element.
        most: Largest allowed value.
        above: Exclusive lower bound.
        choices: All allowed values.

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
    """Validate a dataclass of settings: each value, then combinations by its own method ``problems`` if it has one."""
    invalid = list(problems_of_each(options))
    combined = getattr(options, "problems", None)
    return iter(invalid if invalid or combined is None else combined())


def problems_of_each(options: Any) -> Iterator[str]:
    """Validate each value of a dataclass of settings on its own."""
    for field in dataclasses.fields(options):
        if field.metadata:
            yield from _problems_of(field.name, getattr(options, field.name), field.default, field.metadata)


_TYPE_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", tuple: "a list"}


_LARGEST: Mapping[type, float] = {int: 1 << 53, float: 1e38}
"""Bounds of numbers without bounds of their own: they are exact as floats, and finite as 32-bit floats."""


def _problems_of(name: str, value: Any, default: Any, rules: Mapping[str, Any]) -> Iterator[str]:
    if not _has_type(value, type(default)):
        yield f"{name} is {shown(value)}, and must be {_TYPE_NAMES[type(default)]}"
    elif not isinstance(value, tuple):
        yield from _out_of_range(name, value, _LARGEST.get(type(default)), rules)
    elif not value:
        yield f"{name} is empty, and must have one value or more"
    else:
        for element in value:
            yield from _problems_of(f"a value of {name}", element, default[0], rules)


def _has_type(value: Any, kind: type) -> bool:
    if kind is float:
        return type(value) is int or (isinstance(value, float) and math.isfinite(value))
    return type(value) is kind


def _out_of_range(name: str, value: Any, largest: float | None, rules: Mapping[str, Any]) -> Iterator[str]:
    if rules["choices"]:
        if value not in rules["choices"]:
            yield f"{name} is {shown(value)}, and must be one of {', '.join(map(str, rules['choices']))}"
        return
    if largest is None:  # no number
        return
    bounds = {"most": largest} | ({"least": -largest} if rules["above"] is None else {})
    bounds |= {key: bound for key, bound in rules.items() if bound is not None}
    for key, violates, words in (("least", lt, "at least"), ("above", le, "above"), ("most", gt, "at most")):
        if key in bounds and violates(value, bounds[key]):
            yield f"{name} is {shown(value)}, and must be {words} {bounds[key]}"
