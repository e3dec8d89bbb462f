"""Columns of text or of any numeric type as numbers, with everything that is none of them found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgprobe.ranks.importers.draft import Draft

BLANK = ("", "NA", "N/A", "null", "NULL", "None")
_NAN = ("nan", "NaN", "NAN")
_PLAIN_WHOLE = r"^-?(0|[1-9][0-9]*)(\.0+)?$"
_LARGEST = 2**63


def plain(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column in one piece, without dictionary and, if it is text, without space around its values."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if not is_text(array):
        return array
    return pc.utf8_trim_whitespace(array.cast(pa.string()))


def is_text(column: pa.Array) -> bool:
    """Whether a column holds text."""
    return str(column.type) in ("string", "large_string", "string_view")


def all_whole(*columns: pa.Array) -> bool:
    """Whether text is nothing but whole numbers as programs write them: "007" is a name.

    Example:
        >>> all_whole(pa.array(["12", "3.0"])), all_whole(pa.array(["007"]))
        (True, False)
    """
    distinct = pc.unique(pa.concat_arrays(columns))
    return pc.all(pc.match_substring_regex(distinct, _PLAIN_WHOLE)).as_py() is not False


def flags(column: pa.Array) -> NDArray[np.bool_]:
    """A column of truth values for NumPy."""
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=bool)


def blanked(column: pa.Array, *, nan: bool = False) -> pa.Array:
    """Text with null for what means that there is no value."""
    if not is_text(column):
        return column
    blank = pc.is_in(column, pa.array([*BLANK, *(_NAN if nan else ())]))
    return pc.if_else(blank, pa.scalar(None, column.type), column)


def read_numbers(draft: Draft, name: str, column: pa.Array, *, whole: bool, nullable: bool) -> pa.Array:
    """A column as float64, or as int64 if its numbers are to be whole; what is not, is null and refused.

    Example:
        >>> from pathlib import Path
        >>> draft = Draft(Path("ranks.csv"))
        >>> read_numbers(draft, "rank", pa.array(["1.5", "first"]), whole=False, nullable=False).to_pylist()
        [1.5, None]
        >>> draft.problems
        ["rank is not a number, for example 'first': 1 row (row 2)"]
    """
    kind = pa.int64() if whole else pa.float64()
    if not (is_text(column) or pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        if not pa.types.is_null(column.type):
            draft.problems.append(f"{name} holds {column.type}, expected numbers")
            draft.malformed.add(name)
        return pa.nulls(len(column), kind)
    filled = blanked(column, nan=nullable)
    if nullable and pa.types.is_floating(filled.type):
        filled = pc.if_else(pc.is_nan(filled), pa.scalar(None, filled.type), filled)
    try:
        return _cast(filled, whole)
    except pa.ArrowInvalid:
        return _one_by_one(draft, name, filled, whole, nullable)


def _cast(column: pa.Array, whole: bool) -> pa.Array:
    if not whole:
        return column.cast(pa.float64())
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:  # pandas writes whole numbers as "3.0" where any is missing
        return column.cast(pa.float64()).cast(pa.int64())


def _one_by_one(draft: Draft, name: str, column: pa.Array, whole: bool, nullable: bool) -> pa.Array:
    """Each distinct value by itself: slow, but only where some of them are wrong."""
    coded = column.dictionary_encode()
    distinct = coded.dictionary.to_pylist()
    numbers = [_parse(value, whole) for value in distinct]
    values = pa.array(numbers, pa.int64() if whole else pa.float64()).take(coded.indices)
    wrong = pc.is_null(values)
    if nullable:  # else the empty ones count too: a column that is refused is not also said to be missing
        wrong = pc.and_(wrong, pc.is_valid(column))
    example = next((value for value, number in zip(distinct, numbers, strict=True) if number is None), None)
    what = f"{name} is not a {'whole ' * whole}number, for example {example!r}"
    draft.refuse(name, what, flags(wrong))
    return values


def _parse(value: Any, whole: bool) -> float | int | None:
    if "_" in str(value):  # a number to Python, but to nobody else
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    if not whole:
        return number
    if not number.is_integer() or not -_LARGEST <= number < _LARGEST:
        return None
    try:
        return int(value)  # exact, which a float of this size may not be
    except ValueError:
        return int(number)
