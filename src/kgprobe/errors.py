"""Errors that a user can cause (bad data, bad usage) with all problems and a remedy; texts that are safe to print."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike


class KgprobeError(Exception):
    """Base class of the errors that a user can cause.

    Args:
        title: One line that says what failed.
        problems: All problems, one line each.
        remedy: What the user can do.

    Example:
        >>> print(DataError("ranks.csv: not a rank table", ["no column 'rank'"], "name it with `columns`"))
        ranks.csv: not a rank table
          - no column 'rank'
        Remedy: name it with `columns`
    """

    exit_code = 1

    def __init__(self, title: str, problems: Iterable[str] = (), remedy: str = "") -> None:
        self.title = title
        self.problems = list(problems)
        self.remedy = remedy
        super().__init__(title)

    def __str__(self) -> str:
        lines = [self.title, *(f"  - {problem}" for problem in self.problems)]
        if self.remedy:
            lines.append(f"Remedy: {self.remedy}")
        return "\n".join(map(one_line, lines))


class DataError(KgprobeError):
    """The data is invalid (exit code 1)."""


class UsageError(KgprobeError):
    """The arguments are invalid (exit code 2)."""

    exit_code = 2


@contextmanager
def naming(place: str | PathLike[str]) -> Iterator[None]:
    """Put the place of the data in front of the title of a DataError, unless it is there already.

    Example:
        >>> with naming("ranks.parquet"):
        ...     raise DataError("not a rank table", remedy="rank the model again")
        Traceback (most recent call last):
        kgprobe.errors.DataError: ranks.parquet: not a rank table
        Remedy: rank the model again
    """
    try:
        yield
    except DataError as error:
        if error.title.startswith(str(place)):
            raise
        raise DataError(f"{place}: {error.title}", error.problems, error.remedy) from None


def shown(value: object, most: int = 60) -> str:
    """A value that a user gave, as text for a message: its Python form, shortened.

    Example:
        >>> shown("epochs"), shown(10**5000), shown("9" * 1000, most=10)
        ("'epochs'", 'a whole number of about 5,001 digits', "'999999999... (1,002 characters)")
    """
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # too many digits for Python to print, or nested too deeply
        if isinstance(value, int):
            return f"a whole number of about {int(math.log10(abs(value))) + 1:,} digits"
        return f"a {type(value).__name__} that is too large to print"
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_DIRECTION_MARKS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SURROGATES = re.compile("[\ud800-\udfff]")
UNPRINTABLE = re.compile("|".join(each.pattern for each in (_CONTROLS, _DIRECTION_MARKS, _SURROGATES)))
"""Characters that a terminal obeys instead of showing them, and those that have no UTF-8 form."""


def one_line(text: str) -> str:
    r"""A text without line breaks, control characters and marks of writing direction, safe to print.

    Labels and file names come from files of others: printed as they are, they could move the cursor or hide text.

    Example:
        >>> one_line("two\nlines"), one_line("\x1b[31mred"), one_line("\u202eturned")
        ('two lines', ' [31mred', 'turned')
    """
    return _SURROGATES.sub("\ufffd", _DIRECTION_MARKS.sub("", _CONTROLS.sub(" ", text)))


def spans(numbers: Sequence[int], most: int = 40) -> str:
    """Row or line numbers as text, with ranges for consecutive ones.

    Example:
        >>> spans([3, 7, 8, 9, 12])
        '3, 7-9, 12'
    """
    pieces: list[str] = []
    i = 0
    while i < len(numbers) and len(pieces) < most:
        j = i
        while j + 1 < len(numbers) and numbers[j + 1] == numbers[j] + 1:
            j += 1
        pieces.append(str(numbers[i]) if i == j else f"{numbers[i]}-{numbers[j]}")
        i = j + 1
    rest = len(numbers) - i
    return ", ".join(pieces) + (f" and {rest:,} more" if rest else "")


def nearest(word: str, known: Iterable[str]) -> str:
    """The known words most similar to this one, or all of them if none is, as the end of an error message.

    Example:
        >>> nearest("csw", ["csv", "tsv", "parquet"])
        '; nearest: csv'
    """
    names = list(known)
    lower = {name.lower(): name for name in names}
    near = [lower[match] for match in difflib.get_close_matches(word.lower(), lower, n=3, cutoff=0.5)]
    return f"; nearest: {', '.join(near)}" if near else f"; there are: {', '.join(names) or 'none'}"
