"""Values and names as a person reads them, on one line."""

from __future__ import annotations

import math
import unicodedata
from typing import Any


def as_text(value: Any) -> str:
    """A value as a person wants to read it.

    Example:
        >>> as_text(0.123456), as_text(1234567), as_text(None), as_text(1e-9)
        ('0.1235', '1,234,567', '', '1e-09')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if value == 0 or (1e-3 <= abs(value) < 1e6 and math.isfinite(value)):
            return f"{value:,.4f}"
        return f"{value:.4g}"
    return str(value)


def counted(number: int, one: str, several: str | None = None) -> str:
    """A number with the word for what is counted.

    Example:
        >>> counted(1, "test"), counted(2000, "query", "queries")
        ('1 test', '2,000 queries')
    """
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def one_line(text: str) -> str:
    r"""A text that can stand in a cell: nothing in it moves the cursor, ends the line or turns what follows around.

    Example:
        >>> one_line("two\nlines"), one_line("\x1b[31mred"), one_line("\u202eturned")
        ('two lines', ' [31mred', 'turned')
    """
    return "".join("" if c in _TURNS else _REPLACED.get(unicodedata.category(c), c) for c in text)


_TURNS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Marks of the direction of writing, which would reach beyond the name that they are in."""
_REPLACED = {"Cc": " ", "Zl": " ", "Zp": " ", "Cs": "\ufffd"}
