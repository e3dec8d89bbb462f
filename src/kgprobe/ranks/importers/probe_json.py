"""PROBE's JSON: a list of ranked queries, each with the popularity of the entity that was given."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgprobe.arrays import find
from kgprobe.bounded_files import UNREADABLE, disguise, parse_json, read_bounded
from kgprobe.ranks.importers.drafts import Draft, ImportOptions
from kgprobe.ranks.metadata import Basis, CandidatesInfo
from kgprobe.resources import unpacking_limit

_TRIPLES = pa.list_(pa.int64(), 3)

_FIELDS: tuple[tuple[pa.DataType, str, tuple[str, ...]], ...] = (
    (_TRIPLES, "the triple is not [head, relation, tail] in whole numbers", ("head", "relation", "tail")),
    (pa.string(), 'the side is neither "h" nor "t"', ("side",)),
    (pa.float64(), "the rank is not a finite number", ("rank",)),
    (pa.float64(), "delta(r|e) is not a finite number", ()),
    (pa.float64(), "delta(e) is not a finite number", ()),
    (pa.int64(), "the number of filtered entities is not a whole number", ("candidates",)),
)
"""For each field of an entry: its type, the message if it has another one, the columns that it fills."""


def read_probe_json(draft: Draft, options: ImportOptions) -> None:
    """Read a file of entries ``[[head, relation, tail], "h" | "t", rank, delta(r|e), delta(e), filtered]``.

    The letter is the side that was predicted. The two deltas are those of the entity that was *given*, so those of
    the target are in the entry of the same triple with the other side, and no graph is needed. They are null where
    that entry is absent, which is noted.
    """
    entries = _load(draft.path, draft.problems)
    draft.candidates = CandidatesInfo(Basis.recorded, counted="entities minus filtered")
    draft.popularity = None if options.graph else "entry of the other side"
    if entries is None:
        return
    columns = read_entries(entries, draft)
    filtered = columns.pop("filtered")
    popularity = {name: columns.pop(name) for name in ("entity_popularity", "relation_popularity")}
    draft.columns = columns | {"candidates": pc.subtract(options.size, filtered)}
    if options.graph is None and not draft.problems:
        _attach_popularity(draft, popularity)


def read_entries(entries: Sequence[Any], draft: Draft) -> dict[str, pa.Array]:
    r"""The fields of all entries, null where one cannot be read; every problem is added to the draft.

    Example:
        >>> draft = Draft(Path("mine.json"))
        >>> entries = [[[0, 0, 1], "h", 2.0, 0.5, 0.3, 1], [[0, 0], "x", 1.0, 0.5, 0.3, 1]]
        >>> read_entries(entries, draft)["rank"].to_pylist()
        [2.0, 1.0]
        >>> print("\n".join(draft.problems))
        the triple is not [head, relation, tail] in whole numbers: 1 row (row 2)
        the side is neither "h" nor "t": 1 row (row 2)
    """
    draft.rows = len(entries)
    misshapen = np.array([not isinstance(entry, list) or len(entry) != len(_FIELDS) for entry in entries])
    draft.refuse("the entry is not a list of 6 fields", misshapen, *(c for *_, columns in _FIELDS for c in columns))
    rows = [(None,) * len(_FIELDS) if bad else entry for entry, bad in zip(entries, misshapen, strict=True)]
    arrays = []
    for (kind, problem, columns), values in zip(_FIELDS, zip(*rows, strict=True), strict=True):
        try:
            arrays.append(_cast(values, kind))
        except _NOT_CAST:
            arrays.append(_cast_each(values, kind))
            draft.refuse(problem, arrays[-1].is_null().to_numpy(False) & ~misshapen, *columns)
    triples, side, rank, relation_popularity, entity_popularity, filtered = arrays
    for name, column in (("delta(r|e)", relation_popularity), ("delta(e)", entity_popularity)):
        inside = pc.and_(pc.greater_equal(column, 0), pc.less_equal(column, 1))
        draft.refuse(f"{name} is not between 0 and 1", pc.invert(inside).fill_null(False))
    return {
        **{name: pc.list_element(triples, i) for i, name in enumerate(("head", "relation", "tail"))},
        "side": side,
        "rank": rank,
        "relation_popularity": relation_popularity,
        "entity_popularity": entity_popularity,
        "filtered": filtered,
    }


_NOT_CAST = (pa.ArrowException, OverflowError, TypeError, ValueError)


def _cast(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values of one field as an array; raises one of ``_NOT_CAST`` if any is null or of another type."""
    if bool in set(map(type, chain.from_iterable(values) if kind == _TRIPLES else values)):
        raise pa.ArrowInvalid("a boolean is not a number")  # pyarrow reads it as one among floats
    array = pa.array(values)  # fails for other mixtures of types, except integers and floats
    if kind == _TRIPLES and pc.all(pc.equal(pc.list_value_length(array), 3)).as_py() and not array.null_count:
        return pa.FixedSizeListArray.from_arrays(_cast_numbers(array.flatten(), pa.int64()), 3)
    if kind == pa.string() and not pc.any(pc.invert(pc.is_in(array, pa.array(["h", "t"])))).as_py():
        return pc.if_else(pc.equal(array, "h"), "head", "tail")
    return _cast_numbers(array, kind)


def _cast_numbers(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.null_count or not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        raise pa.ArrowInvalid("not numbers")
    numbers = array.cast(kind, safe=kind != pa.float64())
    if not pc.all(pc.is_finite(numbers)).as_py():
        raise pa.ArrowInvalid("not finite")
    return numbers


def _cast_each(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values cast one by one, null where that fails: slow, but only for fields with errors."""

    def cast(value: Any) -> Any:
        try:
            return _cast([value], kind)[0].as_py()
        except _NOT_CAST:
            return None

    return pa.array(map(cast, values), kind)


def _attach_popularity(draft: Draft, popularity: dict[str, pa.Array]) -> None:
    """Add the popularity of each target: that of the given entity in the entry of the other side."""
    triples = np.column_stack([draft.columns[name].to_numpy() for name in ("head", "relation", "tail")])
    _, triple = np.unique(triples, axis=0, return_inverse=True)
    keys = 2 * triple + pc.equal(draft.columns["side"], "tail").to_numpy(False)
    # A query that occurs twice is refused later; until then, either entry will do.
    distinct, entry = np.unique(keys, return_index=True)
    position = find(distinct, keys ^ 1)
    absent = position < 0
    for name, values in popularity.items():
        draft.columns[name] = pa.array(values.to_numpy()[entry[position]], mask=absent)
    if absent.any():
        draft.notes.append(
            f"{absent.sum():,} of {len(absent):,} entries have none for the other side of their triple, "
            "so the popularity of their targets is null; a graph would give it"
        )


def _load(path: Path, problems: list[str]) -> list[Any] | None:
    """The list in a file; or None, with the problem added to ``problems``."""
    try:
        if kind := disguise(path):
            problems.append(f"it is {kind}, expected JSON")
            return None
        # The parsed list takes some ten times the memory of the text.
        content = parse_json(read_bounded(path, unpacking_limit() // 10))
    except json.JSONDecodeError as error:
        problems.append(f"line {error.lineno}, column {error.colno}: this is not JSON ({error.msg})")
    except (*UNREADABLE, ValueError) as error:
        problems.append(f"cannot be read ({error})")
    else:
        if isinstance(content, list) and content:
            return content
        kind = "an empty list" if content == [] else f"JSON of type {type(content).__name__}"
        problems.append(f"it holds {kind}, expected a list of entries")
    return None
