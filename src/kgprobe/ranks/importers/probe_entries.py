"""The entries of the authors' JSON as columns: whole columns first, entry by entry only where one is wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from kgprobe.ranks.importers.draft import Draft

_SIDES = {"h": "head", "t": "tail"}
_LARGEST = 2**63


@dataclass(frozen=True)
class Entries:
    """One array for each field of the entries, null where it could not be read."""

    head: pa.Array
    relation: pa.Array
    tail: pa.Array
    side: pa.Array
    rank: pa.Array
    relation_popularity: pa.Array
    entity_popularity: pa.Array
    filtered: pa.Array


def read_entries(entries: Sequence[Any], draft: Draft) -> Entries:
    r"""Take the entries apart; what is wrong with them is added to the draft, every kind with its entries.

    Example:
        >>> from pathlib import Path
        >>> draft = Draft(Path("mine.json"))
        >>> read_entries([[[0, 0, 1], "h", 2.0, 0.5, 0.3, 1], [[0, 0], "x", 1.0, 0.5, 0.3, 1]], draft).rank.to_pylist()
        [2.0, 1.0]
        >>> print("\n".join(draft.problems))
        the triple is not [head, relation, tail] in whole numbers: 1 row (row 2)
        the side is neither "h" nor "t": 1 row (row 2)
    """
    draft.rows = len(entries)
    columns = _whole_columns(entries) or _one_by_one(entries, draft)
    for name, column in (("delta(r|e)", columns.relation_popularity), ("delta(e)", columns.entity_popularity)):
        values = column.to_numpy(zero_copy_only=False)
        draft.refuse(
            "", f"{name} is not between 0 and 1", ~((values >= 0) & (values <= 1)) & column.is_valid().to_numpy(False)
        )
    return columns


def _whole_columns(entries: Sequence[Any]) -> Entries | None:
    """All fields at once; or None where any entry is not as it should be."""
    try:
        triples, sides, *numbers = zip(*entries, strict=True)
        heads, relations, tails = zip(*triples, strict=True)
        rank, relation_popularity, entity_popularity, filtered = numbers
        if not set(sides) <= _SIDES.keys():
            return None
    except (TypeError, ValueError):  # not iterable, of different lengths, not hashable
        return None
    # Types are compared as such: to Python, True is a whole number too.
    whole = set(map(type, chain(heads, relations, tails, filtered)))
    real = set(map(type, chain(rank, relation_popularity, entity_popularity)))
    if not (whole <= {int} and real <= {int, float}):
        return None
    try:
        return _arrays(
            (heads, relations, tails),
            [_SIDES[side] for side in sides],
            rank,
            relation_popularity,
            entity_popularity,
            filtered,
        )
    except (OverflowError, pa.ArrowException):
        return None


def _whole(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_LARGEST <= value < _LARGEST:
        return None
    return int(value) if value == int(value) else None


def _real(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return float(value) if number else None


def _triple(value: Any) -> tuple[int, ...] | None:
    ids = [_whole(part) for part in value] if isinstance(value, list) and len(value) == 3 else [None]
    known = tuple(part for part in ids if part is not None)
    return known if len(known) == 3 else None


def _side(value: Any) -> str | None:
    return _SIDES.get(value) if isinstance(value, str) else None


_FIELDS: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("head", "the triple is not [head, relation, tail] in whole numbers", _triple),
    ("side", 'the side is neither "h" nor "t"', _side),
    ("rank", "the rank is not a finite number", _real),
    ("", "delta(r|e) is not a finite number", _real),
    ("", "delta(e) is not a finite number", _real),
    ("candidates", "the number of filtered entities is not a whole number", _whole),
)
"""For each field: the column that it makes, what it is when it is wrong, how to read it."""


def _one_by_one(entries: Sequence[Any], draft: Draft) -> Entries:
    shaped = [isinstance(entry, list) and len(entry) == len(_FIELDS) for entry in entries]
    rows = [entry if good else [None] * len(_FIELDS) for entry, good in zip(entries, shaped, strict=True)]
    misshapen = ~np.array(shaped)
    for column in ("head", "relation", "tail", "side", "rank", "candidates"):
        draft.malformed |= {column} if misshapen.any() else set()
    draft.refuse("", "the entry is not a list of 6 fields", misshapen)
    fields = []
    for i, (column, what, read) in enumerate(_FIELDS):
        values = [read(row[i]) for row in rows]
        wrong = np.array([value is None for value in values]) & ~misshapen
        draft.refuse(column, what, wrong)
        if column == "head" and wrong.any():
            draft.malformed |= {"relation", "tail"}
        fields.append(values)
    triples, sides, rank, relation_popularity, entity_popularity, filtered = fields
    ids = zip(*((None,) * 3 if triple is None else triple for triple in triples), strict=True)
    return _arrays(tuple(ids), sides, rank, relation_popularity, entity_popularity, filtered)


def _arrays(ids: Sequence[Sequence[Any]], sides: Sequence[Any], *numbers: Sequence[Any]) -> Entries:
    head, relation, tail = (pa.array(column, pa.int64()) for column in ids)
    rank, relation_popularity, entity_popularity = (pa.array(column, pa.float64()) for column in numbers[:3])
    return Entries(
        head=head,
        relation=relation,
        tail=tail,
        side=pa.array(sides, pa.string()),
        rank=rank,
        relation_popularity=relation_popularity,
        entity_popularity=entity_popularity,
        filtered=pa.array(numbers[3], pa.int64()),
    )
