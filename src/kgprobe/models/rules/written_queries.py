"""Parse queries written as "head, relation, ?" or "?, relation, tail", by labels, names or ids."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import pyarrow as pa

from kgprobe.errors import UsageError, shown
from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.names import Names
from kgprobe.graph.text_files import whole_number
from kgprobe.predict.scorers import Side

_ASKED = "?"
_HOW = 'write "head, relation, ?" or "?, relation, tail"; where names hold commas, put tabs between the three'
_MOST_COMPARED = 50_000  # more names than this are not searched for close matches
_MOST_PIECES = 100  # names with more commas than this are not tried in all ways
_MOST_LISTED = 20  # more names than this are not listed in an error message


@dataclass(frozen=True)
class WrittenQuery:
    """A query: the predicted side, the entity on the other side, and the relation."""

    side: Side
    given: int
    relation: int


class Vocabulary:
    """Looks up entities and relations of a graph by label, else by name, else by id.

    Example:
        >>> graph = KnowledgeGraph.from_triples(
        ...     train=[[0, 0, 1]], entity_labels=["Ada", "Byron, Lord"], relation_labels=["child of"]
        ... )
        >>> Vocabulary(graph).question("?, child of, Byron, Lord")
        WrittenQuery(side='head', given=1, relation=0)
        >>> Vocabulary(graph).entities(["Ada", "1"])
        [0, 1]
    """

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.graph = graph

    def entities(self, texts: list[str]) -> list[int]:
        """The ids of entities.

        Raises:
            UsageError: Some are unknown; the message suggests similar names.
        """
        return self._ids(self._entities, texts)

    def relations(self, texts: list[str]) -> list[int]:
        """The ids of relations.

        Raises:
            UsageError: Some are unknown; the message suggests similar names.
        """
        return self._ids(self._relations, texts)

    def question(self, text: str) -> WrittenQuery:
        """Parse a query.

        Raises:
            UsageError: The text is not a query, is ambiguous, or has unknown names.
        """
        readings = list(_readings(text))
        if not readings:
            raise UsageError(f"invalid query {shown(text)}", remedy=_HOW)
        queries = [
            WrittenQuery(side, entity, relation)
            for side, given, related in readings
            if (entity := self._entities.id(given)) is not None
            and (relation := self._relations.id(related)) is not None
        ]
        if len(queries) > 1:
            raise UsageError(f"ambiguous query {text!r}: it can be read in {len(queries)} ways", remedy=_HOW)
        if not queries:
            problems = [[*self._entities.problems([own]), *self._relations.problems([r])] for _, own, r in readings]
            fewest = min(problems, key=len)
            raise UsageError(f"invalid query {shown(text)} for graph {self.graph.name}", fewest, _HOW)
        return queries[0]

    def _ids(self, names: _Known, texts: list[str]) -> list[int]:
        if problems := names.problems(texts):
            raise UsageError(f"unknown names for graph {self.graph.name}", problems, "give a name or an id")
        return [own for text in texts if (own := names.id(text)) is not None]

    @cached_property
    def _entities(self) -> _Known:
        return _Known(self.graph.entity_index())

    @cached_property
    def _relations(self) -> _Known:
        return _Known(self.graph.relation_index())


class _Known:
    """Looks up ids by label, by name, or by the id itself."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def id(self, text: str) -> int | None:
        try:
            by_name = int(self.names.ids(pa.array([text]))[0])
        except UnicodeEncodeError:  # an argument in another encoding than UTF-8
            return None
        if by_name >= 0:
            return by_name
        number = whole_number(text)
        return None if number is None or number >= len(self.names.names) else number

    def problems(self, texts: list[str]) -> list[str]:
        """One message for each text without an id."""
        return [self._problem(text) for text in texts if self.id(text) is None]

    def _problem(self, text: str) -> str:
        hint = "; give the label or the id" if self.names.is_shared(text) else self._near(text)
        return f"{self.names.problem(text)}{hint}"

    def _near(self, text: str) -> str:
        every = [str(name) for name in self.names.texts.to_pylist()]
        # Close matches among very many names take too long: only names that contain the text are considered.
        compared = every if len(every) <= _MOST_COMPARED else [name for name in every if text.lower() in name.lower()]
        lower = {name.lower(): name for name in compared}
        near = [lower[name] for name in difflib.get_close_matches(text.lower(), lower, n=3, cutoff=0.5)]
        if near:
            return f"; nearest: {', '.join(near)}"
        return f"; there are: {', '.join(every)}" if len(every) <= _MOST_LISTED else ""


def _readings(text: str) -> Iterator[tuple[Side, str, str]]:
    """All ways to read a text as a side, an entity and a relation."""
    between = "\t" if "\t" in text else ","
    pieces = text.split(between)
    if len(pieces) > _MOST_PIECES:
        return
    for first, second in combinations(range(1, len(pieces)), 2):
        parts = pieces[:first], pieces[first:second], pieces[second:]
        head, relation, tail = (between.join(part).strip() for part in parts)
        if tail == _ASKED and head != _ASKED:
            yield "tail", head, relation
        if head == _ASKED and tail != _ASKED:
            yield "head", tail, relation
