"""The JSON header of an embedding file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kgprobe.errors import nearest
from kgprobe.graph.knowledge_graph import as_labels
from kgprobe.predict.adapters.interactions import INTERACTIONS, Interaction, Settings
from kgprobe.predict.scorers import Dot, GroupNorm, Similarity

if TYPE_CHECKING:
    from kgprobe.graph.knowledge_graph import Labels


T = TypeVar("T")

_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Header:
    """What a file of embeddings says about itself.

    Attributes:
        interaction: How its queries are composed; None where the file brings them computed.
        similarity: How queries are compared with candidates.
        settings: What was declared, apart from names.
        name: What reports call the model, if the file says so.
        entities: Names of the entities in the order of the rows, if they are not in the order of the ids.
        relations: Names of the relations in the order of the rows.

    Example:
        >>> parse_header('{"model": "rotate", "gamma": 9}', []).similarity
        GroupNorm(size=2, gamma=9.0)
        >>> parse_header('{"model": "RotateE", "gama": 9}', problems := [])
        >>> problems
        ["header: no model is called 'RotateE'; nearest: RotatE", ...]
    """

    interaction: Interaction | None
    similarity: Similarity
    settings: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    entities: Labels | None = None
    relations: Labels | None = None


@dataclass(frozen=True)
class _Comparison:
    """How queries that were computed elsewhere are compared, as a header declares it."""

    name: str
    similarity: Callable[[Settings], Similarity]
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


def _dot(_settings: Settings) -> Similarity:
    return Dot()


def _group_norm(settings: Settings) -> Similarity:
    return GroupNorm(settings["group_size"], float(settings.get("gamma", 0)))


_COMPARISONS = {
    comparison.name: comparison
    for comparison in (
        _Comparison("dot", _dot),
        _Comparison("group_norm", _group_norm, needs=("group_size",), takes=("gamma",)),
    )
}


def is_number(value: Any) -> bool:
    """Whether a value of JSON is a finite number, and one that float32 can hold.

    Example:
        >>> is_number(12), is_number(float("nan")), is_number(True)
        (True, False, False)
    """
    return type(value) in (int, float) and bool(abs(value) <= _LARGEST)


def _is_size(value: Any) -> bool:
    return value is None or (type(value) is int and value >= 1)


def _is_text(value: Any) -> bool:
    # JSON can hold halves of characters, which no other format can.
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


_VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "p": (lambda value: is_number(value) and value in (1, 2), "1 or 2"),
    "gamma": (is_number, "a finite number"),
    "group_size": (_is_size, "a whole number of coordinates, or null for one group of all"),
    "name": (_is_text, "a text"),
    "entities": (_are_names, "a list of names in the order of the rows"),
    "relations": (_are_names, "a list of names in the order of the rows"),
}

"""What each entry may hold, besides "model" and "similarity"."""


def parse_header(text: str | None, problems: list[str]) -> Header | None:
    """The header in a text of JSON; or None, with everything that is wrong added to ``problems``."""
    if text is None:
        problems.append("there is no header: an array 'header' of one text (.npz), metadata 'kgprobe' (.safetensors)")
        return None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        problems.append(f"header: not JSON ({error}): {text[:60]!r}")
        return None
    if not isinstance(content, dict):
        problems.append(f"header: JSON of type {type(content).__name__}, expected an object")
        return None
    return read_header(content, problems)


def read_header(content: Mapping[str, Any], problems: list[str]) -> Header | None:
    """The header in a mapping; or None, with everything that is wrong added to ``problems``."""
    interaction = _named(content, "model", INTERACTIONS, problems)
    comparison = _named(content, "similarity", _COMPARISONS, problems)
    declared = interaction or comparison
    wrong = _entry_problems(content, declared, names_relations=comparison is None)
    problems += wrong
    if wrong or declared is None:
        return None
    return Header(
        interaction,
        declared.similarity(content),
        {"model" if interaction else "similarity": declared.name}
        | {entry: content[entry] for entry in (*declared.needs, *declared.takes) if entry in content},
        content.get("name"),
        as_labels(content.get("entities")),
        as_labels(content.get("relations")),
    )


def _named(content: Mapping[str, Any], entry: str, known: Mapping[str, T], problems: list[str]) -> T | None:
    """What an entry of the header names, whatever its case."""
    if entry not in content:
        return None
    wanted = str(content[entry])
    found = next((value for name, value in known.items() if name.lower() == wanted.lower()), None)
    if found is None:
        problems.append(f"header: no {entry} is called {wanted[:60]!r}{nearest(wanted, known)}")
    return found


def _entry_problems(
    content: Mapping[str, Any], declared: Interaction | _Comparison | None, *, names_relations: bool
) -> list[str]:
    needs, takes = (declared.needs, declared.takes) if declared else ((), tuple(_VALUES))
    allowed = {"model", "similarity", "name", "entities", *needs, *takes, *(["relations"] if names_relations else [])}
    either = ("model" in content) != ("similarity" in content)
    return [
        *([] if either else ['header: expected either a "model" or a "similarity"']),
        *(
            f"header: {entry!r} has no meaning here{nearest(entry, sorted(allowed))}"
            for entry in content
            if entry not in allowed
        ),
        *(f"header: {entry!r} is missing, expected {_VALUES[entry][1]}" for entry in needs if entry not in content),
        *(
            f"header: {entry!r} is {repr(content[entry])[:60]}, expected {expected}"
            for entry, (fits, expected) in _VALUES.items()
            if entry in content and entry in allowed and not fits(content[entry])
        ),
    ]
