"""The ids of names in JSON, where a number is an id and a text is a name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from functools import cached_property

from kgprobe.predict.readers.names import Names
from kgprobe.predict.sources.top_k.line import LineError, Name

_FEW = 2000
"""Among so many names the one most like another is found in no time."""
_SHOWN = 3
_SUGGESTIONS = 20


class Ids:
    """Finds the ids of entities or relations.

    Args:
        names: The names in id order.

    Example:
        >>> import pyarrow as pa
        >>> ids = Ids(Names.build("entity", 3, pa.array(["Ada", "Bob", "2"])))
        >>> ids.of(["Bob", 0, "2"])
        [1, 0, 2]
        >>> ids.of(["Bab"])
        Traceback (most recent call last):
        ...
        kgprobe.predict.sources.top_k.line.LineError: 'Bab' is no known entity (nearest: 'Bob')
    """

    def __init__(self, names: Names) -> None:
        self._names, self._size = names, len(names.names)
        self._suggestions = 0

    def of(self, names: Sequence[Name]) -> list[int]:
        """The id of each name.

        Raises:
            LineError: Some are unknown, or the name of several.
        """
        ids = [self._id(name) for name in names]
        if -1 in ids:
            unknown = [name for name, found in zip(names, ids, strict=True) if found < 0]
            more = f" and {len(unknown) - _SHOWN:,} more" if len(unknown) > _SHOWN else ""
            raise LineError(", ".join(self._problem(name) for name in unknown[:_SHOWN]) + more)
        return ids

    def _id(self, name: Name) -> int:
        if isinstance(name, int):
            return name if 0 <= name < self._size else -1
        return self._by_name.get(name, -1)

    @cached_property
    def _by_name(self) -> dict[str, int]:
        """The id of each name, -1 where several have it."""
        texts = self._names.names
        return dict(zip(texts.to_pylist(), self._names.ids(texts).tolist(), strict=True))

    def _problem(self, name: Name) -> str:
        if isinstance(name, int):
            return f"{name} is no {self._names.kind} id (0..{self._size - 1})"
        return f"{self._names.problem(name)}{self._nearest(name)}"

    def _nearest(self, name: str) -> str:
        if self._size > _FEW or self._suggestions == _SUGGESTIONS or name in self._by_name:
            return ""
        self._suggestions += 1
        near = difflib.get_close_matches(name, self._by_name, n=1)
        return f" (nearest: {near[0]!r})" if near else ""
