"""The config.json of PyTorch-BigGraph: entity types, relations, operators, comparator; every problem at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from kgprobe.bounded_files import parse_json, read_bounded
from kgprobe.errors import DataError, nearest, shown
from kgprobe.predict.adapters.interactions import is_number
from kgprobe.predict.adapters.pbg_scorers import COMPARATORS, OPERATORS
from kgprobe.predict.stored_arrays import reading

CONFIG = "config.json"
_MOST_BYTES = 1 << 28
_LARGEST = 1 << 31
_MOST_PARTITIONS = 1 << 16


@dataclass(frozen=True)
class RelationType:
    """A relation, or all relations if they are dynamic: its name, the types of its two sides, its operator."""

    name: str
    lhs: str
    rhs: str
    operator: str


@dataclass(frozen=True)
class Config:
    """What of a configuration defines a model and its files.

    Attributes:
        partitions: The number of partitions of each entity type.
        relations: The relations; with dynamic relations one for all.
        dimension: The dimension of all embeddings.
        comparator: How two embeddings are compared.
        bias: Whether the first coordinate is a bias.
        global_emb: Whether each type has an embedding that is added to all its entities.
        max_norm: The largest norm of an entity's embedding; None for any.
        dynamic: Whether relations are dynamic.
        entity_path: Where the names of the entities were, as the configuration has it.
        checkpoint_path: Where the checkpoint was.
    """

    partitions: Mapping[str, int]
    relations: tuple[RelationType, ...]
    dimension: int
    comparator: str
    bias: bool
    global_emb: bool
    max_norm: float | None
    dynamic: bool
    entity_path: str
    checkpoint_path: str

    @property
    def operators(self) -> str:
        """The operators in use, for messages and metadata."""
        return "+".join(dict.fromkeys(relation.operator for relation in self.relations))

    @property
    def settings(self) -> dict[str, Any]:
        """The metadata for a rank file."""
        return {
            "library": "PyTorch-BigGraph",
            "operator": self.operators,
            "comparator": self.comparator,
            "bias": self.bias,
            "global_emb": self.global_emb,
            "max_norm": self.max_norm,
            "dynamic_relations": self.dynamic,
            "dimension": self.dimension,
        }


def read_config(path: Path, problems: list[str]) -> Config | None:
    """Read a configuration in a file; or None, with all problems appended to ``problems``."""
    try:
        with reading(path):
            text = read_bounded(path, _MOST_BYTES)
    except DataError as error:
        problems += [f"{path.name}: {problem}" for problem in error.problems]
        return None
    return parse_config(path.name, text, problems)


def parse_config(where: str, text: bytes | str, problems: list[str]) -> Config | None:
    """A configuration in JSON; or None, with all problems appended to ``problems``.

    Example:
        >>> text = '{"entities": {"all": {"num_partitions": 1}}, "relations": [], "dimension": "9"}'
        >>> parse_config("config.json", text, problems := []), problems[0]
        (None, "config.json: 'dimension' is '9', expected a positive integer")
    """
    try:
        content = parse_json(text)
    except ValueError as error:
        problems.append(f"{where}: not JSON ({str(error)[:80]})")
        return None
    if not isinstance(content, dict):
        problems.append(f"{where}: JSON of type {type(content).__name__}, expected an object")
        return None
    found = _Reader(where, _snake_case(content), [])
    config = found.config()
    problems += found.problems
    return None if found.problems else config


def _snake_case(content: Mapping[str, Any]) -> dict[str, Any]:
    """The same object with keys as they are written now; the first versions wrote them as numPartitions."""
    return {re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", key): value for key, value in content.items()}


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 < value < _LARGEST


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_type(value: Any) -> bool:
    """Whether a text can be a part of a file name and of a path in an HDF5 file, as the library uses a type."""
    return _is_text(value) and not re.search(r"[/\\\x00]", value) and value not in (".", "..")


_Rule: TypeAlias = tuple[Callable[[Any], bool], str]
"""Whether a value is valid, and what is expected."""

_SIZE: _Rule = _is_size, "a positive integer"
_OWN_SIZE: _Rule = (lambda value: value is None or _is_size(value)), "a positive integer or null"
_PARTITIONS: _Rule = (lambda value: _is_size(value) and value <= _MOST_PARTITIONS), f"1 to {_MOST_PARTITIONS:,}"
_TEXT: _Rule = _is_text, "a text"
_YES_OR_NO: _Rule = (lambda value: isinstance(value, bool)), "true or false"
_NORM: _Rule = (lambda value: value is None or (is_number(value) and value > 0)), "a positive number or null"
_TYPES: _Rule = (lambda value: isinstance(value, dict) and bool(value)), "entity types"
_RELATIONS: _Rule = (lambda value: isinstance(value, list) and bool(value)), "relations"


@dataclass(frozen=True)
class _Reader:
    """Reads the entries of one object and collects what is wrong."""

    where: str
    content: Mapping[str, Any]
    problems: list[str]

    def entry(self, name: str, rule: _Rule, *default: Any) -> Any:
        """A valid entry; the default if it is missing, None if it is wrong or needed."""
        fits, expected = rule
        if name not in self.content:
            if default:
                return default[0]
            self.problems.append(f"{self.where}: {name!r} is missing, expected {expected}")
            return None
        if fits(self.content[name]):
            return self.content[name]
        self.problems.append(f"{self.where}: {name!r} is {shown(self.content[name])}, expected {expected}")
        return None

    def of(self, name: str, content: Any) -> _Reader:
        """A reader of an object inside."""
        if not isinstance(content, dict):
            self.problems.append(f"{self.where}: {name} is {shown(content)}, expected an object")
            content = None
        return _Reader(f"{self.where}: {name}", _snake_case(content or {}), [] if content is None else self.problems)

    def config(self) -> Config:
        dimension = self.entry("dimension", _SIZE)
        types = self.entry("entities", _TYPES) or {}
        given = self.entry("relations", _RELATIONS) or []
        comparator = self.entry("comparator", _TEXT)
        if comparator is not None and comparator not in COMPARATORS:
            self.problems.append(
                f"{self.where}: no comparator is called {comparator[:60]!r}{nearest(comparator, COMPARATORS)}"
            )
        config = Config(
            {name: self._partitions(name, about, dimension) for name, about in types.items()},
            tuple(self._relation(number, about, types) for number, about in enumerate(given)),
            dimension,
            comparator,
            self.entry("bias", _YES_OR_NO, False),
            self.entry("global_emb", _YES_OR_NO, True),
            self.entry("max_norm", _NORM, None),
            self.entry("dynamic_relations", _YES_OR_NO, False),
            self.entry("entity_path", _TEXT, ""),
            self.entry("checkpoint_path", _TEXT, ""),
        )
        if not self.problems:
            self.problems.extend(f"{self.where}: {problem}" for problem in _contradictions(config))
        return config

    def _partitions(self, name: str, about: Any, dimension: Any) -> int:
        if not _is_type(name):
            self.problems.append(f"{self.where}: {shown(name)} is no name of an entity type")
        one = self.of(f"entity type {shown(name)}", about)
        if one.entry("featurized", _YES_OR_NO, False) is True:
            one.problems.append(
                f"{one.where}: featurized types are not supported: an entity is the mean of its features, which are "
                "listed with the edges alone"
            )
        own = one.entry("dimension", _OWN_SIZE, None)
        if own not in (None, dimension):
            one.problems.append(f"{one.where}: dimension {own}, but all embeddings have {dimension}")
        size: int = one.entry("num_partitions", _PARTITIONS)
        return size

    def _relation(self, number: int, about: Any, types: Mapping[str, Any]) -> RelationType:
        one = self.of(f"relation {number}", about)
        name, lhs, rhs = (one.entry(key, _TEXT) for key in ("name", "lhs", "rhs"))
        for kind in dict.fromkeys(kind for kind in (lhs, rhs) if kind and types and kind not in types):
            one.problems.append(f"{one.where}: no entity type is called {shown(kind)}{nearest(kind, types)}")
        operator = one.entry("operator", _TEXT, "none")
        if operator is not None and operator not in OPERATORS:
            one.problems.append(f"{one.where}: no operator is called {shown(operator)}{nearest(operator, OPERATORS)}")
        return RelationType(name, lhs, rhs, operator)


def _contradictions(config: Config) -> list[str]:
    """What the library refuses too."""
    found = []
    if config.dynamic and len(config.relations) != 1:
        found.append(f"dynamic relations with {len(config.relations)} entries in 'relations', expected one for all")
    if config.dynamic and config.global_emb:
        found.append(
            "dynamic relations with global embeddings ('global_emb', true by default), which do not go together"
        )
    if config.dimension % 2 and any(relation.operator == "complex_diagonal" for relation in config.relations):
        found.append(f"complex_diagonal needs an even dimension, found {config.dimension}")
    if config.bias and config.dimension < 2:
        found.append("a bias takes the only coordinate")
    return found


def differences(one: Config, other: Config) -> list[str]:
    """What two configurations say differently about a model."""
    pairs = {
        name: (getattr(one, name), getattr(other, name))
        for name in ("partitions", "relations", "dimension", "comparator", "bias", "global_emb", "max_norm", "dynamic")
    }
    return [name for name, (here, there) in pairs.items() if here != there]
