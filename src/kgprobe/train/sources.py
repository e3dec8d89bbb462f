"""Where settings come from: files, the command line, or what is sensible for a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kgprobe.train.toml import TomlFile

Reader = Callable[[Any, Any], Any]
"""Turns a value, given the default of its setting, into one of the same kind, or hands it back as it is."""

MEASURED = "measured"
"""The table of a file that says what its settings led to."""

FACTS = ("graph_hash", MEASURED)
"""What a file says beside settings."""


_EXACT = 1 << 53
"""All whole numbers up to this one are numbers of a float."""


@dataclass(frozen=True)
class Source:
    """Settings from one place.

    Attributes:
        name: What the place is called.
        values: The settings that it has.
        places: Where each of them is, for a complaint.
        read: How its values become those of a setting.
    """

    name: str
    values: Mapping[str, Any]
    places: Mapping[str, str]
    read: Reader


def from_file(file: TomlFile, name: str | None = None) -> Source:
    """The settings of a file."""
    values = {key: value for key, value in {**file.values, **file.tables}.items() if key not in FACTS}
    return Source(name or str(file.path), values, {key: file.place(key) for key in values}, as_kind)


def from_values(name: str, values: Mapping[str, Any]) -> Source:
    """Settings that a program made."""
    return Source(name, values, dict.fromkeys(values, name), as_kind)


def from_command_line(options: Mapping[str, Sequence[str]]) -> Source:
    """The settings that options of the command line give as texts.

    Args:
        options: The texts for each setting, in the order given.
    """
    values = {key: texts[0] if len(texts) == 1 else tuple(texts) for key, texts in options.items()}
    return Source("command line", values, dict.fromkeys(values, "command line"), from_text)


def as_kind(default: Any, value: Any) -> Any:
    """A value of a file in the form in which the setting is kept.

    Example:
        >>> as_kind(1.0, 2), as_kind((0.0,), [1, 2]), as_kind((0,), 3), as_kind(5, "7")
        (2.0, (1.0, 2.0), (3,), '7')
    """
    if isinstance(default, tuple):
        return tuple(as_kind(default[0], one) for one in (value if isinstance(value, list | tuple) else [value]))
    if isinstance(default, float) and type(value) is int and abs(value) <= _EXACT:
        return float(value)
    return value


def from_text(default: Any, value: Any) -> Any:
    """A text of the command line in the form in which the setting is kept.

    Example:
        >>> from_text(1.0, ".5"), from_text((0,), "1, 2"), from_text(False, "true"), from_text(5, "many")
        (0.5, (1, 2), True, 'many')
    """
    if isinstance(default, tuple):
        texts = [value] if isinstance(value, str) else value
        if isinstance(default[0], int | float):
            texts = [part.strip() for text in texts for part in text.split(",")]
        return tuple(from_text(default[0], text) for text in texts)
    text = value if isinstance(value, str) else " and ".join(value)
    try:
        return _READERS[type(default)](text)
    except (ValueError, KeyError):
        return text


_READERS: Mapping[type, Callable[[str], Any]] = {
    str: str,
    int: int,
    float: float,
    bool: lambda text: {"true": True, "false": False}[text.strip().lower()],
}
