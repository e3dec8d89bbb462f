"""Settings as text: TOML that is read with its line numbers, and written so that it is read back the same."""

from __future__ import annotations

import datetime
import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgprobe.errors import DataError

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BEGIN = re.compile(r"""[\s\["']*(?P<key>[A-Za-z0-9_-]+)["']?\s*[=\].]""")


@dataclass(frozen=True)
class TomlFile:
    """A file of settings.

    Attributes:
        path: The file.
        values: Its keys outside any table.
        tables: Its tables.
        lines: The line on which each of the keys begins.
    """

    path: Path
    values: Mapping[str, Any]
    tables: Mapping[str, Mapping[str, Any]]
    lines: Mapping[str, int]

    def place(self, key: str) -> str:
        """Where a key is, for a complaint."""
        return f"{self.path}, line {self.lines[key]}" if key in self.lines else str(self.path)


def read_toml(path: str | os.PathLike[str]) -> TomlFile:
    r"""Read a file of settings.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "mine.toml"
        >>> _ = path.write_text("epochs = 5\n[measured]\nseconds = 2.5\n")
        >>> file = read_toml(path)
        >>> dict(file.values), file.lines["epochs"], file.tables["measured"]["seconds"]
        ({'epochs': 5}, 1, 2.5)
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
        entries = tomllib.loads(text)
    except OSError as error:
        remedy = "name a file of settings (TOML) that you may read"
        raise DataError(f"{file}: cannot be read", [error.strerror or str(error)], remedy) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: not TOML", [str(error)], "write one setting a line, such as epochs = 100") from None
    values = {key: value for key, value in entries.items() if not isinstance(value, dict)}
    tables = {key: value for key, value in entries.items() if isinstance(value, dict)}
    return TomlFile(file, values, tables, _lines(text, entries))


def _lines(text: str, entries: Mapping[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if (begun := _BEGIN.match(line)) and begun["key"] in entries:
            found.setdefault(begun["key"], number)  # keys outside any table come first in the file
    return found


def toml_text(values: Mapping[str, Any], comments: Mapping[str, str] | None = None) -> str:
    """Write values as TOML, those that are mappings as tables at the end.

    Args:
        values: What to write; floats are read back bit for bit.
        comments: What to say behind some of the values.

    Example:
        >>> print(toml_text({"epochs": 5, "seeds": (0, 1), "measured": {"MRR": 0.5}}, {"epochs": "by hand"}), end="")
        epochs = 5  # by hand
        seeds = [0, 1]
        <BLANKLINE>
        [measured]
        MRR = 0.5
    """
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
    # JSON and TOML agree on all escapes but that of the delete character.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    raise TypeError(f"TOML has no {type(value).__name__}")
