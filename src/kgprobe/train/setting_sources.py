"""Sources of settings: TOML files with line numbers, the command line, files of the package, defaults."""

from __future__ import annotations

import datetime
import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.train.defaults import Size, defaults

_LONG_NUMBER = re.compile(r"[0-9_]{4301}")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_KEY = re.compile(r"""[\s\["']*(?P<key>[A-Za-z0-9_-]+)["']?\s*[=\].]""")


@dataclass(frozen=True)
class TomlFile:
    """A TOML file of settings.

    Attributes:
        path: The file.
        values: The keys outside any table.
        tables: The tables.
        lines: The line of each key and table.
        text: Its content.
    """

    path: Path
    values: Mapping[str, Any]
    tables: Mapping[str, Mapping[str, Any]]
    lines: Mapping[str, int]
    text: str = ""

    def place(self, key: str) -> str:
        """The place of a key, for error messages."""
        return f"{self.path}, line {self.lines[key]}" if key in self.lines else str(self.path)


_ONE_PER_LINE = "write one setting per line, such as epochs = 100"


def read_toml(path: str | os.PathLike[str], *, remedy: str = _ONE_PER_LINE) -> TomlFile:
    """Read a TOML file.

    Args:
        path: The file.
        remedy: What to do where it is not TOML.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
        entries = tomllib.loads(text)
    except OSError as error:
        problem = error.strerror or str(error)
        raise DataError(f"{file}: cannot be read", [problem], "name a TOML file that you may read") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: not TOML", [str(error)], remedy) from None
    except RecursionError:
        raise DataError(f"{file}: not usable", ["its values are nested too deeply"], remedy) from None
    except ValueError:  # Python's limit for whole numbers
        long = [number for number, line in enumerate(text.splitlines(), 1) if _LONG_NUMBER.search(line)]
        problems = [f"line {number}: a number of more than 4,300 digits" for number in long]
        raise DataError(f"{file}: not usable", problems, remedy) from None
    values = {key: value for key, value in entries.items() if not isinstance(value, dict)}
    tables = {key: value for key, value in entries.items() if isinstance(value, dict)}
    return TomlFile(file, values, tables, _lines(text, entries), text)


def _lines(text: str, entries: Mapping[str, Any]) -> dict[str, int]:
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if (key := _KEY.match(line)) and key["key"] in entries:
            lines.setdefault(key["key"], number)  # keys outside any table come first in the file
    return lines


def toml_text(values: Mapping[str, Any], comments: Mapping[str, str] | None = None) -> str:
    """Format values as TOML; mappings become tables at the end."""
    return "".join(f"{line}\n" for line in _written(values, comments or {}, ()))


def _written(values: Mapping[str, Any], comments: Mapping[str, str], inside: tuple[str, ...]) -> list[str]:
    lines: list[str] = []
    for key, value in values.items():
        if not isinstance(value, Mapping):
            comment = f"  # {comments[key]}" if key in comments else ""
            lines.append(f"{_name(key)} = {_value(value)}{comment}")
    for key, value in values.items():
        if isinstance(value, Mapping):
            path = (*inside, key)
            lines += ["", f"[{'.'.join(map(_name, path))}]", *_written(value, {}, path)]
    return lines


def _name(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    # JSON and TOML have the same escapes, except for the delete character.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):  # inside a list
        return f"{{{', '.join(f'{_name(key)} = {_value(one)}' for key, one in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    raise TypeError(f"TOML has no type for {type(value).__name__}")


MEASURED = "measured"
"""Table of a settings file with the results that its settings led to."""

NOT_SETTINGS = ("graph_hash", MEASURED)
"""Entries of a settings file that are not settings."""

_EXACT = 1 << 53
"""Whole numbers up to this one are exact as floats."""

Reader: TypeAlias = Callable[[Any, Any], Any]
"""Converts a value to the type of a setting's default; returns it unchanged where that is impossible."""


@dataclass(frozen=True)
class SettingSource:
    """Settings from one source.

    Attributes:
        name: Name of the source.
        values: The settings.
        places: Where each of them is, for error messages.
        read: Converts its values.
    """

    name: str
    values: Mapping[str, Any]
    places: Mapping[str, str]
    read: Reader


