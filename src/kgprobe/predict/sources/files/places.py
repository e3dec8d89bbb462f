"""The arrays that have a place in a file, and what keeps those that are there from filling it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kgprobe.errors import nearest

FLOATS = ("float16", "bfloat16", "float32", "float64")
"""The kinds of numbers that vectors and scores may have."""

WHOLE_NUMBERS = ("int32", "int64")
"""The kinds of numbers that ids may have."""

Shapes: TypeAlias = Mapping[str, tuple[tuple[int, ...], str]]
"""Arrays by name: their shape and the kind of their numbers."""


@dataclass(frozen=True)
class Place:
    """An array that a file needs or may have.

    Attributes:
        name: What it is called.
        of: What its rows are for.
        rows: How many there must be; None where any number will do.
        shape: Shape of one row; None where it is not known.
        kinds: The kinds of numbers it may have.
        needed: Whether it must be there.
    """

    name: str
    of: str
    rows: int | None
    shape: tuple[int, ...] | None
    kinds: tuple[str, ...] = FLOATS
    needed: bool = True

    def problems(self, shape: tuple[int, ...], kind: str) -> list[str]:
        """What is wrong with an array in this place."""
        found = []
        if kind not in self.kinds:
            pickled = "pickled Python objects, which are never loaded; save it as plain numbers:"
            said = pickled if kind == "object" else f"{kind}, expected"
            found.append(f"{self.name}: holds {said} {', '.join(self.kinds[:-1])} or {self.kinds[-1]}")
        if not shape:
            found.append(f"{self.name}: a single value, expected one row for each of the {self.of}")
        elif self.rows is not None and shape[0] != self.rows:
            found.append(f"{self.name}: {shape[0]:,} rows, but there are {self.rows:,} {self.of}")
        if shape and self.shape is not None and shape[1:] != self.shape:
            found.append(f"{self.name}: one row has shape {shape[1:]}, expected {self.shape}")
        return found


def place_problems(places: Iterable[Place], shapes: Shapes) -> list[str]:
    """Arrays that are missing, have no place or do not fit, all of them.

    Example:
        >>> place_problems(
        ...     [Place("tail", "triples", 3, (9,)), Place("head", "triples", 3, (9,))],
        ...     {"tail": ((2, 9), "complex64"), "heads": ((3, 9), "float32")},
        ... )
        ["no array 'head'", "array 'heads' has no place here; nearest: head", 'tail: holds complex64, expected ...]
    """
    known = {place.name: place for place in places}
    return [
        *(f"no array {name!r}" for name, place in known.items() if place.needed and name not in shapes),
        *(f"array {name!r} has no place here{nearest(name, known)}" for name in shapes if name not in known),
        *(problem for name, place in known.items() if name in shapes for problem in place.problems(*shapes[name])),
    ]
