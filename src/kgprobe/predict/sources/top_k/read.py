"""Files of top-k lists: JSON Lines, one query a line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.readers.lines import UNREADABLE, Complaints, disguise, open_bytes
from kgprobe.predict.readers.names import Names
from kgprobe.predict.scorer import SIDES, Side
from kgprobe.predict.sources.top_k.ids import Ids
from kgprobe.predict.sources.top_k.line import LineError, parse_line
from kgprobe.predict.sources.top_k.lists import SideLists, TopKLists, Unlisted

Ints = NDArray[np.int64]

_HOW = (
    'each line is a query with its answers, best first: {"head": "a", "relation": "r", "predictions": ["b", "c"]}; '
    "an array of such objects becomes lines with jq -c '.[]'"
)


def open_top_k(
    path: str | PathLike[str], graph: KnowledgeGraph, unlisted: Unlisted | str = Unlisted.unknown
) -> TopKLists:
    r"""Read the best answers of a system, one query a line.

    A line is a JSON object: ``relation``, ``predictions`` and either ``head`` (the tail is asked for) or ``tail`` (the
    head is asked for); or both and the ``side`` that is asked for. Predictions are names, best first, or
    ``[name, score]``, or ``{"entity": name, "score": score}``; answers of equal score tie. A text is a label of the
    graph (where it has none, an id), a number is an id. The file may be compressed (.gz).

    Args:
        path: The file.
        graph: The graph that the queries are about.
        unlisted: What is known of candidates that a list leaves out; see `TopKLists`.

    Raises:
        DataError: Lines that cannot be understood, all of them.

    Example:
        >>> import tempfile
        >>> graph = KnowledgeGraph.from_triples(entity_labels=["Ada", "Bob", "Cy"], relation_labels=["knows"])
        >>> path = Path(tempfile.mkdtemp()) / "answers.jsonl"
        >>> _ = path.write_text('{"head": "Ada", "relation": "knows", "predictions": ["Cy", "Bob"]}\n')
        >>> lists = open_top_k(path, graph)
        >>> len(lists), lists.sides["tail"].entities.tolist()
        (1, [2, 1])
    """
    file, left_out = Path(path), Unlisted(unlisted)
    collected = _Collected(Ids(Names.entities(graph)), Ids(Names.relations(graph)), graph.num_relations)
    complaints = Complaints(file.name)
    unreadable: list[str] = []
    try:
        if kind := disguise(file) if file.suffix != ".gz" else None:
            raise DataError(f"{file}: this is {kind}, not a file of lists", remedy=_HOW)
        for number, raw in _lines(file):
            try:
                collected.add(number, _decoded(number, raw))
            except LineError as bad:
                complaints.add(number, str(bad), raw.decode("utf-8", "backslashreplace").strip())
    except UNREADABLE as error:
        unreadable = [f"{file.name}: cannot be read ({error})"]
    problems = complaints.lines() + unreadable
    if not problems and not collected.seen:
        problems = [f"{file.name}: empty"]
    if problems:
        raise DataError(f"{file}: these lists cannot be used", problems, _HOW)
    return TopKLists(file, graph, {side: collected.lists(side) for side in SIDES}, left_out)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers."""
    with open_bytes(path) as file:
        for number, raw in enumerate(file, 1):
            if raw.strip():
                yield number, raw


def _decoded(number: int, raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise LineError(f"not UTF-8 (byte {error.start + 1} is 0x{raw[error.start]:02x})") from None


@dataclass(frozen=True, eq=False)
class _Answers:
    """A list as it was read."""

    number: int
    entities: Ints
    levels: Ints

    def same(self, other: _Answers) -> bool:
        return np.array_equal(self.entities, other.entities) and np.array_equal(self.levels, other.levels)


@dataclass
class _Collected:
    """The lists read so far, by query."""

    entities: Ids
    relations: Ids
    num_relations: int
    seen: dict[tuple[Side, int], _Answers] = field(default_factory=dict)

    def add(self, number: int, text: str) -> None:
        line = parse_line(text)
        given, *_ = self.entities.of([line.given, *([] if line.target is None else [line.target])])
        (relation,) = self.relations.of([line.relation])
        ids = np.array(self.entities.of(line.predictions), dtype=np.int64)
        if len(set(ids.tolist())) < len(ids):
            place = next(place for place in range(len(ids)) if ids[place] in ids[:place])
            raise LineError(f"{line.predictions[place]!r} is predicted twice")
        answers = _Answers(number, ids, line.levels)
        first = self.seen.setdefault((line.side, given * self.num_relations + relation), answers)
        if not first.same(answers):
            raise LineError(f"line {first.number} has another list for the same query")

    def lists(self, side: Side) -> SideLists:
        own = {key: answers for (asked, key), answers in self.seen.items() if asked == side}
        parts = [[getattr(answers, name) for answers in own.values()] for name in ("entities", "levels")]
        return SideLists.build(list(own), *parts)
