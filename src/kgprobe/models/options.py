"""A setting declared where it is used: default, meaning, and allowed values."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any


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