def from_file(file: TomlFile, name: str | None = None) -> SettingSource:
    """The settings of a TOML file."""
    values = {key: value for key, value in {**file.values, **file.tables}.items() if key not in NOT_SETTINGS}
    return SettingSource(name or str(file.path), values, {key: file.place(key) for key in values}, as_kind)


def from_values(name: str, values: Mapping[str, Any]) -> SettingSource:
    """Settings given in Python."""
    return SettingSource(name, values, dict.fromkeys(values, name), as_kind)


def from_command_line(options: Mapping[str, Sequence[str]]) -> SettingSource:
    """Settings of the command line, as the texts given for each."""
    values = {key: texts[0] if len(texts) == 1 else tuple(texts) for key, texts in options.items()}
    return SettingSource("command line", values, dict.fromkeys(values, "command line"), from_text)


def as_kind(default: Any, value: Any) -> Any:
    """Convert a value of a file or of Python to the type of a setting."""
    if isinstance(default, tuple):
        return tuple(as_kind(default[0], one) for one in (value if isinstance(value, list | tuple) else [value]))
    if isinstance(default, float) and type(value) is int and abs(value) <= _EXACT:
        return float(value)
    return value


def from_text(default: Any, value: Any) -> Any:
    """Convert a text of the command line to the type of a setting."""
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

FOLDER = Path(__file__).parent.parent / "configs"
"""Settings that ship with the package: one folder for each model, one file for each graph."""


@dataclass(frozen=True)
class Known:
    """Sources of settings for a model and a graph, before those that the user gives.

    Attributes:
        sources: The sources; later ones override earlier ones.
        measured: Results that the last file records for its settings.
        notes: Remarks for the user.
    """

    sources: Sequence[SettingSource]
    measured: Mapping[str, Any]
    notes: Sequence[str]


def known_settings(model: str, graph: KnowledgeGraph, config: Path | None = None, folder: Path = FOLDER) -> Known:
    """Settings for a model and a graph: defaults for its size, then the file of the package, then that of the user.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], name="unknown")
        >>> known_settings("RotatE", graph).notes
        ['settings: defaults for 2 entities and 1 triples']
    """
    size = Size.of(graph)
    notes: list[str] = []
    files: list[tuple[str, TomlFile]] = []
    if (path := packaged(model, graph.name, folder)) is not None:
        name, file = f"configs/{path.parent.name}/{path.name}", read_toml(path)
        if _fits(file, graph):
            files.append((name, file))
        else:
            notes.append(f"{name} is for another graph of that name and was not used; config={path} uses it")
    if config is not None:
        files.append((str(config), read_toml(config)))
        if not _fits(files[-1][1], graph):
            notes.append(f"{config} was written for a graph with other triples")
    sources = [from_values(f"defaults for {size}", defaults(model, size))]
    sources += [from_file(file, name) for name, file in files]
    notes.append("settings: " + ", then ".join(source.name for source in reversed(sources)))
    measured = files[-1][1].tables.get(MEASURED, {}) if files else {}
    return Known(sources, measured, notes)


def packaged(model: str, graph: str, folder: Path = FOLDER) -> Path | None:
    """The settings file of the package for a model and graphs of this name, if there is one."""
    files = {plain_name(path.stem): path for path in sorted((folder / model.lower()).glob("*.toml"))}
    return files.get(plain_name(graph))


def _fits(file: TomlFile, graph: KnowledgeGraph) -> bool:
    """Whether a settings file is for a graph with these triples, or for any graph."""
    return file.values.get("graph_hash") in (None, graph.content_hash)


def plain_name(name: str) -> str:
    """The name of a graph or model without case and punctuation, so that FB15k-237 equals fb15k_237.

    Example:
        >>> plain_name("FB15k-237"), plain_name("fb15k_237"), plain_name("?")
        ('fb15k237', 'fb15k237', '?')
    """
    return re.sub(r"[\W_]", "", name.lower()) or name
