"""JSON files that kgprobe writes and reads again: a hash of their content, and fields of known types."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from kgprobe.bounded_files import parse_json, read_bounded
from kgprobe.errors import DataError, shown
from kgprobe.files import replacing

HASH = "sha256"
"""The entry with the hash of all others."""

Fields: TypeAlias = Mapping[str, Any]
"""The fields that an object must have: by name their type, or the fields of an object inside."""

_LARGEST = 1 << 63
_TYPES: Mapping[type, tuple[str, Callable[[Any], bool]]] = {
    str: ("a text", lambda value: isinstance(value, str)),
    int: ("a whole number from 0 on", lambda value: type(value) is int and 0 <= value < _LARGEST),
    float: ("a number", lambda value: isinstance(value, float) or (type(value) is int and abs(value) < _LARGEST)),
    list: ("a list", lambda value: isinstance(value, list)),
    dict: ("an object", lambda value: isinstance(value, dict)),
}


def write_json(path: str | os.PathLike[str], content: Mapping[str, Any]) -> None:
    """Write an object atomically, with the hash of its content as its last entry.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "result.json"
        >>> write_json(path, {"epochs": 20})
        >>> read_json(path, {"epochs": int})
        {'epochs': 20}
    """
    text = json.dumps({**content, HASH: content_hash(content)}, indent=1) + "\n"
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_json(
    path: str | os.PathLike[str],
    fields: Fields,
    remedy: str = "restore it from a copy",
    hashless: Callable[[Mapping[str, Any]], bool] = lambda content: False,
) -> dict[str, Any]:
    """Read an object that `write_json` has written.

    Args:
        path: The file.
        fields: The fields that it must have.
        remedy: What the user can do about a damaged file.
        hashless: Whether a file without a hash is valid: one that an earlier version has written.

    Raises:
        DataError: The file is missing or damaged; with all missing and invalid fields.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "result.json"
        >>> _ = path.write_text('{"seconds": "12", "graph": {}, "sha256": "00"}')
        >>> read_json(path, {"epochs": int, "seconds": float, "graph": {"name": str}})
        Traceback (most recent call last):
        ...
        kgprobe.errors.DataError: ...result.json: invalid content
          - epochs is missing
          - seconds is '12', and must be a number
          - graph.name is missing
          - it has changed since it was written (sha256)
        Remedy: restore it from a copy
    """
    try:
        content = parse_json(read_bounded(Path(path)))
        if not isinstance(content, dict):
            raise ValueError("it is not an object")
        found = content.pop(HASH, None)
        changed = found != content_hash(content)
    except OSError as error:
        raise DataError(f"{path}: cannot be read", [error.strerror or str(error)], remedy) from None
    except (ValueError, RecursionError) as error:
        problem = str(error).split("\n")[0][:150]
        raise DataError(f"{path}: not the JSON that kgprobe writes", [problem], remedy) from None
    problems = list(field_problems(content, fields))
    if found is None and not hashless(content):
        problems.append(f"{HASH} is missing")
    if found is not None and changed:
        problems.append(f"it has changed since it was written ({HASH})")
    if problems:
        raise DataError(f"{path}: invalid content", problems, remedy)
    return content


def content_hash(content: Mapping[str, Any]) -> str:
    """The SHA-256 of an object, whatever the order of its entries and the layout of its text."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def field_problems(content: Mapping[str, Any], fields: Fields, inside: str = "") -> Iterator[str]:
    """Missing fields and fields of other types, one line each.

    Example:
        >>> list(field_problems({"seed": -1, "graph": 5}, {"seed": int, "graph": {"name": str}, "facts": dict}))
        ['seed is -1, and must be a whole number from 0 on', 'graph is 5, and must be an object', 'facts is missing']
    """
    for name, kind in fields.items():
        place, value = f"{inside}{name}", content.get(name)
        expected, fits = _TYPES[dict if isinstance(kind, Mapping) else kind]
        if name not in content:
            yield f"{place} is missing"
        elif not fits(value):
            yield f"{place} is {shown(value)}, and must be {expected}"
        elif isinstance(kind, Mapping):
            yield from field_problems(content[name], kind, f"{place}.")
